//! Every page of RAM by kind: a snapshot of `/proc/kpageflags`, on demand.
//!
//! It costs about 30 ms of CPU a GiB of RAM, which is too much for a sample; it holds its own cost.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::time::Instant;

use plimsoll_proc::{Tree, iomem};
use rustix::io::Errno;
use serde::Serialize;

const PATH: &str = "/proc/kpageflags";
/// Pages whose flags are read with one call.
const CHUNK: usize = 1 << 17;
/// Bytes of the flags of a page.
const ENTRY: usize = 8;

/// The bits in use: `include/uapi/linux/kernel-page-flags.h`, and from 32 on those of the
/// kernel's own `include/linux/kernel-page-flags.h`.
pub mod flag {
    macro_rules! flags {
        ($($name:ident $bit:literal $meaning:literal;)*) => {
            $(#[doc = $meaning] pub const $name: u64 = 1 << $bit;)*
        };
    }

    flags! {
        REFERENCED 2 "Used since it was last looked at.";
        UPTODATE 3 "Holds the contents of its file.";
        DIRTY 4 "Changed since it was written.";
        LRU 5 "On one of the lists that reclaim works on.";
        ACTIVE 6 "On an active list: used lately.";
        SLAB 7 "Holds kernel objects.";
        WRITEBACK 8 "Being written.";
        BUDDY 10 "Free.";
        MMAP 11 "Mapped by a program.";
        ANON 12 "No file is behind it.";
        SWAPCACHE 13 "Has a place in swap.";
        SWAPBACKED 14 "Swap would be behind it: anonymous or shared memory.";
        COMPOUND_HEAD 15 "The first page of several that are one.";
        COMPOUND_TAIL 16 "A later page of several that are one.";
        HUGE 17 "Of hugetlbfs.";
        UNEVICTABLE 18 "Cannot be reclaimed.";
        HWPOISON 19 "Broken.";
        NOPAGE 20 "There is no page here.";
        KSM 21 "Shared by several programs, found to be equal.";
        THP 22 "Part of a transparent huge page.";
        OFFLINE 23 "Not in use: returned to the hypervisor, or offline.";
        ZERO_PAGE 24 "The page that stands for all that were never written.";
        IDLE 25 "Not used since it was marked.";
        PGTABLE 26 "A page table.";
        RESERVED 32 "Not managed: the kernel's image, firmware.";
        MLOCKED 33 "Locked by a program.";
    }
}

/// Kinds of pages. Every page is of exactly one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PageKind {
    /// Anonymous, in base pages.
    Anon,
    /// Anonymous, in transparent huge pages.
    AnonHuge,
    /// Merged by KSM.
    Ksm,
    /// In the swap cache alone, no longer mapped.
    SwapCache,
    /// Of a file, mapped.
    FileMapped,
    /// Of a file, not mapped.
    FileCache,
    /// Shared memory and tmpfs.
    Shmem,
    Hugetlb,
    Slab,
    PageTables,
    Zero,
    /// Used by the kernel, with no flag for the purpose.
    Other,
    Free,
    /// Returned to the hypervisor, or offline.
    Offline,
    /// Broken.
    Poisoned,
    /// Never managed.
    Reserved,
}

#[derive(Debug, Clone, Copy)]
pub struct KindWords {
    pub kind: PageKind,
    pub name: &'static str,
    pub title: &'static str,
    pub meaning: &'static str,
}

/// Every kind, in the order of [`PageKind`]: those of programs first.
pub const KINDS: [KindWords; 16] = [
    words(
        PageKind::Anon,
        "anon",
        "anonymous",
        "Memory of programs that no file is behind.",
    ),
    words(
        PageKind::AnonHuge,
        "anon_huge",
        "anonymous, huge",
        "The same in transparent huge pages.",
    ),
    words(
        PageKind::Ksm,
        "ksm",
        "merged (KSM)",
        "Equal pages of several programs, kept once.",
    ),
    words(
        PageKind::SwapCache,
        "swap_cache",
        "swap cache",
        "Pages with a place in swap that no process maps, soon free.",
    ),
    words(
        PageKind::FileMapped,
        "file_mapped",
        "files, mapped",
        "Page cache of files that programs map, such as their text.",
    ),
    words(
        PageKind::FileCache,
        "file_cache",
        "files, cached",
        "Page cache that no process maps: reclaimable cache.",
    ),
    words(
        PageKind::Shmem,
        "shmem",
        "shared memory",
        "Shared memory and tmpfs.",
    ),
    words(
        PageKind::Hugetlb,
        "hugetlb",
        "huge pages",
        "Pages of hugetlbfs, used or set aside.",
    ),
    words(PageKind::Slab, "slab", "slab", "Kernel objects, such as inodes."),
    words(
        PageKind::PageTables,
        "page_tables",
        "page tables",
        "Page tables of programs.",
    ),
    words(
        PageKind::Zero,
        "zero",
        "zero page",
        "The page that stands for memory that was never written.",
    ),
    words(
        PageKind::Other,
        "other",
        "kernel, unnamed",
        "Stacks, vmalloc, per-CPU data, compressed pages, drivers, free pages that a CPU keeps at hand.",
    ),
    words(PageKind::Free, "free", "free", "Pages that hold nothing."),
    words(
        PageKind::Offline,
        "offline",
        "offline",
        "Returned to the hypervisor (balloon), or offline.",
    ),
    words(
        PageKind::Poisoned,
        "poisoned",
        "broken",
        "Taken out of use after a memory error.",
    ),
    words(
        PageKind::Reserved,
        "reserved",
        "reserved",
        "The kernel's image, its page descriptors and firmware: no part of MemTotal.",
    ),
];

