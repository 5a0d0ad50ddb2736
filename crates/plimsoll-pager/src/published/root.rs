//! The record of a pager that other processes read, in a mapping of its own.
#![allow(
    unsafe_code,
    reason = "the record for other processes, in a mapping of its own"
)]

use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use plimsoll_os::address_space::{self, Access};
use plimsoll_os::{Advice, Errno};

use crate::backing::Backing;
use crate::driver::Userfault;
use crate::manager::{Budget, Counters, Manager, Pins};
use crate::page::{Chunk, PAGE_SIZE};
use crate::stats::Derived;

/// The first bytes of a record.
pub const MAGIC: [u8; 16] = *b"PLIMSOLL-PAGER\0\x01";
/// The version of a record and of all that it refers to. It changes when the meaning of a field does; a change of size
/// shows by itself.
pub const LAYOUT: u32 = 2;
/// Bytes of the mapping of a record.
pub const RECORD_BYTES: usize = PAGE_SIZE;

/// The record. Addresses are those of the process with the pager.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Root {
    magic: [u8; MAGIC.len()],
    pub(super) layout: u32,
    pub(super) sizes: Sizes,
    /// The first byte of the arena, and of the shadow area.
    pub(super) arena: u64,
    pub(super) shadow: u64,
    /// Pages of each.
    pub(super) pages: u64,
    /// The page table, and the chunk table.
    pub(super) table: u64,
    pub(super) chunks: u64,
    /// The word of the extent.
    pub(super) extent: u64,
    pub(super) counters: u64,
    pub(super) budget: u64,
    pub(super) pins: u64,
    /// The words of the set of chunks with records.
    pub(super) used: u64,
    /// The word with the pages of all regions.
    pub(super) mapped: u64,
    pub(super) derived: [AtomicU64; Derived::COUNT],
}

/// Bytes of the values that the record refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Sizes {
    root: u32,
    chunk: u32,
    counters: u32,
    budget: u32,
    pins: u32,
}

impl Sizes {
    /// Those of this program.
    pub(super) const OWN: Sizes = Sizes {
        root: size_of::<Root>() as u32,
        chunk: size_of::<Chunk>() as u32,
        counters: size_of::<Counters>() as u32,
        budget: size_of::<Budget>() as u32,
        pins: size_of::<Pins>() as u32,
    };
}

const _: () = assert!(size_of::<Root>() <= RECORD_BYTES);

/// The bytes of a [`Root`] with this layout.
pub(super) type RootBytes = [u8; size_of::<Root>()];

impl Root {
    /// Bytes up to the end of the layout and the sizes, which every version of the record has at the same place.
    pub(super) const HEAD: usize = offset_of!(Root, sizes) + size_of::<Sizes>();

    /// The layout and the sizes at the start of a record, if it is one.
    pub(super) fn head(bytes: &[u8; Root::HEAD]) -> Option<(u32, Sizes)> {
        let u32_at = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("a field is inside"));
        let size_at = |at: usize| u32_at(offset_of!(Root, sizes) + at);
        bytes.starts_with(&MAGIC).then(|| {
            let sizes = Sizes {
                root: size_at(offset_of!(Sizes, root)),
                chunk: size_at(offset_of!(Sizes, chunk)),
                counters: size_at(offset_of!(Sizes, counters)),
                budget: size_at(offset_of!(Sizes, budget)),
                pins: size_at(offset_of!(Sizes, pins)),
            };
            (u32_at(offset_of!(Root, layout)), sizes)
        })
    }

    /// A record with these bytes, which were copied from another process.
    pub(super) fn of_bytes(bytes: &RootBytes) -> Root {
        let u64_at = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("a field is inside"));
        Root {
            magic: MAGIC,
            layout: LAYOUT,
            sizes: Sizes::OWN,
            arena: u64_at(offset_of!(Root, arena)),
            shadow: u64_at(offset_of!(Root, shadow)),
            pages: u64_at(offset_of!(Root, pages)),
            table: u64_at(offset_of!(Root, table)),
            chunks: u64_at(offset_of!(Root, chunks)),
            extent: u64_at(offset_of!(Root, extent)),
            counters: u64_at(offset_of!(Root, counters)),
            budget: u64_at(offset_of!(Root, budget)),
            pins: u64_at(offset_of!(Root, pins)),
            used: u64_at(offset_of!(Root, used)),
            mapped: u64_at(offset_of!(Root, mapped)),
            derived: std::array::from_fn(|number| {
                AtomicU64::new(u64_at(
                    offset_of!(Root, derived) + number * size_of::<AtomicU64>(),
                ))
            }),
        }
    }

    /// The counters that no single atomic holds.
    pub(super) fn derived(&self) -> Derived {
        Derived::of_words(std::array::from_fn(|number| {
            self.derived[number].load(Ordering::Relaxed)
        }))
    }
}

