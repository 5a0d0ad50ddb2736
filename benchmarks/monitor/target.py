#!/usr/bin/env python3
"""Measures the effect of the monitor on its target: throughput of a fault-heavy program with and without it, in pairs.

Each pair runs the program twice for some seconds, once alone and once under `plimsoll watch --pid` at ten samples a
second, in alternating order, so that drift of the machine affects both. Prints the ratio watched / alone of each
pair, their median, and a 95% bootstrap interval of it, by wall time and by the program's own CPU time, as JSON. Pairs
without a monitor show the difference of two equal halves on this machine.

Usage: benchmarks/monitor/target.py [--pairs 20] [--seconds 5] PLIMSOLL FAULT_HEAVY
FAULT_HEAVY is the example of that name: cargo build --release --example fault_heavy
"""

import argparse
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time


def throughput(arguments, watched):
    """Faults a second of wall time and of CPU time."""
    target = subprocess.Popen([arguments.fault_heavy, str(arguments.seconds)], stdout=subprocess.PIPE, text=True)
    monitor = None
    if watched:
        monitor = subprocess.Popen(
            [arguments.plimsoll, "watch", "--headless", "--hz", str(arguments.hz), "--pid", str(target.pid)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
    printed, _ = target.communicate()
    if monitor:
        if monitor.poll() not in (None, 0):
            sys.exit(f"the monitor failed with exit code {monitor.returncode}")
        monitor.send_signal(signal.SIGTERM)
        monitor.wait()
    return [float(word) for word in printed.split()]


def interval(ratios):
    drawn = random.Random(1)
    medians = sorted(statistics.median(drawn.choices(ratios, k=len(ratios))) for _ in range(2000))
    return [round(medians[50], 4), round(medians[-51], 4)]


def pairs(arguments, second_watched):
    ratios = []
    for number in range(arguments.pairs):
        order = [False, second_watched] if number % 2 == 0 else [second_watched, False]
        halves = []
        for watched in order:
            halves.append(throughput(arguments, watched))
            time.sleep(0.2)
        alone, other = halves if number % 2 == 0 else reversed(halves)
        ratios.append([other[0] / alone[0], other[1] / alone[1]])
    wall, cpu = ([pair[i] for pair in ratios] for i in (0, 1))
    return {
        "wall": {"median": round(statistics.median(wall), 4), "interval95": interval(wall)},
        "cpu": {"median": round(statistics.median(cpu), 4), "interval95": interval(cpu)},
        "ratios_wall": [round(ratio, 4) for ratio in wall],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("fault_heavy")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--hz", type=int, default=10)
    arguments = parser.parse_args()
    arguments.plimsoll = str(pathlib.Path(arguments.plimsoll).resolve())
    arguments.fault_heavy = str(pathlib.Path(arguments.fault_heavy).resolve())
    json.dump(
        {
            "pairs": arguments.pairs,
            "seconds": arguments.seconds,
            "hz": arguments.hz,
            "alone against alone": pairs(arguments, False),
            "watched against alone": pairs(arguments, True),
        },
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
