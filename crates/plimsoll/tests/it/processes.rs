//! Tests of the `processes` room: an oracle, real processes, real storms.

mod cgroups;
mod listing;
mod oracle;
pub(crate) mod storms;
mod walk;

use std::time::{Duration, Instant};

use crate::kept::Kept;

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