/// The record of a pager of this process. Dropping it unmaps the record.
///
/// Invariant: `start` is the first of three pages that this value owns. The middle one holds a [`Root`], of which only
/// `derived` changes after it is written, by atomics.
#[derive(Debug)]
pub(crate) struct Publication {
    start: usize,
    root: NonNull<Root>,
}

// SAFETY: the record is memory that this value owns, and shared access to it is by atomics.
unsafe impl Send for Publication {}
// SAFETY: as above.
unsafe impl Sync for Publication {}

/// The pages of a publication: a record between two that nobody can access, as the kernel would join its mapping with
/// those of neighbours, and readers look at the start of a mapping alone.
const GUARDED_BYTES: usize = 3 * RECORD_BYTES;

impl Publication {
    /// Publishes `manager`, which stays at its address and outlives the publication.
    ///
    /// # Errors
    /// The kernel has no memory for the record.
    pub(crate) fn new<B: Backing>(manager: &Manager<Userfault, B>) -> Result<Publication, Errno> {
        let start = address_space::reserve(GUARDED_BYTES)?;
        let at = start + RECORD_BYTES;
        let root = NonNull::new(at as *mut Root).ok_or(Errno::NOMEM)?;
        let publication = Publication { start, root };
        // SAFETY: the page was reserved by this call, and no other thread knows it.
        unsafe { address_space::set_access(at, RECORD_BYTES, Access::Write) }?;
        address_space::advise(at, RECORD_BYTES, Advice::WipeOnFork)?;
        publication.write(manager);
        Ok(publication)
    }

    /// Publishes the pager of a child of a fork, where the kernel has wiped the record.
    pub(crate) fn renew<B: Backing>(&self, manager: &Manager<Userfault, B>) {
        self.write(manager);
    }

    fn write<B: Backing>(&self, manager: &Manager<Userfault, B>) {
        let address_of = |address: usize| address as u64;
        let root = Root {
            magic: [0; MAGIC.len()],
            layout: LAYOUT,
            sizes: Sizes::OWN,
            arena: address_of(manager.driver.arena().start),
            shadow: address_of(manager.driver.shadow()),
            pages: u64::from(manager.table.count()),
            table: address_of(manager.table.address()),
            chunks: address_of(manager.chunks.address()),
            extent: address_of((&raw const *manager.extent_word()).addr()),
            counters: address_of((&raw const manager.counters).addr()),
            budget: address_of((&raw const manager.budget).addr()),
            pins: address_of((&raw const manager.pins).addr()),
            used: address_of(manager.chunks.used_address()),
            mapped: address_of((&raw const *manager.regions.mapped_word()).addr()),
            derived: manager.derived().words().map(AtomicU64::new),
        };
        // SAFETY: by the invariant the page is this value's; no other code of this process reads it yet.
        unsafe { self.root.write(root) };
        // Readers recognise a record when the rest of it is there.
        fence(Ordering::Release);
        // SAFETY: as above; `magic` is the first field.
        unsafe { self.root.cast::<[u8; MAGIC.len()]>().write_volatile(MAGIC) };
    }

    /// Renews the counters that no single atomic holds.
    pub(crate) fn refresh(&self, derived: Derived) {
        // SAFETY: by the invariant the record is written, and this field changes by atomics alone.
        let words = unsafe { &(*self.root.as_ptr()).derived };
        for (word, value) in words.iter().zip(derived.words()) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's, and no reference into them outlives it.
        let _ = unsafe { address_space::unmap(self.start, GUARDED_BYTES) };
    }
}

/// The bytes of a record of this layout with `pages` pages, and an address for each field that has one.
#[cfg(all(test, not(loom)))]
pub(super) fn record_bytes(pages: u64, address: impl Fn(usize) -> u64) -> Vec<u8> {
    let mut bytes = Vec::from(MAGIC);
    let sizes = Sizes::OWN;
    for word in [
        LAYOUT,
        sizes.root,
        sizes.chunk,
        sizes.counters,
        sizes.budget,
        sizes.pins,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    let fields = [
        address(0),
        address(1),
        pages,
        address(2),
        address(3),
        address(4),
        address(5),
        address(6),
        address(7),
        address(8),
        address(9),
    ];
    for word in fields.into_iter().chain([0; Derived::COUNT]) {
        bytes.extend(word.to_ne_bytes());
    }
    assert_eq!(bytes.len(), size_of::<Root>());
    bytes
}
