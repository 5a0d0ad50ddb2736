#!/usr/bin/env python3
"""Runs the scenario targets.toml beside this file with `plimsoll run`, and prints the targets of Plimsoll's heap.

A value is the median over the repeats; a ratio is ours over the best peer within each repeat, where the best peer has the
lowest median. The interval follows plimsoll's rule: 95% bootstrap of the median, the range below six repeats. "Measured"
excludes the generator's own CPU time: its least value in the cell, the same for each allocator.

Writes the recording and README.md into a folder. The exit code is 1 if a trial failed.

Usage: benchmarks/heap/run.py [--only SECTIONS] [--output DIR] PLIMSOLL [OPTION OF plimsoll run ...]
PLIMSOLL is a release build: `just bench-heap` builds it. Use an idle machine.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OURS, HARDENED = "plimsoll:lfh", "plimsoll:lfh,hardened"
UNTRUSTWORTHY = 7  # plimsoll's exit code for a run whose metrics a confounder spoils
# A cell: section, threads and block-size, as far as the section has several.
PAIRS = [("replacement", n, sizes) for sizes in ("0-1k", "1-2k", "22") for n in ("1", "2", "4", "16", "64")]
PAIRS += [("replacement-100k", "2", sizes) for sizes in ("0-1k", "22")]
COLD, MANY, LARSON = [("aggressive", None, None)], [("replacement-512", None, None)], "CPU a pair / best peer"
LARSON_2, LARSON_16 = [("larson", "2", None)], [("larson", "16", None)]
XMALLOC, SH8, LARGE = [("xmalloc", None, None)], [("sh8", None, None)], [("large", None, None)]
SHIFT, IDLE = [("fragmentation", None, None)], [("idle-threads", None, None)]
CPU, GROWTH, PER_LIVE, MIB = ("operation_cpu_s", "generator_cpu_s"), "resident_growth_bytes", "resident_per_live", 1 / (1 << 20)
geomean = statistics.geometric_mean
# Title, target, cells, their combination, metric and generator's part of it, and the scale of a value; a ratio has none.
ROWS = [
    ("replacement, geomean of 17 cells / best peer of each", 0.95, PAIRS, geomean, *CPU, None),
    ("replacement, worst cell / best peer", 1.10, PAIRS, max, *CPU, None),
    ("512 threads / best peer", 0.85, MANY, max, *CPU, None),
    ("KiB an idle thread, stack included", 20, IDLE, max, "idle_thread_bytes", None, 1 / 1024),
    ("RSS / live, geomean of 17 cells", 1.50, PAIRS, geomean, PER_LIVE, None, 1),
    ("shifting sizes, worst RSS / live", 2.5, SHIFT, max, PER_LIVE, None, 1),
    ("MiB left 1.5 s after freeing all", 10, SHIFT, max, "left_bytes", None, MIB),
    ("aggressive cold / best peer", 1.15, COLD, max, "cold_cpu_s", "generator_allocate_cpu_s", None),
    ("aggressive steady / best peer", 1.15, COLD, max, "steady_cpu_s", "generator_allocate_cpu_s", None),
    ("aggressive free / best peer", 1.15, COLD, max, "free_cpu_s", "generator_free_cpu_s", None),
    ("aggressive, MiB", 53, COLD, max, GROWTH, None, MIB),
    (f"larson 2, {LARSON}", 1.0, LARSON_2, max, *CPU, None),
    (f"larson 16, {LARSON}", 1.0, LARSON_16, max, *CPU, None),
    ("larson 16, MiB", 55, LARSON_16, max, GROWTH, None, MIB),
    # Waiting for each other is most of the generator's part here, and differs from trial to trial.
    ("cross-thread xmalloc, ns a block / best peer", 1.15, XMALLOC, max, CPU[0], None, None),
    ("cross-thread sh8, ns a block / best peer", 1.15, SH8, max, CPU[0], None, None),
    ("large, ns a pair / best peer", 1.15, LARGE, max, *CPU, None),
    ("large, ns a realloc / best peer", 1.15, LARGE, max, "realloc_cpu_s", "generator_realloc_cpu_s", None),
    ("hardened, replacement 0-1k, 1 thread, ns a pair", 20, PAIRS[:1], max, *CPU, 1e9),
]


def indexed(trials):
    """Metrics of the trials by cell, subject and repeat; a failed one has none."""
    index = {}
    for trial in trials:
        metrics = dict(trial["metrics"]) if trial["status"] != "failed" else {}
        if metrics.get("live_bytes"):
            metrics[PER_LIVE] = metrics[GROWTH] / metrics["live_bytes"]
        if "generator_free_cpu_s" in metrics:
            metrics["generator_allocate_cpu_s"] = metrics[CPU[1]] - metrics["generator_free_cpu_s"]
        section, params = trial["id"].split("/")[0], trial["params"]
        threads, sizes = params.get("threads"), params.get("block-size")
        for cell in ((section, threads, sizes), (section, threads, None), (section, None, None)):
            index.setdefault(cell, {}).setdefault(trial["subject"], {})[trial["repeat"]] = metrics
    return index


def of_cell(subjects, metric, own, scale, subject):
    """The value of a cell for each repeat, or None: an allocator that failed once has no value."""
    shares = [metrics[own] for repeats in subjects.values() for metrics in repeats.values() if own in metrics]
    net = {}
    for name, repeats in subjects.items():
        if all(metric in metrics for metrics in repeats.values()):
            # If noise is larger than the value, a tenth of a nanosecond keeps the ratios finite.
            net[name] = {at: max(metrics[metric] - min(shares, default=0), 1e-10) for at, metrics in repeats.items()}
    peers = [values for name, values in net.items() if not name.startswith("plimsoll:")]
    if subject not in net or not (scale or peers):
        return None
    if scale:
        return {at: value * scale for at, value in net[subject].items()}
    best = min(peers, key=lambda values: statistics.median(values.values()))
    return {at: value / best[at] for at, value in net[subject].items() if at in best}


def row(index, cells, combine, *measure):
    """The median and its text; none where a cell has no value, since the mean of the others would be another one."""
    each = [of_cell(index.get(cell, {}), *measure) for cell in cells]
    if None in each:
        return None, "-"
    values = [combine([cell[at] for cell in each]) for at in sorted(set.intersection(*map(set, each)))]
    middle, low, high = statistics.median(values), min(values), max(values)
    if len(values) >= 6:
        draw = random.Random(1)
        medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
        low, high = medians[49], medians[1950]
    return middle, f"{middle:.3g} ({low:.3g} to {high:.3g})"


def target_table(index):
    yield from ("| metric | target | measured | with the generator | |", "|---|---|---|---|---|")
    for title, bound, cells, combine, metric, own, scale in ROWS:
        subject = HARDENED if title.startswith("hardened") else OURS
        middle, net = row(index, cells, combine, metric, own, scale, subject)
        gross = row(index, cells, combine, metric, None, scale, subject)[1] if own else "-"
        verdict = "not measured" if middle is None else "met" if middle <= bound else "**missed**"
        yield f"| {title} | <= {bound:g} | {net} | {gross} | {verdict} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only the sections of targets.toml whose name matches this pattern")
    parser.add_argument("--output", type=pathlib.Path, help="folder to write; benchmarks/DATE-heap")
    parser.add_argument("plimsoll")
    options, passed = parser.parse_known_args()
    today = datetime.date.today().isoformat()
    output = options.output or HERE.parent / f"{today}-heap"
    output.mkdir(parents=True, exist_ok=True)
    tables = re.split(r"^(?=\[)", (HERE / "targets.toml").read_text(), flags=re.MULTILINE)
    kept = re.compile(rf"#|\[(scenario|global|quick|[^]]*(?:{options.only})[^]]*)\]")
    scenario = output / "targets.toml"
    scenario.write_text("".join(filter(kept.match, tables)))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LD_PRELOAD", "PLIMSOLL_HEAP_"))}
    command = [options.plimsoll, "run", scenario, "--output", output, "--json", *passed]
    run = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        return run.returncode
    document = json.loads(run.stdout)
    report = [options.plimsoll, "report", output / document["run"], "--format", "markdown"]
    rest = subprocess.run(report, stdout=subprocess.PIPE, text=True, check=True).stdout
    text = [f"# Heap, {today}", "", "    just bench-heap " + " ".join(map(str, passed)), "", *target_table(indexed(document["trials"]))]
    text = "\n".join([*text, "", rest])
    print(text)
    (output / "README.md").write_text(text)
    return 0 if run.returncode in (0, UNTRUSTWORTHY) else 1


if __name__ == "__main__":
    sys.exit(main())
