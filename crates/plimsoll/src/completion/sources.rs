//! The values of arguments: scenarios, recordings, keys, engines, processes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use clap::Arg;
use plimsoll_model::recording::catalog;
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::{self, Document, Key, Kind, Subject, WorkloadKind};
use plimsoll_monitor::processes::{self, Depth, Process};

use super::{Answer, Candidate};
use crate::cli::RUNS;

/// Where the values of an argument come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A built-in scenario or a file.
    Scenarios,
    /// A recording or a folder.
    Recordings,
    /// `KEY=VALUE`.
    Keys,
    /// Places of trimmed pages: `none`, `zram:lz4`.
    Engines,
    Pids,
    /// Names of processes.
    Names,
    Files,
    /// Numbers and other values that no list holds.
    Free,
}

impl Source {
    /// The source of an argument, by its placeholder in `--help`; none for a placeholder that is not known here.
    pub fn of(arg: &Arg) -> Option<Source> {
        let placeholder = arg
            .get_value_names()
            .and_then(<[_]>::first)
            .map(|name| name.as_str());
        Some(match placeholder? {
            "SCENARIO" => Source::Scenarios,
            "RUN" => Source::Recordings,
            "KEY=VALUE" => Source::Keys,
            "ENGINES" => Source::Engines,
            "PID" => Source::Pids,
            "NAME" => Source::Names,
            "FILE" | "DIR" | "PATH" | "COMMAND" => Source::Files,
            "N" | "F" | "SECONDS" | "TIME" | "BYTES" | "SIZE" | "SIZE/s" | "PERCENT" | "SWAP"
            | "KIND=SHARE" | "CLASS" | "CHART" | "METRIC>LIMIT" | "ADDRESS:PORT" | "REGEX" | "PARTITION"
            | "IMAGE" | "NODES" | "NAMESPACE" | "KEY" | "RUN-NAME" | "ID" => Source::Free,
            _ => return None,
        })
    }

    /// The values that begin with `typed`; `scenario` is the scenario before it on the line.
    pub(super) fn answer(self, typed: &str, scenario: Option<&str>) -> Answer {
        let (files, candidates) = match self {
            Source::Scenarios => (true, scenarios()),
            Source::Recordings => (true, recordings(typed, Path::new(RUNS))),
            Source::Keys => (false, keys(typed, scenario)),
            Source::Engines => (false, engines()),
            Source::Pids => (false, pids()),
            Source::Names => (false, names()),
            Source::Files => (true, Vec::new()),
            Source::Free => (false, Vec::new()),
        };
        let candidates = candidates.into_iter();
        Answer {
            files,
            candidates: candidates.filter(|one| one.value.starts_with(typed)).collect(),
        }
    }
}

fn scenarios() -> Vec<Candidate> {
    let all = scenario::builtin().iter();
    all.map(|builtin| Candidate::new(builtin.name, builtin.title))
        .collect()
}

/// The recordings of `runs`, or of the folder before the last slash of `typed`. Reads names only.
pub(super) fn recordings(typed: &str, runs: &Path) -> Vec<Candidate> {
    let (prefix, folder) = match typed.rfind('/') {
        Some(slash) => (&typed[..=slash], Path::new(&typed[..=slash])),
        None => ("", runs),
    };
    // A folder that does not exist has no recordings.
    let names = catalog::names(folder).unwrap_or_default();
    let selectors = [
        (catalog::LATEST, "the newest recording"),
        ("@-1", "the recording before the newest"),
    ];
    let selectors = selectors.into_iter().take(names.len());
    let selectors = selectors.map(|(name, meaning)| Candidate::new(format!("{prefix}{name}"), meaning));
    let plain = names.iter().rev().filter_map(|name| plain(name));
    let named = plain.map(|name| Candidate::new(format!("{prefix}{name}"), "recording"));
    selectors.chain(named).collect()
}

/// A name that a shell can show as it is and that no command takes for something else.
fn plain(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let safe = matches!(sanitize(name), std::borrow::Cow::Borrowed(_));
    (safe && !name.starts_with(['-', '@'])).then_some(name)
}

/// Keys, or after `KEY=` the values of a key that has a list of them. Without a built-in scenario, the keys of all
/// workloads.
fn keys(typed: &str, scenario: Option<&str>) -> Vec<Candidate> {
    let keys = keys_of(scenario);
    if let Some((name, _)) = typed.split_once('=') {
        let found = keys
            .iter()
            .find(|key| key.name == name || key.alias == Some(name));
        let values = found.map(|key| values(key.kind)).unwrap_or_default();
        return values
            .into_iter()
            .map(|value| Candidate::new(format!("{name}={value}"), ""))
            .collect();
    }
    let named = keys.iter().flat_map(|key| {
        let names = [Some(key.name), key.alias].into_iter().flatten();
        names.map(|name| Candidate::new(format!("{name}="), key.meaning.replace('`', "")))
    });
    named.collect()
}

