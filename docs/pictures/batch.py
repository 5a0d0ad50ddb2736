"""A program that touches 128 MiB once, and then uses 48 MiB of them again and again."""
import os

MIB, PAGE = 1 << 20, 4096
memory = bytearray(128 * MIB)
for start in range(0, len(memory), PAGE):
    # Pages that zram compresses to about a third.
    memory[start : start + PAGE] = os.urandom(PAGE // 4) * 4
hot = memoryview(memory)[: 48 * MIB]
for _ in range(1500):
    sum(hot[::PAGE])
