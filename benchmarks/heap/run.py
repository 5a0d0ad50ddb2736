#!/usr/bin/env python3
"""Compares Plimsoll's heap with the installed allocators, load by load, and with its targets.

Runs every cell with every allocator, each run in a separate process with the allocator preloaded; the order of the
allocators rotates from repeat to repeat. It compares CPU time and resident memory: the minimum over the repeats, with
the median beside it. "Net" excludes the share of the generator: the least value of the cell over all runs,
the same for each allocator.

Prints the tables, and writes a folder: README.md, raw.jsonl (a line a run), machine.json. The exit code is 1 if a load failed.

Usage: benchmarks/heap/run.py [--library OURS.so] [--repeat 5] [--seconds 1] [--quick] [--only REGEX] [--output DIR] HEAP_LOAD
Without --library it measures only the others. OURS.so has the profile `malloc`, and
HEAP_LOAD is a release build: `just bench-heap` builds both. Use an idle machine. Runs do not
see variables PLIMSOLL_HEAP_* of the environment; ours runs a second time with the hardened profile.
"""

import argparse
import datetime
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

# Allocators by the name of their library on Linux distributions. The full tcmalloc includes a profiler, so the minimal
# one has precedence.
RIVALS = [
    ("jemalloc", ["libjemalloc.so.2"]),
    ("tcmalloc (gperftools)", ["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"]),
    ("mimalloc", ["libmimalloc.so.3", "libmimalloc.so.2"]),
]
# Distributions do not package them as libraries to preload.
LEFT_OUT = "tcmalloc with rseq, rpmalloc, snmalloc and, beside the hardened profile, hardened_malloc"
FOLDERS = ["/usr/lib/*-linux-gnu", "/usr/lib", "/usr/lib64", "/usr/local/lib"]
OURS = "ours"
# Our library with the hardened profile: the tables include it, but it is not a peer.
HARDENED = "ours, hardened"
ENVIRONMENT = {HARDENED: {"PLIMSOLL_HEAP_PROFILE": "hardened"}}
TIMEOUT = 120
MIB = 1 << 20

THREADS = [1, 2, 4, 16, 64]
SIZES = ["0-1k", "1-2k", "22"]


class Cell:
    """One load with its parameters."""

    def __init__(self, name, arguments, timed=True):
        self.name, self.arguments, self.timed = name, arguments.split(), timed


REPLACEMENT = [
    Cell(f"replacement {sizes}, {threads} thread{'s' * (threads > 1)}", f"replacement --sizes {sizes} --threads {threads}")
    for sizes in SIZES
    for threads in THREADS
] + [
    Cell(f"replacement {sizes}, 2 threads, 100k blocks", f"replacement --sizes {sizes} --threads 2 --blocks 100000")
    for sizes in ("0-1k", "22")
]
LARSON = "larson --sizes 8b-1000 --blocks 5000 --round 500000"
CELLS = [
    *REPLACEMENT,
    Cell("replacement 0-1k, 512 threads", "replacement --threads 512 --blocks 1000"),
    Cell("larson 2", LARSON + " --threads 2"),
    Cell("larson 16", LARSON + " --threads 16"),
    Cell("cross-thread xmalloc", "cross-thread --couples 2 --sizes 8b-2k"),
    Cell("cross-thread sh8", "cross-thread --couples 4 --sizes log:8b-1000"),
    Cell("large", "large"),
    Cell("aggressive", "aggressive", timed=False),
    Cell("aggressive, freed at random", "aggressive --order random", timed=False),
    Cell("fragmentation", "fragmentation", timed=False),
    Cell("idle threads", "idle-threads", timed=False),
]


class Metric:
    """A value of a cell, smaller is better; `own` names the generator's share if it can be subtracted."""

    def __init__(self, title, cell, key, own=None, scale=1.0):
        self.title, self.cell, self.key, self.own, self.scale = title, cell, key, own, scale


