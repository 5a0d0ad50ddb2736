#!/usr/bin/env python3
"""Runs `plimsoll guard` beside real thrashing for a long time, with kills and signals by chance, as root on zram.

Each round runs an experiment of the thrashing benchmark, e1 to e4, once, with a size and a policy by chance. In mode
`trial` the trial has its own guard. In mode `beside` a separate `plimsoll guard` guards its cgroup; only there can the
policy be `kill`, and the trial fail. In a third of the rounds the script kills the run or the separate guard (SIGKILL);
`plimsoll cleanup`, `guard --release` or another guard then undoes what is left. In another third it ends one of them by
SIGTERM or SIGINT. After a round it checks exit codes, decisions of the separate guard, stopped processes, processes of
the program, swaps, zram devices, cgroups and journals. The seed repeats the order of rounds, not their timing.

Usage: benchmarks/guard/soak.py [--minutes 60] [--seed N] PLIMSOLL
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STATE = pathlib.Path(os.environ.get("PLIMSOLL_STATE_DIR") or "/var/lib/plimsoll")
POLICIES = ["auto", "relay", "packs", "token", "freeze-last", "swap-largest"]
SIZES = [[], ["scale=0.5"], ["scale=0.25", "W={writes}"], ["scale=0.1", "W={writes}"], ["N=12", "limit=480M"]]
PATIENCE = 15  # Seconds for the end of a process, and for what the kernel does later.


def wait_for(met, seconds):
    deadline = time.monotonic() + seconds
    while not (is_met := met()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return bool(is_met)


class Machine:
    """The state of the machine before the soak, and what has changed since. Only the soak runs this copy `program`."""

    def __init__(self, program):
        self.program = program
        self.before = self.now()

    def now(self):
        stopped, own = set(), set()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError, IndexError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                stopped |= {(int(pid), fields[19])} if fields[0] == "T" else set()
                own |= {int(pid)} if os.readlink(f"/proc/{pid}/exe") == self.program else set()
        swaps = [line.split() for line in pathlib.Path("/proc/swaps").read_text().splitlines()[1:]]
        groups = [f"{path}/{name}" for path, names, _ in os.walk("/sys/fs/cgroup") for name in names]
        return {
            "stopped": stopped,
            "processes": own,
            "swaps": {(name, kind, size, priority) for name, kind, size, _, priority in swaps},
            "zram": {(str(path), path.read_text()) for path in pathlib.Path("/sys/block").glob("zram*/disksize")},
            "cgroups": {path for path in groups if "/plimsoll-" in path},
            "journals": set(os.listdir(STATE / "runs")) if (STATE / "runs").is_dir() else set(),
        }

    def new(self, what):
        return self.now()[what] - self.before[what]

    def differences(self):
        now = self.now()
        now["stopped"] |= self.before["stopped"]  # Another program may have continued one.
        return [f"expected {key} {old}, found {now[key]}" for key, old in self.before.items() if now[key] != old]

    def locks_are_free(self):
        held = pathlib.Path("/proc/locks").read_text()
        return not any(f":{lock.stat().st_ino} " in held for lock in STATE.glob("*.lock"))

    def undo(self):
        """Ends all that a round has started, and undoes its changes. Returns what is not as before."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.new("processes"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            wait_for(lambda: not self.new("processes"), 60)
        subprocess.run([self.program, "cleanup", "--quiet"], check=False)
        return self.differences()


