//! Latency probes: wake-up, start of a program, small working set.
//!
//! A probe runs in a thread of its own at fixed times. A probe that could not begin because another took longer than
//! the period counts as if it had waited (correction of coordinated omission).

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use plimsoll_os::{Errno, Mapping, ResourceUsage, UsageScope};
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

use super::cost::Stopwatch;
use super::cost::{Cost, Findings};
use super::fill::{Stream, StreamError};
use plimsoll_model::latency::Latencies;
use plimsoll_model::scenario::FillClass;

/// Shortest period, in seconds: below it a probe is a load of its own.
const SHORTEST_PERIOD: f64 = 0.000_1;
/// Longest period, in seconds: a probe that is seldom has no percentiles.
const LONGEST_PERIOD: f64 = 60.0;
/// Longest sleep in one piece, so that the end of a probe is not waited for.
const LONGEST_SLEEP_NS: u64 = 50_000_000;
/// Bytes of the small working set: more than the second-level cache, less than anybody misses.
const SMALL_SET: usize = 4 << 20;
/// Bytes of a page of the small working set, as the kernel's smallest pages have.
const PAGE: usize = 4096;
/// Bytes at the start of each page that count the visits.
const COUNTER: usize = 8;
/// Fill class of the small working set; compresses like the memory of usual programs.
const SMALL_CLASS: FillClass = FillClass::Ratio(2.5);
/// Seed of that data; any would do.
const SMALL_SEED: u64 = 1;
/// Programs that do nothing, the first that is there is started. All are small and on nearly every machine.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("/bin/true", &[]),
    ("/usr/bin/true", &[]),
    ("/bin/sh", &["-c", ":"]),
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub kind: ProbeKind,
    pub period: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeKind {
    Wakeup,
    /// Starts a program as a shell does (fork, exec, wait), and notes how long that takes.
    Launch,
    /// Reads and writes every page of a working set of 4 MiB, and notes how long that takes. At its end the probe
    /// verifies every byte.
    SmallSet,
}

/// Why there is no probe, or no answer of one.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error("cannot probe every {0} s: a period is {SHORTEST_PERIOD} to {LONGEST_PERIOD} seconds")]
    Period(f64),
    #[error("cannot start the probe's thread: {0}; raise the limit of processes (ulimit -u, pids.max)")]
    Thread(io::Error),
    #[error("cannot probe on: the probe's thread died: {0}; report this defect")]
    Died(String),
    #[error("cannot map the {SMALL_SET} bytes of the small working set: {0}; raise the limit (ulimit -v)")]
    Map(Errno),
    #[error("cannot fill the small working set: {0}")]
    Fill(#[from] StreamError),
    #[error("cannot find a program to start: none of {} exists", PROGRAMS.map(|(path, _)| path).join(", "))]
    NoProgram,
    #[error("cannot start {}: {source}", path.display())]
    Launch { path: PathBuf, source: io::Error },
    #[error("cannot probe with {}: it ended with an error", .0.display())]
    Ended(PathBuf),
    #[error(
        "cannot verify the small working set: byte {0} is wrong after {1} visits; test this machine's memory"
    )]
    Wrong(usize, u64),
}

#[derive(Debug)]
pub(super) struct RunningProbe {
    stop: Arc<AtomicBool>,
    asks: Sender<()>,
    laps: Receiver<(Cost, Findings)>,
    thread: JoinHandle<Result<(Cost, Findings), ProbeError>>,
}