const fn words(kind: PageKind, name: &'static str, title: &'static str, meaning: &'static str) -> KindWords {
    KindWords {
        kind,
        name,
        title,
        meaning,
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    pub name: &'static str,
    pub meaning: &'static str,
    /// All of these flags are set,
    set: u64,
    /// and none of these.
    clear: u64,
}

/// Every attribute. A page may have several, or none.
pub const ATTRIBUTES: [Attribute; 11] = [
    attribute("mapped", "Mapped by a program.", flag::MMAP, 0),
    attribute(
        "active",
        "On an active list: used lately.",
        flag::LRU | flag::ACTIVE,
        flag::UNEVICTABLE,
    ),
    attribute(
        "inactive",
        "On an inactive list: next to be reclaimed.",
        flag::LRU,
        flag::ACTIVE | flag::UNEVICTABLE,
    ),
    attribute("unevictable", "Cannot be reclaimed.", flag::UNEVICTABLE, 0),
    attribute("mlocked", "Locked by a program.", flag::MLOCKED, 0),
    attribute(
        "dirty",
        "Changed since it was written to its file or to swap.",
        flag::DIRTY,
        0,
    ),
    attribute("writeback", "Being written.", flag::WRITEBACK, 0),
    attribute("swap_cached", "Has a place in swap.", flag::SWAPCACHE, 0),
    attribute(
        "referenced",
        "Used since reclaim last looked.",
        flag::REFERENCED,
        0,
    ),
    attribute("idle", "Not used since it was marked idle.", flag::IDLE, 0),
    attribute("huge", "Part of a transparent huge page.", flag::THP, 0),
];

const fn attribute(name: &'static str, meaning: &'static str, set: u64, clear: u64) -> Attribute {
    Attribute {
        name,
        meaning,
        set,
        clear,
    }
}

/// The kind of a page by its own flags; `None` where there is no page.
pub fn kind_of(flags: u64) -> Option<PageKind> {
    let has = |flag: u64| flags & flag != 0;
    Some(match () {
        () if has(flag::NOPAGE) => return None,
        () if has(flag::HWPOISON) => PageKind::Poisoned,
        () if has(flag::OFFLINE) => PageKind::Offline,
        () if has(flag::BUDDY) => PageKind::Free,
        () if has(flag::ZERO_PAGE) => PageKind::Zero,
        () if has(flag::SLAB) => PageKind::Slab,
        () if has(flag::PGTABLE) => PageKind::PageTables,
        () if has(flag::HUGE) => PageKind::Hugetlb,
        () if has(flag::KSM) => PageKind::Ksm,
        () if has(flag::SWAPCACHE) && !has(flag::MMAP) => PageKind::SwapCache,
        () if has(flag::ANON) && has(flag::THP) => PageKind::AnonHuge,
        () if has(flag::ANON) => PageKind::Anon,
        () if has(flag::RESERVED) => PageKind::Reserved,
        () if has(flag::SWAPBACKED) => PageKind::Shmem,
        // A page that is on its way to its list is not on it yet, but up to date.
        () if has(flag::LRU | flag::UPTODATE) && has(flag::MMAP) => PageKind::FileMapped,
        () if has(flag::LRU | flag::UPTODATE) => PageKind::FileCache,
        () => PageKind::Other,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct KindCount {
    pub pages: u64,
    /// How many of them have each of [`ATTRIBUTES`].
    pub attributes: [u64; ATTRIBUTES.len()],
}

/// Pages by kind.
///
/// Invariant: the pages of all kinds sum to `pages`; holes are not among them. Checked by
/// `the_kinds_of_this_machine_sum_to_its_memory`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PageFlags {
    pub page_size: u64,
    pub pages: u64,
    /// Frame numbers below the last page of RAM without a page behind them.
    pub holes: u64,
    /// Pages of each of [`KINDS`], in its order.
    pub kinds: [KindCount; KINDS.len()],
    /// Microseconds of CPU that the snapshot cost.
    pub cpu_us: u64,
    /// Seconds that it took; pages that moved meanwhile may be counted under both kinds or neither.
    pub seconds: f64,
}

impl PageFlags {
    pub fn of(&self, kind: PageKind) -> KindCount {
        self.kinds[kind as usize]
    }

    pub fn bytes(&self, kind: PageKind) -> u64 {
        self.of(kind).pages * self.page_size
    }

    /// Counts pages by their flags, one entry a frame from number 0 on.
    pub fn count(frames: impl IntoIterator<Item = u64>) -> PageFlags {
        let mut counter = Counter::new();
        frames.into_iter().for_each(|flags| counter.add(flags, 1));
        counter.found
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageFlagsError {
    #[error("cannot read {PATH}: {0}; run as root (CAP_SYS_ADMIN)")]
    Denied(#[source] io::Error),
    #[error("cannot read {PATH}: the kernel does not have it; needs CONFIG_PROC_PAGE_MONITOR")]
    Unsupported,
    #[error("cannot read {PATH}: {0}")]
    Read(#[source] io::Error),
}

/// Reads the flags of every page.
///
/// # Errors
/// [`PageFlagsError::Denied`] for others than root.
pub fn snapshot() -> Result<PageFlags, PageFlagsError> {
    let start = Instant::now();
    let cpu = cpu_us();
    let file = File::open(PATH).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => PageFlagsError::Denied(source),
        io::ErrorKind::NotFound => PageFlagsError::Unsupported,
        _ => PageFlagsError::Read(source),
    })?;
    let memory = iomem::memory_frames(&Tree::live());
    let mut buffer = vec![0u8; CHUNK * ENTRY];
    let mut counter = Counter::new();
    let mut next = 0;
    for frames in memory {
        counter.hole(frames.start.saturating_sub(next));
        next = read_range(&file, frames, &mut buffer, &mut counter)?;
    }
    let mut found = counter.found;
    found.cpu_us = cpu_us().saturating_sub(cpu);
    found.seconds = start.elapsed().as_secs_f64();
    Ok(found)
}

/// Counts the pages of `frames`, or of as many of them as the file has. Returns the first frame that was not counted.
fn read_range(
    file: &File,
    frames: Range<u64>,
    buffer: &mut [u8],
    counter: &mut Counter,
) -> Result<u64, PageFlagsError> {
    let mut frame = frames.start;
    while frame < frames.end {
        let wanted = buffer
            .len()
            .min((frames.end - frame).saturating_mul(ENTRY as u64) as usize);
        // The kernel gives whole entries for a buffer of whole entries.
        let length = match rustix::io::pread(file, &mut buffer[..wanted], frame * ENTRY as u64) {
            Ok(0) => break,
            Ok(length) => length - length % ENTRY,
            Err(Errno::INTR) => continue,
            Err(Errno::PERM) => return Err(PageFlagsError::Denied(Errno::PERM.into())),
            Err(error) => return Err(PageFlagsError::Read(error.into())),
        };
        // Neighbours are often alike: a run of equal entries is counted at once.
        let (mut run, mut pages) = (0, 0);
        for entry in buffer[..length].as_chunks::<ENTRY>().0 {
            let flags = u64::from_ne_bytes(*entry);
            if flags != run {
                counter.add(run, pages);
                (run, pages) = (flags, 0);
            }
            pages += 1;
        }
        counter.add(run, pages);
        frame += (length / ENTRY) as u64;
    }
    Ok(frame)
}

fn cpu_us() -> u64 {
    let usage = plimsoll_os::resource_usage(plimsoll_os::UsageScope::Thread);
    usage.user_us + usage.system_us
}

struct Counter {
    found: PageFlags,
    /// Kind and flags of the page whose tail pages may follow.
    head: Option<(PageKind, u64)>,
}

impl Counter {
    fn new() -> Counter {
        Counter {
            found: PageFlags {
                page_size: rustix::param::page_size() as u64,
                pages: 0,
                holes: 0,
                kinds: [KindCount::default(); KINDS.len()],
                cpu_us: 0,
                seconds: 0.0,
            },
            head: None,
        }
    }

    /// Passes over frames without a page.
    fn hole(&mut self, frames: u64) {
        self.found.holes += frames;
        self.head = None;
    }

    /// Adds the next `pages` frames, which have equal flags. Kernels differ in the flags of tail pages: they count as
    /// their head.
    fn add(&mut self, flags: u64, pages: u64) {
        if pages == 0 {
            return;
        }
        let Some(own) = kind_of(flags) else {
            self.hole(pages);
            return;
        };
        let tail_of = self.head.filter(|_| flags & flag::COMPOUND_TAIL != 0);
        let (kind, flags) = tail_of.unwrap_or((own, flags));
        self.head = (flags & flag::COMPOUND_HEAD != 0).then_some((kind, flags));
        self.found.pages += pages;
        let count = &mut self.found.kinds[kind as usize];
        count.pages += pages;
        for (count, attribute) in count.attributes.iter_mut().zip(&ATTRIBUTES) {
            if flags & attribute.set == attribute.set && flags & attribute.clear == 0 {
                *count += pages;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_kind_at_its_place() {
        for (index, words) in KINDS.iter().enumerate() {
            assert_eq!(words.kind as usize, index, "{}", words.name);
        }
    }
}
