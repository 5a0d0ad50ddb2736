//! The sampling thread: a row a tick, at absolute times, independent of the rest of the process.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

use super::SampleError;
use super::batch::{Batch, Outbox};
use super::reader::{Attached, RARE_COLUMNS, Reader, Sources, Target};
use super::residency::{LockError, lock_spans, lock_thread, span_of};
use super::schedule::Schedule;
use super::swaps::SlotHistory;
use plimsoll_model::columns::{Row, col};
use plimsoll_model::recording::model::SamplerReport;

/// Highest rate: above it the sampler's own cost would show in its samples.
pub const MAX_HZ: u32 = 100;

/// The longest sleep in one piece, so that stopping never takes longer.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

/// Enough for the deepest call of a tick several times over, even without optimisation, and little to lock.
const STACK: usize = 256 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Samples a second, 1 to [`MAX_HZ`].
    pub hz: u32,
    /// Start of the recording in nanoseconds of CLOCK_MONOTONIC: rows count their time from it, wrapping, since a
    /// recording that is resumed after a reboot began before the clock did.
    pub origin_ns: u64,
    /// Samples that arrive together: a second's worth to be recorded, one to be looked at.
    pub rows_per_batch: usize,
    /// Whether sources that change slowly, the kernel threads' CPU time and the resident size of this process, are read
    /// once a second. Their columns are empty in the other rows.
    pub rare_once_a_second: bool,
}

impl SamplerConfig {
    /// Samples that arrive once a second, in batches.
    pub fn by_the_second(hz: u32, origin_ns: u64) -> SamplerConfig {
        SamplerConfig {
            hz,
            origin_ns,
            rows_per_batch: hz as usize,
            rare_once_a_second: false,
        }
    }

    /// Samples that arrive as they are taken.
    pub fn at_once(hz: u32, origin_ns: u64) -> SamplerConfig {
        SamplerConfig {
            hz,
            origin_ns,
            rows_per_batch: 1,
            rare_once_a_second: false,
        }
    }
}

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// A thread that samples until it is stopped, or this handle is dropped.
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<SamplerReport>>,
    locked: Result<(), LockError>,
}