impl RunningProbe {
    /// Prepares the subject, and begins. Returns the cost of the preparation.
    pub(super) fn begin(asked: &Probe) -> Result<(RunningProbe, Cost), ProbeError> {
        if !(SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&asked.period) {
            return Err(ProbeError::Period(asked.period));
        }
        let watch = Stopwatch::start(UsageScope::Process);
        let subject = Subject::new(asked.kind)?;
        let cost = watch.stop(subject.bytes());
        let stop = Arc::new(AtomicBool::new(false));
        let asked_to_stop = Arc::clone(&stop);
        let period_ns = (asked.period * 1e9) as u64;
        let (asks, asked_for_laps) = channel();
        let (answers, laps) = channel();
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || probe(subject, period_ns, &asked_to_stop, (&asked_for_laps, &answers)))
            .map_err(ProbeError::Thread)?;
        let probe = RunningProbe {
            stop,
            asks,
            laps,
            thread,
        };
        Ok((probe, cost))
    }

    /// Cost and findings since its start or the last lap, after the end of the current or next probe. The subject
    /// stays, so that a small working set shows its recovery.
    pub(super) fn lap(&mut self) -> Result<(Cost, Findings), ProbeError> {
        // A closed channel means that the thread has ended; `end` returns the reason.
        let lap = self.asks.send(()).ok().and_then(|()| self.laps.recv().ok());
        lap.ok_or_else(|| ProbeError::Died("end the probe to learn why".to_owned()))
    }

    /// Ends it. The cost is its own since it began or since the last lap, with that of the programs which it started.
    pub(super) fn end(self) -> Result<(Cost, Findings), ProbeError> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(ProbeError::Died(
                text.unwrap_or_else(|| "it did not say why".to_owned()),
            ))
        })
    }
}

/// Probes at multiples of the period until `stop`.
fn probe(
    mut subject: Subject,
    period_ns: u64,
    stop: &AtomicBool,
    (asks, answers): (&Receiver<()>, &Sender<(Cost, Findings)>),
) -> Result<(Cost, Findings), ProbeError> {
    let mut latencies = Latencies::new();
    latencies.clear();
    let mut tally = Tally::default();
    let mut watch = Stopwatch::start(UsageScope::Thread);
    let mut earlier_probes = 0;
    let mut due_ns = now_ns() + period_ns;
    while sleep_until(due_ns, stop) {
        tally.probes += 1;
        match subject.probe(due_ns, &mut tally.children) {
            Some(took_ns) => {
                tally.took_ns += took_ns;
                latencies.record_corrected(took_ns, period_ns);
            }
            None => tally.failed += 1,
        }
        // The next one that is still to come; those in between have been counted as waiting.
        let periods = now_ns().saturating_sub(due_ns) / period_ns + 1;
        due_ns += periods * period_ns;
        if asks.try_recv().is_ok() {
            let lap = std::mem::replace(&mut watch, Stopwatch::start(UsageScope::Thread));
            let cost = tally.with_children(lap.stop(subject.bytes() * tally.probes));
            // The receiver is gone if the probe is being dropped.
            let _ = answers.send((cost, findings(&latencies, &tally, &cost)));
            earlier_probes += tally.probes;
            tally = Tally::default();
            latencies.clear();
        }
    }
    let cost = tally.with_children(watch.stop(subject.bytes() * tally.probes));
    subject.verify(earlier_probes + tally.probes)?;
    Ok((cost, findings(&latencies, &tally, &cost)))
}

/// Counts of a probe beside latencies.
#[derive(Debug, Default)]
struct Tally {
    /// Those that were carried out, failed ones too.
    probes: u64,
    failed: u64,
    /// Sum of the latencies of those that did not fail.
    took_ns: u64,
    children: ResourceUsage,
}

impl Tally {
    fn with_children(&self, cost: Cost) -> Cost {
        Cost {
            cpu_user_s: cost.cpu_user_s + self.children.user_us as f64 / 1e6,
            cpu_system_s: cost.cpu_system_s + self.children.system_us as f64 / 1e6,
            minor_faults: cost.minor_faults + self.children.minor_faults,
            major_faults: cost.major_faults + self.children.major_faults,
            ..cost
        }
    }
}

