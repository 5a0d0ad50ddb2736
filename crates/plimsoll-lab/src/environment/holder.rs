//! The holder of the machine lock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The run that holds the machine lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the run; empty where the holder has not written it yet.
    pub run: String,
    /// 0 if unknown.
    pub pid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.run.is_empty() {
            f.write_str("another run")
        } else {
            write!(f, "run `{}` (process {})", self.run, self.pid)
        }
    }
}