fn keys_of(scenario: Option<&str>) -> Vec<&'static Key> {
    let builtin = scenario.filter(|name| scenario::builtin().iter().any(|one| one.name == *name));
    let document = builtin
        .and_then(|name| scenario::find(name).ok())
        .and_then(|source| Document::parse(&source).ok());
    let kinds = match document {
        Some(document) => document.workloads(),
        None => WorkloadKind::ALL.to_vec(),
    };
    let mut keys: Vec<&'static Key> = Vec::new();
    for key in kinds.into_iter().flat_map(scenario::keys_of) {
        if keys.iter().all(|known| known.name != key.name) {
            keys.push(key);
        }
    }
    keys
}

fn values(kind: Kind) -> Vec<&'static str> {
    match kind {
        Kind::Choice(names) => names.to_vec(),
        Kind::Flag => vec!["true", "false"],
        Kind::Workload => WorkloadKind::ALL.map(WorkloadKind::name).to_vec(),
        _ => Vec::new(),
    }
}

fn engines() -> Vec<Candidate> {
    let meaning = |engine: &Subject| match engine {
        Subject::NoSwap => "no swap".to_owned(),
        Subject::Zram(None) => "zram with its default algorithm".to_owned(),
        Subject::Zram(Some(algorithm)) => format!("zram with {algorithm}"),
        Subject::Zswap(None) => "zswap with its compressor, before a swap file".to_owned(),
        Subject::Zswap(Some(compressor)) => format!("zswap with {compressor}, before a swap file"),
        Subject::SwapFile => "a swap file".to_owned(),
        Subject::Pager(_) | Subject::Allocator(_) => String::new(),
    };
    let all = scenario::swap_subjects();
    all.map(|engine| Candidate::new(engine.to_string(), meaning(&engine)))
        .collect()
}

/// The processes except this one.
fn others() -> impl Iterator<Item = Process> {
    let found = processes::list(Depth::Counters).unwrap_or_default();
    found
        .processes
        .into_iter()
        .filter(|one| one.identity.pid != std::process::id())
}

/// Process ids, with the names of their processes.
fn pids() -> Vec<Candidate> {
    others()
        .map(|one| Candidate::new(one.identity.pid.to_string(), sanitize(&one.name)))
        .collect()
}

fn names() -> Vec<Candidate> {
    distinct(others().map(|one| one.name))
}

/// Each name once, in alphabetical order.
fn distinct(names: impl Iterator<Item = String>) -> Vec<Candidate> {
    let names = names.filter(|name| !name.is_empty() && plain(OsStr::new(name)).is_some());
    let names: BTreeSet<String> = names.collect();
    names
        .into_iter()
        .map(|name| Candidate::new(name, "process"))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn values_of(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|one| one.value.as_str()).collect()
    }

    #[test]
    fn hostile_names_are_never_offered_raw() {
        let runs = tempfile::tempdir().unwrap();
        let hostile: [&[u8]; 7] = [
            b"a\x1b[2J",
            b"b\nc",
            b"--help",
            b"@latest",
            b"\xff\xfe",
            "d\u{202e}e".as_bytes(),
            b"good $(touch x)",
        ];
        for name in hostile {
            let folder = runs.path().join(OsStr::from_bytes(name));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("manifest.json"), "").unwrap();
        }
        let candidates = recordings("", runs.path());
        assert_eq!(values_of(&candidates), ["@latest", "@-1", "good $(touch x)"]);
        let folder = format!("{}/", runs.path().display());
        let below = recordings(&folder, Path::new("nowhere"));
        assert_eq!(below[0].value, format!("{folder}@latest"));
        assert!(recordings("", Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn keys_follow_the_scenario_and_offer_their_choices() {
        let thrash = Source::Keys.answer("", Some("thrash")).candidates;
        let thrash = values_of(&thrash);
        assert!(
            thrash.contains(&"consumers=") && thrash.contains(&"N="),
            "{thrash:?}"
        );
        assert!(!thrash.contains(&"mapping="), "a key of map: {thrash:?}");
        // A file is not opened: every key is offered.
        let file = Source::Keys.answer("", Some("/dev/zero")).candidates;
        assert!(file.len() > thrash.len());
        let order = Source::Keys.answer("order=", Some("thrash")).candidates;
        assert!(values_of(&order).contains(&"order=fixed"), "{order:?}");
    }

    #[test]
    fn processes_are_offered_with_their_names() {
        let mut child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let found = pids();
        let own = std::process::id().to_string();
        let pid = child.id().to_string();
        child.kill().unwrap();
        child.wait().unwrap();
        let sleep = found.iter().find(|one| one.value == pid).expect("the child");
        // The name before or after the exec.
        assert!(!sleep.meaning.is_empty());
        assert!(found.iter().all(|one| one.value != own));
    }

    #[test]
    fn names_of_processes_are_offered_once_and_hostile_ones_never() {
        let running = ["sshd", "nginx", "", "sshd", "-bash", "a\x1b[2J", "redis-server"];
        let found = distinct(running.into_iter().map(str::to_owned));
        assert_eq!(values_of(&found), ["nginx", "redis-server", "sshd"]);
        let found = Source::Names.answer("", None);
        assert!(!found.files && !found.candidates.is_empty());
    }
}
