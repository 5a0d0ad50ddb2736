//! Totals over the regions of a pager.

use std::sync::atomic::{AtomicU64, Ordering};

/// Pages of all regions, and of those that are suspended.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    mapped: AtomicU64,
    suspended: AtomicU64,
}

impl Regions {
    /// Counts a region of `pages` that was mapped.
    pub(crate) fn open(&self, pages: u32) {
        self.mapped.fetch_add(u64::from(pages), Ordering::Relaxed);
    }

    /// Counts a region of `pages`, not suspended, that was unmapped.
    pub(crate) fn close(&self, pages: u32) {
        self.mapped.fetch_sub(u64::from(pages), Ordering::Relaxed);
    }

    /// Counts a region of `pages` as suspended.
    pub(crate) fn suspend(&self, pages: u32) {
        self.suspended.fetch_add(u64::from(pages), Ordering::Relaxed);
    }

    /// Ends [`Regions::suspend`].
    pub(crate) fn resume(&self, pages: u32) {
        self.suspended.fetch_sub(u64::from(pages), Ordering::Relaxed);
    }

    /// Pages of suspended regions.
    pub(crate) fn suspended(&self) -> u64 {
        self.suspended.load(Ordering::Relaxed)
    }

    /// The word with the pages of all regions, which other processes read.
    pub(crate) fn mapped_word(&self) -> &AtomicU64 {
        &self.mapped
    }

    /// Whether there are regions, and all of them are suspended.
    pub(crate) fn are_suspended(&self) -> bool {
        let mapped = self.mapped.load(Ordering::Relaxed);
        mapped > 0 && self.suspended() == mapped
    }
}
