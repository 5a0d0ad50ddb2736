#!/usr/bin/env python3
"""Checks that two runs of the same scenario on the same machine agree.

Runs each scenario twice in succession and compares the runs by `plimsoll compare`. Every tested metric counts once: it agrees unless it moved by more than the threshold and more than chance (verdict worse, better or
changed). At least nine of ten must agree in each scenario; otherwise the exit code is 1. A metric with too few repeats for a
verdict does not count, nor one of disturbed trials; a comparison with verdicts on less than half fails.

Writes a folder: summary.md, commands, host.json, and compare-SCENARIO.json for each.

Usage: benchmarks/repeatability/run.py [--repeat 6] [--set KEY=VALUE]... [--output DIR] [--keep DIR] PLIMSOLL [SCENARIO]...
The default scenario is wscap; use a release build, on an idle machine.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

# Minimum of values on each side for a verdict of `plimsoll compare`.
FEWEST = 5
# Share of the metrics that must agree.
AGREE = 0.9
MOVED = ("worse", "better", "changed")
# Exit codes of comparable runs: done, and done with disturbance, which the comparison considers.
USABLE = (0, 7)
# The properties of the machine that affect metrics. Its name does not, and is private.
HOST = ("kernel", "cpu", "cpus", "mem_total", "page_size", "cgroup", "swap_before", "virtualization", "settings")


def run(command, log, usable=(0,)):
    """Carries out a command, notes it, and returns its standard output."""
    log.append(command)
    print("+ " + " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in usable:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: cannot compare")
    return done.stdout


def recording(plimsoll, scenario, arguments, folder, log):
    """Runs a scenario into a folder of its own; returns the folder of the recording."""
    sets = [word for change in arguments.set for word in ("--set", change)]
    command = [plimsoll, "run", scenario, *sets, "--repeat", str(arguments.repeat), "--wait", "--quiet", "--json"]
    run([*command, "--output", str(folder)], log, USABLE)
    (made,) = folder.iterdir()
    return made


def judge(comparison):
    """Splits the metrics that are tested into those that agree, those that moved, and those without a verdict."""
    agree, moved, unjudged = [], [], []
    for row in comparison["rows"]:
        if row.get("restates"):
            continue
        sides = [row[side] for side in ("baseline", "other")]
        if row["verdict"] in MOVED:
            moved.append(row)
        elif min(len(side["values"]) for side in sides) < FEWEST or any(side["untrustworthy"] for side in sides):
            unjudged.append(row)
        elif row["verdict"] != "same" and not row.get("interval"):
            # A value of 0 has no ratio.
            unjudged.append(row)
        else:
            agree.append(row)
    return agree, moved, unjudged


def passes(agree, moved, unjudged):
    """Nine of ten of what can be judged agree, and at least half can: what was disturbed proves nothing."""
    judged = len(agree) + len(moved)
    return bool(agree) and len(agree) >= AGREE * judged and judged >= len(unjudged)


def lines_of(scenario, comparison):
    """The summary of a scenario, and whether it passes."""
    agree, moved, unjudged = judge(comparison)
    good = passes(agree, moved, unjudged)
    judged = len(agree) + len(moved)
    share = f" ({100 * len(agree) / judged:.0f}%)" if judged else ""
    lines = [f"## {scenario}", "", f"**{'passes' if good else 'FAILS'}**: {len(agree)} of {judged} metrics agree{share}."]
    if unjudged:
        lines[-1] += f" {len(unjudged)} have fewer than {FEWEST} trustworthy values on a side, or values of 0, and do not count."
    for run_of in comparison["runs"]:
        lines[-1] += (
            f" Run {run_of['letter']}: {run_of['trials']} trials, {run_of['failed']} failed, "
            f"{run_of['untrustworthy']} untrustworthy."
        )
    if moved:
        lines += ["", "| group | metric | change | interval | p | p (Holm) |", "|---|---|---|---|---|---|"]
    for row in moved:
        low, high = row.get("interval") or (float("nan"), float("nan"))
        cells = [f"{100 * (row['change'] or 0):+.1f}%", f"{100 * low:+.1f}% to {100 * high:+.1f}%"]
        cells += [f"{row[p]:.3g}" if row.get(p) is not None else "" for p in ("p", "p_holm")]
        lines.append(f"| {row['group']} | {row['metric']} | {' | '.join(cells)} |")
    return [*lines, ""], good


def check(scenario, arguments, keep, output, log):
    """Runs a scenario twice and compares; returns its summary, whether it passes, and the machine."""
    stem = pathlib.Path(scenario).stem
    pair = []
    for letter in "ab":
        folder = keep / f"{stem}-{letter}"
        folder.mkdir(parents=True)
        pair.append(recording(arguments.plimsoll, scenario, arguments, folder, log))
    text = run([arguments.plimsoll, "compare", *map(str, pair), "--json"], log)
    (output / f"compare-{stem}.json").write_text(text)
    manifest = json.loads((pair[0] / "manifest.json").read_text())
    lines, good = lines_of(stem, json.loads(text))
    return lines, good, manifest


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeat", type=int, default=6, help="repeats of each run, at least 5 (default 6)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for `plimsoll run`")
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    default = pathlib.Path(__file__).resolve().parent.parent / f"{today}-repeatability"
    parser.add_argument("--output", type=pathlib.Path, default=default, help="folder of the result")
    parser.add_argument("--keep", type=pathlib.Path, help="folder to keep the recordings in")
    parser.add_argument("plimsoll", help="the program, a release build")
    parser.add_argument("scenarios", nargs="*", default=["wscap"], metavar="scenario")
    arguments = parser.parse_args()
    if arguments.repeat < FEWEST:
        parser.error(f"--repeat must be at least {FEWEST}: there is no verdict on fewer")
    arguments.output.mkdir(parents=True, exist_ok=True)
    log, told, passed, manifest = [], [], True, {}
    with tempfile.TemporaryDirectory(prefix="repeatability-", dir="/var/tmp") as temporary:
        keep = arguments.keep or pathlib.Path(temporary)
        for scenario in arguments.scenarios:
            lines, good, manifest = check(scenario, arguments, keep, arguments.output, log)
            told += lines
            passed = passed and good
    host = {name: manifest["host"].get(name) for name in HOST}
    (arguments.output / "host.json").write_text(json.dumps(host, indent=2) + "\n")
    # The folder of the recordings is irrelevant.
    commands = "\n".join(" ".join(command).replace(str(keep), "RECORDINGS") for command in log)
    (arguments.output / "commands").write_text(commands + "\n")
    head = [
        "# Whether two runs of the same scenario agree",
        "",
        f"{today}, plimsoll {manifest['tool_version']}, Linux {host['kernel']}, {host['cpus']} CPUs, "
        f"{host['mem_total'] / 2**30:.0f} GiB. Each run {arguments.repeat} times each combination; see `commands`.",
        "",
    ]
    summary = "\n".join(head + told)
    (arguments.output / "summary.md").write_text(summary)
    print(summary)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
