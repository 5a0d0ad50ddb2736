//! Reclaims in steps, which end soon after a timeout or a stop.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::error::EnvironmentError;

/// Bytes of one reclaim request: the write returns only after the kernel has tried.
const STEP: u64 = 64 << 20;
/// Time for the disk to take the pages of files that a limit has no room for.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
pub(super) const POLL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Patience<'a> {
    start: Instant,
    timeout: Duration,
    interrupted: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    pub(super) fn new(timeout: Duration, interrupted: &'a AtomicBool) -> Self {
        Patience {
            start: Instant::now(),
            timeout,
            interrupted,
        }
    }

    /// An error where the reclaim has to end.
    pub(super) fn check(&self) -> Result<(), EnvironmentError> {
        if self.interrupted.load(Ordering::Acquire) {
            return Err(EnvironmentError::Interrupted);
        }
        if self.start.elapsed() >= self.timeout {
            return Err(EnvironmentError::ReclaimTimedOut {
                timeout: self.timeout,
            });
        }
        Ok(())
    }
}

/// Reclaims until it succeeds, while pages of files are not on the disk yet (`dirty`): the kernel reclaims those once they are.
/// Returns whether it succeeded.
pub(super) fn while_unwritten(
    patience: &Patience<'_>,
    dirty: impl Fn() -> u64,
    mut reclaim: impl FnMut() -> Result<bool, EnvironmentError>,
) -> Result<bool, EnvironmentError> {
    let begin = Instant::now();
    loop {
        if reclaim()? {
            return Ok(true);
        }
        if dirty() == 0 || begin.elapsed() >= WRITTEN_WITHIN {
            return Ok(false);
        }
        patience.check()?;
        thread::sleep(POLL);
    }
}

/// Goes through `bytes` in steps of [`STEP`]; `step` gets the bytes of each as a range, and returns whether to go on.
/// Returns whether the end was reached.
pub(super) fn stepwise(
    bytes: u64,
    patience: &Patience<'_>,
    mut step: impl FnMut(Range<u64>) -> Result<bool, EnvironmentError>,
) -> Result<bool, EnvironmentError> {
    let mut done = 0;
    while done < bytes {
        patience.check()?;
        let end = done.saturating_add(STEP).min(bytes);
        if !step(done..end)? {
            return Ok(false);
        }
        done = end;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit of 8 MiB was refused where a program had just written 16 MiB of a file, while the disk was busy.
    #[test]
    fn a_limit_waits_for_the_disk_and_for_nothing_else() {
        let attempts = |dirty: u64, reached_at: u32| {
            let flag = AtomicBool::new(false);
            let patience = Patience::new(Duration::from_secs(60), &flag);
            let count = std::cell::Cell::new(0);
            let reached = while_unwritten(
                &patience,
                || dirty,
                || {
                    count.set(count.get() + 1);
                    Ok(count.get() == reached_at)
                },
            );
            (reached.unwrap(), count.get())
        };
        assert_eq!(attempts(4096, 1), (true, 1));
        assert_eq!(attempts(4096, 3), (true, 3));
        assert_eq!(attempts(0, 3), (false, 1));
    }

    #[test]
    fn a_stop_ends_a_reclaim_between_two_steps() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::from_secs(60), &stop);
        let mut steps = Vec::new();
        let ended = stepwise(10 * STEP, &patience, |step| {
            steps.push(step);
            stop.store(steps.len() == 2, Ordering::Release);
            Ok(true)
        });
        assert!(matches!(ended, Err(EnvironmentError::Interrupted)), "{ended:?}");
        assert_eq!(steps, [0..STEP, STEP..2 * STEP]);
    }

    #[test]
    fn a_timeout_ends_a_reclaim_between_two_steps() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::from_millis(20), &stop);
        let mut steps = 0;
        let ended = stepwise(10 * STEP, &patience, |_| {
            steps += 1;
            thread::sleep(Duration::from_millis(30));
            Ok(true)
        });
        assert_eq!(steps, 1);
        let text = ended.unwrap_err().to_string();
        assert!(
            text.contains("`phase-timeout`") && text.contains("0.0 s"),
            "{text}"
        );
    }

    #[test]
    fn steps_cover_all_bytes_once_and_end_without_progress() {
        let stop = AtomicBool::new(false);
        let patience = Patience::new(Duration::MAX, &stop);
        for (bytes, expected) in [(0, 0), (1, 1), (STEP, 1), (2 * STEP + 1, 3)] {
            let (mut count, mut covered) = (0, 0);
            let reached = stepwise(bytes, &patience, |step| {
                assert_eq!(step.start, covered);
                (count, covered) = (count + 1, step.end);
                Ok(true)
            });
            assert_eq!((reached.unwrap(), count, covered), (true, expected, bytes));
        }
        let mut count = 0;
        let reached = stepwise(u64::MAX, &patience, |_| {
            count += 1;
            Ok(count < 4)
        });
        assert_eq!((reached.unwrap(), count), (false, 4));
    }
}
