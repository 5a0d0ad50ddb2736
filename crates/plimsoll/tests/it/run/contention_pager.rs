//! `plimsoll run contention` on pagers: both programs have one budget.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::pager::has_userfaultfd;
use super::refusals::as_nobody;
use super::{Run, ends_soon, has_laboratory, metric, phase, phase_names, phase_value, phases};

/// 32 MiB held, 8 MiB more with each request, a budget of 64 MiB.
const SMALL: [&str; 8] = [
    "--repeat",
    "1",
    "--set",
    "size=32M",
    "--set",
    "hold=0.05",
    "--set",
    "class=ratio=2.5",
];
const MIB: f64 = 1048576.0;
const HELD: f64 = 32.0 * MIB;
const LIMIT: u64 = 64 << 20;

fn asks(trial: &Value) -> Vec<&Value> {
    let is_ask = |phase: &&Value| {
        phase["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("ask-"))
    };
    phases(trial).iter().filter(is_ask).collect()
}

fn is_suspended(trial: &Value) -> bool {
    trial["params"]["suspended"] == "true"
}

/// Every byte of both is verified, free memory comes before any trim, and the budget holds what both have in RAM.
fn check(trial: &Value) {
    assert_eq!(trial["verified"], true, "{trial:#}");
    let asks = asks(trial);
    assert!(asks.len() >= 4, "{} asks", asks.len());
    for ask in &asks {
        let of = |name: &str| phase_value(ask, name);
        let held = of("asker_resident_bytes") + of("asker_swapped_bytes");
        assert!(held > of("asked_bytes") * 0.99, "{ask:#}");
        let both = of("holder_resident_bytes") + of("holder_swapped_bytes");
        assert!((both / HELD - 1.0).abs() < 0.01, "{ask:#}");
        let resident = of("holder_resident_bytes") + of("asker_resident_bytes");
        // One program is read after the other.
        assert!(resident + of("stores_bytes") <= LIMIT as f64 * 1.05, "{ask:#}");
    }
    let first = asks[0];
    assert_eq!(
        phase_value(first, "asker_swapped_bytes"),
        0.0,
        "there is memory for it: {first:#}"
    );
    let (lost, expected) = (phase_value(first, "holder_lost_bytes"), is_suspended(trial));
    match expected {
        true => assert!(lost > 0.8 * HELD, "a suspended pager is trimmed whole: {first:#}"),
        false => assert!(lost < 0.02 * HELD, "{first:#}"),
    }
    let last = asks[asks.len() - 1];
    let saved = phase_value(last, "holder_swapped_bytes") + phase_value(last, "asker_swapped_bytes");
    assert!(saved > 4.0 * MIB, "memory that has no room is saved: {last:#}");
    let names = phase_names(trial);
    assert_eq!(names.contains(&"suspend"), expected, "{names:?}");
    assert_eq!(
        names[names.len() - 3..],
        ["restore-holder", "restore-asker", "release"]
    );
    assert!(metric(trial, "compressed_growth_bytes") > 0.0);
    assert!(trial["metrics"]["swap_cache_growth_bytes"].is_null(), "{trial:#}");
    assert_eq!(
        phase(trial, "release")["bytes"],
        phase_value(last, "asked_bytes") + HELD
    );
}

/// The anonymous memory in RAM of the workers of a run at one time, as the kernel counts it.
struct Sum {
    /// Bytes of all workers.
    bytes: u64,
    /// Bytes of the smallest one: of the probe, unless it has not started.
    smallest: u64,
}

/// The sums of the workers of a run, from a thread that looks all the time.
struct Sums {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sum>>,
}

impl Sums {
    /// Of the processes that have `folder` as their working directory.
    fn watch(folder: &Path) -> Sums {
        let (folder, is_over) = (folder.to_owned(), Arc::new(AtomicBool::new(false)));
        let flag = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut sums = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                let (once, again) = (residents(&folder), residents(&folder));
                // Memory that moves from one worker to the other between their readings would count twice.
                let least: Vec<u64> = once
                    .iter()
                    .filter_map(|(pid, bytes)| Some(*bytes.min(again.get(pid)?)))
                    .collect();
                if let (Some(smallest), true) = (least.iter().min(), least.len() > 1) {
                    sums.push(Sum {
                        bytes: least.iter().sum(),
                        smallest: *smallest,
                    });
                }
                std::thread::sleep(Duration::from_millis(3));
            }
            sums
        });
        Sums { is_over, thread }
    }

    fn end(self) -> Vec<Sum> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Bytes of anonymous memory in RAM of each worker with this working directory.
