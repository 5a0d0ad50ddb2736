//! The header of a swap area, as `mkswap` writes it and the kernel reads it.
//!
//! ```text
//! offset       bytes  meaning (native byte order)
//! 0             1024  boot block, untouched
//! 1024             4  version, 1
//! 1028             4  number of the last page
//! 1032             4  number of bad pages, 0
//! 1036            16  UUID
//! 1052            16  label, padded with zeros
//! page - 10       10  "SWAPSPACE2"
//! ```
//! Source: `union swap_header` of `<linux/swap.h>`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 10] = b"SWAPSPACE2";
const VERSION: u32 = 1;
const INFO: usize = 1024;
const UUID: usize = INFO + 12;
const LABEL: usize = UUID + 16;
const LABEL_BYTES: usize = 16;

/// Pages that the kernel asks for at least, the header among them (as `mkswap` does).
const MIN_PAGES: u64 = 10;

/// Header of a swap area of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapHeader {
    /// Pages of the area, the header's among them.
    pub pages: u64,
    /// Identity of the area: tells whether an area is the one that this program made.
    pub uuid: [u8; 16],
    /// Name of the area, at most 16 bytes.
    pub label: String,
}

/// A size that no swap area can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot make a swap area of {bytes} bytes: it must have {least} to {most}")]
pub struct SwapHeaderError {
    pub bytes: u64,
    pub least: u64,
    pub most: u64,
}

impl SwapHeader {
    /// A header with a random UUID for an area of `bytes`, rounded down to pages of `page_size`.
    ///
    /// # Errors
    /// When the size is under ten pages or over the largest that the header can hold (16 TiB with 4 KiB pages).
    pub fn new(bytes: u64, page_size: usize, label: &str) -> Result<SwapHeader, SwapHeaderError> {
        let page = page_size as u64;
        let pages = bytes / page;
        if pages < MIN_PAGES || pages - 1 > u64::from(u32::MAX) {
            let most = (u64::from(u32::MAX) + 1).saturating_mul(page);
            return Err(SwapHeaderError {
                bytes,
                least: MIN_PAGES * page,
                most,
            });
        }
        Ok(SwapHeader {
            pages,
            uuid: random_uuid(),
            label: label.chars().take(LABEL_BYTES).collect(),
        })
    }

    pub fn encode(&self, page_size: usize) -> Vec<u8> {
        let mut page = vec![0u8; page_size];
        page[INFO..INFO + 4].copy_from_slice(&VERSION.to_ne_bytes());
        // Invariant: `pages` fits, `new` has checked it.
        let last = u32::try_from(self.pages.saturating_sub(1)).unwrap_or(u32::MAX);
        page[INFO + 4..INFO + 8].copy_from_slice(&last.to_ne_bytes());
        page[UUID..LABEL].copy_from_slice(&self.uuid);
        let label = self.label.as_bytes();
        let length = label.len().min(LABEL_BYTES);
        page[LABEL..LABEL + length].copy_from_slice(&label[..length]);
        page[page_size - MAGIC.len()..].copy_from_slice(MAGIC);
        page
    }

    /// Reads a first page; `None` when it is not that of a swap area of version 1.
    pub fn decode(page: &[u8]) -> Option<SwapHeader> {
        let word = |at: usize| {
            page.get(at..at + 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u32::from_ne_bytes)
        };
        if !page.ends_with(MAGIC) || word(INFO)? != VERSION {
            return None;
        }
        let label = page.get(LABEL..LABEL + LABEL_BYTES)?;
        let end = label.iter().position(|&byte| byte == 0).unwrap_or(LABEL_BYTES);
        Some(SwapHeader {
            pages: u64::from(word(INFO + 4)?) + 1,
            uuid: page.get(UUID..LABEL)?.try_into().ok()?,
            label: String::from_utf8_lossy(&label[..end]).into_owned(),
        })
    }

    /// The UUID in its usual form.
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }
}

/// The content of the header's place at `path`.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// A swap header with this UUID.
    Uuid(String),
    /// Zeros: nothing was ever written.
    Blank,
    Other,
}

/// Looks at the first page of an open device or file.
///
/// # Errors
/// When it cannot be read, or is shorter than a page.
pub fn find(area: &File) -> io::Result<Found> {
    let mut page = vec![0u8; rustix::param::page_size()];
    area.read_exact_at(&mut page, 0)?;
    Ok(match SwapHeader::decode(&page) {
        Some(header) => Found::Uuid(header.uuid_text()),
        None if page.iter().all(|&byte| byte == 0) => Found::Blank,
        None => Found::Other,
    })
}

/// A random UUID (RFC 9562, version 4).
fn random_uuid() -> [u8; 16] {
    let mut uuid = [0u8; 16];
    // getrandom(2) gives 16 bytes whole once the kernel is up. Should it fail, the UUID is zero: legal, but not
    // unique, and the other checks of an undo remain.
    let _ = rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty());
    uuid[6] = (uuid[6] & 0x0f) | 0x40;
    uuid[8] = (uuid[8] & 0x3f) | 0x80;
    uuid
}
