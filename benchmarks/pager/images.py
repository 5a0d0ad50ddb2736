"""Memory images of running programs: their resident private pages, written to files."""

import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

PAGE = 4096
# Seconds that a program gets to fill its memory.
PATIENCE = 120

PYTHON = """
import json, random, collections, sys
r = random.Random(7)
words = "memory page fault trim store working set compression kernel segment header".split()
rows = [{"id": n, "name": r.choice(words) + str(n), "tags": r.sample(words, 3), "score": r.random()} for n in range(80000)]
again = json.loads(json.dumps(rows))
index = collections.defaultdict(list)
for row in rows: index[row["name"][:4]].append(row["id"])
numbers = [r.randrange(10**12) for _ in range(300000)]
print("ready", flush=True)
sys.stdin.read()
"""

# Records, strings, collections of boxed numbers, and arrays. It makes each part twice, and drops one: garbage.
JAVA = """
import java.util.*;
class Fill {
    record Row(int id, String name, List<String> tags, double score) {}
    static final String[] WORDS = "memory page fault trim store working set compression kernel segment header".split(" ");
    static final Random RANDOM = new Random(7);
    static String word() { return WORDS[RANDOM.nextInt(WORDS.length)]; }
    static List<Row> part(int first) {
        var rows = new ArrayList<Row>();
        for (int id = first; id < first + 20000; id++)
            rows.add(new Row(id, word() + id, List.of(word(), word(), word()), RANDOM.nextDouble()));
        return rows;
    }
    public static void main(String[] arguments) throws Exception {
        var rows = new HashMap<Integer, Row>();
        var index = new TreeMap<String, List<Integer>>();
        var texts = new ArrayList<String>();
        var numbers = new ArrayList<long[]>();
        for (int at = 0; at < 10; at++) {
            part(at * 20000);
            for (Row row : part(at * 20000)) {
                rows.put(row.id(), row);
                index.computeIfAbsent(row.name(), name -> new ArrayList<>()).add(row.id());
                if (row.id() % 2 == 0) texts.add(row.toString());
            }
            numbers.add(RANDOM.longs(30000, 0, 1000000000000L).toArray());
        }
        System.out.println("ready");
        System.in.read();
        System.out.println(rows.size() + index.size() + texts.size() + numbers.size());
    }
}
"""

# Instances of templates, so that the compiler holds a large program.
CXX = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Each { static int of(const std::string &s) {
    std::map<std::string, std::vector<std::array<int, N + 1>>> m; m[s].resize(N); std::sort(m[s].begin(), m[s].end());
    std::function<int(int)> f = [&](int x) { return x + (int)m.size(); };
    return f(N) + Each<N - 1>::of(s); } };
template <> struct Each<0> { static int of(const std::string &) { return 0; } };
int main(int, char **argv) { std::regex r("(a|b)*c"); return Each<400>::of(argv[0]) + std::regex_match(argv[0], r); }
"""


class Missing(Exception):
    """An installed program lacks a part that its image needs."""


def dump(pid, path, most):
    """Writes resident pages of private writable memory without a file, in runs of 256, evenly over all of it."""
    present = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for line in maps:
            fields = line.split()
            if not fields[1].startswith("rw") or len(fields) > 5 and fields[5] != "[heap]":
                continue
            start, end = (int(number, 16) // PAGE for number in fields[0].split("-"))
            pagemap.seek(start * 8)
            entries = pagemap.read((end - start) * 8)
            words = struct.unpack(f"{len(entries) // 8}Q", entries)
            present += [start + at for at, word in enumerate(words) if word >> 63]
    runs = [present[at:at + 256] for at in range(0, len(present), 256)]
    step = max(len(runs) * 256 * PAGE / most, 1)
    chosen = [runs[int(at * step)] for at in range(int(len(runs) / step))]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, open(path, "wb") as out:
        for number in (number for run in chosen for number in run):
            memory.seek(number * PAGE)
            out.write(memory.read(PAGE))
    return path


def end(process):
    process.kill()
    process.wait()


def of_python(folder, most):
    process = subprocess.Popen(["python3", "-c", PYTHON], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        return dump(process.pid, folder / "python3.pages", most)
    finally:
        end(process)


def of_redis(folder, most):
    """A server with keys of JSON-like values."""
    path = folder / "redis.socket"
    process = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--dir", folder],
        stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"redis-server did not open {path} within {PATIENCE} s")
            time.sleep(0.05)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            for first in range(0, 120000, 1000):
                batch = []
                for number in range(first, first + 1000):
                    key = f"user:{number}"
                    value = f'{{"id":{number},"name":"user {number * 7919 % 1000003}","mail":"u{number}@example.org","n":{number % 17}}}'
                    batch.append(f"*3\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n${len(value)}\r\n{value}\r\n")
                client.sendall("".join(batch).encode())
                wanted = 1000 * len("+OK\r\n")
                while wanted > 0:
                    wanted -= len(client.recv(wanted))
        return dump(process.pid, folder / "redis.pages", most)
    finally:
        end(process)


def of_cc1plus(folder, most):
    """The C++ compiler at a program of templates, stopped when it holds enough."""
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True).stdout.strip()
    source = folder / "source.cpp"
    source.write_text(CXX)
    command = [compiler, "-quiet", "-O2", "-ftemplate-depth=1000", "-imultiarch", f"{os.uname().machine}-linux-gnu", "-D_GNU_SOURCE",
               source, "-o", folder / "source.s"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            if pages * PAGE > most + (48 << 20):
                process.send_signal(signal.SIGSTOP)
                return dump(process.pid, folder / "cc1plus.pages", most)
            time.sleep(0.02)
        raise RuntimeError("cc1plus ended before it held enough memory")
    finally:
        end(process)


def of_java(folder, most):
    """A JVM with collections of records. Some packages have the compiler but no `javac`: `java` starts it."""
    source = folder / "Fill.java"
    source.write_text(JAVA)
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", folder, source]
    compiled = subprocess.run(compiler, capture_output=True, text=True, check=False)
    if "FindException" in compiled.stdout + compiled.stderr:
        raise Missing("without a compiler")
    if compiled.returncode != 0:
        raise RuntimeError(f"java did not compile {source}: {compiled.stderr.strip()[-300:]}")
    # A heap that does not depend on the RAM of the machine.
    process = subprocess.Popen(["java", "-Xms64m", "-Xmx256m", "-cp", folder, "Fill"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("java ended before it filled its heap")
        # Its threads would compile and collect further.
        process.send_signal(signal.SIGSTOP)
        return dump(process.pid, folder / "java.pages", most)
    finally:
        end(process)


SOURCES = [("python3", "python3", of_python), ("redis", "redis-server", of_redis), ("cc1plus", "g++", of_cc1plus),
           ("java", "java", of_java)]


def make(folder, most, wanted):
    """Images of the installed programs among `wanted`, as pairs of name and `file=PATH`, and the names without one."""
    made, missing = [], []
    for name, program, image_of in SOURCES:
        if name not in wanted:
            continue
        if shutil.which(program) is None:
            missing.append(f"{name} (not installed)")
            continue
        try:
            made.append((name, f"file={image_of(folder, most)}"))
        except Missing as reason:
            missing.append(f"{name} ({reason})")
    return made, missing
