//! Repeated texts about a process, until it ends.

use std::thread;
use std::time::{Duration, Instant};

use super::screen::Screen;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_proc::ProcessId;
use plimsoll_sample::stop::Stop;

/// Shows the text of `read` every second, on a terminal in place, until a signal or the end of the process `pid`.
pub(super) fn watch(pid: Option<u32>, read: impl Fn() -> Result<String, Failure>) -> Result<Exit, Failure> {
    const INTERVAL: Duration = Duration::from_secs(1);
    const POLL: Duration = Duration::from_millis(50);
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let watched = pid.and_then(|pid| ProcessId::of_any(pid).ok());
    let ended = || watched.is_some_and(|process| !process.is_alive());
    let stopped_or_ended = || {
        let next = Instant::now() + INTERVAL;
        while !stop.requested() && !ended() {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(POLL.min(left));
        }
        true
    };
    let mut text = read()?;
    let screen = Screen::take()?;
    loop {
        if !screen.show(&text)? || stopped_or_ended() {
            return Ok(Exit::Done);
        }
        text = match read() {
            Ok(text) => text,
            // The memory may be unreadable because the process is ending.
            Err(_) if stopped_or_ended() => return Ok(Exit::Done),
            Err(failure) => return Err(failure),
        };
    }
}
