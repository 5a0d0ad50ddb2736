//! Types of the values of keys.

use std::fmt;

use super::model::Subject;
use super::workload_kind::WorkloadKind;

/// Type of the values of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Workload,
    Subject,
    Class,
    Size,
    /// Seconds between two bounds, both allowed.
    Seconds {
        min: f64,
        max: f64,
    },
    /// A number between two bounds, both allowed.
    Number {
        min: f64,
        max: f64,
    },
    BlockSizes,
    /// A level of memory.
    Level,
    Choice(&'static [&'static str]),
    Flag,
    /// A whole number between two bounds, both allowed.
    Integer {
        min: u64,
        max: u64,
        /// Whether `"system"` is allowed: leave it as the system has it.
        or_system: bool,
    },
    Folder,
    /// A text, as it is written.
    Text,
}

/// Subjects to offer when one is not known.
pub(super) const SUBJECTS: &[&str] = &[
    "zram",
    "zram:lzo-rle",
    "zram:lzo",
    "zram:lz4",
    "zram:zstd",
    "zswap",
    "zswap:lzo",
    "zswap:lz4",
    "zswap:zstd",
    "swapfile",
    "none",
    "pager",
    "pager:lz4",
    "pager:zstd",
    "pager:auto",
    INSTALLED,
    "plimsoll:lfh",
    "plimsoll:standard",
    "plimsoll:lfh,hardened",
    "glibc",
    "jemalloc",
    "tcmalloc",
    "tcmalloc-minimal",
    "mimalloc",
];
/// The subjects to offer that are places of trimmed pages for any program: no allocators, and no pager, which is a part of
/// its program.
pub fn swap_subjects() -> impl Iterator<Item = Subject> {
    let subjects = SUBJECTS.iter().filter_map(|name| name.parse::<Subject>().ok());
    subjects.filter(|subject| subject.allocator().is_none() && subject.pager().is_none())
}

/// Classes to offer when one is not known.
pub(super) const CLASSES: &[&str] = &["random", "runs20", "constant", "ratio=2.5", "file=PATH"];

/// The word that stands for every allocator of the machine.
pub(super) const INSTALLED: &str = "installed";

/// The word that leaves a setting as the system has it.
pub(super) const SYSTEM: &str = "system";

pub(super) const fn integer(min: u64, max: u64, or_system: bool) -> Kind {
    Kind::Integer { min, max, or_system }
}

impl fmt::Display for Kind {
    /// The type in words, as errors and the reference page say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices = |f: &mut fmt::Formatter<'_>, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            f.write_str(&names.join(", "))
        };
        match *self {
            Kind::Workload => choices(f, &WorkloadKind::ALL.map(WorkloadKind::name)),
            Kind::Subject => f.write_str("a subject"),
            Kind::Class => f.write_str("a class"),
            Kind::Size => f.write_str("a size"),
            Kind::Seconds { min, max } => write!(f, "seconds, {min} to {max}"),
            Kind::Number { min, max } => write!(f, "a number, {min} to {max}"),
            Kind::Choice(names) => choices(f, names),
            Kind::Flag => f.write_str("`true` or `false`"),
            Kind::Integer { min, max, or_system } => {
                write!(f, "a whole number, {min} to ")?;
                match max {
                    u64::MAX => f.write_str("2^64 - 1")?,
                    max => write!(f, "{max}")?,
                }
                f.write_str(if or_system { ", or `\"system\"`" } else { "" })
            }
            Kind::BlockSizes => f.write_str("bytes, or a range of them"),
            Kind::Level => f.write_str("a level"),
            Kind::Folder => f.write_str("a folder"),
            Kind::Text => f.write_str("text"),
        }
    }
}
