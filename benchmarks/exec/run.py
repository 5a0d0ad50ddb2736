#!/usr/bin/env python3
"""Compares real programs under `plimsoll exec` with the kernel's memory cgroup on zram and with their native run, as root.

Each round begins with starts of `true`, native and on the pager. Then it runs each program natively and with each budget once
on each engine, one after another, in a folder of its own: a ratio is that of two runs of the same round, its value the median
over the rounds with an interval of 95 % (bootstrap). The output of every run has to equal that of the native one.

The limit of the kernel does not count the copies in zram: their most is a column of the table. So the engine kernel runs once
more with its limit lowered by the size of its copies: both engines then have the budget as RAM.

The engine pager runs as user nobody, where it serves system calls by a filter; the engine kernel as root, with zram of LZ4.
Budgets: half and a quarter of the RAM of the largest process, and 1 GiB, which all of them fit in.

Prints the table, and writes a folder: README.md, raw.jsonl (a line a run, and one for the starts of each round),
machine.json. The exit code is 1 if a run failed; one that the OOM killer of its own memory cgroup ended is a result of the
kernel, and is counted.

Usage: benchmarks/exec/run.py [--rounds 5] [--quick] [--programs sqlite3,xz] [--output DIR] PLIMSOLL
PLIMSOLL is a release build: `just bench-exec` builds it. No other swap may be in use.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
from paired import interval, machine

SOURCES = pathlib.Path(__file__).resolve().parent.parent.parent / "crates/plimsoll/tests/programs"
TIMEOUT = 600
FITS = "1G"
NATIVE, KERNEL, PAGER = "native", "kernel", "pager"
# The engine kernel with a limit that leaves room for its copies.
EQUAL = "kernel, same RAM"
# The least limit in bytes that is tried, and tries to find one for a budget.
LEAST, TRIES = 2 << 20, 5
# Output where the OOM killer ended the program or one of its children: of plimsoll, g++ and git.
KILLED = ("OOM killer", "Killed signal", "died of signal 9")
LINES = "awk 'BEGIN { srand(7); for (n = 0; n < 300000; n++) printf \"%d %d\\n\", rand() * 1e9, n * 7919 }' >lines"
REPOSITORY = (
    "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org; "
    "git init -q -b main .; for n in $(seq 30); do seq $((n * 1000)) $((n * 1000 + 60000)) >file$((n % 3)); git add .; "
    'git commit -q -m "Change $n"; done'
)
# Program: command, file that it reads, commands before it, commands that print its result, budgets in MiB.
PROGRAMS = {
    "python3": (["python3", "everything.py"], "everything.py", "", "", [96, 48]),
    "sqlite3": (["sqlite3", "data.db", ".read numbers.sql"], "numbers.sql", "", "sha256sum data.db", [104, 52]),
    "g++": (["g++", "-std=c++17", "-c", "-o", "regex.o", "regex.cc"], "regex.cc", "", "sha256sum regex.o", [128, 64]),
    "perl": (["perl", "words.pl"], "words.pl", "", "", [36, 18]),
    "sort": (["sort", "-S", "256M", "-o", "sorted", "lines"], None, LINES, "sha256sum sorted", [12, 6]),
    "xz": (["xz", "--lzma2=preset=0,dict=16MiB", "-T1", "-k", "lines"], None, LINES, "sha256sum lines.xz", [24, 12]),
    "git gc": (["git", "gc", "-q", "--aggressive"], None, REPOSITORY, "git fsck --strict", [16, 8]),
    "node": (["node", "everything.js"], "everything.js", "", "", [96, 48]),
    "java": (["java", "-Xmx256m", "Everything"], "Everything.java", "javac Everything.java", "", [96, 48]),
}
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0"}
AS_NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
# The target of the median ratio of the pager to the kernel, of the worst program, and to the native run where all fits.
MEDIAN, WORST, FITTING = 1.0, 1.5, 1.03
# The target in ms of the time that the pager adds to `true`, and the pairs of runs in a round.
START, STARTS = 15, 20


def prefix(engine, ram, plimsoll):
    if engine == NATIVE:
        return AS_NOBODY
    if engine in (KERNEL, EQUAL):
        return [plimsoll, "exec", "--ram", ram, "--engine", "kernel", "--swap", "zram:lz4", "--quiet", "--"]
    return [*AS_NOBODY, plimsoll, "exec", "--ram", ram, "--engine", "pager", "--quiet", "--"]


class Copies:
    """The most bytes of the copies in zram devices, while a program runs."""

    def __init__(self):
        self.most, self.ended = 0, threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def sample(self):
        while not self.ended.wait(0.02):
            used = 0
            for device in pathlib.Path("/sys/block").glob("zram*"):
                with contextlib.suppress(OSError):
                    used += int((device / "mm_stat").read_text().split()[2])
            self.most = max(self.most, used)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def run(program, engine, ram, plimsoll):
    """One run: its wall-clock time, the copies beside its limit and its output, or an error."""
    command, source, before, after, _ = PROGRAMS[program]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        environment = ENVIRONMENT | {"HOME": folder, "XDG_CACHE_HOME": str(pathlib.Path(plimsoll).parent / "cache")}
        if source:
            shutil.copy(SOURCES / source, folder)

        def shell(commands):
            return subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True,
                                  check=False)

        prepared = shell(before)
        if prepared.returncode:
            return {"error": f"before it: {prepared.stderr[-300:]}"}
        if engine not in (KERNEL, EQUAL):
            subprocess.run(["chown", "-R", "nobody:nogroup", folder], check=True)
        start = time.monotonic()
        with Copies() as copies, subprocess.Popen(
            [*prefix(engine, ram, plimsoll), *command], cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as child:
            try:
                output, _ = child.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
                return {"error": f"did not end within {TIMEOUT} s"}
        seconds = time.monotonic() - start
        # A memory cgroup that ends the program: a result, not a failure of the benchmark.
        if engine in (KERNEL, EQUAL) and (child.returncode == -signal.SIGKILL or any(text in output for text in KILLED)):
            return {"oom": True}
        if child.returncode:
            return {"error": f"exit code {child.returncode}: {output.strip()[-300:]}"}
        subprocess.run(["chown", "-R", "root:root", folder], check=True)
        beside = {"zram_bytes": copies.most} if engine in (KERNEL, EQUAL) else {}
        return {"seconds": seconds, **beside, "output": output + shell(after).stdout}


def limit_beside_copies(program, mib, plimsoll):
    """The limit in bytes with which the program and its copies in zram have so many MiB, or the reason why there is none."""
    budget = limit = mib << 20
    for _ in range(TRIES):
        line = run(program, EQUAL, str(limit), plimsoll)
        if "error" in line:
            raise RuntimeError(f"{program}, {EQUAL}, {limit}: {line['error']}")
        if "oom" in line:
            return f"killed at {limit / 2**20:.1f}"
        if abs(limit + line["zram_bytes"] - budget) <= budget // 50:
            return limit
        limit = budget - line["zram_bytes"]
        if limit < LEAST:
            return "its copies alone are larger"
    return "none found"


def starts(plimsoll):
    """The ms that the pager adds to the run of a program that does nothing, of pairs of runs."""
    def milliseconds(engine):
        start = time.monotonic()
        subprocess.run([*prefix(engine, FITS, plimsoll), "true"], check=True, stdin=subprocess.DEVNULL,
                       env=ENVIRONMENT | {"XDG_CACHE_HOME": str(pathlib.Path(plimsoll).parent / "cache")})
        return (time.monotonic() - start) * 1000

    # The first start of all unpacks the library.
    milliseconds(PAGER)
    pairs = [(milliseconds(NATIVE), milliseconds(PAGER)) for _ in range(STARTS)]
    return [managed - native for native, managed in pairs]


def ratios(raw, program, ram, of, to):
    """Times of `of` over those of `to` in the same round. The native run has no budget."""
    def times(engine):
        budget = None if engine == NATIVE else ram
        return {line["round"]: line["seconds"] for line in raw if "seconds" in line and line.get("program") == program
                and line["engine"] == engine and line["ram"] == budget}
    mine, others = times(of), times(to)
    return [mine[nth] / others[nth] for nth in sorted(mine.keys() & others.keys())]


def shown(values):
    if not values:
        return "-"
    median, low, high = interval(values)
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def verdict(medians, bound):
    if not medians:
        return "not measured"
    return "met" if max(medians) <= bound else "**missed**"


def report(raw, limits, programs, described, options, failures):
    lines = [
        f"# exec, {datetime.date.today().isoformat()}", "", "Made by", "", "    just bench-exec " + " ".join(sys.argv[1:-1]), "",
        f"on {described['cpus']} CPUs ({described['cpu']}), {described['mem_total']}, Linux {described['kernel']}, "
        f"load average {described['load_average_at_start']:.2f} at the start; {options.rounds} rounds.", "",
        "Medians of the ratios of paired wall-clock times, with an interval of 95 %. OOM: runs that the OOM killer ended on the",
        "engine kernel, whose limit counts the page cache and kernel memory too. Its copies in zram are beside the limit: the kernel",
        "has that much more RAM than the pager, whose budget counts copies and tables.", "",
        "*Same RAM*: the kernel with its limit lowered by the size of its copies, so that both together were the budget, within 2 %.", "",
        "| program | RAM | native, s | pager / native | kernel / native | pager / kernel | copies in zram, MiB | OOM "
        "| pager / kernel, same RAM | its limit, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    tight, same, fitting = [], [], []
    for program in programs:
        native = [line["seconds"] for line in raw if line.get("program") == program and line["engine"] == NATIVE and "seconds" in line]
        for ram in [FITS, *(f"{mib}M" for mib in PROGRAMS[program][4])]:
            both = ratios(raw, program, ram, PAGER, KERNEL)
            alone = ratios(raw, program, ram, PAGER, NATIVE)
            killed = sum("oom" in line for line in raw if line.get("program") == program and line["ram"] == ram
                         and line["engine"] == KERNEL)
            copies = [line["zram_bytes"] for line in raw if line.get("program") == program and line["ram"] == ram
                      and line["engine"] == KERNEL and "zram_bytes" in line]
            cells = [program, ram, f"{statistics.median(native):.2f}" if native else "-", shown(alone),
                     shown(ratios(raw, program, ram, KERNEL, NATIVE)), shown(both),
                     f"{statistics.median(copies) / 2**20:.1f}" if copies else "-", str(killed or "")]
            beside = ratios(raw, program, ram, PAGER, EQUAL)
            limit = limits.get((program, ram), "-")
            ended = sum("oom" in line for line in raw if line.get("program") == program and line["ram"] == ram
                        and line["engine"] == EQUAL)
            cells += [shown(beside), (f"{limit / 2**20:.1f}" if isinstance(limit, int) else limit) + f" ({ended} OOM)" * bool(ended)]
            same += [statistics.median(beside)] if beside else []
            lines.append("| " + " | ".join(cells) + " |")
            if ram == FITS:
                fitting += [statistics.median(alone)] if alone else []
            else:
                tight += [statistics.median(both)] if both else []
    median = [statistics.median(tight)] if tight else []
    added = [added for line in raw for added in line.get("starts", [])]
    median_start = [statistics.median(added)] if added else []
    lines += [
        "", "| target | value | bound | |", "|---|---|---|---|",
        f"| added to the start of a program, ms | {shown(added)} | {START} | {verdict(median_start, START)} |",
        f"| pager / kernel, median of programs and budgets below the RAM | {median[0] if median else 0:.2f} | {MEDIAN} | {verdict(median, MEDIAN)} |",
        f"| pager / kernel, the worst of them | {max(tight, default=0):.2f} | {WORST} | {verdict(tight, WORST)} |",
        f"| pager / kernel, same RAM, median of those in which the program ends | {statistics.median(same) if same else 0:.2f} | {MEDIAN} | "
        f"{verdict([statistics.median(same)] if same else [], MEDIAN)} |",
        f"| pager / native, all fits, the worst | {max(fitting, default=0):.2f} | {FITTING} | {verdict(fitting, FITTING)} |", "",
    ]
    if failures:
        lines += ["## Failures", "", *[f"- {failure}" for failure in failures], ""]
    return "\n".join(lines)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll", metavar="PLIMSOLL")
    parser.add_argument("--rounds", type=int, help="5, with --quick 1")
    parser.add_argument("--quick", action="store_true", help="one round; writes nothing without --output")
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="names of programs, by commas")
    parser.add_argument("--output", type=pathlib.Path, help="folder to write; benchmarks/DATE-exec")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 5)
    unknown = set(options.programs.split(",")) - set(PROGRAMS)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    if len(pathlib.Path("/proc/swaps").read_text().splitlines()) > 1:
        parser.error("swap is in use, which the kernel would use beside the measured one")
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse()
    described, raw, failures, programs = machine(), [], [], options.programs.split(",")
    with tempfile.TemporaryDirectory() as folder:
        # User nobody has to reach the program, and to unpack its library.
        os.chmod(folder, 0o755)
        plimsoll = shutil.copy(options.plimsoll, folder)
        cache = pathlib.Path(folder) / "cache"
        cache.mkdir()
        shutil.chown(cache, "nobody", "nogroup")
        limits = {}
        for program, mib in ((program, mib) for program in programs for mib in PROGRAMS[program][4]):
            try:
                limits[program, f"{mib}M"] = limit_beside_copies(program, mib, plimsoll)
            except RuntimeError as error:
                failures.append(str(error))
        for nth in range(options.rounds):
            try:
                raw.append({"round": nth, "starts": starts(plimsoll)})
            except subprocess.CalledProcessError as error:
                failures.append(f"true, round {nth + 1}: {error}")
            for program in programs:
                turns = [(NATIVE, None)]
                for ram in [FITS, *(f"{mib}M" for mib in PROGRAMS[program][4])]:
                    turns += [(KERNEL, ram), (PAGER, ram)] if nth % 2 else [(PAGER, ram), (KERNEL, ram)]
                    if isinstance(limits.get((program, ram)), int):
                        turns.append((EQUAL, ram))
                expected = None
                for engine, ram in turns:
                    limit = limits[program, ram] if engine == EQUAL else None
                    line = run(program, engine, str(limit) if limit else ram, plimsoll)
                    output = line.pop("output", None)
                    expected = output if engine == NATIVE else expected
                    if output is not None and output != expected:
                        line = {"error": "its output is not that of the native run"}
                    raw.append({"round": nth, "program": program, "engine": engine, "ram": ram, **line} | ({"limit": limit} if limit else {}))
                    if "error" in line:
                        failures.append(f"{program}, {engine}, {ram}, round {nth + 1}: {line['error']}")
            print(f"round {nth + 1} of {options.rounds} done", file=sys.stderr, flush=True)
    text = report(raw, limits, programs, described, options, failures)
    print(text)
    output = options.output
    if output is None and not options.quick:
        output = pathlib.Path(__file__).resolve().parent.parent / f"{datetime.date.today().isoformat()}-exec"
    if output:
        output.mkdir(parents=True, exist_ok=True)
        (output / "README.md").write_text(text)
        (output / "raw.jsonl").write_text("".join(json.dumps(line) + "\n" for line in raw))
        (output / "machine.json").write_text(json.dumps(described, indent=2) + "\n")
        print(f"written: {output}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
