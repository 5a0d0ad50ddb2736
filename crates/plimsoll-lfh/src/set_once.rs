//! Words that fast paths read: a cache line of their own, written at the start and never again, so that no processor
//! waits for a write to a neighbouring word.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize};

/// Words that are set once. Two lines long, as processors fetch lines in pairs.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct SetOnce {
    /// Address of the window, see `arena`; [`NO_WINDOW`] until the first call.
    pub(crate) window: AtomicUsize,
    /// Where the slots of the process's heap are, if sections serve them, see `affinity`; 0 before it has started.
    pub(crate) sections: AtomicUsize,
    /// Distance of the restartable area from a thread's pointer; 0 if there is none. Set before any slot exists.
    pub(crate) area: AtomicIsize,
    /// The process's key, see `integrity`. Set before the first block is made.
    pub(crate) key: AtomicU64,
}

/// In place of the window's address before there is one: no address of a process is less than a window behind it, so
/// that fast paths find no block there.
pub(crate) const NO_WINDOW: usize = 1 << (usize::BITS - 1);

// A section of their own, as the compiler makes a variable of each word: those that begin as 0 would be elsewhere.
#[unsafe(link_section = ".data.plimsoll_set_once")]
pub(crate) static SET_ONCE: SetOnce = SetOnce {
    window: AtomicUsize::new(NO_WINDOW),
    sections: AtomicUsize::new(0),
    area: AtomicIsize::new(0),
    key: AtomicU64::new(0),
};
