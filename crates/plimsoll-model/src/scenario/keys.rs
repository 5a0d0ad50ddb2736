//! The keys of a scenario file: one table from which parsing, errors, help and the reference page come.

mod table;

use std::fmt;

use super::model::{Order, ThpMode, TrimMechanism};
use super::workloads::WorkloadKind;

pub use table::KEYS;
pub(super) use table::LONGEST;

/// A key of a scenario file.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Which one it is.
    pub(super) id: Id,
    /// The name in the file.
    pub name: &'static str,
    /// Another name, where the literature has one.
    pub alias: Option<&'static str>,
    /// What its values are.
    pub kind: Kind,
    /// What holds where the key is not given, in words.
    pub default: &'static str,
    /// What it means, in words.
    pub meaning: &'static str,
    /// Whether a list of values is allowed, which makes a sweep.
    pub sweep: bool,
    /// True for keys of the whole plan, which cannot stand in a section.
    pub whole_plan: bool,
    /// The kinds of work that know the key; empty where all do.
    pub of: &'static [WorkloadKind],
}

/// Keys by what they are, in the order of [`KEYS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Workload,
    Scale,
    Subject,
    Class,
    Consumers,
    ConsumerSize,
    Size,
    MaxLoad,
    Request,
    Limit,
    SwapSize,
    Writes,
    Sleep,
    Stagger,
    Pattern,
    Compute,
    Load,
    CapBy,
    Mapping,
    Touch,
    Suspended,
    HeapLoad,
    Threads,
    Blocks,
    BlockSize,
    Volume,
    Duration,
    Trim,
    Hold,
    Swappiness,
    PageCluster,
    Thp,
    ZswapPoolPercent,
    SwapDir,
    PhaseTimeout,
    Repeat,
    Order,
    Seed,
    TimeLimit,
}

/// What the values of a key are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// One of `WORKLOADS`.
    Workload,
    /// A [`super::Subject`].
    Subject,
    /// A [`super::FillClass`].
    Class,
    /// A [`super::SizeExpr`].
    Size,
    /// One of `TRIMS`.
    Trim,
    /// One of `THP_MODES`.
    Thp,
    /// One of `ORDERS`.
    Order,
    /// Seconds between two bounds, both allowed.
    Seconds {
        /// Fewest.
        min: f64,
        /// Most.
        max: f64,
    },
    /// A number between two bounds, both allowed.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A [`super::BlockSizes`].
    BlockSizes,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// True or false.
    Flag,
    /// A whole number between two bounds, both allowed.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Whether `"system"` is allowed: leave it as the system has it.
        or_system: bool,
    },
    /// A folder.
    Folder,
}

pub(super) const WORKLOADS: &[(&str, WorkloadKind)] = &{
    let mut named = [("", WorkloadKind::Compression); WorkloadKind::ALL.len()];
    let mut place = 0;
    while place < named.len() {
        let kind = WorkloadKind::ALL[place];
        named[place] = (kind.name(), kind);
        place += 1;
    }
    named
};
pub(super) const TRIMS: &[(&str, TrimMechanism)] = &[
    ("worker", TrimMechanism::Worker),
    ("process-madvise", TrimMechanism::ProcessMadvise),
    ("cgroup", TrimMechanism::Cgroup),
];
pub(super) const THP_MODES: &[(&str, ThpMode)] = &[
    ("system", ThpMode::System),
    ("always", ThpMode::Always),
    ("never", ThpMode::Never),
];
pub(super) const ORDERS: &[(&str, Order)] = &[("random", Order::Random), ("fixed", Order::Fixed)];

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
    INSTALLED,
    "plimsoll:lfh",
    "plimsoll:standard",
    "glibc",
    "jemalloc",
    "tcmalloc",
    "tcmalloc-minimal",
    "mimalloc",
];
/// Classes to offer when one is not known.
pub(super) const CLASSES: &[&str] = &["random", "runs20", "constant", "ratio=2.5", "file=PATH"];

/// The word that stands for every allocator of the machine.
pub(super) const INSTALLED: &str = "installed";

/// The word that leaves a setting as the system has it.
pub(super) const SYSTEM: &str = "system";

// [`Key::of`] takes a key by its place.
const _: () = {
    let mut place = 0;
    while place < KEYS.len() {
        assert!(KEYS[place].id as usize == place);
        place += 1;
    }
};

impl Key {
    /// The key of this name.
    pub(super) fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter()
            .find(|key| key.name == name || key.alias == Some(name))
    }

    /// Whether this kind of work knows the key.
    pub fn is_of(&self, kind: WorkloadKind) -> bool {
        self.of.is_empty() || self.of.contains(&kind)
    }

    /// The kinds of work that know it, in words; empty where all do.
    fn of_words(&self) -> String {
        let names: Vec<&str> = self.of.iter().map(|kind| kind.name()).collect();
        names.join(", ")
    }

    /// The key that an [`Id`] stands for.
    pub(super) fn of(id: Id) -> &'static Key {
        &KEYS[id as usize]
    }
}

/// The names of a table of choices, in backquotes.
fn names<T>(choices: &[(&str, T)]) -> String {
    let names: Vec<String> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

impl fmt::Display for Kind {
    /// The type in words, as errors and the reference page say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kind::Workload => f.write_str(&names(WORKLOADS)),
            Kind::Trim => f.write_str(&names(TRIMS)),
            Kind::Thp => f.write_str(&names(THP_MODES)),
            Kind::Order => f.write_str(&names(ORDERS)),
            Kind::Subject => f.write_str("a subject"),
            Kind::Class => f.write_str("a class"),
            Kind::Size => f.write_str("a size"),
            Kind::Seconds { min, max } => write!(f, "seconds, {min} to {max}"),
            Kind::Number { min, max } => write!(f, "a number, {min} to {max}"),
            Kind::Choice(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                f.write_str(&names.join(", "))
            }
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
            Kind::Folder => f.write_str("a folder"),
        }
    }
}

/// The table of keys in Markdown, as it stands in the reference page.
pub fn keys_markdown() -> String {
    let mut page =
        String::from("| key | of | type | default | sweep | meaning |\n|---|---|---|---|---|---|\n");
    for key in KEYS {
        let sweep = if key.sweep { "yes" } else { "no" };
        let of = match key.of {
            [] => "all".to_owned(),
            _ => key.of_words(),
        };
        let alias = key.alias.map_or(String::new(), |alias| format!(", `{alias}`"));
        page += &format!(
            "| `{}`{alias} | {of} | {} | {} | {sweep} | {} |\n",
            key.name, key.kind, key.default, key.meaning
        );
    }
    page
}

/// The table of keys for a terminal.
pub fn keys_help() -> String {
    let mut text = String::new();
    for key in KEYS {
        let sweep = if key.sweep { "; a list is a sweep" } else { "" };
        let alias = key.alias.map_or(String::new(), |alias| format!(", {alias}"));
        let of = match key.of {
            [] => String::new(),
            _ => format!("; of {}", key.of_words()),
        };
        let plain = format!(
            "  {:<20}{}\n{:22}{}; default {}{sweep}{of}\n",
            format!("{}{alias}", key.name),
            key.meaning,
            "",
            key.kind,
            key.default
        );
        text += &plain.replace('`', "");
    }
    text
}
