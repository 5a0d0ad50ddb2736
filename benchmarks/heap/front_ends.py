#!/usr/bin/env python3
"""Compares the two front ends of Plimsoll's heap with glibc's malloc.

Every cell runs with each of the three in turn, each run in a separate process; their order rotates from repeat to repeat.
The values of a load are CPU nanoseconds per operation, including the generator, and resident over live memory; those of
short whole programs are CPU time and maximum resident memory. The minimum over the repeats counts.

Prints the table, and writes a folder: README.md, raw.jsonl (a line a run).

Usage: benchmarks/heap/front_ends.py [--repeat 3] [--seconds 0.3] LIBRARY HEAP_LOAD FOLDER
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

# name, arguments of heap-load, the metric of time, and the metric of memory with its unit
LOADS = [
    ("1 thread, 22 bytes", "replacement --sizes 22", "pair_cpu_ns", "resident_per_live"),
    ("1 thread, 0-1k", "replacement --sizes 0-1k", "pair_cpu_ns", "resident_per_live"),
    ("1 thread, 1-2k", "replacement --sizes 1-2k", "pair_cpu_ns", "resident_per_live"),
    ("1 thread, 0-1k, 200 blocks", "replacement --sizes 0-1k --blocks 200", "pair_cpu_ns", "resident_growth_bytes"),
    ("16 threads, 0-1k", "replacement --sizes 0-1k --threads 16", "pair_cpu_ns", "resident_per_live"),
    ("16 threads, blocks handed on", "larson --sizes 8b-1000 --blocks 5000 --round 500000 --threads 16", "pair_cpu_ns", "resident_per_live"),
    ("large blocks, 16k-1m", "large", "pair_cpu_ns", "resident_per_live"),
    ("sizes that shift, 70 MiB live", "fragmentation", None, "worst_resident_per_live"),
    ("1000 idle threads", "idle-threads", None, "kib_per_thread"),
]
# Each prints its own status: VmHWM restarts at exec, unlike the maximum that the parent reads.
PROGRAMS = [
    ("program: grep of a file", ["grep", "VmHWM", "/proc/self/status"]),
    ("program: python3, a line", ["python3", "-c", "print(open('/proc/self/status').read())"]),
]
UNTIMED = {"fragmentation", "idle-threads"}
HEAPS = ["glibc", "standard", "lfh"]


def environment(heap, library):
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("PLIMSOLL_HEAP_")}
    if heap != "glibc":
        variables |= {"LD_PRELOAD": str(library), "PLIMSOLL_HEAP_FRONT_END": heap}
    return variables


def load(arguments, heap, options):
    command = [str(options.heap_load), *arguments.split()]
    if command[1] not in UNTIMED:
        command += ["--seconds", str(options.seconds)]
    done = subprocess.run(command, env=environment(heap, options.library), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{heap}: {shlex.join(command)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["values"]


def program(command, heap, options):
    """CPU time of a program by the kernel, and its maximum resident memory by its own status."""
    started = subprocess.Popen(command, env=environment(heap, options.library), stdout=subprocess.PIPE, text=True)
    output = started.stdout.read()
    started.stdout.close()
    _, status, usage = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    found = re.search(r"VmHWM:\s+(\d+) kB", output)
    if status != 0 or not found:
        sys.exit(f"{heap}: {shlex.join(command)} ended with status {status}: {output}")
    return {"cpu_ms": (usage.ru_utime + usage.ru_stime) * 1000, "most_resident_kib": int(found[1])}


def told(name, value):
    if value is None:
        return "-"
    if name == "pair_cpu_ns":
        return f"{value:.1f} ns"
    if name == "cpu_ms":
        return f"{value:.1f} ms"
    if name.endswith("_bytes"):
        return f"{value / 1024:.0f} KiB"
    if name == "kib_per_thread":
        return f"{value:.1f} KiB a thread"
    if name == "most_resident_kib":
        return f"{value} KiB"
    return f"{value:.2f} of live"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", type=pathlib.Path, help="libplimsoll_malloc.so, built with the profile malloc")
    parser.add_argument("heap_load", type=pathlib.Path, help="heap-load, a release build")
    parser.add_argument("folder", type=pathlib.Path, help="folder to write")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of each timed load")
    options = parser.parse_args()
    options.library = options.library.resolve()
    cells = [(name, ["cpu_ms", "most_resident_kib"], lambda heap, command=command: program(command, heap, options)) for name, command in PROGRAMS]
    cells = [
        (name, [time, memory], lambda heap, arguments=arguments: load(arguments, heap, options))
        for name, arguments, time, memory in LOADS
    ] + cells
    options.folder.mkdir(parents=True, exist_ok=True)
    least, load_before = {}, os.getloadavg()[0]
    with open(options.folder / "raw.jsonl", "w") as raw:
        for repeat in range(options.repeat):
            for name, figures, run in cells:
                for heap in HEAPS[repeat % 3:] + HEAPS[:repeat % 3]:
                    found = run(heap)
                    raw.write(json.dumps({"repeat": repeat, "cell": name, "heap": heap, "values": found}) + "\n")
                    for figure in filter(None, figures):
                        key = (name, figure, heap)
                        least[key] = min(found[figure], least.get(key, found[figure]))
    rows = ["| cell | " + " | ".join(f"{heap}: CPU, RAM" for heap in HEAPS) + " |", "|---|---|---|---|"]
    for name, figures, _ in cells:
        pairs = [", ".join(told(figure, least.get((name, figure, heap))) for figure in figures) for heap in HEAPS]
        rows.append(f"| {name} | " + " | ".join(pairs) + " |")
    print("\n".join(rows))
    command = shlex.join(["benchmarks/heap/front_ends.py", "--repeat", str(options.repeat), "--seconds", str(options.seconds), "LIBRARY", "HEAP_LOAD", "FOLDER"])
    text = f"# The two front ends beside glibc's malloc\n\n    {command}\n\nThe least of {options.repeat} runs a cell; load average when it began: {load_before:.1f} on {os.cpu_count()} processors.\n\n"
    (options.folder / "README.md").write_text(text + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
