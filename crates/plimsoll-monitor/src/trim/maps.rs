//! Mappings that hold reclaimable pages.

use plimsoll_os::Range;
use plimsoll_proc::maps::{self, Mapping};

/// The mappings of `/proc/PID/maps` that can hold reclaimable pages, in the file's order. Leaves out mappings of the
/// kernel (`[vdso]` and others) and of devices, and reserved address space. Skips lines that it cannot parse.
pub(super) fn reclaimable(text: &[u8]) -> Vec<Range> {
    maps::parse(text).filter_map(|mapping| range(&mapping)).collect()
}

fn range(mapping: &Mapping<'_>) -> Option<Range> {
    let path = mapping.path;
    let kernels = [&b"[vvar"[..], b"[vdso", b"[vsyscall", b"[uprobes"]
        .iter()
        .any(|name| path.starts_with(name));
    // Shared anonymous memory shows as /dev/zero, and tmpfs is often mounted at /dev/shm; both are memory.
    let device =
        path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/") && !path.starts_with(b"/dev/zero");
    let reserved = mapping.permissions.starts_with(b"---");
    (!kernels && !device && !reserved).then_some(Range {
        start: mapping.start,
        length: mapping.length,
    })
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