PAIRS = [Metric(f"{cell.name}, ns a pair", cell.name, "pair_cpu_ns", "pair_own_cpu_ns") for cell in REPLACEMENT]
PER_LIVE = [Metric(f"{cell.name}, RSS / live", cell.name, "resident_per_live") for cell in REPLACEMENT]
HARDENED_PAIR = PAIRS[0]
MANY = Metric("512 threads, ns a pair", "replacement 0-1k, 512 threads", "pair_cpu_ns", "pair_own_cpu_ns")
IDLE = Metric("KiB an idle thread, stack included", "idle threads", "kib_per_thread")
IDLE_NET = Metric("KiB an idle thread, the allocator's", "idle threads", "allocator_kib_per_thread")
WORST = Metric("shifting sizes, worst RSS / live", "fragmentation", "worst_resident_per_live")
LEFT = Metric("MiB left 1.5 s after freeing all", "fragmentation", "left_bytes", scale=1 / MIB)
ALLOCATE, FREE = "allocate_own_cpu_ns", "free_own_cpu_ns"
AGGRESSIVE = [
    Metric("aggressive cold, ns", "aggressive", "cold_cpu_ns", ALLOCATE),
    Metric("aggressive steady, ns", "aggressive", "steady_cpu_ns", ALLOCATE),
    Metric("aggressive free, ns", "aggressive", "free_cpu_ns", FREE),
]
AGGRESSIVE_RSS = Metric("aggressive, MiB", "aggressive", "resident_growth_bytes", scale=1 / MIB)
RANDOM_FREE = Metric("aggressive free at random, ns", "aggressive, freed at random", "free_cpu_ns", FREE)
RANDOM_STEADY = Metric("aggressive steady after it, ns", "aggressive, freed at random", "steady_cpu_ns", ALLOCATE)
LARSONS = [Metric(f"larson {n}, ns a pair", f"larson {n}", "pair_cpu_ns", "pair_own_cpu_ns") for n in (2, 16)]
LARSON_RSS = Metric("larson 16, MiB", "larson 16", "resident_growth_bytes", scale=1 / MIB)
# Waiting for each other is most of the generator's share here, and differs from run to run: it is not subtracted.
CROSS = [Metric(f"{name}, ns a block", name, "block_cpu_ns") for name in ("cross-thread xmalloc", "cross-thread sh8")]
LARGE = [
    Metric("large, ns a pair", "large", "pair_cpu_ns", "pair_own_cpu_ns"),
    Metric("large, ns a realloc", "large", "grow_cpu_ns", "grow_own_cpu_ns"),
]
LARGE_PER_LIVE = Metric("large, RSS / live", "large", "resident_per_live")
SHOWN = [
    *PAIRS, MANY, *LARSONS, *CROSS, *LARGE, *AGGRESSIVE, RANDOM_FREE, RANDOM_STEADY, *PER_LIVE, LARGE_PER_LIVE,
    IDLE, IDLE_NET, WORST, LEFT, AGGRESSIVE_RSS, LARSON_RSS,
]


def find_rivals():
    """Names and libraries of the allocators that are installed; None stands for no preload."""
    found = {"glibc": None}
    for name, files in RIVALS:
        paths = [path for file in files for folder in FOLDERS for path in pathlib.Path("/").glob(f"{folder[1:]}/{file}")]
        if paths:
            found[name] = paths[0]
    return found


def version_of(library):
    """The package and version that a library belongs to, where dpkg knows it."""
    if library is None:
        return " ".join(platform.libc_ver())
    try:
        # A merged /usr is registered under either name.
        for path in (str(library), str(library).removeprefix("/usr")):
            owner = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False)
            if owner.returncode == 0:
                package = owner.stdout.rsplit(": ", 1)[0]
                form = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}", package]
                return subprocess.run(form, capture_output=True, text=True, check=True).stdout
    except OSError:
        pass
    return library.name


def machine(allocators):
    """The properties of the machine that affect the results; not its name."""
    def field(path, key):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
        return None

    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cpus": len(os.sched_getaffinity(0)),
        "mem_total": field("/proc/meminfo", "MemTotal"),
        "transparent_huge_pages": huge.read_text().strip() if huge.exists() else None,
        "load_average_at_start": os.getloadavg()[0],
        "allocators": {name: version_of(library) for name, library in allocators.items()},
    }


