//! The one table of what is sampled: name, unit, meaning and source of each column, and the row that holds them.

use serde::{Deserialize, Serialize};

/// What a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes, a level.
    Bytes,
    /// A counter that only grows, of events.
    Count,
    /// A counter that only grows, of bytes.
    CountBytes,
    /// A counter that only grows, of microseconds.
    CountMicroseconds,
    /// A counter that only grows, of pages.
    CountPages,
    /// Nanoseconds, a level.
    Nanoseconds,
    /// A number of things, a level.
    Number,
}

/// A column of the samples.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name in the recording.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it means, a sentence.
    pub meaning: &'static str,
    /// File and field it is read from, or how it is computed.
    pub source: &'static str,
}

/// Declares [`COLUMNS`] and, for each, an index constant in [`col`].
macro_rules! columns {
    ($($index:ident $name:literal $unit:ident $source:literal $meaning:literal;)*) => {
        /// Every column, in the order of the recording. The time of the row (`t_ns`) comes before them.
        pub const COLUMNS: &[Column] = &[
            $(Column { name: $name, unit: Unit::$unit, meaning: $meaning, source: $source },)*
        ];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($index,)* }

        /// Index of each column in [`COLUMNS`] and in a [`Row`].
        pub mod col {
            $(#[doc = $meaning] pub const $index: usize = super::Index::$index as usize;)*
        }
    };
}

columns! {
    MEM_TOTAL "mem_total" Bytes "/proc/meminfo MemTotal" "Memory the kernel manages.";
    MEM_FREE "mem_free" Bytes "/proc/meminfo MemFree" "Memory that holds nothing.";
    MEM_AVAILABLE "mem_available" Bytes "/proc/meminfo MemAvailable" "Kernel's estimate of what programs could still get without swapping.";
}

/// Number of columns.
pub const WIDTH: usize = COLUMNS.len();

/// One sample: a value a column, or nothing where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    values: [i64; WIDTH],
    present: [bool; WIDTH],
}

impl Row {
    /// A row with nothing in it.
    pub const fn empty(t_ns: u64) -> Self {
        Row {
            t_ns,
            values: [0; WIDTH],
            present: [false; WIDTH],
        }
    }

    /// Sets column `index`.
    #[inline]
    pub fn set(&mut self, index: usize, value: i64) {
        self.values[index] = value;
        self.present[index] = true;
    }

    /// Value of column `index`, if the system said.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.present[index].then(|| self.values[index])
    }
}
