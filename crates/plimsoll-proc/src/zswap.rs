//! `/sys/module/zswap/parameters`: the compressed cache in RAM before every swap area.

use std::path::{Path, PathBuf};

use super::{Tree, chosen};

/// Folder of the parameters.
pub const PARAMETERS: &str = "/sys/module/zswap/parameters";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameter {
    /// `Y` or `N`.
    Enabled,
    /// Name of an algorithm.
    Compressor,
    /// Most RAM that it may take, in percent.
    MaxPoolPercent,
}

impl Parameter {
    pub fn file(self) -> PathBuf {
        Path::new(PARAMETERS).join(match self {
            Parameter::Enabled => "enabled",
            Parameter::Compressor => "compressor",
            Parameter::MaxPoolPercent => "max_pool_percent",
        })
    }
}

/// State of zswap; None for values that the kernel does not report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zswap {
    pub enabled: Option<bool>,
    /// The compressor that the kernel says it uses.
    pub compressor: Option<String>,
    /// Most RAM that it may take, in percent.
    pub max_pool_percent: Option<u32>,
    /// The allocator, on kernels that have a choice.
    pub zpool: Option<String>,
    /// Whether cold pages are written to the swap area before the pool is full.
    pub shrinker_enabled: Option<bool>,
}

impl Zswap {
    /// Reads it; None where the kernel has none.
    pub fn read(tree: &Tree) -> Option<Zswap> {
        if !tree.exists(PARAMETERS) {
            return None;
        }
        let value = |name: &str| tree.read(&format!("{PARAMETERS}/{name}"));
        let flag = |name: &str| value(name).map(|text| chosen(&text) == "1");
        Some(Zswap {
            enabled: flag("enabled"),
            compressor: value("compressor"),
            max_pool_percent: value("max_pool_percent").and_then(|text| text.parse().ok()),
            zpool: value("zpool"),
            shrinker_enabled: flag("shrinker_enabled"),
        })
    }
}
