#!/usr/bin/env python3
"""Measures `plimsoll report` on recordings of many trials: CPU time and peak resident memory of each format.

    benchmarks/report/run.py target/release/plimsoll [--trials 1000,4000,10000,30000] [--repeat 7] > result.json

With --repeat, each row has the median of the CPU times and the largest peak.

Each trial is a group of its own, the most that a number of trials can have. A trial has four phases with every category
of memory before and after, and 14 metrics, as one of the compression experiment has.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

TEMPLATE = pathlib.Path(__file__).parent.parent.parent / "crates/plimsoll-testkit/data/recording-3/finished"
CATEGORIES = ["kernel", "target", "other", "compressed", "swap_cache", "dirty", "page_cache", "slab_reclaimable", "free",
              "unaccounted"]
PHASES = ["fill", "trim", "restore", "release"]
METRICS = ["trim_gb_per_s", "restore_gb_per_s", "fill_gb_per_s", "stored_bytes", "compression_ratio", "stored_ratio",
           "original_bytes", "swapped_bytes", "trimmed_bytes", "trimmed_ratio", "fill_to_memset_ratio",
           "fill_to_first_touch_ratio", "trim_to_memcpy_ratio", "restore_to_read_ratio"]


def trial_id(number):
    return f"zram/zram:lz4/ratio={1 + number / 1000}#1"


def trial(number):
    start = number * 1_000_000_000
    level = {name: (index + 1 << 20) + number for index, name in enumerate(CATEGORIES)}
    phase = lambda index, name: {
        "name": name, "span_ns": [start + index * 200_000_000, start + index * 200_000_000 + 150_000_000], "seconds": 0.15,
        "bytes": 64 << 20, "gb_per_s": 0.44, "cpu_user_s": 0.1, "cpu_system_s": 0.05, "cpu_kernel_threads_s": 0.01,
        "minor_faults": 16384, "major_faults": 0, "before": level, "after": level}
    return {
        "id": trial_id(number), "workload": "compression", "subject": "zram:lz4",
        "params": {"class": f"ratio={1 + number / 1000}", "size": str(64 << 20)}, "repeat": 1, "status": "ok",
        "reasons": [], "verified": True, "span_ns": [start, start + 900_000_000],
        "phases": [phase(index, name) for index, name in enumerate(PHASES)],
        "metrics": {name: 1.5 + number % 7 for name in METRICS}}


def record(folder, count):
    """Makes a recording of `count` trials out of the template's."""
    shutil.copytree(TEMPLATE, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    planned = manifest["plan"]["trials"][0]
    manifest["plan"]["trials"] = [
        dict(planned, id=trial_id(number), params=[["class", f"ratio={1 + number / 1000}"]]) for number in range(count)]
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))
    trials = [trial(number) for number in range(count)]
    (folder / "trials.jsonl").write_text("".join(json.dumps(one) + "\n" for one in trials))
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(dict(results, trials=trials), indent=2))


def measure(command):
    """CPU seconds and peak resident MiB of a command."""
    pid = os.spawnv(os.P_NOWAIT, command[0], command)
    _, status, used = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{command} ended with {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss >> 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("--trials", default="1000,4000,10000,30000")
    parser.add_argument("--formats", default="html,text,csv,markdown,json")
    parser.add_argument("--repeat", type=int, default=1)
    arguments = parser.parse_args()
    version = subprocess.run([arguments.plimsoll, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    found = {"version": version, "machine": os.uname().release, "rows": []}
    with tempfile.TemporaryDirectory() as parent:
        for count in map(int, arguments.trials.split(",")):
            folder = pathlib.Path(parent) / str(count)
            record(folder, count)
            for form in arguments.formats.split(","):
                output = folder / "out"
                command = [arguments.plimsoll, "report", str(folder), "--format", form, "--output", str(output)]
                cpu, peak = zip(*(measure(command) for _ in range(arguments.repeat)))
                used = {"cpu_s": round(statistics.median(cpu), 2), "peak_mib": max(peak)}
                found["rows"].append({"trials": count, "format": form, **used, "output_mib": output.stat().st_size >> 20})
                print(found["rows"][-1], file=sys.stderr)
            shutil.rmtree(folder)
    json.dump(found, sys.stdout, indent=1)
    print()


main()