fn residents(folder: &Path) -> BTreeMap<u32, u64> {
    let of = |pid: u32| {
        let at: PathBuf = format!("/proc/{pid}").into();
        let command = std::fs::read(at.join("cmdline")).ok()?;
        let is_worker = command.split(|byte| *byte == 0).nth(1) == Some(b"worker");
        let is_here = std::fs::read_link(at.join("cwd")).ok()? == folder;
        let status = std::fs::read_to_string(at.join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        (is_worker && is_here).then_some((pid, kib << 10))
    };
    let entries = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(of).collect()
}

/// Two pagers of a user without any privilege: both within one budget at any time, every option, no byte lost.
#[test]
fn two_pagers_share_the_limit_without_root() {
    if !has_userfaultfd() {
        return;
    }
    let subjects =
        "subject=[pager, pager:zstd, pager:auto,pagefile, pager:lz4,store-cap=4M, pager:lz4,trim=per-fault]";
    let mut sums = None;
    let ended = as_nobody(|command, runs| {
        command
            .args(["run", "contention", "--json", "--wait", "--set", subjects])
            .args(SMALL)
            .arg("--output")
            .arg(runs);
        sums = Some(Sums::watch(&runs.canonicalize().expect("a folder")));
    });
    let sums = sums.map(Sums::end).unwrap_or_default();
    let Some(ended) = ended else { return };
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 10, "five pagers, idle and suspended");
    ended.trials().iter().for_each(check);
    assert!(sums.len() > 100, "{} sums", sums.len());
    // Both workers have beside their pagers' memory what the probe has, which has no pager: relocated pages of the program,
    // a heap, stacks. That is 1.3 MB of a release build, and 2.5 MB of one with debug assertions.
    let within = |sum: &&Sum| sum.bytes <= LIMIT / 100 * 102 + 3 * sum.smallest.min(3 << 20);
    if let Some(Sum { bytes, smallest }) = sums.iter().find(|sum| !within(sum)) {
        panic!("{bytes} bytes at once, of which a worker without a pager has {smallest}");
    }
    let largest = sums.iter().map(|sum| sum.bytes).max();
    assert!(largest >= Some(LIMIT / 2), "{largest:?} bytes at most");
}

/// One run compares zram with pagers: the same metrics, in one report.
#[test]
fn zram_and_the_pager_stand_side_by_side() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let run = Run::of(
        "contention",
        &[&SMALL[..], &["--set", "subject=[zram, pager:lz4]"]].concat(),
    );
    let ended = run.finish();
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 4, "two subjects, idle and stopped");
    for trial in ended.trials() {
        if trial["subject"] == "pager:lz4" {
            check(trial);
        }
        for name in [
            "slowest_ask_s",
            "holder_lost_percent",
            "asker_lost_percent",
            "holder_swapped_bytes",
            "compressed_growth_bytes",
            "holder_restore_s",
        ] {
            assert!(metric(trial, name) >= 0.0, "{name}");
        }
    }
    let folder = run.recording().expect("a recording");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a report");
    for part in ["id=\"contention-asks\"", "pager:lz4", "zram", "\"id\":\"pager\""] {
        assert!(page.contains(part), "{part}");
    }
}

/// The pool is a file in memory: nothing is left after SIGKILL, not even of a worker that is stopped.
#[test]
fn a_killed_run_leaves_no_worker_and_no_pool() {
    if !has_userfaultfd() {
        return;
    }
    let set = [
        "--set",
        "suspended=true",
        "--set",
        "subject=pager:lz4,pagefile",
        "--set",
        "hold=1",
    ];
    let run = Run::of("contention", &[&SMALL[..], &set].concat());
    let mut started = run.start();
    started.await_event("phase-end", "ask-1");
    let workers = started.children();
    let state = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(
        workers.iter().any(|pid| state(*pid).contains(") T ")),
        "one is stopped"
    );
    started.signal(Signal::KILL);
    let ended = started.wait();
    assert_eq!(ended.code, -1, "{}", ended.stderr);
    for pid in workers {
        assert!(ends_soon(pid), "worker {pid} outlived its run");
    }
    if let Some(name) = run.name() {
        super::undo_killed(&name);
    }
    run.assert_nothing_left();
}

#[test]
fn settings_that_two_pagers_cannot_have_are_refused() {
    let refused = |set: &[&str], names: &[&str]| {
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", *set]).collect();
        let ended = Run::of("contention", &[&SMALL[..], &set].concat()).finish();
        ended.assert_refused(1, names);
    };
    refused(
        &["subject=pager", "size=2M", "limit=6M"],
        &["`limit`", "6.00 MiB", "5.00 MiB"],
    );
    refused(
        &["subject=pager", "class=random", "limit=110% size"],
        &["32.0 MiB", "8.00 MiB", "`limit`", "`random`"],
    );
    refused(
        &["subject=pager", "thp=always"],
        &["`thp`", "`always`", "`thp = \"system\"`"],
    );
    refused(&["subject=pager:lzo"], &["`pager:lzo`"]);
}
