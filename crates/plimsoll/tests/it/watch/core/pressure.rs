//! Watching programs that thrash.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_lab::environment::Environment;
use plimsoll_model::recording::{Recording, WarningCode};
use plimsoll_monitor::processes::{Depth, Observer};
use plimsoll_monitor::watch::{MarkKind, Monitor, Options, Source, TargetChoice};
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_report::analysis::gauges::gauge;
use plimsoll_testkit::capability;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Kept, PATIENCE, stderr, watch};
use crate::processes::storms::{while_scanned, zram};

const MIB: u64 = 1 << 20;

/// A cgroup of this test's, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Group> {
        let hierarchy = Hierarchy::of_this_process();
        let there = rustix::process::geteuid().is_root() && hierarchy.is_ok();
        if !capability("cgroup", there, "needs root and a memory cgroup hierarchy") {
            return None;
        }
        let hierarchy = hierarchy.unwrap();
        let folder = hierarchy
            .mount
            .join(format!("plimsoll-watch-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let group = Group(folder);
        let file = match hierarchy.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        };
        fs::write(group.0.join(file), limit.to_string()).unwrap();
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// 128 MiB of a file read again and again under a cap of 64 MiB: every page comes from the disk again.
#[test]
fn no_tick_is_missed_while_the_target_thrashes() {
    let _alone = crate::machine::alone();
    let Some(group) = Group::new(64 * MIB) else {
        return;
    };
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&vec![7; 128 * MIB as usize]).unwrap();
    file.as_file().sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // One process: a storm is of one that storms on.
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec cat {} > /dev/null",
        group.0.display(),
        vec![file.path().to_str().unwrap(); 1000].join(" ")
    );
    let reader = Kept::start("sh", &["-c", &script]);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let witness = Witness::start();
    let output = watch(&[
        "--duration",
        "8",
        "--cgroup",
        group.0.to_str().unwrap(),
        "--record",
        record.to_str().unwrap(),
    ]);
    let stood_still = witness.end();
    drop(reader);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let recording = Recording::open(&record).unwrap();
    check_thrashed(&recording);
    assert_punctual(recording.samples.t_ns(), stood_still);
}

/// Threads that sleep 10 ms at a time, one bound to each CPU: they measure for how long the machine itself stood still.
struct Witness {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Witness {
    fn start() -> Witness {
        const PAUSE: Duration = Duration::from_millis(10);
        let is_over = Arc::new(AtomicBool::new(false));
        let watch = |cpu: usize| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                // Where the CPU is not this process's, the thread runs on another one.
                let _ = sched_setaffinity(None, &only);
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    std::thread::sleep(PAUSE);
                    longest = longest.max(start.elapsed() - PAUSE);
                }
                longest.as_nanos() as u64
            })
        };
        let cpus = std::thread::available_parallelism().unwrap().get();
        let threads = (0..cpus).map(watch).collect();
        Witness { is_over, threads }
    }

    /// The longest time in nanoseconds.
    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let longest = self.threads.into_iter().map(|thread| thread.join().unwrap());
        longest.max().unwrap()
    }
}

/// No tick is late by more than the machine stood still. A sampler that waits for what thrashes is late while it does not.
fn assert_punctual(times: &[u64], stood_still: u64) {
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let widest = gaps.max().unwrap();
    println!(
        "widest gap {} ms; the machine stood still for {} ms",
        widest / 1_000_000,
        stood_still / 1_000_000
    );
    assert!(widest <= LATE_NS + stood_still, "{} ms", widest / 1_000_000);
}

/// The widest gap between two samples in which no tick is missing.
const LATE_NS: u64 = 300_000_000;

/// The target thrashed, and a storm was not told at each check.
fn check_thrashed(recording: &Recording) {
    let refaults = recording.samples.column("workingset_refault_file").unwrap();
    let last = recording.samples.len() - 1;
    let refaulted = refaults.growth(0, last).unwrap();
    assert!(refaulted > 10_000, "it did not thrash: {refaulted} refaults");
    let usage = recording
        .samples
        .column("cgroup_usage")
        .unwrap()
        .get(last)
        .unwrap();
    assert!(usage > 32 * MIB as i64, "{usage}");
    println!("{refaulted} refaults of {} samples", recording.samples.len());
    // It is a storm while its refaults cost as much as a storm's do. Checks are a second apart, and a storm that two checks in a
    // row did not find is told again.
    let told = recording
        .events
        .iter()
        .filter(|event| event.code == Some(WarningCode::FaultStorm));
    let times: Vec<u64> = told.map(|event| event.t_ns).collect();
    let is_apart = times.windows(2).all(|pair| pair[1] - pair[0] > 2_000_000_000);
    assert!(is_apart, "{times:?}");
}

/// Findings of a monitor at a worker that thrashes.
struct Found {
    storms: usize,
    messages: String,
    times: Vec<u64>,
    stood_still: u64,
    /// The bytes that swap devices hold compressed, at the end.
    holds: Option<f64>,
}

/// Watches `worker` until its storm is told, and four seconds more.
fn watch_for_a_storm(worker: &mut Kept) -> Found {
    let witness = Witness::start();
    let monitor = Monitor::start(&Options::of(Source::Live(TargetChoice::Pid(worker.pid())))).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let storms = || {
        let state = monitor.state();
        let storms = state
            .marks
            .iter()
            .filter(|mark| mark.kind == MarkKind::FaultStorm);
        storms.count()
    };
    while storms() == 0 && Instant::now() < deadline && !worker.has_ended() {
        std::thread::sleep(Duration::from_millis(50));
    }
    if storms() == 0 {
        let mut observer = Observer::new().unwrap();
        for _ in 0..2 {
            println!("{:#?}", observer.snapshot_of(&[worker.pid()], Depth::Counters));
            std::thread::sleep(Duration::from_secs(1));
        }
        println!("marks: {:?}", monitor.state().marks);
    }
    std::thread::sleep(Duration::from_secs(4));
    let storms = storms();
    let state = monitor.state();
    let latest = state.history.latest();
    Found {
        storms,
        messages: format!("{:?}", state.messages),
        times: state.history.after(0).map(|frame| frame.t_ns).collect(),
        stood_still: witness.end(),
        holds: latest.and_then(|frame| frame.gauge(gauge::COMPRESSED_HOLDS)),
    }
}

/// 64 MiB of memory scanned again and again under a cap of 32 MiB, from zram: a fault storm, which is told once while
/// samples keep coming.
#[test]
fn a_fault_storm_of_the_target_gives_one_mark() {
    let there = Path::new("/sys/class/zram-control/hot_add").exists() && rustix::process::geteuid().is_root();
    if !capability("zram", there, "needs root and the zram module") {
        return;
    }
    let mut session = crate::machine::alone();
    let environment = Environment::prepare(&mut session, &zram(32 * MIB)).unwrap();
    let found = while_scanned(environment.cgroup().unwrap(), 64 * MIB, watch_for_a_storm);
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();
    assert_eq!(found.storms, 1, "{}", found.messages);
    assert_punctual(&found.times, found.stood_still);
    // The device that the target swaps to was found.
    assert!(found.holds > Some(16.0 * MIB as f64), "{:?}", found.holds);
}
