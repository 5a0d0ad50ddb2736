"""Workers that each need about as much memory as the program may have: forked ones, or subprocesses.

usage: workers.py fork|spawn NUMBER MIB SECONDS
"""
import os
import random
import subprocess
import sys
import time

PAGE = 4096


def work(number, mib, seconds):
    """Fills memory, changes and reads it again and again, and returns a sum that the time does not change."""
    noise = random.Random(number)
    rows = [bytearray(noise.randbytes(256) + bytes(PAGE - 256)) for _ in range(mib * 256)]
    end = time.monotonic() + seconds
    while True:
        for at, row in enumerate(rows):
            row[300] = at % 251
        for at in noise.sample(range(len(rows)), 2000):
            assert rows[at][300] == at % 251
        if time.monotonic() >= end:
            break
    total = 0
    for at, row in enumerate(rows):
        total = (total * 31 + sum(row[:301])) % 1000003
    return total


def forked(number, mib, seconds):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, b"%d" % work(number, mib, seconds))
        os._exit(0)
    os.close(writer)
    return child, reader


def main():
    kind, number, mib, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    if kind == "work":
        print(work(number, mib, seconds))
    elif kind == "fork":
        own = [bytes([at % 251]) * PAGE for at in range(2048)]
        children = [forked(at, mib, seconds) for at in range(number)]
        for child, reader in children:
            with os.fdopen(reader) as lines:
                result = lines.read()
            print(result, os.waitpid(child, 0)[1])
        print(sum(row[-1] for row in own))
    else:
        children = [
            subprocess.Popen([sys.executable, sys.argv[0], "work", str(at), str(mib), str(seconds)],
                             stdout=subprocess.PIPE, text=True)
            for at in range(number)
        ]
        for child in children:
            print(child.communicate()[0].strip(), child.returncode)


main()
