//! The sampling thread: its clock, its batches, its targets.

use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_proc::cgroup::CgroupVersion;

use plimsoll_sample::{CgroupFiles, LockError, SampleError, Sampler, SamplerConfig, Target, monotonic_ns};

/// Longest that a test waits for the sampler on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(hz: u32) -> (Sampler, std::sync::mpsc::Receiver<plimsoll_sample::Batch>) {
    Sampler::start(SamplerConfig::by_the_second(hz, monotonic_ns()))
        .expect("a sampler needs nothing but /proc/meminfo")
}

/// A process of our own, ended when the test ends.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        let child = plimsoll_testkit::command("sleep")
            .arg("60")
            .stdin(Stdio::null())
            .spawn();
        Sleeper(child.expect("`sleep` is installed"))
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until the latest sample is as `wanted`.
fn wait_for(sampler: &Sampler, wanted: impl Fn(&Row) -> bool) -> Row {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let row = sampler.latest();
        if wanted(&row) {
            return row;
        }
        assert!(Instant::now() < deadline, "the sample did not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_tick_is_taken_or_counted_as_missed_and_every_row_arrives() {
    let (sampler, batches) = start(100);
    let mut rows: Vec<Row> = Vec::new();
    while rows
        .last()
        .is_none_or(|last| last.t_ns - rows[0].t_ns < 2_000_000_000)
    {
        let batch = batches.recv_timeout(PATIENCE).expect("batches go on");
        rows.extend_from_slice(batch.rows());
    }
    let report = sampler.stop();
    rows.extend(batches.iter().flat_map(|batch| batch.rows().to_vec()));

    assert_eq!(rows.len() as u64, report.samples);
    assert_eq!(report.dropped, 0);
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    // Number of the tick for which a row stands: every tick up to it was taken or missed.
    let tick = |index: usize| index as i64 + rows[index].get(col::MISSED_TICKS).expect("ticks are counted");
    let ticks = report.samples + report.missed;
    assert_eq!(tick(rows.len() - 1) + 1, ticks as i64);
    assert!(ticks >= 200, "{report:?}");
    // Each row was due at its tick, however late the machine let the thread take it.
    let due = |row: &Row| row.t_ns as i64 - row.get(col::TICK_LATE_NS).expect("lateness is measured");
    let error_ns = due(last) - due(first) - (tick(rows.len() - 1) - tick(0)) * 10_000_000;
    assert!(
        error_ns.abs() <= 1000,
        "{error_ns} ns of drift over {ticks} ticks"
    );
    assert!(rows.windows(2).all(|pair| pair[0].t_ns < pair[1].t_ns));
    let missed: Vec<_> = rows
        .iter()
        .map(|row| row.get(col::MISSED_TICKS).unwrap())
        .collect();
    assert!(missed.is_sorted());
    assert_eq!(missed.last().copied(), Some(report.missed as i64));
    let late = rows
        .iter()
        .filter(|row| row.get(col::TICK_LATE_NS) > Some(5_000_000))
        .count();
    assert_eq!(late as u64, report.late);
    assert!(report.cpu_s > 0.0 && report.cpu_percent < 50.0, "{report:?}");
}

/// Rows until `t_ns` after the first one.
fn rows_of(batches: &std::sync::mpsc::Receiver<plimsoll_sample::Batch>, t_ns: u64) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    while rows.last().is_none_or(|last| last.t_ns - rows[0].t_ns < t_ns) {
        let batch = batches.recv_timeout(PATIENCE).expect("batches go on");
        rows.extend_from_slice(batch.rows());
    }
    rows
}

#[test]
fn slow_sources_have_a_value_in_the_first_sample_of_each_second() {
    let slow = [col::RUNNER_RESIDENT, col::KERNEL_THREADS_CPU_US];
    let is_known = |row: &Row| slow.iter().any(|column| row.get(*column).is_some());
    let (sampler, batches) = start(20);
    assert!(rows_of(&batches, 300_000_000).iter().all(is_known));
    drop(sampler);

    let config = SamplerConfig {
        rare_once_a_second: true,
        ..SamplerConfig::by_the_second(20, monotonic_ns())
    };
    let (sampler, batches) = Sampler::start(config).expect("a sampler needs nothing but /proc/meminfo");
    let rows = rows_of(&batches, 2_500_000_000);
    let second = |index: usize| {
        let missed = rows[index].get(col::MISSED_TICKS).expect("ticks are counted");
        (index as i64 + missed) / 20
    };
    for (index, row) in rows.iter().enumerate() {
        let first = index == 0 || second(index) != second(index - 1);
        assert_eq!(is_known(row), first, "row {index}");
        let frequent = [col::MEM_FREE, col::PGFAULT, col::CPU_IDLE_US, col::RUNNER_CPU_US];
        assert!(frequent.iter().all(|column| row.get(*column).is_some()));
    }
    assert!(is_known(&sampler.latest()), "the latest row keeps them");
}

