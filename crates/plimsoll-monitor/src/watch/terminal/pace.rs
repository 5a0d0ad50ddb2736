//! How often to draw: as often as the terminal takes it.

use std::time::{Duration, Instant};

/// Time between two frames when nothing is pressed: figures that change faster cannot be read.
const FRAME: Duration = Duration::from_millis(200);
/// Time between two frames when something is pressed.
const PRESSED: Duration = Duration::from_millis(20);
/// However slow the terminal, it is tried this often.
const LONGEST: Duration = Duration::from_secs(2);

/// When to draw next.
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
    /// A frame was handed to the terminal at `now`, which took the terminal `took`: it gets as long to rest.
    pub fn drew(&mut self, now: Instant, took: Duration) {
        self.drawn = Some(now);
        self.rest = if took < PRESSED {
            Duration::ZERO
        } else {
            (2 * took).min(LONGEST)
        };
        self.pressed = false;
    }

    /// Something was pressed: it is to be seen soon.
    pub fn press(&mut self) {
        self.pressed = true;
    }

    /// Time from `now` until the next frame is due; zero when it is.
    pub fn wait(&self, now: Instant) -> Duration {
        let Some(drawn) = self.drawn else {
            return Duration::ZERO;
        };
        let period = if self.pressed { PRESSED } else { FRAME };
        (drawn + period.max(self.rest)).saturating_duration_since(now)
    }
}
