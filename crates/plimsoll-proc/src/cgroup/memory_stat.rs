//! `memory.stat` of a cgroup of either version, its children's share included.

use super::CgroupVersion;
use crate::fields::KeyedLines;

/// The values in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Field {
    /// Bytes of anonymous memory.
    Anon,
    /// Bytes of page cache, shared memory included.
    File,
    /// Bytes of page cache that reclaim takes first.
    InactiveFile,
    /// Bytes of shared memory and tmpfs.
    Shmem,
    /// Bytes of swap; v2 has a file of its own for it, `memory.swap.current`.
    Swap,
    /// Bytes in RAM that also have a place in swap.
    SwapCached,
    /// Bytes that cannot be reclaimed.
    Unevictable,
    /// Page faults, the major ones included.
    Faults,
    /// Page faults that waited.
    MajorFaults,
    /// Bytes of page cache that wait to be written.
    Dirty,
    /// Bytes that are being written to files or to swap.
    Writeback,
    /// Pages of anonymous memory that were reclaimed and came back.
    RefaultsAnon,
    /// Pages of files that were reclaimed and came back.
    RefaultsFile,
    /// Bytes that zswap takes after compression (v2).
    Zswap,
    /// Bytes that zswap holds before compression (v2).
    Zswapped,
}

const FIELDS: usize = 15;

/// The names of each field in v1 and in v2. Those of v1 count the children too (`total_`).
const NAMES: [(Field, Option<&str>, Option<&str>); FIELDS] = [
    (Field::Anon, Some("total_rss"), Some("anon")),
    (Field::File, Some("total_cache"), Some("file")),
    (
        Field::InactiveFile,
        Some("total_inactive_file"),
        Some("inactive_file"),
    ),
    (Field::Shmem, Some("total_shmem"), Some("shmem")),
    (Field::Swap, Some("total_swap"), None),
    (Field::SwapCached, Some("total_swapcached"), Some("swapcached")),
    (Field::Unevictable, Some("total_unevictable"), Some("unevictable")),
    (Field::Faults, Some("total_pgfault"), Some("pgfault")),
    (Field::MajorFaults, Some("total_pgmajfault"), Some("pgmajfault")),
    (Field::Dirty, Some("total_dirty"), Some("file_dirty")),
    (Field::Writeback, Some("total_writeback"), Some("file_writeback")),
    (
        Field::RefaultsAnon,
        Some("total_workingset_refault_anon"),
        Some("workingset_refault_anon"),
    ),
    (
        Field::RefaultsFile,
        Some("total_workingset_refault_file"),
        Some("workingset_refault_file"),
    ),
    (Field::Zswap, None, Some("zswap")),
    (Field::Zswapped, None, Some("zswapped")),
];

impl Field {
    /// Its key in the file of a version.
    pub fn key(self, version: CgroupVersion) -> Option<&'static str> {
        let (_, v1, v2) = NAMES[self as usize];
        match version {
            CgroupVersion::V1 => v1,
            CgroupVersion::V2 => v2,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStat([Option<u64>; FIELDS]);

impl MemoryStat {
    pub fn parse(text: &[u8], version: CgroupVersion) -> MemoryStat {
        let mut keys = KeyedLines::<32>::new();
        for (field, ..) in NAMES {
            if let Some(key) = field.key(version) {
                keys.insert(key, field as usize, 1);
            }
        }
        let mut found = MemoryStat::default();
        keys.parse(text, |slot, value| {
            found.0[slot] = Some(value.unsigned_abs());
        });
        found
    }

    /// The value of a field; None where the kernel does not say.
    pub fn get(&self, field: Field) -> Option<u64> {
        self.0[field as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_field_at_its_place() {
        for (index, (field, v1, v2)) in NAMES.iter().enumerate() {
            assert_eq!(*field as usize, index);
            assert!(v1.is_some() || v2.is_some());
        }
    }

    #[test]
    fn memory_stat_of_both_cgroup_versions() {
        let charged = |text: &[u8], version| {
            let stat = MemoryStat::parse(text, version);
            [Field::Anon, Field::File, Field::Swap, Field::SwapCached].map(|field| stat.get(field))
        };
        let v1 = b"cache 1\nrss 2\nswap 3\nswapcached 4\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\ntotal_swapcached 40\n";
        assert_eq!(
            charged(v1, CgroupVersion::V1),
            [Some(20), Some(10), Some(30), Some(40)]
        );
        let v2 = b"anon 5\nfile 6\nkernel 7\nswapcached 8\nanon_thp 0\n";
        assert_eq!(charged(v2, CgroupVersion::V2), [Some(5), Some(6), None, Some(8)]);
    }
}
