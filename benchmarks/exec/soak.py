#!/usr/bin/env python3
"""Runs programs under `plimsoll exec --engine pager` for a long time, with budgets and disturbances by chance, as root.

Each run has a program, a user (root or nobody), a budget between a sixth and all of the RAM that the program needs, a page file or
none, and a codec. Meanwhile, processes of its tree are stopped and continued (SIGSTOP, SIGCONT). In one of four runs a process
of the tree other than the first is killed (SIGKILL): it may fail then, but must end. The output of every other run has to equal
that of the program without a limit. Nothing may be left: no process of the tree, and no file in the folder for temporary files.

Prints a line a run, and a summary. The exit code is 1 if a run failed. The seed repeats the order of runs, not their timing.

Usage: benchmarks/exec/soak.py [--minutes 30] [--seed N] [--programs sort,xz] PLIMSOLL
"""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import run as bench

# Program: command, file that it reads, commands before it, commands that print its result, the MiB that it needs.
TREES = {
    "forked workers": (["python3", "workers.py", "fork", "4", "24", "3"], "workers.py", "", "", 110),
    "subprocesses": (["python3", "workers.py", "spawn", "3", "24", "3"], "workers.py", "", "", 100),
    "make": (["make", "-s", "-j4", "-f", "jobs.mk"], "jobs.mk", "", "", 60),
}
PROGRAMS = TREES | {name: (*program[:4], 2 * program[4][0]) for name, program in bench.PROGRAMS.items()}
# Forked processes of a small budget need this much for their tables and minima.
LEAST = 12
LIMIT = 900


def tree(group):
    """The living processes of a process group."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


class Disturbance:
    """Stops and continues processes of a tree, and kills one of them once if it has to."""

    def __init__(self, group, chance, kills):
        self.group, self.chance, self.kills = group, chance, kills
        self.killed, self.stops, self.ended = None, 0, threading.Event()
        self.thread = threading.Thread(target=self.disturb)

    def disturb(self):
        kill_at = time.monotonic() + self.chance.uniform(0.2, 4)
        while not self.ended.wait(self.chance.uniform(0.05, 0.6)):
            processes = tree(self.group)
            others = [pid for pid in processes if pid != self.group]
            if self.kills and others and not self.killed and time.monotonic() >= kill_at:
                self.killed = self.chance.choice(others)
                self.send(self.killed, signal.SIGKILL)
            elif processes:
                stopped = self.chance.choice(processes)
                self.stops += 1
                self.send(stopped, signal.SIGSTOP)
                self.ended.wait(self.chance.uniform(0.01, 1.2))
                self.send(stopped, signal.SIGCONT)

    def send(self, pid, number):
        # Its number may be another program's by now, unless it is still of the group.
        if pid in tree(self.group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def shell(commands, folder, environment):
    return subprocess.run(["sh", "-e", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run(name, user, prefix, cache, disturb):
    """One run as the user of `prefix`: its output, the disturbance, and errors."""
    command, source, before, after, _ = PROGRAMS[name]
    errors = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        environment = bench.ENVIRONMENT | {"HOME": folder, "XDG_CACHE_HOME": str(cache), "TMPDIR": temporary}
        if source:
            shutil.copy(bench.SOURCES / source, folder)
        prepared = shell(before, folder, environment)
        if prepared.returncode:
            return "", None, [f"before it: {prepared.stderr[-300:]}"]
        for path in (folder, temporary):
            # Git refuses a repository of another user.
            subprocess.run(["chown", "-R", "nobody:nogroup" if user == "nobody" else "root:root", path], check=True)
        with subprocess.Popen(
            [*prefix, *command], cwd=folder, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        ) as child, disturb(child.pid) as disturbance:
            try:
                output, said = child.communicate(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                states = subprocess.run(["ps", "-o", "pid,ppid,stat,wchan:20,args", "-g", str(child.pid)], capture_output=True,
                                        text=True, check=False).stdout
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
                return "", disturbance, [f"did not end within {LIMIT} s:\n{states}"]
        if child.returncode and not (disturbance and disturbance.killed):
            errors.append(f"exit code {child.returncode}: {said.strip()[-300:]}")
        # Children of a killed process may end a moment later.
        deadline = time.monotonic() + 10
        while (left := tree(child.pid)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            errors.append(f"left running: {left}")
            os.killpg(child.pid, signal.SIGKILL)
        # The program's own files stay when it is killed; a page file has no name.
        if not (disturbance and disturbance.killed) and (files := os.listdir(temporary)):
            errors.append(f"left in the folder for temporary files: {files}")
        subprocess.run(["chown", "-R", "root:root", folder], check=True)
        return output + shell(after, folder, environment).stdout, disturbance, errors


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plimsoll", metavar="PLIMSOLL")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="names of programs, by commas")
    options = parser.parse_args()
    unknown = set(options.programs.split(",")) - set(PROGRAMS)
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse()
    chance, native, failures, runs, kills, stops = random.Random(options.seed), {}, [], 0, 0, 0
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        plimsoll = shutil.copy(options.plimsoll, folder)
        caches = {}
        for user in ("root", "nobody"):
            caches[user] = pathlib.Path(folder) / user
            caches[user].mkdir()
        shutil.chown(caches["nobody"], "nobody", "nogroup")
        end = time.monotonic() + options.minutes * 60
        while time.monotonic() < end:
            name, user = chance.choice(options.programs.split(",")), chance.choice(["root", "nobody"])
            needs = PROGRAMS[name][4]
            ram = max(LEAST, round(needs * chance.uniform(1 / 6, 1)))
            pages, codec, is_kill = chance.choice([[], ["--page-file", "none"]]), chance.choice(["lz4", "zstd", "auto"]), chance.random() < 0.25
            as_user = bench.AS_NOBODY if user == "nobody" else []
            if name not in native:
                output, _, errors = run(name, "nobody", bench.AS_NOBODY, caches["nobody"], lambda _: contextlib.nullcontext())
                if errors:
                    sys.exit(f"{name} fails without a limit: {errors}")
                native[name] = output
            managed = [*as_user, plimsoll, "exec", "--engine", "pager", "--ram", f"{ram}M", "--codec", codec, *pages, "--quiet", "--"]
            start = time.monotonic()
            output, disturbance, errors = run(name, user, managed, caches[user], lambda group: Disturbance(group, chance, is_kill))
            seconds = time.monotonic() - start
            killed = bool(disturbance and disturbance.killed)
            if not errors and not killed and output != native[name]:
                errors = ["its output is not that of the run without a limit"]
            runs, kills, stops = runs + 1, kills + killed, stops + (disturbance.stops if disturbance else 0)
            described = f"{name} as {user}, {ram} MiB of {needs}, {codec}{' ' + ' '.join(pages) if pages else ''}"
            print(f"{runs:4} {described}: {seconds:.1f} s, {disturbance.stops if disturbance else 0} stops"
                  f"{', a kill' if killed else ''}{': ' + '; '.join(errors) if errors else ''}", flush=True)
            failures += [f"{described}: {error}" for error in errors]
    print(f"{runs} runs, {kills} with a kill, {stops} stops, {len(failures)} failures")
    for failure in failures:
        print(failure)
    return 1 if failures or runs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
