//! The nouns of a scenario: machine, subject, fill class, order.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::allocator::{Allocator, AllocatorSet};
use super::choice::named;
use super::pager::PagerOptions;

/// The facts of the machine that sizes and `%` are resolved against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// MemTotal in bytes.
    pub ram: u64,
    /// MemAvailable in bytes at the time of resolution.
    pub available: u64,
    /// The tightest memory limit of the cgroups that this process is in, where there is one.
    pub cgroup_limit: Option<u64>,
    pub cpus: u32,
    /// The allocators that it has besides the C library's and ours.
    #[serde(default)]
    pub allocators: AllocatorSet,
}

/// Order in which the trials of a plan run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Repeat by repeat, the combinations shuffled within each (seeded). The default: drift hits all alike.
    Random,
    /// As written in the file.
    Fixed,
}

/// The subject of a test: the swap device for trimmed pages, the pager of the worker, or the allocator under a heap
/// load. As text: `zram`, `zram:lz4`, `zswap`, `zswap:lzo`, `swapfile`, `none`; `pager`, `pager:lz4`; `glibc`,
/// `plimsoll:lfh`, `jemalloc`, ...
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A zram device, with the named algorithm or the kernel's default.
    Zram(Option<String>),
    /// zswap (with the named compressor or the current one) before a swap file.
    Zswap(Option<String>),
    SwapFile,
    /// No swap device: the kernel cannot trim anonymous pages.
    NoSwap,
    /// A pager in the worker, which trims pages into a store of its own.
    Pager(PagerOptions),
    /// An allocator, without a swap device.
    Allocator(Allocator),
}

impl Subject {
    /// Whether it puts trimmed pages into swap of its own.
    pub fn has_swap(&self) -> bool {
        !matches!(self, Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_))
    }

    /// Whether its swap is compressed RAM, before a swap file or without one.
    pub fn has_compressed_swap(&self) -> bool {
        matches!(self, Subject::Zram(_) | Subject::Zswap(_))
    }

    /// Whether swapped-out pages go to a file.
    pub fn has_swap_file(&self) -> bool {
        matches!(self, Subject::Zswap(_) | Subject::SwapFile)
    }

    pub fn pager(&self) -> Option<&PagerOptions> {
        match self {
            Subject::Pager(options) => Some(options),
            _ => None,
        }
    }

    pub fn allocator(&self) -> Option<&Allocator> {
        match self {
            Subject::Allocator(allocator) => Some(allocator),
            _ => None,
        }
    }
}

/// Content of the filled memory. As text: `random`, `runs20`, `constant`, `ratio=2.5`, `file=/path`.
#[derive(Debug, Clone, PartialEq)]
pub enum FillClass {
    Random,
    /// Blocks of 20 equal bytes, each with a random value.
    Runs20,
    /// One value in all bytes.
    Constant,
    /// lz4 compresses a 4 KiB page R:1.
    Ratio(f64),
    /// The bytes of a real file, repeated.
    File(PathBuf),
}

/// Transparent huge pages for the worker's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThpMode {
    /// The system's default.
    System,
    /// `MADV_HUGEPAGE`.
    Always,
    /// `MADV_NOHUGEPAGE`.
    Never,
}

/// Text that is not a subject, a class or a number of theirs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a {what}; known: {known}")]
pub struct ParseNameError {
    pub given: String,
    /// "subject" or "class".
    pub what: &'static str,
    pub known: &'static str,
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Zram(None) => f.write_str("zram"),
            Subject::Zram(Some(algorithm)) => write!(f, "zram:{algorithm}"),
            Subject::Zswap(None) => f.write_str("zswap"),
            Subject::Zswap(Some(compressor)) => write!(f, "zswap:{compressor}"),
            Subject::SwapFile => f.write_str("swapfile"),
            Subject::NoSwap => f.write_str("none"),
            Subject::Pager(options) => options.fmt(f),
            Subject::Allocator(allocator) => allocator.fmt(f),
        }
    }
}

impl std::str::FromStr for Subject {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(allocator) = Allocator::of_text(text) {
            return Ok(Subject::Allocator(allocator));
        }
        if let Some(options) = PagerOptions::of_text(text) {
            let error = |_| ParseNameError {
                given: text.to_owned(),
                what: "subject",
                known: PagerOptions::known(),
            };
            return options.map(Subject::Pager).map_err(error);
        }
        let (head, tail) = match text.split_once(':') {
            Some((head, tail)) => (head, Some(tail)),
            None => (text, None),
        };
        let name_ok = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        match (head, tail) {
            ("zram", None) => Ok(Subject::Zram(None)),
            ("zram", Some(name)) if name_ok(name) => Ok(Subject::Zram(Some(name.to_owned()))),
            ("zswap", None) => Ok(Subject::Zswap(None)),
            ("zswap", Some(name)) if name_ok(name) => Ok(Subject::Zswap(Some(name.to_owned()))),
            ("swapfile", None) => Ok(Subject::SwapFile),
            ("none", None) => Ok(Subject::NoSwap),
            _ => Err(ParseNameError {
                given: text.to_owned(),
                what: "subject",
                known: "zram, zram:ALGORITHM, zswap, zswap:COMPRESSOR, swapfile, none, pager, pager:CODEC; of the work `heap` installed, \
                        plimsoll:lfh, `plimsoll:lfh,hardened`, plimsoll:standard, glibc, jemalloc, tcmalloc, tcmalloc-minimal, mimalloc, \
                        snmalloc, rpmalloc, hoard, mesh, scudo, hardened-malloc, tbbmalloc, preload=PATH",
            }),
        }
    }
}

impl std::fmt::Display for FillClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FillClass::Random => f.write_str("random"),
            FillClass::Runs20 => f.write_str("runs20"),
            FillClass::Constant => f.write_str("constant"),
            FillClass::Ratio(ratio) => write!(f, "ratio={ratio}"),
            FillClass::File(path) => write!(f, "file={}", path.display()),
        }
    }
}

impl std::str::FromStr for FillClass {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseNameError {
            given: text.to_owned(),
            what: "class",
            known: "random, runs20, constant, ratio=R (1 to 100), file=PATH",
        };
        match text.split_once('=') {
            None => match text {
                "random" => Ok(FillClass::Random),
                "runs20" => Ok(FillClass::Runs20),
                "constant" => Ok(FillClass::Constant),
                _ => Err(error()),
            },
            Some(("ratio", number)) => match number.parse::<f64>() {
                Ok(ratio) if (1.0..=100.0).contains(&ratio) => Ok(FillClass::Ratio(ratio)),
                _ => Err(error()),
            },
            Some(("file", path)) if !path.is_empty() => Ok(FillClass::File(PathBuf::from(path))),
            Some(_) => Err(error()),
        }
    }
}

/// Serialises a noun as its text form, so that files and protocol show the user's spelling.
macro_rules! serde_as_text {
    ($noun:ty) => {
        impl serde::Serialize for $noun {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $noun {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(super) use serde_as_text;

named!(Order, "random" = Order::Random, "fixed" = Order::Fixed,);
named!(
    ThpMode,
    "system" = ThpMode::System,
    "always" = ThpMode::Always,
    "never" = ThpMode::Never,
);

serde_as_text!(Subject);
serde_as_text!(FillClass);
