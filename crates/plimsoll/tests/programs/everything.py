"""Containers, threads, files, sockets, subprocesses, forks and a fork pool. Prints a line for each; equal on each run."""

import hashlib
import json
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import tempfile
import threading
import zlib

# 120 MB.
blocks = [bytes([number % 256]) * 100000 for number in range(1200)]
print("blocks", hashlib.sha256(b"".join(blocks[::7])).hexdigest())
table = {number: str(number) * 3 for number in range(200000)}
print("table", sum(map(len, table.values())), len(json.dumps(table)))
results = [None] * 4


def intact():
    return all(block == bytes([number % 256]) * 100000 for number, block in enumerate(blocks))


def work(thread):
    numbers = sorted(number * thread % 1009 for number in range(60000))
    echoed = subprocess.run(
        ["sh", "-c", f"echo {thread}; cat"], input=b"z" * 200000, capture_output=True, check=True
    )
    results[thread] = (sum(numbers), zlib.crc32(bytes(n % 256 for n in numbers)), len(echoed.stdout))


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(len(results))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads", results)

with tempfile.TemporaryFile() as file:
    data = bytes(range(250)) * 60000
    file.write(data)
    file.seek(0)
    print("file", file.read() == data)
    file.seek(0)
    os.writev(file.fileno(), [b"a" * 10, bytearray(b"b" * 100000), b"c"])
    file.seek(0)
    print("vector", file.read(12), zlib.crc32(file.read(100000)))

sender, receiver = socket.socketpair()


def send():
    sender.sendall(blocks[5] * 100)
    sender.close()


thread = threading.Thread(target=send)
thread.start()
received = 0
while chunk := receiver.recv(1 << 20):
    received += len(chunk)
thread.join()
print("socket", received)

child = os.fork()
if child == 0:
    os._exit(5 if intact() and table[199999] == "199999" * 3 else 6)
print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def digest(number):
    return sum(blocks[number]) + number


with multiprocessing.get_context("fork").Pool(3) as pool:
    print("pool", sum(pool.map(digest, range(120))))
database = sqlite3.connect(":memory:")
database.execute("create table pair(a, b)")
database.executemany("insert into pair values(?, ?)", ((n, str(n) * 20) for n in range(100000)))
print("sqlite", database.execute("select count(*), sum(length(b)) from pair where a % 3 = 1").fetchone())
print("shell", os.popen("echo hello").read().strip(), os.system("exit 3") >> 8)
print("intact", intact())
