#!/usr/bin/env python3
"""Measures the CPU time of `plimsoll watch --headless`, thread by thread, of one or several builds in turns.

Starts each build in turn, without and with a recording, lets it settle for three seconds, and reads the CPU time of its
threads as the scheduler counts it (/proc/PID/task/*/schedstat: user and system) over some seconds, round after round, so
that drift of the machine affects all builds. Prints the percent of one core, of the process and of each thread, with
the wake-ups a second, as JSON. The start and the end (the report of a recording) are counted apart, in seconds.

Usage: benchmarks/monitor/headless.py [--rounds 5] [--seconds 60] [--hz 10] PLIMSOLL ...
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def threads(pid):
    """CPU nanoseconds and voluntary switches of each thread by name."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        name = "main" if task.name == str(pid) else name
        switches = (task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]
        found[name] = (int((task / "schedstat").read_text().split()[0]), int(switches))
    return found


def measure(command, seconds):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(3)
    start, before = time.monotonic(), threads(process.pid)
    time.sleep(seconds)
    after, end = threads(process.pid), time.monotonic()
    process.terminate()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"ended with status {status}: {command}")
    wall = end - start
    share = {name: 100 * (cpu - before[name][0]) / 1e9 / wall for name, (cpu, _) in after.items()}
    total = sum(share.values())
    return {
        "percent": total,
        "threads": share,
        "wakeups": {name: (switches - before[name][1]) / wall for name, (_, switches) in after.items()},
        # The three seconds before the measurement cost as much as those within.
        "start_and_end_s": usage.ru_utime + usage.ru_stime - total / 100 * (wall + 3),
    }


def summary(rounds):
    percents = [one["percent"] for one in rounds]
    names = rounds[0]["threads"]
    median = lambda values: round(statistics.median(values), 4)
    return {
        "percent_of_a_core": {
            "min": round(min(percents), 4),
            "median": median(percents),
            "max": round(max(percents), 4),
            "rounds": [round(value, 4) for value in percents],
        },
        "threads_percent_median": {name: median(one["threads"][name] for one in rounds) for name in names},
        "wakeups_a_second_median": {name: median(one["wakeups"][name] for one in rounds) for name in names},
        "start_and_end_cpu_s_median": median(one["start_and_end_s"] for one in rounds),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--hz", type=int, default=10)
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp())
    recording = work / "recording"
    found = {}
    for _ in range(arguments.rounds):
        for program in arguments.plimsoll:
            for name, more in [("headless", []), ("headless, recording", ["--record", str(recording)])]:
                command = [program, "watch", "--headless", "--hz", str(arguments.hz), *more]
                found.setdefault(program, {}).setdefault(name, []).append(measure(command, arguments.seconds))
                shutil.rmtree(recording, ignore_errors=True)
    shutil.rmtree(work)
    result = {
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "processes": sum(1 for _ in pathlib.Path("/proc").glob("[0-9]*")),
        "load_average": os.getloadavg(),
        "hz": arguments.hz,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "builds": {
            pathlib.Path(program).name: {name: summary(rounds) for name, rounds in kinds.items()}
            for program, kinds in found.items()
        },
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
