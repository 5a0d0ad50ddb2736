//! Memory levels of the machine, which show where trimmed pages went.

use plimsoll_proc::{Tree, meminfo, vmstat};

use plimsoll_model::columns::{Row, col};
use plimsoll_sample::parse;

/// Memory levels of the machine, in bytes. An unreadable level is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Machine {
    pub(super) swap_total: i64,
    pub(super) swap_used: i64,
    pub(super) swap_cache: i64,
    /// RAM that holds compressed pages.
    pub(super) compressed: i64,
    /// File pages, without shared memory.
    pub(super) page_cache: i64,
    /// Reclaimable kernel objects (slab).
    pub(super) reclaimable: i64,
    pub(super) dirty: i64,
    pub(super) free: i64,
}

impl Machine {
    pub(super) fn now() -> Machine {
        let mut row = Row::empty(0);
        let text = |path| Tree::live().bytes(path).unwrap_or_default();
        parse::meminfo(&text(meminfo::PATH), &mut row);
        parse::vmstat(&text(vmstat::PATH), &mut row);
        let level = |column| row.get(column).unwrap_or(0);
        // zswap kept its pages in other allocators before Linux 6.18, where nr_zspages does not count them.
        Machine {
            swap_total: level(col::SWAP_TOTAL),
            swap_used: level(col::SWAP_TOTAL) - level(col::SWAP_FREE),
            swap_cache: level(col::SWAP_CACHED),
            compressed: level(col::NR_ZSPAGES).max(level(col::ZSWAP_POOL)),
            page_cache: level(col::CACHED) + level(col::BUFFERS) - level(col::SHMEM),
            reclaimable: level(col::SLAB_RECLAIMABLE),
            dirty: level(col::DIRTY) + level(col::WRITEBACK),
            free: level(col::MEM_FREE),
        }
    }
}
