//! The share of swapped memory that RAM holds compressed.

use plimsoll_proc::zram::Zram;
use plimsoll_proc::{Tree, meminfo, swaps};
use serde::Serialize;

use super::cgroup::Cgroup;

/// Contents of the swap devices and of zswap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwapStore {
    /// Used bytes on zram devices.
    pub on_zram: u64,
    /// Used bytes on other devices and files.
    pub elsewhere: u64,
    /// Bytes on the zram devices, before compression.
    pub zram_original: u64,
    /// RAM in use by the zram devices.
    pub zram_used: u64,
    /// Bytes in zswap for all devices, before compression.
    pub zswapped: u64,
}

/// Compressed share of the swapped memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compressed {
    /// 0 to 1.
    pub share: f64,
    /// Compression ratio (original size / compressed size) of the whole store; None if nothing is compressed.
    pub ratio: Option<f64>,
    /// Scope of the share.
    pub known_of: KnownOf,
}

/// Scope of a compressed share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownOf {
    /// The process: all swap of the machine is of one kind.
    Process,
    /// The cgroup, for which the kernel counts zswap.
    Cgroup,
}

impl SwapStore {
    /// Reads the current contents. Unreadable values are zero.
    pub fn read() -> SwapStore {
        let mut store = SwapStore::default();
        for area in swaps::active().unwrap_or_default() {
            let Some(device) = area.zram() else {
                store.elsewhere += area.used;
                continue;
            };
            store.on_zram += area.used;
            let memory = Zram::of(device).memory().unwrap_or_default();
            store.zram_original += memory.original;
            store.zram_used += memory.used;
        }
        if store.on_zram + store.elsewhere > 0 {
            store.zswapped = meminfo::read(&Tree::live(), "Zswapped").unwrap_or(0);
        }
        store
    }

    /// Compressed share of `swap` bytes of a process of `cgroup`; None if `swap` is zero or the share is unknown.
    pub fn compressed(&self, swap: u64, cgroup: Option<&Cgroup>) -> Option<Compressed> {
        let ratio = |before: u64, after: u64| (after > 0).then(|| before as f64 / after as f64);
        if swap == 0 {
            return None;
        }
        if self.zswapped > 0 {
            // The kernel counts zswap pages for each cgroup, not for each process.
            let cgroup = cgroup?;
            let (zswapped, swapped) = (cgroup.zswapped?, cgroup.swap.filter(|swap| *swap > 0)?);
            return (self.on_zram == 0).then(|| Compressed {
                share: (zswapped as f64 / swapped as f64).min(1.0),
                ratio: ratio(zswapped, cgroup.zswap.unwrap_or(0)),
                known_of: KnownOf::Cgroup,
            });
        }
        match (self.on_zram, self.elsewhere) {
            (1.., 0) => Some(Compressed {
                share: 1.0,
                ratio: ratio(self.zram_original, self.zram_used),
                known_of: KnownOf::Process,
            }),
            (0, 1..) => Some(Compressed {
                share: 0.0,
                ratio: None,
                known_of: KnownOf::Process,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZRAM: SwapStore = SwapStore {
        on_zram: 400,
        elsewhere: 0,
        zram_original: 400,
        zram_used: 100,
        zswapped: 0,
    };

    #[test]
    fn an_unknown_compressed_share_is_none() {
        let all = ZRAM.compressed(10, None).unwrap();
        assert_eq!(
            (all.share, all.ratio, all.known_of),
            (1.0, Some(4.0), KnownOf::Process)
        );
        assert_eq!(ZRAM.compressed(0, None), None);
        let mixed = SwapStore { elsewhere: 1, ..ZRAM };
        assert_eq!(mixed.compressed(10, None), None);
        let disk = SwapStore {
            elsewhere: 9,
            ..SwapStore::default()
        };
        assert_eq!(disk.compressed(10, None).unwrap().share, 0.0);
    }

    #[test]
    fn the_share_of_zswap_is_that_of_the_cgroup() {
        let store = SwapStore {
            elsewhere: 900,
            zswapped: 300,
            ..SwapStore::default()
        };
        assert_eq!(store.compressed(10, None), None);
        let cgroup = Cgroup {
            swap: Some(400),
            zswapped: Some(300),
            zswap: Some(100),
            ..Cgroup::default()
        };
        let known = store.compressed(10, Some(&cgroup)).unwrap();
        assert_eq!(
            (known.share, known.ratio, known.known_of),
            (0.75, Some(3.0), KnownOf::Cgroup)
        );
    }
}
