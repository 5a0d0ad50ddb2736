//! Programs of several tests of the workload `command`, in two runs of sections.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use plimsoll_model::scenario::workloads::command::Status;
use serde_json::json;

use super::super::{Ended, ends_soon};
use super::{Programs, number_in};

/// Programs of several tests, in sections of one run: it is calibrated once. The run's folder is removed when the run has ended:
/// Rust drops no static.
pub(super) struct Shared {
    pub(super) ended: Ended,
    /// Whether the process ended whose number the program of a section has written to its file.
    pub(super) gone: BTreeMap<String, bool>,
}

impl Shared {
    pub(super) fn of(sections: &[String]) -> Shared {
        let folder = tempfile::tempdir().expect("a folder");
        let files = folder.path().to_owned();
        let sections = sections
            .concat()
            .replace("$FOLDER", files.to_str().expect("UTF-8"));
        let keys = format!("subject = \"none\"\norder = \"fixed\"\n{sections}");
        let programs = Programs::in_folder(folder, &["true"], &keys);
        let ended = programs.finish();
        let entries = std::fs::read_dir(files).expect("the folder").flatten();
        let gone = entries.filter_map(|entry| {
            let section = entry.file_name().into_string().expect("UTF-8");
            Some((section, ends_soon(number_in(&entry.path())?)))
        });
        Shared {
            gone: gone.collect(),
            ended,
        }
    }

    /// The run's end, with only the trials whose section name begins with `start`.
    pub(super) fn of_test(&self, start: &str) -> Ended {
        let trials = self.ended.trials().iter();
        let of_test = trials.filter(|trial| trial["id"].as_str().is_some_and(|id| id.starts_with(start)));
        Ended {
            code: self.ended.code,
            stderr: self.ended.stderr.clone(),
            results: json!({ "trials": of_test.collect::<Vec<_>>() }),
        }
    }
}

/// A section of a shared run. Its program finds the path of a file of its own in `$FILE`.
fn section(name: &str, command: &[&str], keys: &str) -> String {
    let command = toml::Value::from(command.to_vec()).to_string();
    let command = command.replace("$FILE", &format!("$FOLDER/{name}"));
    format!("[{name}]\ncommand = {command}\n{keys}\n")
}

pub(super) fn script(name: &str, script: &str, keys: &str) -> String {
    section(name, &["sh", "-c", script], keys)
}

const SPEED: &str = "metric = \"speed: ([0-9.]+)\"";
/// Second runs that end in another way than the first, with keys of their section, and their statuses.
pub(super) const SECOND_RUNS: [(&str, &str, Status); 5] = [
    ("exit 7", "", Status::OtherExit),
    ("echo b", "same-output = true", Status::OtherOutput),
    ("echo b", "", Status::Done),
    ("echo b", SPEED, Status::NoMetric),
    ("echo 'speed: 1'", SPEED, Status::Done),
];

pub(super) const OUTLIVED: [&str; 2] = ["outlived-in-group", "outlived-elsewhere"];

/// Programs that leave processes come last: they disturb no other.
pub(super) static GOOD: LazyLock<Shared> = LazyLock::new(|| {
    let mut sections = vec![
        section("reads", &["cat"], "limit = \"64M\""),
        section(
            "starts",
            &["dd", "if=/dev/zero", "of=/dev/null", "bs=24M", "count=3"],
            "limits = [\"64M\", \"12M\", \"512K\"]",
        ),
        script(
            "late",
            "if [ -e $FILE ]; then echo $$ > $FILE; exec sleep 1000; fi; touch $FILE",
            "limits = [\"64M\", \"32M\"]\nphase-timeout = 2",
        ),
        section(
            "sweep",
            &["true"],
            "subject = [\"none\", \"zram\"]\nlimit = [\"64M\", \"48M\"]\ncache = [\"cold\", \"warm\"]",
        ),
    ];
    // Each run but the first finds the file of the one before.
    sections.extend(SECOND_RUNS.iter().enumerate().map(|(number, (then, keys, _))| {
        script(
            &format!("second-{number}"),
            &format!("if [ -e $FILE ]; then {then}; else touch $FILE; echo 'speed: 12.5'; fi"),
            &format!("limits = [\"64M\", \"32M\"]\n{keys}"),
        )
    }));
    // A limit that a run never meets slows nothing, so it fills more page cache than the small one.
    let counted = "dd if=/dev/zero of=$FILE.big bs=1M count=16 2>/dev/null; \
                   if [ -e $FILE ]; then echo 'ops/s: 50'; else touch $FILE; echo 'ops/s: 7'; echo 'ops/s: 100'; fi";
    let keys = "limits = [\"64M\", \"8M\"]\nmetric = \"ops/s: ([0-9]+)\"";
    sections.push(script(
        "counts-up",
        counted,
        &format!("{keys}\nhigher-is-better = true"),
    ));
    sections.push(script("counts-down", counted, keys));
    for (name, leave) in OUTLIVED.iter().zip(["sleep 1000 &", "setsid sleep 1000 &"]) {
        sections.push(script(
            name,
            &format!("{leave} echo $! > $FILE"),
            "limit = \"64M\"",
        ));
    }
    Shared::of(&sections)
});

/// Programs that fail with one failure code, which is the reason for the exit code of the run.
pub(super) static FAILED: LazyLock<Shared> = LazyLock::new(|| {
    Shared::of(&[
        script(
            "fails-exit",
            "echo 'line one' >&2; echo 'no input file' >&2; exit 3",
            "limits = [\"64M\", \"32M\"]",
        ),
        script("fails-signal", "kill -ABRT $$", ""),
        script("fails-metric", "echo nothing", "metric = \"ops: ([0-9]+)\""),
        script("fails-terminal", "exec < /dev/tty", "limit = \"64M\""),
        section(
            "differs",
            &["cat", "/proc/sys/kernel/random/uuid"],
            "limit = \"64M\"\nsearch = true\nsame-output = true",
        ),
    ])
});
