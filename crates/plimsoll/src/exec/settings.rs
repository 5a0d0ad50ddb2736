//! The settings of the preloaded library, in the variable `PLIMSOLL_EXEC`.
//!
//! ```text
//! 1;ram=67108864;codec=auto;page-file=/var/tmp,268435456;stats=2;pool=896,12345
//! ```
//!
//! The version comes first. The library refuses a version or a key that it does not know. A path is percent-encoded. The
//! pool that all processes of the program share has the number of its descriptor and that of its file.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::counters::CountersFile;
use super::shared_pool::SharedPool;

/// Version of the format.
const VERSION: u32 = 1;

/// Descriptor of standard error.
const STDERR: u32 = 2;

/// The codec of pages that leave the working set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    Lz4,
    Zstd,
    /// LZ4 at first, Zstandard for idle pages.
    #[default]
    Auto,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFile {
    /// An absolute path: the program may change its folder.
    pub path: PathBuf,
    pub bytes: u64,
    /// Whether the program must not run without it.
    pub is_required: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Budget in bytes.
    pub ram: u64,
    pub codec: Codec,
    pub page_file: Option<PageFile>,
    /// Whether the library prints a line of statistics on standard error at the end of the program.
    pub stats: bool,
}

impl Settings {
    pub const VARIABLE: &'static str = "PLIMSOLL_EXEC";

    /// The value of the variable. Without a pool, each process has a budget of its own. With a file for them, the counters
    /// are not printed.
    pub fn value(&self, pool: Option<&SharedPool>, counters: Option<&CountersFile>) -> OsString {
        let codec = match self.codec {
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
            Codec::Auto => "auto",
        };
        let mut text = format!("{VERSION};ram={};codec={codec}", self.ram);
        // Writing to a string cannot fail.
        if let Some(file) = &self.page_file {
            let key = if file.is_required {
                "page-file"
            } else {
                "page-file-if-possible"
            };
            let _ = write!(text, ";{key}={},{}", encoded(&file.path), file.bytes);
        }
        if let Some(counters) = counters {
            let _ = write!(text, ";stats={counters}");
        } else if self.stats {
            let _ = write!(text, ";stats={STDERR}");
        }
        if let Some(pool) = pool {
            let _ = write!(text, ";pool={pool}");
        }
        text.into()
    }
}

/// The path with every byte in percent-encoding that is not a letter, a digit or one of `/-_.~`.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_path_cannot_add_a_key() {
        let path = OsStr::from_bytes(b"/a;b=c,%\xff d");
        let settings = Settings {
            ram: 1 << 26,
            codec: Codec::Zstd,
            page_file: Some(PageFile {
                path: path.into(),
                bytes: 5,
                is_required: true,
            }),
            stats: true,
        };
        assert_eq!(
            settings.value(None, None),
            "1;ram=67108864;codec=zstd;page-file=/a%3Bb%3Dc%2C%25%FF%20d,5;stats=2"
        );
        let mut plain = Settings {
            codec: Codec::default(),
            stats: false,
            ..settings
        };
        plain.page_file = Some(PageFile {
            path: "/var/tmp".into(),
            bytes: 7,
            is_required: false,
        });
        assert_eq!(
            plain.value(None, None),
            "1;ram=67108864;codec=auto;page-file-if-possible=/var/tmp,7"
        );
        plain.page_file = None;
        assert_eq!(plain.value(None, None), "1;ram=67108864;codec=auto");
        let pool = SharedPool::make(plain.ram).expect("memory files are allowed");
        let expected = format!("1;ram=67108864;codec=auto;pool={pool}");
        assert_eq!(plain.value(Some(&pool), None), OsStr::new(&expected));
        plain.stats = true;
        let counters = CountersFile::make().expect("memory files are allowed");
        let expected = format!("1;ram=67108864;codec=auto;stats={counters}");
        assert_eq!(plain.value(None, Some(&counters)), OsStr::new(&expected));
    }
}
