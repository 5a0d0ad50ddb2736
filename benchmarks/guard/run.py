#!/usr/bin/env python3
"""Measures thrash control: experiments of the thrashing benchmark without a guard and with policies of `plimsoll guard`.

Runs each experiment at its full size with all policies in one run per round, in random order, and compares the policies
with no guard within each round. Consumers start half a second apart and work together for a minute. Prints Markdown,
and writes a JSON line for each trial to RAW. The policy `earlyoom` is no guard, with the program earlyoom beside the trial.

Usage: benchmarks/guard/run.py [--rounds 3] [--experiments e1,e2] [--policies relay,packs] [--subject zram] [--keys N=9]
                               PLIMSOLL RAW
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import paired  # noqa: E402

# Name, text, and whether the ratio to no guard is stated.
METRICS = [
    ("together_cycles_per_s", "cycles/s", True),
    ("fairness_ratio", "fairness", False),
    ("load_wakeup_p99_s", "wake-up p99, ms", True),
    ("second_half_wakeup_p99_s", "wake-up p99, second half, ms", True),
    ("neighbour_p99_s", "wake-up p99 outside of the cgroup, ms", True),
    ("load_launch_p99_s", "launch p99, ms", True),
    ("recovery_s", "recovery, s", False),
    ("guard_cpu_percent", "CPU of the guard, %", False),
]


def run(program, experiment, policies, seed, subject, together, more):
    """The trials of one round, by policy."""
    with tempfile.TemporaryDirectory() as folder:
        guard = "[" + ", ".join(f'"{policy}"' for policy in ["none", *policies]) + "]"
        keys = [f"subject={subject}", "tc=0.5", f"together={together}", "hold=3", f"guard={guard}", "repeat=1", *more]
        command = [program, "run", f"thrash-{experiment}", *keys, "--seed", str(seed), "--quiet", "--output", folder]
        ended = subprocess.run(command, capture_output=True, text=True)
        # 7: done, but a busy machine disturbed some metrics.
        if ended.returncode not in (0, 7):
            sys.exit(f"{' '.join(command)}: exit code {ended.returncode}\n{ended.stderr}")
        recording = next(pathlib.Path(folder).iterdir())
        trials = [json.loads(line) for line in (recording / "trials.jsonl").read_text().splitlines()]
    return [
        {
            "experiment": experiment,
            "policy": dict(trial["params"]).get("guard", policies[0] if policies else "none"),
            "seed": seed,
            "status": trial["status"],
            "metrics": trial["metrics"],
        }
        for trial in trials
    ]


@contextlib.contextmanager
def earlyoom():
    """Runs earlyoom with its own settings for the machine, and prints how often it killed."""
    program = shutil.which("earlyoom", path="/usr/bin:/usr/sbin:/usr/local/bin")
    if not program:
        sys.exit("cannot run earlyoom: there is no such program; install the package earlyoom")
    with tempfile.TemporaryFile("w+") as log:
        daemon = subprocess.Popen([program, "-r", "0"], stdout=log, stderr=log)
        try:
            yield
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
            log.seek(0)
            # At its start, it also prints a line "sending SIGTERM when ...".
            kills = sum(line.startswith("sending SIG") and " to process " in line for line in log)
            print(f"earlyoom: {kills} kills")


def round_of(program, experiment, policies, *options):
    """The trials of one round, those beside earlyoom after the others."""
    own = [policy for policy in policies if policy != "earlyoom"]
    trials = run(program, experiment, own, *options)
    if "earlyoom" in policies:
        with earlyoom():
            beside = run(program, experiment, [], *options)
        trials += [trial | {"policy": "earlyoom"} for trial in beside]
    return trials


def text(values, scale, digits):
    if not values:
        return "-"
    return " ".join(f"{scale * value:.{digits}f}" for value in values)


def ratio(trials, bases, metric):
    pairs = [
        trial["metrics"][metric] / base["metrics"][metric]
        for trial, base in zip(trials, bases)
        if trial["metrics"].get(metric) is not None and base["metrics"].get(metric)
    ]
    if not pairs:
        return "-"
    median, low, high = paired.interval(pairs)
    return f"{median:.2f} ({low:.2f}-{high:.2f})"


def table(trials, experiment):
    heads = ["policy"]
    for _, name, compared in METRICS:
        heads += [name, "ratio"] if compared else [name]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    of = [trial for trial in trials if trial["experiment"] == experiment]
    policies = list(dict.fromkeys(["none", *(trial["policy"] for trial in of)]))
    bases = {trial["seed"]: trial for trial in of if trial["policy"] == "none"}
    for policy in policies:
        own = sorted((trial for trial in of if trial["policy"] == policy), key=lambda trial: trial["seed"])
        cells = [policy]
        for metric, name, compared in METRICS:
            values = [trial["metrics"][metric] for trial in own if trial["metrics"].get(metric) is not None]
            scale = 1000 if name.endswith("ms") else 1
            cells.append(text(values, scale, 1 if scale > 1 or metric.startswith("together") else 2))
            if compared:
                base = [bases[trial["seed"]] for trial in own]
                cells.append("" if policy == "none" else ratio(own, base, metric))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--experiments", default="e1,e2")
    parser.add_argument("--policies", default="relay,packs,token,freeze-last,swap-largest")
    parser.add_argument("--subject", default="zram")
    parser.add_argument("--together", type=float, default=60)
    parser.add_argument("--keys", default="", help="more keys of the scenario, for example N=9")
    parser.add_argument("program")
    parser.add_argument("raw", type=pathlib.Path)
    options = parser.parse_args()
    print(json.dumps(paired.machine()))
    trials = []
    for seed in range(1, options.rounds + 1):
        for experiment in options.experiments.split(","):
            found = round_of(
                options.program,
                experiment,
                options.policies.split(","),
                seed,
                options.subject,
                options.together,
                options.keys.split(",") if options.keys else [],
            )
            trials += found
            with options.raw.open("a") as raw:
                raw.writelines(json.dumps(trial) + "\n" for trial in found)
    for experiment in options.experiments.split(","):
        print(f"\n## {experiment}, {options.subject} {options.keys}\n\n{table(trials, experiment)}")


if __name__ == "__main__":
    main()