/// Percentiles, number and total time of the probes, and their own cost. The percentiles include the latencies of
/// probes that could not begin in time (`corrected_count`).
fn findings(latencies: &Latencies, tally: &Tally, cost: &Cost) -> Findings {
    let mut findings = Findings::default();
    for (name, percent) in [("p50_s", 50.0), ("p99_s", 99.0), ("p999_s", 99.9)] {
        if let Some(ns) = latencies.percentile(percent) {
            findings.set(name, ns as f64 / 1e9);
        }
    }
    if let Some(ns) = latencies.max() {
        findings.set("max_s", ns as f64 / 1e9);
    }
    findings.set("corrected_count", latencies.count() as f64);
    findings.set("probes_count", tally.probes as f64);
    findings.set("failed_count", tally.failed as f64);
    findings.set("took_s", tally.took_ns as f64 / 1e9);
    let cpu_s = cost.cpu_user_s + cost.cpu_system_s;
    findings.set("probe_cpu_s", cpu_s);
    if cost.seconds > 0.0 {
        findings.set("probe_cpu_percent", 100.0 * cpu_s / cost.seconds);
    }
    findings.latency = Some(latencies.to_text());
    findings
}

/// The prepared subject of a probe.
#[derive(Debug)]
enum Subject {
    Wakeup,
    Launch(PathBuf, &'static [&'static str]),
    SmallSet { memory: Mapping, visits: u64 },
}

impl Subject {
    fn new(kind: ProbeKind) -> Result<Subject, ProbeError> {
        match kind {
            ProbeKind::Wakeup => Ok(Subject::Wakeup),
            ProbeKind::Launch => {
                let found = PROGRAMS.iter().find(|(path, _)| Path::new(path).exists());
                let (path, arguments) = found.ok_or(ProbeError::NoProgram)?;
                // Once before the measurement: loads its file into the page cache, and detects a program that cannot
                // start.
                match launch(path.as_ref(), arguments) {
                    Ok(Some(_)) => Ok(Subject::Launch(path.into(), arguments)),
                    Ok(None) => Err(ProbeError::Ended(path.into())),
                    Err(source) => Err(ProbeError::Launch {
                        path: path.into(),
                        source,
                    }),
                }
            }
            ProbeKind::SmallSet => {
                let mut memory = Mapping::anonymous(SMALL_SET).map_err(ProbeError::Map)?;
                Stream::new(&SMALL_CLASS, SMALL_SEED)?.write(0, memory.bytes_mut());
                for page in memory.bytes_mut().chunks_exact_mut(PAGE) {
                    page[..COUNTER].fill(0);
                }
                Ok(Subject::SmallSet { memory, visits: 0 })
            }
        }
    }

    /// Bytes that one probe works on.
    fn bytes(&self) -> u64 {
        match self {
            Subject::SmallSet { memory, .. } => memory.len() as u64,
            _ => 0,
        }
    }

    /// Probes once, for the time `due_ns`. Returns the time it took, or `None` if a program did not start, as on a
    /// machine that is out of memory.
    fn probe(&mut self, due_ns: u64, children: &mut ResourceUsage) -> Option<u64> {
        let start_ns = now_ns();
        match self {
            Subject::Wakeup => return Some(start_ns.saturating_sub(due_ns)),
            Subject::Launch(path, arguments) => {
                let usage = launch(path, arguments).ok().flatten()?;
                children.user_us += usage.user_us;
                children.system_us += usage.system_us;
                children.minor_faults += usage.minor_faults;
                children.major_faults += usage.major_faults;
            }
            Subject::SmallSet { memory, visits } => {
                for page in memory.bytes_mut().chunks_exact_mut(PAGE) {
                    let counter = &mut page[..COUNTER];
                    let mut bytes = [0; COUNTER];
                    bytes.copy_from_slice(counter);
                    counter.copy_from_slice(&(u64::from_ne_bytes(bytes) + 1).to_ne_bytes());
                }
                *visits += 1;
            }
        }
        Some(now_ns().saturating_sub(start_ns))
    }