class Round:
    """One trial with its guard."""

    def __init__(self, machine, folder, chance):
        self.machine, self.folder, self.chance = machine, folder, chance
        self.errors, self.stops, self.how = [], 0, "to the end"
        self.mode, self.experiment = chance.choice(["trial", "beside"]), chance.choice(["e1", "e2", "e3", "e4"])
        self.policy = chance.choice([*POLICIES, "kill"] if self.mode == "beside" else POLICIES)
        size = [key.format(writes=1000 if self.experiment == "e1" else 10000) for key in chance.choice(SIZES)]
        self.keys = size + ([] if self.experiment == "e4" else [f"tc={chance.choice([0.2, 0.5])}"])

    def start(self, name, *words):
        with open(self.folder / f"{name}.out", "w") as output, open(self.folder / f"{name}.err", "w") as said:
            child = subprocess.Popen([self.machine.program, *words], stdout=output, stderr=said, start_new_session=True)
        child.name = name
        return child

    def check(self, holds, expected, found):
        self.errors += [] if holds else [f"expected {expected}, found {found}"]

    def check_end(self, child, seconds, *codes):
        wait_for(lambda: child.poll() is not None, seconds)
        self.how += f", {child.name} {child.returncode}"
        self.check(child.returncode in codes, f"{child.name} to end with {codes}", child.returncode)

    def check_decisions(self, guard, is_killed):
        lines = (self.folder / f"{guard.name}.out").read_text().splitlines()
        try:
            told = [json.loads(line) for line in lines]
            self.stops += [line["decision"] for line in told if line["text"]].count("stopped")
            is_whole = is_killed or (told[-1]["decision"], told[-1]["left"]) == ("ended", 0)
        except (ValueError, LookupError, TypeError):
            is_whole = False
        self.check(is_whole, f"decisions of {guard.name} as JSON, with `ended` and none left at the end", lines)

    def clean_up(self):
        for _ in range(60):
            child = self.start("cleanup", "cleanup")
            wait_for(lambda: child.poll() is not None, 120)
            # It keeps a journal while a run of another program, which may use the same devices, is under way.
            if child.returncode != 3 or "is under way" not in (self.folder / "cleanup.out").read_text():
                break
            time.sleep(5)
        self.check_end(child, 1, 0)

    def continue_stopped(self, group):
        held = {pid for pid, _ in self.machine.new("stopped")}
        time.sleep(self.chance.uniform(0, 3))
        again = ["guard", "--json", "--duration", "3", "--policy", self.policy, "--cgroup", group]
        words = self.chance.choice([["cleanup"], ["cleanup"], ["guard", "--release", "--json"], again])
        words = words if os.path.isdir(group) else ["cleanup"]
        self.check_end(self.start("remedy", *words), 60, *([0, 2] if words is again else [0]))
        told = (self.folder / "remedy.out").read_text()
        self.check(all(f"stop of process {pid}" in told for pid in held), f"{words} to continue {held}", told)
        self.how += f", {' '.join(words[:2])} for {len(held)} stopped"

    def play(self):
        chance, new, guard = self.chance, self.machine.new, None
        together = chance.randint(15, 35) + 25 * (self.policy == "kill")  # That policy waits for 30 s.
        keys = [f"together={together}", f"guard={'none' if self.mode == 'beside' else self.policy}", *self.keys]
        keys += ["subject=zram", "hold=2", "repeat=1", f"--seed={chance.randrange(1 << 32)}", "--wait=300"]
        run = self.start("run", "run", f"thrash-{self.experiment}", *keys, "--output", f"{self.folder}/recordings")
        if self.mode == "beside":
            def groups():
                names = [path.name for path in self.folder.glob("recordings/*")]
                return [path for path in new("cgroups") if any(name in path for name in names)]

            wait_for(lambda: groups() or run.poll() is not None, 360)
            group = next(iter(groups()), "no cgroup")
            time.sleep(chance.uniform(0, 5))
            guard = self.start("guard", "guard", "--cgroup", group, "--policy", self.policy, "--json")
        victim, delay = chance.choice([run, guard, guard]) if guard else run, chance.uniform(0, together + 15)
        number = chance.choice([None, signal.SIGKILL, chance.choice([signal.SIGTERM, signal.SIGINT])])
        if number and self.policy not in ("token", "kill") and chance.random() < 0.6:
            wait_for(lambda: new("stopped") or victim.poll() is not None, together + 20)
            delay = chance.uniform(0, 8)
        if not number or wait_for(lambda: victim.poll() is not None, delay):
            victim = number = None
        else:
            victim.send_signal(number)
            self.how = f"{number.name} of the {victim.name}"
            wait_for(lambda: victim.poll() is not None, 60)
            # A signal may come when the trial is over, and its cgroup removed.
            usual = [0, 5, 7] if victim is run else [0] if pathlib.Path(group).exists() else [0, 2]
            self.check_end(victim, 1, *([-9] if number == signal.SIGKILL else usual))
        if victim is run and number == signal.SIGKILL:
            ended = wait_for(lambda: new("processes") <= {guard and guard.pid}, PATIENCE)
            self.check(ended, "the end of the workers of a killed run", new("processes"))
            self.clean_up()
        elif number == signal.SIGKILL:
            self.continue_stopped(group)
        if victim not in (None, run):
            self.check(wait_for(lambda: not new("stopped"), PATIENCE), "no stopped process", new("stopped"))
        if victim is not run:
            # A trial ends with a consumer that the guard kills. A trial has a time limit.
            self.check_end(run, 450, *([0, 2, 5, 7] if self.policy == "kill" else [0, 7]))
        if guard:
            self.check_end(guard, PATIENCE, guard.returncode if victim is guard else 2)
            self.check_decisions(guard, victim is guard and number == signal.SIGKILL)
        trials = self.folder.glob("recordings/*/trials.jsonl") if run.returncode in (0, 7) else []
        self.stops += round(sum(json.loads(trial.read_text())["metrics"].get("guard_stops") or 0 for trial in trials))
        # Runs and guards of other programs change the machine too.
        wait_for(lambda: not self.machine.differences() or new("processes") or self.machine.locks_are_free(), 3600)
        wait_for(lambda: not self.machine.differences(), PATIENCE)
        self.errors += self.machine.differences()
        self.text = f"{self.mode} {self.experiment} {' '.join(self.keys)} {self.policy}: {self.how}, {self.stops} stops"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll", metavar="PLIMSOLL")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    chance, totals, begun, left = random.Random(options.seed), collections.Counter(rounds=0), time.monotonic(), []
    if any(Machine("").before[what] for what in ("cgroups", "journals")):
        sys.exit("another run or guard works, or needs `plimsoll cleanup`")
    root = pathlib.Path(tempfile.mkdtemp(prefix="guard-soak-")).resolve()
    machine = Machine(shutil.copy(options.plimsoll, f"{root}/plimsoll"))
    try:
        while not left and time.monotonic() < begun + 60 * options.minutes:
            start, current = time.monotonic(), Round(machine, pathlib.Path(tempfile.mkdtemp(dir=root)), chance)
            current.play()
            counts = {"rounds": 1, current.policy: 1, "stops": current.stops, "kills -9": current.how.count("KILL")}
            totals.update(counts, failures=len(current.errors))
            print(f"{time.strftime('%T')} {current.text}, {time.monotonic() - start:.0f} s", flush=True)
            if current.errors:
                print(*current.errors, f"evidence: {current.folder}", sep="\n", flush=True)
                shutil.copytree(STATE / "runs", current.folder / "journals")
                left = machine.undo()
            else:
                shutil.rmtree(current.folder)
    finally:
        signal.signal(signal.SIGINT, lambda *_: None)  # Not SIG_IGN, which `cleanup` would inherit.
        left = machine.undo()
        (root / "plimsoll").unlink() if totals["failures"] else shutil.rmtree(root)
        summary = totals | {"seconds": round(time.monotonic() - begun), "seed": options.seed}
        print(*left, ", ".join(f"{name} {count}" for name, count in summary.items()), sep="\n")
    return 1 if left or totals["failures"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