def measure(heap_load, cell, allocator, library, seconds):
    """One run: its line as a dict, or a dict with the error."""
    command = [heap_load, *cell.arguments, *(["--seconds", str(seconds)] if cell.timed else [])]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LD_PRELOAD", "PLIMSOLL_HEAP_"))}
    environment = inherited | ENVIRONMENT.get(allocator, {})
    if library is not None:
        environment["LD_PRELOAD"] = str(library.resolve())
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {TIMEOUT} s"}
    if done.returncode != 0:
        return {"error": f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"}
    line = json.loads(done.stdout)
    # The loader only warns if it cannot preload; the run would measure another allocator.
    if library is not None and line["allocator"] != library.resolve().name:
        return {"error": f"ran on {line['allocator']} instead: {done.stderr.strip()[-300:]}"}
    return line


class Session:
    """All runs: values by allocator, cell and key."""

    def __init__(self, allocators):
        self.allocators, self.figures, self.failures = list(allocators), {}, []

    def add(self, allocator, cell, line):
        if "error" in line:
            self.failures.append(f"{cell.name} on {allocator}: {line['error']}")
            return
        for key, value in line["values"].items():
            if isinstance(value, (int, float)):
                self.figures.setdefault((allocator, cell.name, key), []).append(value)

    def failed(self, allocator, cell):
        return any(failure.startswith(f"{cell} on {allocator}:") for failure in self.failures)

    def own(self, metric):
        """The generator's share of a cell: the least of all runs."""
        values = [self.figures.get((name, metric.cell, metric.own), []) for name in self.allocators]
        return min((value for each in values for value in each), default=0.0) if metric.own else 0.0

    def gross(self, allocator, metric, of=min):
        """None where a run failed: an allocator that fails once has no value."""
        values = self.figures.get((allocator, metric.cell, metric.key))
        return None if not values or self.failed(allocator, metric.cell) else of(values) * metric.scale

    def net(self, allocator, metric, of=min):
        gross = self.gross(allocator, metric, of)
        # If noise is larger than the value, a tenth of a nanosecond keeps the ratios finite.
        return gross if gross is None or not metric.own else max(gross - self.own(metric), 0.1)

    def best_peer(self, metric, value):
        values = [value(name, metric) for name in self.allocators if name not in (OURS, HARDENED)]
        return min((value for value in values if value is not None), default=None)

    def ratio(self, allocator, metric, value):
        mine, best = value(allocator, metric), self.best_peer(metric, value)
        return None if mine is None or best is None else mine / best

    def ratios(self, allocator, metrics, value):
        """All of them, or None where one is missing: a mean of some would be another one."""
        ratios = [self.ratio(allocator, metric, value) for metric in metrics]
        return None if None in ratios else ratios


def geomean(values):
    return None if not values or None in values else math.exp(sum(map(math.log, values)) / len(values))


def targets(session):
    """Rows of the target table for our heap: metric, target, bound, measured, the same with the generator's share."""
    net, gross = session.net, session.gross
    against = lambda metrics, value: session.ratios(OURS, metrics, value)
    worst = lambda ratios: max(ratios) if ratios else None
    rows = [
        ("replacement, geomean of 17 cells / best peer of each", 0.95,
         geomean(against(PAIRS, net)), geomean(against(PAIRS, gross))),
        ("replacement, worst cell / best peer", 1.10, worst(against(PAIRS, net)), worst(against(PAIRS, gross))),
        ("512 threads / best peer", 0.85, session.ratio(OURS, MANY, net), session.ratio(OURS, MANY, gross)),
        ("KiB an idle thread, stack included", 20, gross(OURS, IDLE), None),
        ("RSS / live, geomean of 17 cells", 1.50, geomean([gross(OURS, metric) for metric in PER_LIVE]), None),
        ("shifting sizes, worst RSS / live", 2.5, gross(OURS, WORST), None),
        ("MiB left 1.5 s after freeing all", 10, gross(OURS, LEFT), None),
    ]
    for metric in AGGRESSIVE:
        name = metric.title.removesuffix(", ns") + " / best peer"
        rows.append((name, 1.15, session.ratio(OURS, metric, net), session.ratio(OURS, metric, gross)))
    rows.append(("aggressive, MiB", 53, gross(OURS, AGGRESSIVE_RSS), None))
    for metric in LARSONS:
        name = metric.title.removesuffix(", ns a pair") + ", CPU a pair / best peer"
        rows.append((name, 1.0, session.ratio(OURS, metric, net), session.ratio(OURS, metric, gross)))
    rows.append(("larson 16, MiB", 55, gross(OURS, LARSON_RSS), None))
    for metric in [*CROSS, *LARGE]:
        rows.append((metric.title + " / best peer", 1.15, session.ratio(OURS, metric, net),
                     session.ratio(OURS, metric, gross)))
    rows.append((f"hardened, {HARDENED_PAIR.title}", 20, net(HARDENED, HARDENED_PAIR), gross(HARDENED, HARDENED_PAIR)))
    return rows


def number(value):
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def target_table(session):
    lines = ["| metric | target | measured | with the generator | |", "|---|---|---|---|---|"]
    for name, bound, measured, with_generator in targets(session):
        verdict = "not measured" if measured is None else "met" if measured <= bound else "**missed**"
        lines.append(f"| {name} | <= {bound:g} | {number(measured)} | {number(with_generator)} | {verdict} |")
    return lines


def figure_table(session):
    """All allocators: net minimum, and the median in brackets."""
    lines = [
        "| metric | " + " | ".join(session.allocators) + " | generator |",
        "|---|" + "---|" * (len(session.allocators) + 1),
    ]
    summaries = [
        ("replacement, geomean of 17 cells / best peer of each",
         lambda name: geomean(session.ratios(name, PAIRS, session.net))),
        ("the same, with the generator", lambda name: geomean(session.ratios(name, PAIRS, session.gross))),
        ("RSS / live, geomean of 17 cells",
         lambda name: geomean([session.gross(name, metric) for metric in PER_LIVE])),
    ]
    for title, value in summaries:
        values = [value(name) for name in session.allocators]
        if any(value is not None for value in values):
            lines.append(f"| {title} | " + " | ".join(map(number, values)) + " | |")
    for metric in SHOWN:
        cells = [
            f"{number(session.net(name, metric))} ({number(session.net(name, metric, statistics.median))})"
            for name in session.allocators
        ]
        if any(session.gross(name, metric) is not None for name in session.allocators):
            own = number(session.own(metric)) if metric.own else ""
            lines.append(f"| {metric.title} | " + " | ".join(cells) + f" | {own} |")
    return lines


def report(session, arguments, described):
    versions = [f"- {name}: {version}" for name, version in described["allocators"].items()]
    huge = described["transparent_huge_pages"]
    lines = [
        f"# Heap, {datetime.date.today().isoformat()}",
        "",
        "Made by",
        "",
        "    " + " ".join(["benchmarks/heap/run.py", *arguments]),
        "",
        f"on {described['cpus']} CPUs ({described['cpu']}), {described['mem_total']}, Linux {described['kernel']}, "
        f"transparent huge pages {huge}, load average {described['load_average_at_start']:.2f} at the start.",
        "",
        *versions,
        "",
        f"Not compared, as they are not packaged as libraries to preload: {LEFT_OUT}.",
        "",
    ]
    if OURS in session.allocators:
        lines += ["## Targets", "", "Smaller is better; a peer is any of the others, the best one in each row.", ""]
        lines += [*target_table(session), ""]
    lines += [
        "## Results",
        "",
        "Minimum over the repeats (median in brackets). CPU time, without the generator's share, which is in the last",
        "column if it is subtracted. RSS is its growth since before the first block.",
        "",
        *figure_table(session),
        "",
    ]
    if session.failures:
        lines += ["## Failures", "", *[f"- {failure}" for failure in session.failures], ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heap_load")
    parser.add_argument("--library", type=pathlib.Path, help="our allocator, as a library to preload")
    parser.add_argument("--repeat", type=int, help="runs of each cell and allocator; 5, with --quick 3")
    parser.add_argument("--seconds", type=float, help="time of each timed load; 1, with --quick 0.2")
    parser.add_argument("--quick", action="store_true", help="shorter, for iterating; writes nothing without --output")
    parser.add_argument("--only", type=re.compile, help="only the cells whose name matches")
    parser.add_argument("--output", type=pathlib.Path, help="folder to write; benchmarks/DATE-heap")
    arguments = parser.parse_args()
    repeat = arguments.repeat or (3 if arguments.quick else 5)
    seconds = arguments.seconds or (0.2 if arguments.quick else 1)
    heap_load = str(pathlib.Path(arguments.heap_load).resolve())
    cells = [cell for cell in CELLS if not arguments.only or arguments.only.search(cell.name)]
    if not cells:
        parser.error(f"no cell matches; there are: {'; '.join(cell.name for cell in CELLS)}")
    allocators = find_rivals()
    if arguments.library:
        if not arguments.library.is_file():
            parser.error(f"{arguments.library} is no file; `just heap-builds` makes it")
        allocators[OURS] = allocators[HARDENED] = arguments.library.resolve()
    missing = [name for name, _ in RIVALS if name not in allocators]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}", file=sys.stderr)
    described = machine(allocators)
    session, raw = Session(allocators), []
    names = list(allocators)
    for nth in range(repeat):
        for at, cell in enumerate(cells):
            first = (nth + at) % len(names)
            for name in names[first:] + names[:first]:
                line = measure(heap_load, cell, name, allocators[name], seconds)
                session.add(name, cell, line)
                raw.append({"repeat": nth, "cell": cell.name, "preloaded": name, **line})
        print(f"repeat {nth + 1} of {repeat} done", file=sys.stderr, flush=True)
    text = report(session, sys.argv[1:], described)
    print(text)
    output = arguments.output
    if output is None and not arguments.quick:
        output = pathlib.Path(__file__).resolve().parent.parent / f"{datetime.date.today().isoformat()}-heap"
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / "README.md").write_text(text)
        (output / "raw.jsonl").write_text("".join(json.dumps(line) + "\n" for line in raw))
        (output / "machine.json").write_text(json.dumps(described, indent=2) + "\n")
        print(f"written: {output}", file=sys.stderr)
    return 1 if session.failures else 0


if __name__ == "__main__":
    sys.exit(main())