impl Sampler {
    /// Opens the sources, starts the thread and returns once a first sample has been read, with the end at which
    /// batches of samples arrive, the first of them at once. The receiver ends after the sampler has.
    ///
    /// # Errors
    /// When the rate is out of range, /proc/meminfo cannot be read, or no thread can be started.
    pub fn start(config: SamplerConfig) -> Result<(Sampler, Receiver<Batch>), SampleError> {
        if !(1..=MAX_HZ).contains(&config.hz) {
            return Err(SampleError::Rate { hz: config.hz });
        }
        let mut reader = Reader::open()?;
        let (outbox, batches) = Outbox::new(config.rows_per_batch, config.hz);
        let mut first = Row::empty(monotonic_ns().wrapping_sub(config.origin_ns));
        reader.read(&mut first);
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            latest: Mutex::new(Latest {
                row: first,
                slots: *reader.slot_history(),
            }),
            handover: Mutex::new(Handover::default()),
        });
        let mut spans = reader.spans();
        spans.extend_from_slice(outbox.spans());
        spans.push(span_of(&*shared));
        let (ready, started) = mpsc::sync_channel(1);
        let in_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("sampler".into())
            .stack_size(STACK)
            .spawn(move || {
                // The receiver is gone only when `start` has panicked.
                let _ = ready.send(lock_thread(&spans));
                drop((ready, spans));
                run(config, reader, outbox, &in_thread)
            })
            .map_err(SampleError::Thread)?;
        let locked = started.recv().unwrap_or(Err(LockError::Ended));
        let sampler = Sampler {
            shared,
            thread: Some(thread),
            locked,
        };
        Ok((sampler, batches))
    }

    /// Watches `target` from the next tick on. Its files are opened here, in the caller's thread.
    pub fn set_target(&self, target: Option<&Target>) {
        let attached = Attached::open(target);
        if self.locked.is_ok() {
            // Where the start could lock, this small piece can be locked too, or does not matter.
            let _ = lock_spans("target", &attached.spans());
        }
        let replaced = {
            let mut handover = lock(&self.shared.handover);
            (handover.retired.take(), handover.waiting.replace(attached))
        };
        drop(replaced);
    }

    /// The latest sample. Columns that are read once a second have their last value.
    pub fn latest(&self) -> Row {
        lock(&self.shared.latest).row
    }

    /// Devices behind the `swapN_*` columns by slot, as far as they were seen; several of one slot with commas between.
    pub fn swap_slots(&self) -> Vec<String> {
        let slots = lock(&self.shared.latest).slots;
        slots.labels()
    }

    /// Whether the thread's memory is locked; if not, why.
    pub fn locked(&self) -> Result<(), &LockError> {
        self.locked.as_ref().copied()
    }

    /// Ends the thread, after it has sent its rows, and returns its cost and losses.
    pub fn stop(mut self) -> SamplerReport {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<SamplerReport> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

/// State of the handle and the thread. The thread only tries the locks: if the handle holds one, the work waits for the
/// next tick.
struct Shared {
    stop: AtomicBool,
    latest: Mutex<Latest>,
    handover: Mutex<Handover>,
}

struct Latest {
    row: Row,
    slots: SlotHistory,
}

/// A change of target on its way.
///
/// Invariant: `retired` is empty while `waiting` is not, so the thread never has to free anything.
#[derive(Default)]
struct Handover {
    waiting: Option<Box<Attached>>,
    /// The thread's previous sources, for the handle to close.
    retired: Option<Box<Attached>>,
}

/// Locks even after a panic elsewhere: every value behind these locks is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread. Nothing in the loop allocates, opens or closes a file, or waits but for the clock.
fn run(config: SamplerConfig, mut reader: Reader, mut outbox: Outbox, shared: &Shared) -> SamplerReport {
    // Timers may otherwise be 50 us late to save wake-ups. Where that cannot be set, ticks are that much later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut row = Row::empty(0);
    let start_ns = monotonic_ns();
    let start_cpu_ns = thread_cpu_ns();
    let mut schedule = Schedule::new(config.hz, start_ns);
    let mut samples = 0;
    while sleep_until(schedule.deadline_ns(), &shared.stop) {
        let now_ns = monotonic_ns();
        let late_ns = schedule.take(now_ns);
        row.t_ns = now_ns.wrapping_sub(config.origin_ns);
        take_handover(&mut reader, shared);
        let sources = match config.rare_once_a_second && !schedule.begins_second() {
            true => Sources::Frequent,
            false => Sources::All,
        };
        reader.read_sources(sources, &mut row);
        let cpu_ns = thread_cpu_ns() - start_cpu_ns;
        row.set(col::SAMPLER_CPU_US, (cpu_ns / 1000) as i64);
        row.set(col::TICK_LATE_NS, late_ns as i64);
        row.set(col::MISSED_TICKS, schedule.missed as i64);
        samples += 1;
        publish(&row, sources, &reader, shared);
        outbox.push(&row);
    }
    outbox.flush();
    report(
        config.hz,
        samples,
        &schedule,
        outbox.dropped,
        thread_cpu_ns() - start_cpu_ns,
        monotonic_ns() - start_ns,
    )
}

fn take_handover(reader: &mut Reader, shared: &Shared) {
    if let Ok(mut handover) = shared.handover.try_lock()
        && let Some(attached) = handover.waiting.take()
    {
        handover.retired = Some(reader.attach(attached));
    }
}

fn publish(row: &Row, sources: Sources, reader: &Reader, shared: &Shared) {
    if let Ok(mut latest) = shared.latest.try_lock() {
        let rare = RARE_COLUMNS.map(|column| (column, latest.row.get(column)));
        latest.row = *row;
        if sources == Sources::Frequent {
            for (column, value) in rare {
                if let Some(value) = value {
                    latest.row.set(column, value);
                }
            }
        }
        if latest.slots.len() != reader.slot_history().len() {
            latest.slots = *reader.slot_history();
        }
    }
}

fn report(
    hz: u32,
    samples: u64,
    schedule: &Schedule,
    dropped: u64,
    cpu_ns: u64,
    wall_ns: u64,
) -> SamplerReport {
    let cpu_s = cpu_ns as f64 / 1e9;
    SamplerReport {
        hz,
        samples,
        late: schedule.late,
        missed: schedule.missed,
        dropped,
        cpu_s,
        cpu_percent: 100.0 * cpu_ns as f64 / wall_ns.max(1) as f64,
        us_per_sample: cpu_s * 1e6 / samples.max(1) as f64,
    }
}

/// Sleeps until `deadline_ns` of CLOCK_MONOTONIC. False when asked to stop.
fn sleep_until(deadline_ns: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now_ns = monotonic_ns();
        if now_ns >= deadline_ns {
            return true;
        }
        let until_ns = deadline_ns.min(now_ns + LONGEST_SLEEP_NS);
        let until = Timespec {
            tv_sec: (until_ns / 1_000_000_000) as i64,
            tv_nsec: (until_ns % 1_000_000_000) as _,
        };
        // A signal ends the sleep early; the loop then sleeps on.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tick_is_due_at_the_start() {
        let now_ns = monotonic_ns();
        let schedule = Schedule::new(1, now_ns);
        assert_eq!(schedule.deadline_ns(), now_ns);
        assert!(sleep_until(now_ns, &AtomicBool::new(false)));
    }

    /// The deadline is centuries away: a stop that waited for it would never return.
    #[test]
    fn a_stop_ends_the_sleep_before_its_deadline() {
        assert!(!sleep_until(u64::MAX, &AtomicBool::new(true)));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| sleep_until(u64::MAX, &stop));
            stop.store(true, Ordering::Relaxed);
            assert!(!sleeper.join().expect("no panic"));
        });
    }
}
