//! The parsers of values of options. Clap adds the option and the value to their errors.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use plimsoll_model::scenario::{SizeError, SizeExpr, Subject};

/// Longest duration in seconds: ten years.
const LONGEST: f64 = 3.2e8;

/// An option has an invalid value. Clap adds the option and the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("not a time; give seconds, or a number with s, m, h or d")]
    NoNumber,
    #[error("out of range; give seconds from 0 to {LONGEST}")]
    Seconds,
    #[error("{0}; give bytes, for instance 512M")]
    Size(#[from] SizeError),
    #[error("a share; give bytes, for instance 512M")]
    Share,
    #[error("not bytes a second; give for instance 10M/s")]
    Rate,
    #[error("no time; give more than 0 seconds")]
    NoTime,
    #[error("not a share; give a percentage above 0 and below 100, for instance 0.1%")]
    Percent,
    #[error(
        "no kind of swap; give zram, zram:ALGORITHM, swapfile or swapfile:FOLDER, each with ,SIZE or without"
    )]
    Swap,
    #[error("no path; give a folder on a disk, or PATH,SIZE")]
    NoPath,
    #[error("not an address and a port; give for instance 127.0.0.1:8080; port 0 selects a free port")]
    Address,
}

/// Parses a time: seconds, or a number with `s`, `m`, `h` or `d`.
pub(super) fn seconds(text: &str) -> Result<f64, ValueError> {
    const UNITS: [(char, f64); 4] = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86400.0)];
    let unit = UNITS
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| ValueError::NoNumber)?;
    let seconds = number * unit;
    match (0.0..=LONGEST).contains(&seconds) {
        true => Ok(seconds),
        false => Err(ValueError::Seconds),
    }
}

/// Parses a time above 0.
pub(super) fn some_seconds(text: &str) -> Result<f64, ValueError> {
    match seconds(text)? {
        0.0 => Err(ValueError::NoTime),
        seconds => Ok(seconds),
    }
}

/// Parses bytes with a unit.
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
    match text.parse()? {
        SizeExpr::Bytes(bytes) => Ok(bytes),
        SizeExpr::Share { .. } => Err(ValueError::Share),
    }
}

/// The place of a page file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageFileArgument {
    None,
    At { path: PathBuf, bytes: Option<u64> },
}

/// Parses `none`, `PATH` or `PATH,SIZE`. Text after the last comma that is not a size belongs to the path.
pub(super) fn page_file(text: OsString) -> Result<PageFileArgument, ValueError> {
    let whole = text.as_bytes();
    if whole == b"none" {
        return Ok(PageFileArgument::None);
    }
    let sized = whole.iter().rposition(|byte| *byte == b',').and_then(|at| {
        let size = std::str::from_utf8(&whole[at + 1..]).ok()?;
        Some((&whole[..at], bytes(size).ok()?))
    });
    let (path, bytes) = match sized {
        Some((path, bytes)) => (path, Some(bytes)),
        None => (whole, None),
    };
    if path.is_empty() {
        return Err(ValueError::NoPath);
    }
    Ok(PageFileArgument::At {
        path: PathBuf::from(OsStr::from_bytes(path)),
        bytes,
    })
}

/// Swap to turn on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapArgument {
    pub kind: SwapKind,
    pub bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwapKind {
    /// With this algorithm, or the kernel's default.
    Zram(Option<String>),
    /// In this folder, or the usual one.
    File(Option<PathBuf>),
}

/// Parses `zram`, `zram:ALGORITHM`, `swapfile` or `swapfile:FOLDER`, each with `,SIZE` or without.
pub(super) fn swap(text: &str) -> Result<SwapArgument, ValueError> {
    let (kind, bytes) = match text.rsplit_once(',') {
        Some((kind, size)) => (kind, Some(bytes(size)?)),
        None => (text, None),
    };
    if let Some(folder) = kind.strip_prefix("swapfile:").filter(|folder| !folder.is_empty()) {
        let kind = SwapKind::File(Some(PathBuf::from(folder)));
        return Ok(SwapArgument { kind, bytes });
    }
    let kind = match kind.parse() {
        Ok(Subject::Zram(algorithm)) => SwapKind::Zram(algorithm),
        Ok(Subject::SwapFile) => SwapKind::File(None),
        _ => return Err(ValueError::Swap),
    };
    Ok(SwapArgument { kind, bytes })
}

/// Parses bytes a second.
pub(super) fn rate(text: &str) -> Result<u64, ValueError> {
    match text.strip_suffix("/s").ok_or(ValueError::Rate)?.parse()? {
        SizeExpr::Bytes(bytes) => Ok(bytes),
        SizeExpr::Share { .. } => Err(ValueError::Rate),
    }
}

/// Parses a percentage above 0 and below 100, with or without `%`. Returns percent.
pub(super) fn percent(text: &str) -> Result<f64, ValueError> {
    let number: f64 = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .map_err(|_| ValueError::Percent)?;
    match number > 0.0 && number < 100.0 {
        true => Ok(number),
        false => Err(ValueError::Percent),
    }
}

/// Parses an address and a port; `localhost` is 127.0.0.1.
pub(super) fn address(text: &str) -> Result<std::net::SocketAddr, ValueError> {
    let named = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address = named.as_deref().unwrap_or(text).parse();
    address.map_err(|_| ValueError::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_file_is_a_path_and_may_have_a_size() {
        let parsed = |text: &str| page_file(text.into()).ok();
        let path = |path: &str, bytes| {
            let path = PathBuf::from(path);
            Some(PageFileArgument::At { path, bytes })
        };
        assert_eq!(parsed("none"), Some(PageFileArgument::None));
        assert_eq!(parsed("./none"), path("./none", None));
        assert_eq!(parsed("/var/tmp"), path("/var/tmp", None));
        assert_eq!(parsed("/var/tmp,2G"), path("/var/tmp", Some(2 << 30)));
        assert_eq!(parsed("/a,b,512M"), path("/a,b", Some(512 << 20)));
        assert_eq!(parsed("/a,b"), path("/a,b", None));
        assert_eq!(parsed("/a,50%"), path("/a,50%", None));
        assert_eq!((parsed(""), parsed(",1G")), (None, None));
    }

    #[test]
    fn swap_is_a_kind_and_may_have_a_size() {
        let parsed = |text: &str| swap(text).map(|found| (found.kind, found.bytes)).ok();
        let zram = |name: Option<&str>| SwapKind::Zram(name.map(str::to_owned));
        assert_eq!(parsed("zram"), Some((zram(None), None)));
        assert_eq!(parsed("zram:zstd,1G"), Some((zram(Some("zstd")), Some(1 << 30))));
        assert_eq!(
            parsed("swapfile,64M"),
            Some((SwapKind::File(None), Some(64 << 20)))
        );
        let named = SwapKind::File(Some("/a,b".into()));
        assert_eq!(parsed("swapfile:/a,b,64M"), Some((named, Some(64 << 20))));
        for text in ["", "zswap", "none", "pager", "zram,", "zram,x", "swapfile:"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
