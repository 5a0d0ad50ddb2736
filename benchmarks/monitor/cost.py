#!/usr/bin/env python3
"""Measures the CPU time of monitors that draw in a real terminal, in one run.

Starts each monitor in turn in a tmux pane, lets it settle, and reads the CPU time of it and its children over some
seconds, round after round, so that drift of the machine affects all of them. Prints the percent of one core, minimum
and median over the rounds, and the microseconds a sample, as JSON.

Usage: benchmarks/monitor/cost.py [--rounds 5] [--seconds 20] [--columns 120] [--lines 40] PLIMSOLL
Needs tmux; measures vmstat, htop, btop and atop if they are installed, and names missing ones.
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

def cpu_seconds(pid):
    """CPU time of a process and its children as the scheduler counts it, to the nanosecond; not of threads that ended."""
    total = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            if pid in (int(stat.parent.name), parent):
                for task in stat.parent.glob("task/*/schedstat"):
                    total += int(task.read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


class Pane:
    """A program in a terminal of its own."""

    def __init__(self, command, columns, lines, socket):
        self.tmux = ["tmux", "-S", str(socket)]
        subprocess.run(
            [*self.tmux, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines),
             "exec env COLORTERM=truecolor " + command],
            check=True,
        )
        listed = subprocess.run([*self.tmux, "list-panes", "-F", "#{pane_pid}"], check=True, capture_output=True)
        self.pid = int(listed.stdout.split()[0])

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True)


def measure(command, arguments, socket):
    pane = Pane(command, arguments.columns, arguments.lines, socket)
    try:
        time.sleep(3)
        start, before = time.monotonic(), cpu_seconds(pane.pid)
        time.sleep(arguments.seconds)
        after, end = cpu_seconds(pane.pid), time.monotonic()
        if not pathlib.Path(f"/proc/{pane.pid}").exists():
            sys.exit(f"ended before its time: {command}")
        return (after - before) / (end - start)
    finally:
        pane.close()
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--lines", type=int, default=40)
    arguments = parser.parse_args()
    plimsoll = str(pathlib.Path(arguments.plimsoll).resolve())
    work = pathlib.Path(tempfile.mkdtemp())
    recording = work / "recording"
    # Name, samples a second, command.
    monitors = [
        ("plimsoll watch, drawn", 10, f"{plimsoll} watch"),
        ("plimsoll watch, drawn", 1, f"{plimsoll} watch --hz 1"),
        ("plimsoll watch --headless --record", 10, f"{plimsoll} watch --headless --record {recording}"),
        ("vmstat", 1, "vmstat -n 1"),
        ("htop", 10, "htop -d 1"),
        ("htop", 1, "htop -d 10"),
        ("btop", 10, "btop -lc"),
        ("atop", 1, "atop 1"),
    ]
    # btop's minimum update time is 100 ms; only its configuration file sets it.
    home = work / "btop"
    (home / "btop").mkdir(parents=True)
    (home / "btop" / "btop.conf").write_text("update_ms = 100\n")
    os.environ["XDG_CONFIG_HOME"] = str(home)
    os.environ.setdefault("LANG", "C.UTF-8")
    missing = sorted({m[2].split()[0] for m in monitors if not shutil.which(m[2].split()[0])})
    monitors = [m for m in monitors if m[2].split()[0] not in missing]
    shares = {index: [] for index in range(len(monitors))}
    for _ in range(arguments.rounds):
        for index, (_, _, command) in enumerate(monitors):
            shutil.rmtree(recording, ignore_errors=True)
            shares[index].append(measure(command, arguments, work / "tmux"))
    result = {
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "processes": sum(1 for _ in pathlib.Path("/proc").glob("[0-9]*")),
        "terminal": f"{arguments.columns}x{arguments.lines}",
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "not installed": missing,
        "monitors": [
            {
                "name": name,
                "hz": hz,
                "percent_of_a_core_min": round(100 * min(shares[index]), 3),
                "percent_of_a_core_median": round(100 * statistics.median(shares[index]), 3),
                "us_per_sample_median": round(1e6 * statistics.median(shares[index]) / hz),
            }
            for index, (name, hz, _) in enumerate(monitors)
        ],
    }
    shutil.rmtree(work)
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
