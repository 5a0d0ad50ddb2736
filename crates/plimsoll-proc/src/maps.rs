//! `/proc/PID/maps` (`proc_pid_maps(5)`): the mappings of a process.

use plimsoll_os::Range;

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

    /// Whether it can hold reclaimable pages: it is none of the kernel (`[vdso]` and others) and of a device, and no
    /// reserved address space.
    pub fn is_reclaimable(&self) -> bool {
        let path = self.path;
        let kernels = [&b"[vvar"[..], b"[vdso", b"[vsyscall", b"[uprobes"]
            .iter()
            .any(|name| path.starts_with(name));
        // Shared anonymous memory shows as /dev/zero, and tmpfs is often mounted at /dev/shm; both are memory.
        let device =
            path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/zero");
        !kernels && !device && !self.permissions.starts_with(b"---")
    }

    pub fn range(&self) -> Range {
        Range {
            start: self.start,
            length: self.length,
        }
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

/// The addresses of the mappings that can hold reclaimable pages, in the file's order.
pub fn reclaimable(text: &[u8]) -> Vec<Range> {
    let mappings = parse(text).filter(Mapping::is_reclaimable);
    mappings.map(|mapping| mapping.range()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_kernel_devices_and_reservations_are_skipped() {
        let text = b"55d0c0a00000-55d0c0a02000 r--p 00000000 fe:00 1234      /usr/bin/a b (deleted)\n\
            7f0000000000-7f0040000000 rw-p 00000000 00:00 0 \n\
            7f1000000000-7f5000000000 ---p 00000000 00:00 0 \n\
            7f6000000000-7f6000001000 rw-s 00000000 00:06 12   /dev/dri/card0\n\
            7f6100000000-7f6100001000 rw-s 00000000 00:17 12   /dev/shm/a\n\
            7f6200000000-7f6200001000 rw-s 00000000 00:01 12   /dev/zero (deleted)\n\
            7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n\
            7ffd00100000-7ffd00104000 r--p 00000000 00:00 0                          [vvar]\n\
            7ffd00104000-7ffd00106000 r--p 00000000 00:00 0                          [vvar_vclock]\n\
            7ffd00106000-7ffd00108000 r-xp 00000000 00:00 0                          [vdso]\n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n\
            nonsense\n";
        let starts: Vec<u64> = reclaimable(text).iter().map(|range| range.start).collect();
        assert_eq!(
            starts,
            [
                0x55d0_c0a0_0000,
                0x7f00_0000_0000,
                0x7f61_0000_0000,
                0x7f62_0000_0000,
                0x7ffd_0000_0000
            ]
        );
        assert_eq!(reclaimable(text)[1].length, 0x4000_0000);
    }
}
