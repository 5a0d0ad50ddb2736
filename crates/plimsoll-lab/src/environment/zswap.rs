//! zswap: a compressed cache in RAM before a swap file.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::control_file::{chosen, read};
use super::error::EnvironmentError;
use super::session::Session;
use super::sysctl;

const PARAMETERS: &str = "/sys/module/zswap/parameters";

/// zswap as it is during a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZswapDescription {
    /// Whether it is on.
    pub enabled: bool,
    /// The compressor that the kernel says it uses.
    pub compressor: String,
    /// Most RAM that it may take, in percent.
    pub max_pool_percent: u32,
    /// The allocator, on kernels that have a choice.
    pub zpool: Option<String>,
}

fn parameter(name: &str) -> PathBuf {
    Path::new(PARAMETERS).join(name)
}

/// Whether this kernel has zswap.
pub(super) fn available() -> bool {
    parameter("enabled").exists()
}

/// Turns zswap on with `compressor` and `pool_percent` (or as they are). Undone through the session.
pub(super) fn turn_on(
    session: &mut Session,
    compressor: Option<&str>,
    pool_percent: Option<u32>,
) -> Result<(), EnvironmentError> {
    if let Some(compressor) = compressor {
        sysctl::set(session, &parameter("compressor"), compressor)
            .map_err(|error| explain(error, compressor))?;
    }
    if let Some(percent) = pool_percent {
        sysctl::set(session, &parameter("max_pool_percent"), &percent.to_string())?;
    }
    sysctl::set(session, &parameter("enabled"), "Y")?;
    // A kernel that has not used zswap before takes any name, and falls back to its default when it is turned on.
    match (compressor, describe()) {
        (Some(asked), Some(now)) if now.compressor != asked => Err(unknown(asked, now.compressor)),
        _ => Ok(()),
    }
}

/// Turns zswap off where it is on: without it a subject would be measured through a cache that was not asked for.
pub(super) fn turn_off(session: &mut Session) -> Result<(), EnvironmentError> {
    if available() {
        sysctl::set(session, &parameter("enabled"), "N").map(drop)
    } else {
        Ok(())
    }
}

/// zswap as it is now; `None` where the kernel has none.
pub(super) fn describe() -> Option<ZswapDescription> {
    let value = |name: &str| read(&parameter(name)).ok();
    Some(ZswapDescription {
        enabled: chosen(&value("enabled")?) == "1",
        compressor: value("compressor")?,
        max_pool_percent: value("max_pool_percent")?.parse().ok()?,
        zpool: value("zpool"),
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
    let text = fs::read_to_string("/proc/crypto").unwrap_or_default();
    EnvironmentError::UnknownCompressor {
        asked: asked.to_owned(),
        found,
        available: compressors(&text),
    }
}

/// Names of the compression algorithms in the text of `/proc/crypto`.
fn compressors(text: &str) -> Vec<String> {
    let mut names: Vec<String> = text
        .split("\n\n")
        .filter_map(|block| {
            let field = |key: &str| {
                block.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    (name.trim() == key).then(|| value.trim().to_owned())
                })
            };
            let kind = field("type")?;
            matches!(kind.as_str(), "scomp" | "acomp" | "compression").then(|| field("name"))?
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::compressors;

    #[test]
    fn compressors_of_proc_crypto() {
        let text = "name         : lzo\ndriver       : lzo-scomp\ntype         : scomp\n\n\
                    name         : crc32c\ntype         : shash\n\n\
                    name         : lz4\ntype         : compression\n\nname         : lzo\ntype         : acomp\n";
        assert_eq!(compressors(text), ["lz4", "lzo"]);
        assert!(compressors("").is_empty());
    }
}