    /// Verifies every byte of the small working set, after `probes` probes.
    fn verify(&self, probes: u64) -> Result<(), ProbeError> {
        let Subject::SmallSet { memory, visits } = self else {
            return Ok(());
        };
        debug_assert_eq!(*visits, probes);
        let mut stream = Stream::new(&SMALL_CLASS, SMALL_SEED)?;
        let mut expected = [0; PAGE];
        for (number, page) in memory.bytes().chunks_exact(PAGE).enumerate() {
            stream.write((number * PAGE) as u64, &mut expected);
            expected[..COUNTER].copy_from_slice(&probes.to_ne_bytes());
            if let Some(wrong) = (0..PAGE).find(|&byte| page[byte] != expected[byte]) {
                return Err(ProbeError::Wrong(number * PAGE + wrong, probes));
            }
        }
        Ok(())
    }
}

/// Starts a program and waits for its end. Returns its usage, or `None` after an error or a signal.
fn launch(path: &Path, arguments: &[&str]) -> io::Result<Option<ResourceUsage>> {
    let child = std::process::Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Not by the handle, which does not return the child's usage.
    let ended = plimsoll_os::wait(child.id()).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
    Ok((ended.code == Some(0)).then_some(ended.usage))
}

/// Nanoseconds of CLOCK_MONOTONIC.
fn now_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    // Since the start of the machine, so that it is neither negative nor too large.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until `due_ns`; false after a stop. A probe that is due runs also after a stop, so that the latest is not
/// missing.
fn sleep_until(due_ns: u64, stop: &AtomicBool) -> bool {
    loop {
        let now = now_ns();
        if now >= due_ns {
            return true;
        }
        if stop.load(Ordering::Acquire) {
            return false;
        }
        let until = due_ns.min(now + LONGEST_SLEEP_NS);
        let until = Timespec {
            tv_sec: (until / 1_000_000_000) as _,
            tv_nsec: (until % 1_000_000_000) as _,
        };
        // A signal ends it early, and the loop sleeps on.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn probed(kind: ProbeKind, period: f64, seconds: f64) -> (Cost, Findings) {
        let (probe, _) = RunningProbe::begin(&Probe { kind, period }).unwrap();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        probe.end().unwrap()
    }

    /// Properties of every probe, also on a busy machine.
    fn assert_sound(cost: &Cost, findings: &Findings, period: f64) {
        let value = |name: &str| findings.values[name];
        let probes = value("probes_count");
        assert!(probes >= 1.0 && value("failed_count") == 0.0, "{findings:?}");
        assert!(value("corrected_count") >= probes, "{findings:?}");
        assert!(probes <= cost.seconds / period + 1.0, "{findings:?}");
        // None took longer than the longest, which is exact to 1 %.
        assert!(value("took_s") > 0.0, "{findings:?}");
        assert!(value("took_s") <= 1.02 * probes * value("max_s"), "{findings:?}");
        let rising = [value("p50_s"), value("p99_s"), value("p999_s"), value("max_s")];
        assert!(rising.is_sorted() && rising[3] <= cost.seconds, "{findings:?}");
        let latencies = Latencies::from_text(findings.latency.as_ref().unwrap()).unwrap();
        assert_eq!(latencies.count() as f64, value("corrected_count"));
        assert_eq!(value("probe_cpu_s"), cost.cpu_user_s + cost.cpu_system_s);
    }

    #[test]
    fn a_wakeup_probe_keeps_its_period_and_costs_little() {
        let (cost, findings) = probed(ProbeKind::Wakeup, 0.002, 0.3);
        assert_sound(&cost, &findings, 0.002);
        // Corrected ones stand for the missed ones: together there is one for each period.
        let share = findings.values["corrected_count"] / (cost.seconds / 0.002);
        assert!(share > 0.5 && share < 1.2, "{findings:?}");
        assert!(findings.values["probe_cpu_percent"] < 50.0, "{findings:?}");
    }

    #[test]
    fn a_launch_probe_counts_the_cost_of_its_programs() {
        let (cost, findings) = probed(ProbeKind::Launch, 0.02, 0.3);
        assert_sound(&cost, &findings, 0.02);
        // A program that starts has its pages to fault in.
        assert!(
            cost.minor_faults as f64 >= findings.values["probes_count"],
            "{cost:?}"
        );
        assert!(findings.values["p50_s"] > 10e-6, "{findings:?}");
    }

    #[test]
    fn a_small_set_is_visited_whole_each_time_and_verified() {
        let (cost, findings) = probed(ProbeKind::SmallSet, 0.01, 0.2);
        assert_sound(&cost, &findings, 0.01);
        assert_eq!(
            cost.bytes as f64,
            findings.values["probes_count"] * SMALL_SET as f64
        );
    }

    #[test]
    fn a_lap_answers_and_the_probe_goes_on() {
        let asked = Probe {
            kind: ProbeKind::SmallSet,
            period: 0.005,
        };
        let (mut probe, _) = RunningProbe::begin(&asked).unwrap();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(20));
            let (cost, findings) = probe.lap().unwrap();
            assert_sound(&cost, &findings, 0.005);
        }
        // The end compares with all visits, those before the laps as well.
        probe.end().unwrap();
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let mut subject = Subject::new(ProbeKind::SmallSet).unwrap();
        for _ in 0..2 {
            subject.probe(0, &mut ResourceUsage::default());
        }
        subject.verify(2).unwrap();
        if let Subject::SmallSet { memory, .. } = &mut subject {
            memory.bytes_mut()[3 * PAGE + 77] ^= 1;
        }
        let error = subject.verify(2).unwrap_err();
        assert!(
            matches!(error, ProbeError::Wrong(offset, 2) if offset == 3 * PAGE + 77),
            "{error}"
        );
    }

    #[test]
    fn the_end_of_a_probe_does_not_wait_for_its_period() {
        let begun = Instant::now();
        let (cost, findings) = probed(ProbeKind::Wakeup, 60.0, 0.0);
        assert!(begun.elapsed() < Duration::from_secs(10), "{cost:?}");
        assert_eq!(findings.values["corrected_count"], 0.0);
        assert!(!findings.values.contains_key("p99_s"), "no value of nothing");
    }

    #[test]
    fn an_invalid_period_is_refused() {
        for period in [0.0, -1.0, 1e-6, 61.0, f64::NAN, f64::INFINITY] {
            let asked = Probe {
                kind: ProbeKind::Wakeup,
                period,
            };
            let error = RunningProbe::begin(&asked).unwrap_err();
            assert!(
                matches!(error, ProbeError::Period(refused) if refused.to_bits() == period.to_bits()),
                "{error}"
            );
            let text = error.to_string();
            assert!(text.contains("0.0001") && text.contains("60"), "{text}");
        }
    }

    #[test]
    fn a_failing_program_has_no_usage() {
        assert!(launch("/bin/sh".as_ref(), &["-c", ":"]).unwrap().is_some());
        assert!(launch("/bin/sh".as_ref(), &["-c", "exit 3"]).unwrap().is_none());
        assert!(launch("/nowhere".as_ref(), &[]).is_err());
    }

    #[test]
    fn the_panic_of_the_probe_thread_is_an_error() {
        let mut probe = RunningProbe {
            stop: Arc::new(AtomicBool::new(false)),
            asks: channel().0,
            laps: channel().1,
            thread: std::thread::spawn(|| panic!("out of luck")),
        };
        assert!(matches!(probe.lap(), Err(ProbeError::Died(_))));
        let error = probe.end().unwrap_err();
        assert!(
            matches!(&error, ProbeError::Died(cause) if cause == "out of luck"),
            "{error}"
        );
    }
}
