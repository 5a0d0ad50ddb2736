//! The keys of a scenario file: one table from which parsing, errors, help and the reference page come.

use std::fmt;

use super::model::{Order, ThpMode, TrimMechanism, Workload};

/// A key of a scenario file.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Which one it is.
    pub(super) id: Id,
    /// The name in the file.
    pub name: &'static str,
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
}

/// Keys by what they are, in the order of [`KEYS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Id {
    Workload,
    Subject,
    Class,
    Size,
    Request,
    Limit,
    SwapSize,
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
}

/// What the values of a key are.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
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

pub(super) const WORKLOADS: &[(&str, Workload)] = &[("compression", Workload::Compression)];
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
];
/// Classes to offer when one is not known.
pub(super) const CLASSES: &[&str] = &["random", "runs20", "constant", "ratio=2.5", "file=PATH"];

/// The word that leaves a setting as the system has it.
pub(super) const SYSTEM: &str = "system";

const DAY: f64 = 86_400.0;

const fn key(id: Id, name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key {
        id,
        name,
        kind,
        default,
        meaning,
        sweep: true,
        whole_plan: false,
    }
}

/// A key that takes one value alone.
const fn single(key: Key) -> Key {
    Key { sweep: false, ..key }
}

/// A key of the whole plan.
const fn whole_plan(key: Key) -> Key {
    Key {
        sweep: false,
        whole_plan: true,
        ..key
    }
}

const fn integer(min: u64, max: u64, or_system: bool) -> Kind {
    Kind::Integer { min, max, or_system }
}

/// Every key, in the order of `Id`, which is the order of the reference page.
pub const KEYS: &[Key] = &[
    single(key(
        Id::Workload,
        "workload",
        Kind::Workload,
        "`compression`",
        "what the worker processes do",
    )),
    key(
        Id::Subject,
        "subject",
        Kind::Subject,
        "`zram`",
        "what is tested: where trimmed pages go",
    ),
    key(
        Id::Class,
        "class",
        Kind::Class,
        "`random`",
        "what the memory is filled with",
    ),
    key(
        Id::Size,
        "size",
        Kind::Size,
        "10% of the available memory, at most `1G`",
        "bytes that the worker fills",
    ),
    key(
        Id::Request,
        "request",
        Kind::Size,
        "`25% size`, at most `1G`",
        "bytes of one allocation; more than `size` means `size`",
    ),
    key(
        Id::Limit,
        "limit",
        Kind::Size,
        "`112.5% size` + `64M`",
        "limit of the memory cgroup that the worker runs in",
    ),
    key(
        Id::SwapSize,
        "swap-size",
        Kind::Size,
        "`110% size` + `16M`",
        "bytes of the zram device or the swap file",
    ),
    key(
        Id::Trim,
        "trim",
        Kind::Trim,
        "`worker`",
        "how pages are made to leave the working set",
    ),
    key(
        Id::Hold,
        "hold",
        Kind::Seconds { min: 0.0, max: DAY },
        "`2`",
        "rest after fill and after trim",
    ),
    key(
        Id::Swappiness,
        "swappiness",
        integer(0, 200, true),
        "`\"system\"`",
        "`vm.swappiness` during the trial",
    ),
    key(
        Id::PageCluster,
        "page-cluster",
        integer(0, 31, true),
        "`\"system\"`",
        "`vm.page-cluster` during the trial: 2^n pages are read from swap at once",
    ),
    key(
        Id::Thp,
        "thp",
        Kind::Thp,
        "`system`",
        "transparent huge pages for the worker's memory",
    ),
    key(
        Id::ZswapPoolPercent,
        "zswap-pool-percent",
        integer(1, 100, true),
        "`\"system\"`",
        "most of RAM that zswap's pool may take, in percent; for the subject `zswap`",
    ),
    single(key(
        Id::SwapDir,
        "swap-dir",
        Kind::Folder,
        "`/var/tmp`",
        "folder for swap files",
    )),
    single(key(
        Id::PhaseTimeout,
        "phase-timeout",
        Kind::Seconds {
            min: 0.1,
            max: 7.0 * DAY,
        },
        "`600`",
        "a phase that takes longer is given up, and its trial has failed",
    )),
    single(key(
        Id::Repeat,
        "repeat",
        integer(1, 1000, false),
        "`3`",
        "how often each combination runs",
    )),
    whole_plan(key(
        Id::Order,
        "order",
        Kind::Order,
        "`random`",
        "order of the trials within each repeat: shuffled by `seed`, or as written",
    )),
    whole_plan(key(
        Id::Seed,
        "seed",
        integer(0, u64::MAX, false),
        "`1`",
        "seed of the data and of the order",
    )),
];

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
        KEYS.iter().find(|key| key.name == name)
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
            Kind::Integer { min, max, or_system } => {
                write!(f, "a whole number, {min} to ")?;
                match max {
                    u64::MAX => f.write_str("2^64 - 1")?,
                    max => write!(f, "{max}")?,
                }
                f.write_str(if or_system { ", or `\"system\"`" } else { "" })
            }
            Kind::Folder => f.write_str("a folder"),
        }
    }
}

/// The table of keys in Markdown, as it stands in the reference page.
pub fn keys_markdown() -> String {
    let mut page = String::from("| key | type | default | sweep | meaning |\n|---|---|---|---|---|\n");
    for key in KEYS {
        let sweep = if key.sweep { "yes" } else { "no" };
        page += &format!(
            "| `{}` | {} | {} | {sweep} | {} |\n",
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
        let plain = format!(
            "  {:<20}{}\n{:22}{}; default {}{sweep}\n",
            key.name, key.meaning, "", key.kind, key.default
        );
        text += &plain.replace('`', "");
    }
    text
}
