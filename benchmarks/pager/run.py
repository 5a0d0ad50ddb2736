#!/usr/bin/env python3
"""Compares the pager with the kernel's zram and zswap, and with its targets, as root.

Each round runs every measurement once with every subject, one after another, in a process of its own: a ratio is that of
two runs of the same round, its value the median over the rounds with an interval of 95 % (bootstrap). Speeds are CPU
times. A target is met or missed by the whole interval; if the bound lies within it, the target is undecided. Data: pages of the
ratio 2.5, and memory images of programs that this program starts.

Prints the tables, and writes a folder: README.md, raw.jsonl (a line a run), machine.json. The exit code is 1 if a run failed;
one that the OOM killer of its own memory cgroup ended is a result of the kernel's subject, and is counted in the report.

Usage: benchmarks/pager/run.py [--rounds 7] [--mib 64] [--quick] [--data ratio=2.5,python3,redis,cc1plus,java] [--no-zswap]
       [--output DIR] PAGER_BENCH
PAGER_BENCH is a release build of the example: `just bench-pager` builds it. No other swap may be in use; zswap needs room
for a swap file in --output's or the temporary folder.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import images
import kernel

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from paired import interval, machine

MIB = 1 << 20
TIMEOUT = 300
ZRAM, ZSWAP = "zram:lz4", f"zswap:{kernel.zswap_algorithm()}"
LZ4, ZSTD = "pager:lz4", "pager:zstd"
# Without pressure, memory of the kernel is the subject to compare with.
PLAIN = "kernel"


class Target:
    """A ratio of a value of the pager to that of another subject; `better` is the direction in which it is bounded."""

    def __init__(self, title, case, key, better, bounds, of=ZRAM):
        self.title, self.case, self.key, self.better, self.bounds, self.of = title, case, key, better, bounds, of

    def verdict(self, subject, ratios):
        """Decided by the whole interval; a single ratio has none."""
        bound = self.bounds.get(subject)
        if bound is None or not ratios:
            return ""
        _, low, high = interval(ratios)
        met, missed = (low >= bound, high < bound) if self.better == ">=" else (high <= bound, low > bound)
        if len(ratios) == 1 or not (met or missed):
            return "undecided"
        return "met" if met else "**missed**"


TARGETS = [
    Target("trim, bytes a CPU second", "copies", "trim_gb_s", ">=", {LZ4: 1.8, ZSTD: 1.2}),
    Target("sequential restore, bytes a CPU second", "copies", "restore_gb_s", ">=", {LZ4: 3.0, ZSTD: 2.2}),
    Target("random fault, p50", "copies", "fault_p50_us", "<=", {LZ4: 1.0, ZSTD: 1.25}),
    Target("random fault, p99", "copies", "fault_p99_us", "<=", {LZ4: 1.1, ZSTD: 1.3}),
    Target("bytes held per byte of RAM", "copies", "held", ">=", {LZ4: 1.0, ZSTD: 1.3}),
    Target("CPU, load 1.5, uniform", "uniform", "access_us", "<=", {LZ4: 1.0}),
    Target("CPU, load 1.5, sequential", "sequential", "access_us", "<=", {LZ4: 0.5}),
    Target("CPU while everything fits", "fits", "access_us", "<=", {LZ4: 1.01}, PLAIN),
]
CASES = {
    "copies": (["copies"], [ZRAM, ZSWAP, LZ4, ZSTD]),
    "uniform": (["uniform"], [ZRAM, ZSWAP, LZ4, ZSTD]),
    "sequential": (["sequential"], [ZRAM, ZSWAP, LZ4, ZSTD]),
    # Many accesses: a run is to last long enough for its time to mean something.
    "fits": (["uniform", "--load", "0.7"], [PLAIN, LZ4]),
}
# Accesses of this case over those of the others: they cost nanoseconds.
FITS_ACCESSES = 1000
METADATA_SHARE, METADATA_BYTES = 0.01, 1 << 20


def measure(command, cgroup=None):
    """One run: its line as a dict, or a dict with `error`, or with `oom` if the OOM killer of the cgroup ended it."""
    def enter():
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT, preexec_fn=enter)
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {TIMEOUT} s"}
    if done.returncode == -signal.SIGKILL and cgroup is not None and kernel.oom_kills(cgroup):
        return {"oom": True}
    if done.returncode != 0:
        return {"error": f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(done.stdout)


@contextlib.contextmanager
def swap_of(subject, case, size, folder):
    """The kernel's side of a subject: the options of the worker, and its cgroup."""
    if subject not in (ZRAM, ZSWAP):
        yield [], None
        return
    make, algorithm = subject.split(":")
    device = kernel.zram(size, algorithm) if make == "zram" else kernel.zswap(size, algorithm, folder)
    is_random = subject == ZSWAP and case == "uniform"
    with device as used, kernel.no_readahead() if is_random else contextlib.nullcontext(), kernel.cgroup() as cgroup:
        yield [*used, "--cgroup", str(cgroup)], cgroup


