#!/usr/bin/env python3
"""Measures, from outside, how close `plimsoll hold` keeps a level, and its CPU time.

Starts `plimsoll hold` with the arguments, waits until the level is reached, and looks at it ten times a second: in
quiet for the first half of the time, then while another process allocates and frees memory at random. The level is that
of /proc/meminfo, of the cgroup's usage without inactive page cache, or of avg10 in /proc/pressure/memory. The CPU time is
that of the scheduler's account of hold and its worker. Prints JSON.

Usage: benchmarks/hold/level.py [--seconds 60] [--neighbour 512] [--no-neighbour] PLIMSOLL -- --used 80%
"""

import argparse
import json
import mmap
import os
import pathlib
import platform
import random
import signal
import statistics
import subprocess
import sys
import time

MIB = 1 << 20
# Shares of the level, and points of a pressure, by which it may be off.
TOLERANCE, TOLERANCE_POINTS = 0.02, 5


def meminfo(key):
    line = next(line for line in open("/proc/meminfo") if line.startswith(key + ":"))
    return int(line.split()[1]) * 1024


def cgroup_used(folder):
    v2 = (folder / "memory.current").exists()
    usage = int((folder / ("memory.current" if v2 else "memory.usage_in_bytes")).read_text())
    key = "inactive_file" if v2 else "total_inactive_file"
    lines = (folder / "memory.stat").read_text().splitlines()
    return usage - next(int(line.split()[1]) for line in lines if line.split()[0] == key)


def cgroup_limit(folder):
    v2 = (folder / "memory.max").exists()
    return int((folder / ("memory.max" if v2 else "memory.limit_in_bytes")).read_text())


def avg10(kind):
    line = next(line for line in open("/proc/pressure/memory") if line.startswith(kind))
    return float(line.split()[1].removeprefix("avg10="))


def size(text, total):
    if text.endswith("%"):
        return total * float(text[:-1]) / 100
    units = {"K": 1 << 10, "M": MIB, "G": 1 << 30}
    return float(text[:-1]) * units[text[-1]] if text[-1] in units else float(text)


def level_of(arguments):
    """The target, and a function that reads the level: bytes, or percent of a pressure."""
    options = dict(zip(arguments[::2], arguments[1::2]))
    if "--psi" in options:
        kind, percent = options["--psi"].rstrip("%").split("=")
        return float(percent), lambda: avg10(kind)
    if "--cgroup" in options:
        folder = pathlib.Path(options["--cgroup"])
        total, used = cgroup_limit(folder), lambda: cgroup_used(folder)
    else:
        total, used = meminfo("MemTotal"), lambda: meminfo("MemTotal") - meminfo("MemAvailable")
    if "--used" in options:
        return size(options["--used"], total), used
    return total - size(options["--available"], total), used


def cpu_ns(pids):
    tasks = [task for pid in pids for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def allocate_and_free(most, seed, cgroup):
    if cgroup:
        (pathlib.Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
    choice = random.Random(seed)
    while True:
        memory = mmap.mmap(-1, choice.randrange(16, most) * MIB)
        for page in range(0, len(memory), 4096):
            memory[page] = 1
        time.sleep(choice.uniform(0.5, 3))
        memory.close()
        time.sleep(choice.uniform(0.5, 3))


def observe(read, target, seconds, pids, is_pressure):
    looks, before, start = [], cpu_ns(pids), time.monotonic()
    while time.monotonic() - start < seconds:
        looks.append(read())
        time.sleep(0.1)
    wall, after = time.monotonic() - start, cpu_ns(pids)
    off = [look - target for look in looks]
    tolerance = TOLERANCE_POINTS if is_pressure else TOLERANCE * target
    percent = off if is_pressure else [100 * one / target for one in off]
    return {
        "looks": len(looks),
        "within_percent": 100 * sum(abs(one) <= tolerance for one in off) / len(off),
        "mean": statistics.mean(looks),
        "off_percent": {"least": min(percent), "median": statistics.median(percent), "most": max(percent)},
        "cpu_percent": 100 * (after - before) / 1e9 / wall,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--neighbour", type=int, default=512, help="most MiB of the other process")
    parser.add_argument("--no-neighbour", action="store_true")
    parser.add_argument("--settle", type=float, default=5, help="seconds after the level was first reached")
    parser.add_argument("plimsoll")
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args()
    is_pressure = "--psi" in options.arguments
    target, read = level_of(options.arguments)
    before = read()
    held = subprocess.Popen([options.plimsoll, "hold", *options.arguments, "--json"], stdout=subprocess.PIPE, text=True)
    neighbour = None
    try:
        start, tolerance = time.monotonic(), TOLERANCE_POINTS if is_pressure else TOLERANCE * target
        while abs(read() - target) > tolerance:
            if held.poll() is not None or time.monotonic() - start > 300:
                sys.exit("the level was not reached")
            time.sleep(0.05)
        reached_s = time.monotonic() - start
        time.sleep(options.settle)
        children = pathlib.Path(f"/proc/{held.pid}/task/{held.pid}/children").read_text().split()
        pids = [held.pid, *map(int, children)]
        result = {"quiet": observe(read, target, options.seconds / 2, pids, is_pressure)}
        if not options.no_neighbour:
            cgroup = dict(zip(options.arguments[::2], options.arguments[1::2])).get("--cgroup")
            neighbour = os.fork()
            if neighbour == 0:
                allocate_and_free(options.neighbour, 1, cgroup)
            result["beside_neighbour"] = observe(read, target, options.seconds / 2, pids, is_pressure)
    finally:
        if neighbour:
            os.kill(neighbour, signal.SIGKILL)
            os.waitpid(neighbour, 0)
        held.terminate()
        output = held.communicate()[0]
    document = {
        "arguments": options.arguments,
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "target": target,
        "level_before": before,
        "reached_s": reached_s,
        **result,
        "hold": json.loads(output) if output else None,
    }
    print(json.dumps(document, indent=1))


main()
