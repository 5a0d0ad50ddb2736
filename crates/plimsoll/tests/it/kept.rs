//! A process that a test has started.

use std::process::{Child, Stdio};

/// A process, killed when dropped, also if it is stopped.
pub(crate) struct Kept(pub Child);

impl Kept {
    /// Starts a program whose output is of no interest.
    pub(crate) fn start(program: &str, arguments: &[&str]) -> Kept {
        let child = plimsoll_testkit::command(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        Kept(child)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_some()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kill();
    }
}