def run(bench, case, subject, data, options, folder):
    arguments, _ = CASES[case]
    accesses = options.accesses * (FITS_ACCESSES if case == "fits" else 1)
    name = subject if subject.startswith("pager:") else "kernel"
    command = [bench, arguments[0], name, *arguments[1:], "--mib", str(options.mib), "--accesses", str(accesses),
               "--data", data]
    try:
        with swap_of(subject, case, 4 * options.mib * MIB, folder) as (more, cgroup):
            return measure([*command, *more], cgroup)
    except (OSError, subprocess.CalledProcessError) as error:
        return {"error": f"cannot set up {subject}: {error}"}


class Session:
    """The runs: values by data, case, subject and key, one a round; None where a run failed."""

    def __init__(self):
        self.values, self.failures, self.killed, self.raw = {}, [], {}, []

    def add(self, nth, data, case, subject, line):
        self.raw.append({"round": nth, "data": data, "case": case, "subject": subject, **line})
        if "error" in line:
            self.failures.append(f"{case} of {data} on {subject}, round {nth + 1}: {line['error']}")
            return
        ended, runs = self.killed.get((case, subject), (0, 0))
        self.killed[case, subject] = ended + ("oom" in line), runs + 1
        if "oom" in line:
            return
        for key, value in line.items():
            self.values.setdefault((data, case, subject, key), {})[nth] = value

    def of(self, data, case, subject, key):
        return self.values.get((data, case, subject, key), {})

    def ratios(self, data, target, subject, other):
        mine = self.of(data, target.case, subject, target.key)
        others = self.of(data, target.case, other, target.key)
        return [mine[nth] / others[nth] for nth in sorted(mine.keys() & others.keys()) if others[nth]]


def number(value):
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.2f}"


def shown(values):
    if not values:
        return "-"
    median, low, high = interval(values)
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def target_table(session, sets):
    lines = ["| metric | data | pager:lz4 | target | | pager:zstd | target | |", "|---|---|---|---|---|---|---|---|"]
    for target in TARGETS:
        for data in sets:
            cells = []
            for subject in (LZ4, ZSTD):
                ratios = session.ratios(data, target, subject, target.of)
                bound = target.bounds.get(subject)
                cells += [shown(ratios), "" if bound is None else f"{target.better} {bound:g}", target.verdict(subject, ratios)]
            lines.append(f"| {target.title} / {target.of} | {data} | " + " | ".join(cells) + " |")
    return lines


def metadata_line(session, sets, region):
    shares = [value for data in sets for value in session.of(data, "copies", LZ4, "metadata_bytes").values()]
    if not shares:
        return "Metadata: not measured."
    bound = region * METADATA_SHARE + METADATA_BYTES
    met = "met" if max(shares) <= bound else "**missed**"
    return f"Metadata: {max(shares) / 1024:.0f} KiB for {region // MIB} MiB; target <= 1 % + 1 MiB: {met}."


def value_table(session, sets, subjects):
    keys = [("copies", key) for key in ("trim_gb_s", "restore_gb_s", "fault_p50_us", "fault_p99_us", "held")]
    keys += [(case, key) for case in ("uniform", "sequential") for key in ("access_us", "pages_mib", "copies_mib")]
    keys += [("fits", "access_us")]
    lines = ["| case | value | data | " + " | ".join(subjects) + " |", "|---|---|---|" + "---|" * len(subjects)]
    for case, key in keys:
        for data in sets:
            cells = [list(session.of(data, case, subject, key).values()) for subject in subjects]
            if any(cells):
                cells = [number(statistics.median(cell)) if cell else "-" for cell in cells]
                if case == "fits":
                    cells = [cell if cell == "-" else f"{float(statistics.median(session.of(data, case, subject, key).values())):.4f}"
                             for cell, subject in zip(cells, subjects)]
                lines.append(f"| {case} | {key} | {data} | " + " | ".join(cells) + " |")
    return lines


