//! A process that a test has started.

use std::process::Child;

/// A process, killed when dropped, also if it is stopped.
pub struct Kept(pub Child);

impl Kept {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kill();
    }
}
