//! The clock of a closed loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two looks at the level.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Ticks {
    start: Instant,
    count: u32,
}

impl Ticks {
    pub(super) fn since(start: Instant) -> Ticks {
        Ticks { start, count: 0 }
    }

    /// Sleeps until the next look, unless `stop` is set; ticks that passed meanwhile are left out.
    pub(super) fn rest(&mut self, stop: &AtomicBool) {
        let elapsed = self.start.elapsed();
        while PERIOD * self.count <= elapsed {
            self.count += 1;
        }
        if !stop.load(Ordering::Acquire) {
            std::thread::sleep((PERIOD * self.count).saturating_sub(elapsed));
        }
    }
}
