//! The settings of the library: the text of `PLIMSOLL_EXEC`, `1;ram=BYTES;KEY=VALUE...`, which `plimsoll exec` writes.
//!
//! | key | value |
//! |---|---|
//! | `ram` | the budget, in bytes; required |
//! | `codec` | `lz4` (the default), `zstd` or `auto` |
//! | `faults` | `thread` or `signal`; by default the first if the kernel moves pages and the user may have it |
//! | `page-file` | `PATH,BYTES`; `%` and two hexadecimal digits are a byte of the path |
//! | `page-file-if-possible` | the same; the program runs without a page file if it cannot be created |
//! | `pool` | `DESCRIPTOR,FILE`: the open descriptor of the pool that all processes share, and the number of its file (`st_ino`) |
//! | `stats` | the file for the counters at the end of the process: `DESCRIPTOR`, a file of the program; or `DESCRIPTOR,FILE`, a file that all processes share, as for `pool` |

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use plimsoll_pager::{Codec, FaultMode};

/// The variable with the settings.
pub(crate) const VARIABLE: &str = "PLIMSOLL_EXEC";

/// A page file to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// Whether the program must not run without it.
    pub(crate) is_required: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) ram: u64,
    pub(crate) codec: Codec,
    /// None: as the system allows.
    pub(crate) faults: Option<FaultMode>,
    pub(crate) page_file: Option<PageFile>,
    pub(crate) stats: Option<Statistics>,
    pub(crate) pool: Option<Inherited>,
}

/// The file for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistics {
    /// An open file of the program: the number of its descriptor.
    Own(i32),
    /// One that all processes of the program share.
    Shared(Inherited),
}

/// A file of all processes of the program, as this process inherits it: the pool, or the file for the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) descriptor: i32,
    /// The number of its file: the descriptor may have become another file's.
    pub(crate) file: u64,
}

/// The part of the text that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake<'t> {
    /// The version is not 1.
    Version(&'t [u8]),
    Key(&'t [u8]),
    /// A value, with its key.
    Value(&'t [u8], &'t [u8]),
    /// A key that stands there twice.
    Twice(&'t [u8]),
    /// There is no budget.
    NoRam,
}

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "start the program by `plimsoll exec`";
        match self {
            Mistake::Version(text) => write!(f, "version {}, not 1; {remedy}", text.escape_ascii()),
            Mistake::Key(key) => write!(f, "the key {} is unknown; {remedy}", key.escape_ascii()),
            Mistake::Value(key, value) => write!(
                f,
                "{} cannot be {}; {remedy}",
                key.escape_ascii(),
                value.escape_ascii()
            ),
            Mistake::Twice(key) => write!(f, "{} is set twice; {remedy}", key.escape_ascii()),
            Mistake::NoRam => write!(f, "ram is not set; {remedy}"),
        }
    }
}

/// Values before all have been read.
#[derive(Default)]
struct Read {
    ram: Option<u64>,
    codec: Option<Codec>,
    faults: Option<FaultMode>,
    page_file: Option<PageFile>,
    stats: Option<Statistics>,
    pool: Option<Inherited>,
}

impl Configuration {
    /// The files of all processes of the program.
    pub(crate) fn inherited(&self) -> impl Iterator<Item = Inherited> {
        let statistics = self.stats.and_then(|file| match file {
            Statistics::Shared(inherited) => Some(inherited),
            Statistics::Own(_) => None,
        });
        self.pool.into_iter().chain(statistics)
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Configuration, Mistake<'_>> {
        let mut fields = text.split(|byte| *byte == b';');
        let version = fields.next().unwrap_or_default();
        if version != b"1" {
            return Err(Mistake::Version(version));
        }
        let mut read = Read::default();
        for field in fields {
            read.take(field)?;
        }
        Ok(Configuration {
            ram: read.ram.ok_or(Mistake::NoRam)?,
            codec: read.codec.unwrap_or_default(),
            faults: read.faults,
            page_file: read.page_file,
            stats: read.stats,
            pool: read.pool,
        })
    }
}

impl Read {
    fn take<'t>(&mut self, field: &'t [u8]) -> Result<(), Mistake<'t>> {
        let equals = field.iter().position(|byte| *byte == b'=');
        let (key, value) = field.split_at(equals.ok_or(Mistake::Key(field))?);
        let value = &value[1..];
        let is_new = match key {
            b"ram" => set(&mut self.ram, number(value).filter(|ram| *ram > 0)),
            b"codec" => set(&mut self.codec, codec(value)),
            b"faults" => set(&mut self.faults, faults(value)),
            b"page-file" => set(&mut self.page_file, page_file(value, true)),
            b"page-file-if-possible" => set(&mut self.page_file, page_file(value, false)),
            b"stats" => set(&mut self.stats, statistics(value)),
            b"pool" => set(&mut self.pool, inherited(value)),
            _ => return Err(Mistake::Key(key)),
        };
        match is_new {
            Some(true) => Ok(()),
            Some(false) => Err(Mistake::Twice(key)),
            None => Err(Mistake::Value(key, value)),
        }
    }
}

/// Sets a value, and returns whether there was none before; none without a value.
fn set<T>(to: &mut Option<T>, value: Option<T>) -> Option<bool> {
    let value = value?;
    Some(to.replace(value).is_none())
}

/// A decimal number, of digits alone.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

fn descriptor(text: &[u8]) -> Option<i32> {
    number(text).and_then(|number| i32::try_from(number).ok())
}

fn statistics(text: &[u8]) -> Option<Statistics> {
    let shared = inherited(text).map(Statistics::Shared);
    shared.or_else(|| descriptor(text).map(Statistics::Own))
}

