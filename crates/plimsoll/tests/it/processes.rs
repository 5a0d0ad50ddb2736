//! Tests of the `processes` room: an oracle, real processes, real storms.

mod cgroups;
mod listing;
mod oracle;
pub(crate) mod storms;
mod walk;

use std::process::Child;
use std::time::{Duration, Instant};

/// A process that is killed when the test ends, however it ends.
pub(crate) struct Kept(Child);

impl Kept {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
