//! zswap: a compressed cache in RAM before a swap file.

use plimsoll_proc::zswap::{Parameter, Zswap};
use plimsoll_proc::{Tree, crypto};
use serde::Serialize;

use super::error::EnvironmentError;
use super::journal::Journal;
use super::modules;
use super::sysctl;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZswapDescription {
    pub enabled: bool,
    /// The compressor that the kernel reports.
    pub compressor: String,
    /// Most RAM that it may take, in percent.
    pub max_pool_percent: u32,
    /// The allocator, on kernels that have a choice.
    pub zpool: Option<String>,
}

pub(super) fn available() -> bool {
    Parameter::Enabled.file().exists()
}

/// The compressors that are loaded, and the one in use.
pub(super) fn compressors() -> Vec<String> {
    let mut names = crypto::compressors(&Tree::live());
    names.extend(describe().map(|zswap| zswap.compressor));
    names.sort();
    names.dedup();
    names
}

/// Whether the kernel has a compressor: loaded, or a module that it would load.
pub(super) fn has_compressor(asked: &str) -> bool {
    compressors().iter().any(|name| name == asked) || modules::loadable(&format!("crypto-{asked}"))
}

/// Turns zswap on with `compressor` and `pool_percent` (or as they are). Undone through the journal.
pub(super) fn turn_on(
    journal: &mut Journal,
    compressor: Option<&str>,
    pool_percent: Option<u32>,
) -> Result<(), EnvironmentError> {
    if let Some(compressor) = compressor {
        sysctl::set(journal, &Parameter::Compressor.file(), compressor)
            .map_err(|error| explain(error, compressor))?;
    }
    if let Some(percent) = pool_percent {
        sysctl::set(journal, &Parameter::MaxPoolPercent.file(), &percent.to_string())?;
    }
    sysctl::set(journal, &Parameter::Enabled.file(), "Y")?;
    // A kernel that has not used zswap before takes any name, and falls back to its default when it is turned on.
    match (compressor, describe()) {
        (Some(asked), Some(now)) if now.compressor != asked => Err(unknown(asked, now.compressor)),
        _ => Ok(()),
    }
}

/// Turns zswap off if it is on: else it would cache the subject's swap.
pub(super) fn turn_off(journal: &mut Journal) -> Result<(), EnvironmentError> {
    if available() {
        sysctl::set(journal, &Parameter::Enabled.file(), "N").map(drop)
    } else {
        Ok(())
    }
}

/// zswap as it is now; `None` where the kernel has none.
pub(super) fn describe() -> Option<ZswapDescription> {
    let zswap = Zswap::read(&Tree::live())?;
    Some(ZswapDescription {
        enabled: zswap.enabled?,
        compressor: zswap.compressor?,
        max_pool_percent: zswap.max_pool_percent?,
        zpool: zswap.zpool,
    })
}

fn explain(error: EnvironmentError, asked: &str) -> EnvironmentError {
    match error {
        EnvironmentError::NotTaken { found, .. } => unknown(asked, found),
        EnvironmentError::System { ref source, .. }
            if matches!(source.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) =>
        {
            unknown(
                asked,
                describe().map_or_else(String::new, |zswap| zswap.compressor),
            )
        }
        other => other,
    }
}

fn unknown(asked: &str, found: String) -> EnvironmentError {
    EnvironmentError::UnknownCompressor {
        asked: asked.to_owned(),
        found,
        available: crypto::compressors(&Tree::live()),
    }
}
