"""A service that has read 200 MiB of a file, and uses 64 MiB of its memory ten times a second."""
import os
import time

MIB, PAGE = 1 << 20, 4096
with open("data", "wb") as file:
    for _ in range(200):
        file.write(os.urandom(MIB))
    file.flush()
    os.fsync(file.fileno())
with open("data", "rb") as file:
    while file.read(MIB):
        pass
memory = bytearray(os.urandom(64 * MIB))
while True:
    sum(memoryview(memory)[::PAGE])
    time.sleep(0.1)
