//! The machine as tests share it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll::environment::Session;

/// The machine to this test alone: swap is one for all, so a test that turns some on would take the pages of
/// another's. Held until dropped.
pub fn alone() -> Session {
    let wait = Some(Duration::from_secs(600));
    Session::open("a-test", &[], wait, &AtomicBool::new(false)).expect("the machine within ten minutes")
}
