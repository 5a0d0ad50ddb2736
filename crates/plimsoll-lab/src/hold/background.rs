//! A level that a run holds while a trial runs, in a thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::controller::MOST_TAKEN;
use super::error::HoldError;
use super::gauge::Scope;
use super::holder::{Holder, LACK_DIVISOR};
use super::options::Options;
use super::summary::{Ending, Summary};
use super::tick::PERIOD;
use crate::environment::memory_reserve;
use crate::workload::{Worker, WorkerOptions};
use plimsoll_model::scenario::{FillClass, Level, Machine};

/// Time that a step may take on a slow machine, in units of the usual one.
const SLOW: u32 = 4;

type Held = Result<(Summary, Ending), HoldError>;

/// A level that is held, until its end or its drop.
pub(crate) struct Background {
    pid: u32,
    over: Arc<AtomicBool>,
    reached: Arc<AtomicBool>,
    /// `None` only after the end.
    thread: Option<JoinHandle<(Worker, Held)>>,
}

impl Background {
    /// Begins to hold a level of the machine, with a worker that `spawn` starts.
    pub(crate) fn begin(
        level: Level,
        spawn: impl FnOnce(&WorkerOptions) -> Result<Worker, HoldError>,
    ) -> Result<Background, HoldError> {
        let options = Options {
            level: level.into(),
            scope: Scope::Machine,
            ramp: Duration::ZERO,
            duration: None,
            class: FillClass::Random,
            touch_every: None,
            reserve: None,
            folder: PathBuf::new(),
            wait: None,
        };
        let mut holder = Holder::start(&options, spawn)?;
        let pid = holder.worker.pid();
        let (over, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stop, is_reached) = (Arc::clone(&over), Arc::clone(&reached));
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || {
                let held = holder.run(&stop, &mut |_, summary| {
                    is_reached.store(summary.reached_s.is_some(), Ordering::Release);
                });
                (holder.worker, held)
            })
            .map_err(HoldError::Thread)?;
        Ok(Background {
            pid,
            over,
            reached,
            thread: Some(thread),
        })
    }

    /// The worker with the memory.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the level was within its tolerance at least once.
    pub(crate) fn has_reached(&self) -> bool {
        self.reached.load(Ordering::Acquire)
    }

    /// Whether it ended by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; returns its worker, which still has the memory, and its course.
    pub(crate) fn end(mut self) -> (Option<Worker>, Held) {
        self.over.store(true, Ordering::Release);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok((worker, held))) => (Some(worker), held),
            Some(Err(_)) | None => (None, Err(HoldError::Panicked)),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Checks that a level can be held on a machine.
///
/// # Errors
/// [`HoldError`]: the level leaves less than the reserve, or other programs use more already.
pub fn fits(level: Level, machine: &Machine) -> Result<(), HoldError> {
    let left = level.leaves(machine.ram, machine.available);
    let reserve = memory_reserve(machine.ram);
    if left < reserve {
        return Err(HoldError::Reserve { left, reserve });
    }
    if machine.available < left - left / LACK_DIVISOR {
        return Err(HoldError::AlreadyUsed {
            available: machine.available,
            goal: left,
        });
    }
    Ok(())
}

/// Longest time that a level should take from its start until it is reached.
pub(crate) fn time_to_reach(level: Level, machine: &Machine) -> Duration {
    let missing = machine
        .available
        .saturating_sub(level.leaves(machine.ram, machine.available));
    let steps = u32::try_from(missing.div_ceil(MOST_TAKEN)).unwrap_or(u32::MAX);
    PERIOD.saturating_mul(steps).saturating_mul(SLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::AllocatorSet;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_level_fits_above_the_present_use_and_below_the_reserve() {
        let machine = Machine {
            ram: 24 * GIB,
            available: 20 * GIB,
            cgroup_limit: None,
            cpus: 2,
            allocators: AllocatorSet::default(),
        };
        let fits = |text: &str| fits(text.parse().unwrap(), &machine);
        for text in ["used=80%", "available=2G", "bytes=18G", "used=4G"] {
            assert!(fits(text).is_ok(), "{text}");
        }
        for text in ["used=99%", "available=1G", "bytes=19G", "bytes=30G"] {
            assert!(matches!(fits(text), Err(HoldError::Reserve { .. })), "{text}");
        }
        assert!(matches!(fits("used=10%"), Err(HoldError::AlreadyUsed { .. })));
        let time = time_to_reach("available=4G".parse().unwrap(), &machine);
        assert_eq!(
            time,
            Duration::from_secs(4 * 256 / 10) + Duration::from_millis(400)
        );
    }
}
