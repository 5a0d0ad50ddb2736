//! The schedule of the retries of a failed SIGCONT.

use std::time::Duration;

/// The wait before the first retry, which is the time between two steps of the guard, and the longest wait. The wait
/// doubles with each retry.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The next retry of a failed SIGCONT.
#[derive(Debug)]
pub(super) struct Retry {
    /// Time of the retry.
    due: Duration,
    wait: Duration,
    /// The guard has found the process stopped since it sent SIGSTOP. A task that waits for a page stops only after the
    /// wait.
    seen_stopped: bool,
    /// The process ran in the last step, after the guard had found it stopped.
    ran: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Wait,
    Try,
    /// Another program has continued the process.
    GiveUp,
}

impl Retry {
    /// The retry after the first failure. `is_stopped` is `None` if the state of the process is unknown.
    pub(super) fn new(is_stopped: Option<bool>) -> Retry {
        Retry {
            due: Duration::ZERO,
            wait: WAITS.0,
            seen_stopped: is_stopped == Some(true),
            ran: false,
        }
    }

    /// The action of this step. With [`Next::Try`], it schedules the next retry as if this one failed too.
    pub(super) fn decide(&mut self, at: Duration, is_stopped: Option<bool>) -> Next {
        let ran = std::mem::replace(&mut self.ran, is_stopped == Some(false) && self.seen_stopped);
        self.seen_stopped |= is_stopped == Some(true);
        if self.ran {
            // A stopped process runs for a moment when a debugger detaches.
            return if ran { Next::GiveUp } else { Next::Wait };
        }
        if at < self.due {
            return Next::Wait;
        }
        self.wait = (2 * self.wait).min(WAITS.1);
        self.due = at + self.wait;
        Next::Try
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guard retried every second without end, each time with a look at all processes.
    #[test]
    fn the_wait_between_retries_doubles_up_to_a_minute() {
        let mut retry = Retry::new(Some(true));
        let tries = (1..=250).filter(|second| {
            let next = retry.decide(Duration::from_secs(*second), Some(true));
            assert_ne!(next, Next::GiveUp);
            next == Next::Try
        });
        let tries: Vec<u64> = tries.collect();
        assert_eq!(tries, [1, 3, 7, 15, 31, 63, 123, 183, 243]);
    }

    #[test]
    fn retries_end_if_a_stopped_process_runs_for_two_steps() {
        let second = Duration::from_secs(1);
        let mut retry = Retry::new(Some(false));
        assert_eq!(
            retry.decide(second, Some(false)),
            Next::Try,
            "the process waits for a page"
        );
        assert_eq!(retry.decide(second, Some(true)), Next::Wait);
        assert_eq!(retry.decide(second, None), Next::Wait);
        assert_eq!(retry.decide(second, Some(false)), Next::Wait);
        assert_eq!(retry.decide(second, Some(true)), Next::Wait, "a debugger left it");
        assert_eq!(retry.decide(second, Some(false)), Next::Wait);
        assert_eq!(retry.decide(second, Some(false)), Next::GiveUp);
    }
}
