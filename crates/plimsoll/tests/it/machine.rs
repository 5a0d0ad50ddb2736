//! The machine as tests share it.

use std::time::Duration;

use plimsoll::environment::Session;

/// The machine to this test alone: swap is one for all, so a test that turns some on would take the pages of
/// another's. Held until dropped.
pub fn alone() -> Session {
    Session::open("a-test", &[], Some(Duration::from_secs(600))).expect("the machine within ten minutes")
}
