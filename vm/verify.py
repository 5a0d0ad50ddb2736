#!/usr/bin/env python3
"""Reads what the runs in the VM wrote, with another program than the one that wrote it.

    vm/verify.py FOLDER

FOLDER is the guest's /disk/out. Checks that every document parses and says what the checks in the guest asked for.
"""

import json
import pathlib
import sys

CLASSES = {"random", "runs20", "constant"}
RUNS = {
    "zram-worker": ("zram:zstd", "worker"),
    "zram-process-madvise": ("zram:zstd", "process-madvise"),
    "zram-cgroup": ("zram:zstd", "cgroup"),
    "zswap": ("zswap:zstd", "cgroup"),
    "swapfile": ("swapfile", "cgroup"),
}
PHASES = ["fill", "trim", "restore", "release"]


def check_trial(trial, subject, trim):
    where = trial["id"]
    assert trial["status"] == "ok" and trial["verified"] is True, f"{where}: {trial['status']} {trial['reasons']}"
    assert trial["subject"] == subject, f"{where}: subject {trial['subject']}"
    assert trial["params"]["trim"] == trim, f"{where}: trimmed by {trial['params']['trim']}"
    phases = {phase["name"]: phase for phase in trial["phases"]}
    assert [name for name in phases if name in PHASES] == PHASES, f"{where}: phases {list(phases)}"
    for phase in phases.values():
        for moment in ("before", "after"):
            assert phase[moment], f"{where}/{phase['name']}: no categories {moment}"
    assert phases["restore"]["major_faults"] > 0, f"{where}: restore without a hard fault"


def check_run(folder, name, subject, trim):
    results = json.loads((folder / f"{name}.json").read_text())
    assert results["scenario"] == "compression"
    assert results["status"] == "ok", f"{name}: {results['status']} {results['warnings']}"
    trials = results["trials"]
    assert {trial["params"]["class"] for trial in trials} == CLASSES, f"{name}: {[t['id'] for t in trials]}"
    assert len(trials) == len(CLASSES)
    for trial in trials:
        check_trial(trial, subject, trim)


def check_recordings(folder):
    recordings = [path.parent for path in folder.glob("*/*/results.json")]
    assert len(recordings) == len(RUNS), f"recordings: {recordings}"
    for recording in recordings:
        manifest = json.loads((recording / "manifest.json").read_text())
        assert manifest["host"]["cgroup"] == "v2", manifest["host"]["cgroup"]
        for name in ("events.jsonl", "trials.jsonl"):
            lines = (recording / name).read_text().splitlines()
            assert lines and all(json.loads(line) for line in lines), f"{recording}/{name}"
        assert (recording / "samples.parquet").read_bytes()[:4] == b"PAR1", recording
        assert b"</html>" in (recording / "report.html").read_bytes(), recording


def main():
    folder = pathlib.Path(sys.argv[1])
    checks = [("doctor", lambda: json.loads((folder / "doctor.json").read_text()))]
    checks += [(name, lambda name=name, run=run: check_run(folder, name, *run)) for name, run in RUNS.items()]
    checks.append(("recordings", lambda: check_recordings(folder)))
    failed = 0
    for name, check in checks:
        try:
            check()
            print(f"ok      verify {name}")
        except (AssertionError, KeyError, OSError, ValueError) as error:
            failed += 1
            print(f"FAILED  verify {name}: {type(error).__name__}: {error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