#[test]
fn the_first_sample_is_sent_alone_and_a_stopped_sampler_ends_its_batches() {
    // A batch is full after ten minutes: the first sample would wait for nine times as long as this test.
    let config = SamplerConfig {
        rows_per_batch: 600,
        ..SamplerConfig::by_the_second(1, monotonic_ns())
    };
    let (sampler, batches) = Sampler::start(config).expect("a sampler needs nothing but /proc/meminfo");
    assert!(sampler.latest().get(col::MEM_TOTAL) > Some(0));
    let first = batches
        .recv_timeout(PATIENCE)
        .expect("the first tick is sent alone");
    assert_eq!(first.rows().len(), 1);
    let report = sampler.stop();
    let rest: usize = batches.iter().map(|batch| batch.rows().len()).sum();
    assert_eq!(1 + rest as u64, report.samples);
    assert!(batches.recv().is_err(), "the receiver ends with the sampler");
}

#[test]
fn rates_out_of_range_are_refused() {
    for hz in [0, 101, u32::MAX] {
        let refused = Sampler::start(SamplerConfig::by_the_second(hz, 0));
        assert!(matches!(refused, Err(SampleError::Rate { hz: named }) if named == hz));
    }
}

#[test]
fn a_target_that_vanishes_has_no_values_any_more() {
    let (sampler, _batches) = start(100);
    let (mut first, mut second) = (Sleeper::new(), Sleeper::new());
    sampler.set_target(Some(&Target {
        workers: vec![first.0.id(), second.0.id()],
        cgroup: Some(CgroupFiles::of("/nowhere".as_ref(), CgroupVersion::V2)),
        zram: Some("zram-that-is-not-there".into()),
        swap_device: Some("/dev/zram-that-is-not-there".into()),
        held: None,
    }));
    let both = wait_for(&sampler, |row| row.get(col::WORKER2_RESIDENT) > Some(0));
    let sum = both.get(col::WORKER1_RESIDENT).unwrap() + both.get(col::WORKER2_RESIDENT).unwrap();
    assert_eq!(both.get(col::TARGET_RESIDENT), Some(sum));
    assert_eq!(both.get(col::CGROUP_USAGE), None);
    assert_eq!(both.get(col::ZRAM_ORIG_DATA_SIZE), None);
    assert_eq!(both.get(col::DEVICE_SWAP_USED), None);

    first.end();
    let one = wait_for(&sampler, |row| row.get(col::WORKER1_RESIDENT).is_none());
    assert_eq!(one.get(col::TARGET_RESIDENT), one.get(col::WORKER2_RESIDENT));
    assert!(one.get(col::WORKER2_RESIDENT) > Some(0));

    second.end();
    let none = wait_for(&sampler, |row| row.get(col::TARGET_RESIDENT).is_none());
    assert_eq!(none.get(col::TARGET_ANON), None);
    assert!(none.get(col::MEM_FREE) > Some(0));

    sampler.set_target(None);
    let report = sampler.stop();
    assert!(report.samples > 0);
}

#[test]
fn targets_may_change_at_every_tick() {
    let (sampler, _batches) = start(100);
    let target = Target {
        workers: vec![std::process::id()],
        ..Target::default()
    };
    for _ in 0..200 {
        sampler.set_target(Some(&target));
        sampler.set_target(None);
        thread::sleep(Duration::from_millis(1));
    }
    wait_for(&sampler, |row| row.get(col::TARGET_RESIDENT).is_none());
    sampler.set_target(Some(&target));
    wait_for(&sampler, |row| row.get(col::TARGET_RESIDENT) > Some(0));
}

#[test]
fn the_kernel_threads_that_every_machine_has_are_found() {
    let row = super::read_now();
    let in_container = std::fs::read_to_string("/proc/2/comm").map_or(true, |name| name.trim() != "kthreadd");
    if plimsoll_testkit::capability(
        "kernel-threads",
        !in_container,
        "kernel threads are hidden in a container",
    ) {
        let sum = row
            .get(col::KERNEL_THREADS_CPU_US)
            .expect("kswapd runs everywhere");
        assert!(row.get(col::KSWAPD_CPU_US).expect("kswapd runs everywhere") <= sum);
    }
}

#[test]
fn the_threads_memory_is_locked_or_it_says_why_not() {
    let (sampler, _batches) = start(10);
    let locked = sampler.locked();
    let reason = locked.err().map(ToString::to_string).unwrap_or_default();
    if plimsoll_testkit::capability("mlock", locked.is_ok(), &reason) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmLck:"))
            .unwrap();
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        // The stack alone is a quarter of a MiB.
        assert!(kib > 256, "{kib} KiB locked");
    } else {
        assert!(matches!(locked, Err(LockError::Refused { .. })), "{reason}");
    }
}
