//! What it costs to map memory, hand it back in every way there is, and use it again.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::scenario::{Mapping, Touch};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// Bytes of the mapping.
    pub bytes: u64,
    /// How it is mapped.
    pub mapping: Mapping,
    /// What of it is written.
    pub touch: Touch,
    /// Folder for the file of a mapped file.
    pub folder: PathBuf,
    /// Rounds of each way.
    pub rounds: u32,
}
