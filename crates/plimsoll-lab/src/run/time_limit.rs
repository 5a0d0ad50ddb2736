//! The end that a run has however long its work takes.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_sample::stop::Stop;

/// Stops the run when its time is over. Dropped, it lets the run go on.
pub(super) struct TimeLimit(
    #[expect(dead_code, reason = "its drop is what the thread waits for")] Sender<()>,
);

impl TimeLimit {
    pub(super) fn start(limit: Duration, stop: Arc<Stop>) -> Result<TimeLimit, Failure> {
        let (kept, dropped) = channel();
        std::thread::Builder::new()
            .name("time-limit".to_owned())
            .spawn(move || {
                if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    stop.expire(limit);
                }
            })
            .map_err(|error| anyhow::anyhow!("cannot start the thread that keeps the time limit: {error}"))
            .or_exit(Exit::Missing)?;
        Ok(TimeLimit(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_sample::stop::Cause;

    #[test]
    fn a_run_that_ends_in_time_is_not_stopped() {
        let stop = Arc::new(Stop::default());
        let limit = Duration::from_millis(20);
        drop(TimeLimit::start(limit, Arc::clone(&stop)).unwrap());
        std::thread::sleep(limit * 3);
        assert_eq!(stop.cause(), None);
        let kept = TimeLimit::start(limit, Arc::clone(&stop)).unwrap();
        while !stop.requested() {
            std::thread::sleep(limit);
        }
        assert_eq!(stop.cause(), Some(Cause::TimeLimit(limit)));
        drop(kept);
    }
}
