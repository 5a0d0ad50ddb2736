//! Continuations that failed: when the guard tries one again.

use std::time::Duration;

/// Time between the failure and the first attempt, which is that between two steps of the guard, and the longest between two
/// attempts.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// A continuation that failed.
#[derive(Debug)]
pub(super) struct Retry {
    /// The next attempt.
    due: Duration,
    /// Time before it.
    wait: Duration,
    /// The process was seen stopped since the guard stopped it. A task that waits for a page stops only afterwards.
    seen_stopped: bool,
    /// The process ran in the last step, although it was seen stopped before.
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
    /// A first failure. The process is stopped, or not; `None` if that is unknown.
    pub(super) fn new(is_stopped: Option<bool>) -> Retry {
        Retry {
            due: Duration::ZERO,
            wait: WAITS.0,
            seen_stopped: is_stopped == Some(true),
            ran: false,
        }
    }

    /// What to do in this step. An attempt is taken to fail too.
    pub(super) fn decide(&mut self, at: Duration, is_stopped: Option<bool>) -> Next {
        let ran = std::mem::replace(&mut self.ran, is_stopped == Some(false) && self.seen_stopped);
        self.seen_stopped |= is_stopped == Some(true);
        if self.ran {
            // A stopped process runs for a moment when a debugger leaves it.
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

    /// Each attempt cost a look at all processes, every second without end.
    #[test]
    fn attempts_become_rarer() {
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
    fn a_process_that_runs_after_it_was_seen_stopped_is_given_up() {
        let second = Duration::from_secs(1);
        let mut retry = Retry::new(Some(false));
        assert_eq!(
            retry.decide(second, Some(false)),
            Next::Try,
            "it waits for a page"
        );
        assert_eq!(retry.decide(second, Some(true)), Next::Wait);
        assert_eq!(retry.decide(second, None), Next::Wait);
        assert_eq!(retry.decide(second, Some(false)), Next::Wait);
        assert_eq!(retry.decide(second, Some(true)), Next::Wait, "a debugger left it");
        assert_eq!(retry.decide(second, Some(false)), Next::Wait);
        assert_eq!(retry.decide(second, Some(false)), Next::GiveUp);
    }
}
