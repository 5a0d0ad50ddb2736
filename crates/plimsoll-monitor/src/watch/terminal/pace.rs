//! Frame rate: as high as the terminal accepts.

use std::time::{Duration, Instant};

/// Interval of frames without key presses: faster changes are unreadable.
const FRAME: Duration = Duration::from_millis(200);
/// Interval of frames after a key press.
const PRESSED: Duration = Duration::from_millis(20);
/// Longest interval, however slow the terminal.
const LONGEST: Duration = Duration::from_secs(2);

/// Times of the next frame.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    drawn: Option<Instant>,
    rest: Duration,
    pressed: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            drawn: None,
            rest: Duration::ZERO,
            pressed: false,
        }
    }
}

impl Pace {
    /// Records a frame at `now` that took the terminal `took`. The next one waits at least as long.
    pub fn drew(&mut self, now: Instant, took: Duration) {
        self.drawn = Some(now);
        self.rest = if took < PRESSED {
            Duration::ZERO
        } else {
            (2 * took).min(LONGEST)
        };
        self.pressed = false;
    }

    /// Records a key press: the next frame comes soon.
    pub fn press(&mut self) {
        self.pressed = true;
    }

    /// Time from `now` until the next frame; zero if it is due.
    pub fn wait(&self, now: Instant) -> Duration {
        let Some(drawn) = self.drawn else {
            return Duration::ZERO;
        };
        let period = if self.pressed { PRESSED } else { FRAME };
        (drawn + period.max(self.rest)).saturating_duration_since(now)
    }
}
