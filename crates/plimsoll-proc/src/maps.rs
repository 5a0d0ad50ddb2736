//! `/proc/PID/maps` (`proc_pid_maps(5)`): the mappings of a process.

use super::fields::{first_number, lines};

/// A mapping: a line `start-end perms offset device inode path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<'a> {
    pub start: u64,
    /// Bytes of address space, at least 1.
    pub length: u64,
    /// `rwxp`, or `s` for a shared one, with `-` for a missing permission.
    pub permissions: &'a [u8],
    /// Number of the device of its file; `00:00` for none.
    pub device: &'a [u8],
    /// Number of its file; 0 for none.
    pub inode: u64,
    /// Path of its file, or a name in brackets; may hold any byte but a line end, and be empty.
    pub path: &'a [u8],
}

impl Mapping<'_> {
    /// Whether no file is behind it and no other process can share it.
    pub fn is_private_anonymous(&self) -> bool {
        self.permissions.ends_with(b"p") && self.device == b"00:00" && self.inode == 0
    }
}

/// The mappings in the file's order. A line that is not understood is passed over.
pub fn parse(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    lines(text).filter_map(mapping)
}

fn mapping(line: &[u8]) -> Option<Mapping<'_>> {
    // The fields before the path are ASCII.
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let (addresses, permissions) = (fields.next()?, fields.next()?);
    let (_offset, device, inode) = (fields.next()?, fields.next()?, fields.next()?);
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let (start, end) = std::str::from_utf8(addresses).ok()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let length = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    (length > 0).then_some(Mapping {
        start,
        length,
        permissions,
        device,
        inode: first_number(inode)?,
        path,
    })
}
