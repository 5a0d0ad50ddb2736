//! Where every page of the machine is: layers that lie on each other without overlap and sum to MemTotal exactly.

use super::columns::{Row, col};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Category {
    pub name: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
    /// Colour as `#RRGGBB`, chosen so that neighbours differ for colour-blind readers too.
    pub color: &'static str,
    pub dark_color: &'static str,
}

pub const COUNT: usize = 10;

/// The layers from bottom to top. `unaccounted`, the remainder, is last.
pub const CATEGORIES: [Category; COUNT] = [
    Category {
        name: "kernel",
        title: "kernel",
        meaning: "Kernel objects that cannot be reclaimed, stacks, page tables, per-CPU and mapped kernel memory.",
        color: "#3D3D3D",
        dark_color: "#6B6B6B",
    },
    Category {
        name: "target",
        title: "target",
        meaning: "Anonymous memory in the working sets of the processes under test.",
        color: "#CC3311",
        dark_color: "#CC3311",
    },
    Category {
        name: "other",
        title: "other processes",
        meaning: "Anonymous memory in the working sets of all other processes, and huge pages set aside.",
        color: "#FFD54F",
        dark_color: "#E0B93C",
    },
    Category {
        name: "compressed",
        title: "compressed",
        meaning: "Compressed pages kept in RAM by zram and zswap.",
        color: "#AA3377",
        dark_color: "#B83F85",
    },
    Category {
        name: "swap_cache",
        title: "swap cache",
        meaning: "Anonymous pages that no process maps and that are on their way to or from swap.",
        color: "#EE99AA",
        dark_color: "#EE99AA",
    },
    Category {
        name: "dirty",
        title: "dirty/writeback",
        meaning: "Page cache that waits to be written or is being written.",
        color: "#661100",
        dark_color: "#8A2A14",
    },
    Category {
        name: "page_cache",
        title: "page cache",
        meaning: "Clean pages of files, shared memory and block devices, mapped or not.",
        color: "#004488",
        dark_color: "#2A62A8",
    },
    Category {
        name: "slab_reclaimable",
        title: "reclaimable slab",
        meaning: "Kernel objects that can be reclaimed, such as cached inodes.",
        color: "#77AADD",
        dark_color: "#77AADD",
    },
    Category {
        name: "free",
        title: "free",
        meaning: "Memory that holds nothing.",
        color: "#EDEDED",
        dark_color: "#2B2F36",
    },
    Category {
        name: "unaccounted",
        title: "unaccounted",
        meaning: "Memory that the kernel does not attribute, such as free pages that a CPU keeps at hand: MemTotal less all other layers. Negative when they overlap.",
        color: "#9E9E9E",
        dark_color: "#8E8E8E",
    },
];

/// Bytes in each layer.
///
/// Invariant: the bytes sum to MemTotal, and all but the remainder `unaccounted` are 0 or more. Checked by
/// `categories_sum_to_mem_total_whatever_the_row_holds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Categories {
    bytes: [i64; COUNT],
}

impl Categories {
    /// Bytes of each layer, in the order of [`CATEGORIES`].
    pub fn bytes(&self) -> [i64; COUNT] {
        self.bytes
    }

    /// Each layer with its bytes, from bottom to top.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Category, i64)> + use<> {
        CATEGORIES.iter().zip(self.bytes)
    }

    /// Bytes of the layer `name`; None when there is no such layer.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.iter()
            .find(|(layer, _)| layer.name == name)
            .map(|(_, bytes)| bytes)
    }

    /// Sum of all layers: MemTotal.
    pub fn total(&self) -> i64 {
        self.bytes.iter().sum()
    }
}

/// The columns that [`categories`] looks at: a row with these alone has the same layers.
pub const INPUTS: &[usize] = &[
    col::MEM_TOTAL,
    col::MEM_FREE,
    col::ANON_PAGES,
    col::BUFFERS,
    col::CACHED,
    col::SLAB_UNRECLAIMABLE,
    col::PAGE_TABLES,
    col::SECONDARY_PAGE_TABLES,
    col::PERCPU,
    col::VMALLOC_USED,
    col::KERNEL_STACK,
    col::TARGET_ANON,
    col::HUGETLB,
    col::NR_ZSPAGES,
    col::ZSWAP_POOL,
    col::DIRTY,
    col::WRITEBACK,
    col::SLAB_RECLAIMABLE,
    col::ACTIVE_ANON,
    col::INACTIVE_ANON,
    col::UNEVICTABLE,
    col::SHMEM,
    col::SWAP_CACHED,
];

/// The layers of a sample. None when it lacks a value that every Linux has (MemTotal, MemFree, Buffers, Cached or
/// AnonPages), or has a MemTotal that no machine has.
pub fn categories(row: &Row) -> Option<Categories> {
    let mem_total = row.get(col::MEM_TOTAL)?;
    // Far above any machine, and low enough for the sums below.
    if !(1..=i64::MAX / 64).contains(&mem_total) {
        return None;
    }
    // A value that is missing here means that this kernel has none of it. No part can be larger than the whole.
    let part = |column| row.get(column).unwrap_or(0).clamp(0, mem_total);

    let free = row.get(col::MEM_FREE).map(|_| part(col::MEM_FREE))?;
    let anon = row.get(col::ANON_PAGES).map(|_| part(col::ANON_PAGES))?;
    row.get(col::BUFFERS).and(row.get(col::CACHED))?;
    let file = part(col::BUFFERS) + part(col::CACHED);

    let kernel = part(col::SLAB_UNRECLAIMABLE)
        + part(col::PAGE_TABLES)
        + part(col::SECONDARY_PAGE_TABLES)
        + part(col::PERCPU)
        // Where stacks are mapped page by page (CONFIG_VMAP_STACK), as nearly everywhere, they count as vmalloc too;
        // kernels 4.4 to 5.2 report no vmalloc at all.
        + part(col::VMALLOC_USED).max(part(col::KERNEL_STACK));
    let target = part(col::TARGET_ANON).min(anon);
    let other = anon - target + part(col::HUGETLB);
    // zswap's pool is in zsmalloc like zram's, or, in kernels that let it choose, elsewhere.
    let compressed = part(col::NR_ZSPAGES).max(part(col::ZSWAP_POOL));
    let dirty = (part(col::DIRTY) + part(col::WRITEBACK)).min(file);
    let layers = [
        kernel,
        target,
        other,
        compressed,
        unmapped_swap_cache(&part, anon),
        dirty,
        file - dirty,
        part(col::SLAB_RECLAIMABLE),
        free,
    ];
    let mut bytes = [0; COUNT];
    bytes[..layers.len()].copy_from_slice(&layers);
    bytes[COUNT - 1] = mem_total - layers.iter().sum::<i64>();
    Some(Categories { bytes })
}

/// Swap-cache pages that no process maps. SwapCached counts mapped ones too, which are in AnonPages already; so take
/// the pages on the anonymous lists beyond mapped pages and shared memory. Locked file pages on the unevictable
/// list can make that too large, but never larger than SwapCached.
fn unmapped_swap_cache(part: &impl Fn(usize) -> i64, anon: i64) -> i64 {
    let listed = part(col::ACTIVE_ANON) + part(col::INACTIVE_ANON) + part(col::UNEVICTABLE);
    (listed - part(col::SHMEM) - anon).clamp(0, part(col::SWAP_CACHED))
}