def report(session, sets, subjects, described, options, missing):
    lines = [
        f"# Pager, {datetime.date.today().isoformat()}",
        "",
        "Made by",
        "",
        "    just bench-pager " + " ".join(sys.argv[1:-1]),
        "",
        f"on {described['cpus']} CPUs ({described['cpu']}), {described['mem_total']}, Linux {described['kernel']}, "
        f"load average {described['load_average_at_start']:.2f} at the start; {options.rounds} rounds, {options.mib} MiB.",
        "",
        "## Targets",
        "",
        "Medians of the ratios of paired runs, with an interval of 95 %. A target is met or missed by the whole interval, and is",
        "undecided if the bound lies within it, or after a single round.",
        "",
        *target_table(session, sets),
        "",
        metadata_line(session, sets, options.mib * MIB),
        "",
        "## Values",
        "",
        "Medians. GB/s and accesses are of CPU time, of the process and all its threads; faults are of wall-clock time. Under",
        "overcommit the pages and the compressed copies of every subject share the same RAM. Random accesses on zswap read no",
        "pages ahead (`vm.page-cluster=0`), as on zram.",
        "",
        *value_table(session, sets, subjects),
        "",
    ]
    killed = [f"- {case} on {subject}: {ended} of {runs} runs" for (case, subject), (ended, runs) in session.killed.items() if ended]
    if killed:
        lines += ["## Ended by the OOM killer", "",
                  "The memory cgroup killed these runs while swap had room; the values above are those of the others.", "", *killed, ""]
    if missing:
        lines += ["Not measured: " + ", ".join(missing) + ".", ""]
    if session.failures:
        lines += ["## Failures", "", *[f"- {failure}" for failure in session.failures], ""]
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", metavar="PAGER_BENCH")
    parser.add_argument("--rounds", type=int, help="7, with --quick 1")
    parser.add_argument("--mib", type=int, help="RAM and size of the region in MiB; 64, with --quick 16")
    parser.add_argument("--accesses", type=int, help="accesses of a run; 100000, with --quick 5000")
    parser.add_argument("--quick", action="store_true", help="shorter, for iterating; writes nothing without --output")
    parser.add_argument("--data", default="ratio=2.5,python3,redis,cc1plus,java", help="names of data, by commas")
    parser.add_argument("--cases", default=",".join(CASES), help="names of cases, by commas")
    parser.add_argument("--no-zswap", action="store_true", help="without zswap, whose settings are those of the machine")
    parser.add_argument("--output", type=pathlib.Path, help="folder to write; benchmarks/DATE-pager")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 7)
    options.mib = options.mib or (16 if options.quick else 64)
    options.accesses = options.accesses or (5000 if options.quick else 100_000)
    options.bench = str(pathlib.Path(options.bench).resolve())
    unknown = set(options.cases.split(",")) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if kernel.swap_in_use():
        parser.error(f"swap is in use, which the kernel would use beside the measured one: {', '.join(kernel.swap_in_use())}")
    return options


def main():
    # The devices end on a signal too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse()
    described, session = machine(), Session()
    without = [ZSWAP] * (options.no_zswap or not kernel.ZSWAP.exists() or kernel.zswap_algorithm() is None)
    subjects = [subject for subject in (ZRAM, ZSWAP, PLAIN, LZ4, ZSTD) if subject not in without]
    with tempfile.TemporaryDirectory(dir=options.output and options.output.parent) as folder:
        # Absolute: redis-server changes to it.
        folder = pathlib.Path(folder).resolve()
        names = options.data.split(",")
        made, missing = images.make(folder, options.mib * MIB, names)
        sets = {name: name for name in names if name.startswith("ratio=")} | dict(made)
        for nth in range(options.rounds):
            for name, data in sets.items():
                for case in options.cases.split(","):
                    chosen = [subject for subject in CASES[case][1] if subject not in without]
                    first = nth % len(chosen)
                    for subject in chosen[first:] + chosen[:first]:
                        session.add(nth, name, case, subject, run(options.bench, case, subject, data, options, folder))
            print(f"round {nth + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    text = report(session, list(sets), subjects, described, options, missing)
    print(text)
    output = options.output
    if output is None and not options.quick:
        output = pathlib.Path(__file__).resolve().parent.parent / f"{datetime.date.today().isoformat()}-pager"
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / "README.md").write_text(text)
        (output / "raw.jsonl").write_text("".join(json.dumps(line) + "\n" for line in session.raw))
        (output / "machine.json").write_text(json.dumps(described, indent=2) + "\n")
        print(f"written: {output}", file=sys.stderr)
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(main())