fn inherited(text: &[u8]) -> Option<Inherited> {
    let comma = text.iter().position(|byte| *byte == b',')?;
    Some(Inherited {
        descriptor: descriptor(&text[..comma])?,
        file: number(&text[comma + 1..])?,
    })
}

fn codec(text: &[u8]) -> Option<Codec> {
    match text {
        b"lz4" => Some(Codec::Lz4),
        b"zstd" => Some(Codec::Zstd),
        b"auto" => Some(Codec::Auto),
        _ => None,
    }
}

fn faults(text: &[u8]) -> Option<FaultMode> {
    match text {
        b"thread" => Some(FaultMode::Thread),
        b"signal" => Some(FaultMode::Signal),
        _ => None,
    }
}

fn page_file(text: &[u8], is_required: bool) -> Option<PageFile> {
    let comma = text.iter().rposition(|byte| *byte == b',')?;
    let path = decoded(&text[..comma])?;
    let bytes = number(&text[comma + 1..])?;
    (!path.is_empty()).then(|| PageFile {
        path: PathBuf::from(OsString::from_vec(path)),
        bytes,
        is_required,
    })
}

/// The bytes of a percent-encoded text; none if it has a NUL or a `%` without two hexadecimal digits.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        let byte = match first {
            b'%' => {
                let (high, low) = (digit(rest.first()?)?, digit(rest.get(1)?)?);
                rest = &rest[2..];
                (high * 16 + low) as u8
            }
            plain => plain,
        };
        if byte == 0 {
            return None;
        }
        bytes.push(byte);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_key_is_read() {
        let text =
            b"1;ram=67108864;codec=auto;faults=signal;page-file=/a%2Cb%3b%25,1048576;stats=7;pool=896,5";
        let configuration = Configuration {
            ram: 64 << 20,
            codec: Codec::Auto,
            faults: Some(FaultMode::Signal),
            page_file: Some(PageFile {
                path: PathBuf::from("/a,b;%"),
                bytes: 1 << 20,
                is_required: true,
            }),
            stats: Some(Statistics::Own(7)),
            pool: Some(Inherited {
                descriptor: 896,
                file: 5,
            }),
        };
        assert_eq!(Configuration::parse(text), Ok(configuration));
        let shared = Configuration::parse(b"1;ram=1;stats=897,6;pool=896,5").expect("two files");
        let files: Vec<(i32, u64)> = shared.inherited().map(|one| (one.descriptor, one.file)).collect();
        assert_eq!(files, [(896, 5), (897, 6)]);
        let least = Configuration::parse(b"1;ram=1").expect("ram is enough");
        assert_eq!((least.codec, least.faults), (Codec::Lz4, None));
        let spare = Configuration::parse(b"1;ram=1;page-file-if-possible=/a,5").expect("a page file");
        assert!(
            spare
                .page_file
                .is_some_and(|file| !file.is_required && file.bytes == 5)
        );
    }

    #[test]
    fn mistakes_are_named() {
        let cases: [(&[u8], Mistake<'_>); 19] = [
            (b"", Mistake::Version(b"")),
            (b"2;ram=1", Mistake::Version(b"2")),
            (b"01;ram=1", Mistake::Version(b"01")),
            (b"1", Mistake::NoRam),
            (b"1;", Mistake::Key(b"")),
            (b"1;ram", Mistake::Key(b"ram")),
            (b"1;ram=1;speed=3", Mistake::Key(b"speed")),
            (b"1;ram=", Mistake::Value(b"ram", b"")),
            (b"1;ram=0", Mistake::Value(b"ram", b"0")),
            (b"1;ram=+1", Mistake::Value(b"ram", b"+1")),
            (
                b"1;ram=18446744073709551616",
                Mistake::Value(b"ram", b"18446744073709551616"),
            ),
            (b"1;ram=1;ram=2", Mistake::Twice(b"ram")),
            (b"1;stats=4294967296", Mistake::Value(b"stats", b"4294967296")),
            (
                b"1;page-file=/a,1;page-file-if-possible=/a,1",
                Mistake::Twice(b"page-file-if-possible"),
            ),
            (b"1;ram=1;pool=5", Mistake::Value(b"pool", b"5")),
            (b"1;pool=-1,5", Mistake::Value(b"pool", b"-1,5")),
            (b"1;page-file=,1", Mistake::Value(b"page-file", b",1")),
            (b"1;page-file=/a%0,1", Mistake::Value(b"page-file", b"/a%0,1")),
            (b"1;page-file=/a%00,1", Mistake::Value(b"page-file", b"/a%00,1")),
        ];
        for (text, mistake) in cases {
            assert_eq!(
                Configuration::parse(text),
                Err(mistake),
                "{}",
                text.escape_ascii()
            );
        }
    }

    #[test]
    fn a_message_has_no_control_characters() {
        let mistake = Configuration::parse(b"1;\x1b[31m=1").expect_err("no such key");
        assert!(!mistake.to_string().contains('\x1b'));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Configuration::parse(&text).map_err(|mistake| mistake.to_string());
            let text = [b"1;".as_slice(), &text].concat();
            let _ = Configuration::parse(&text).map_err(|mistake| mistake.to_string());
        }

        #[test]
        fn a_path_survives_its_encoding(path in prop::collection::vec(1..=255u8, 1..40)) {
            let encoded: String = path.iter().map(|byte| format!("%{byte:02x}")).collect();
            let text = format!("1;ram=1;page-file={encoded},5");
            let read = Configuration::parse(text.as_bytes()).expect("a valid text");
            let path = PathBuf::from(OsString::from_vec(path));
            prop_assert_eq!(read.page_file.map(|file| (file.path, file.bytes)), Some((path, 5)));
        }
    }
}
