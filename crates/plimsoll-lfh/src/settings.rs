//! The environment variables of the process's heap. They are read once, at the first call, which may come before the C
//! library has an environment.

use core::sync::atomic::{AtomicU8, Ordering};

use plimsoll_os::{with_environment, write_error};

use crate::memory;

/// The threads that return free memory to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PurgeMode {
    /// Threads that allocate or free, now and then, and a helper thread of the heap if much memory is free.
    Thread = 0,
    /// Threads that allocate or free, now and then.
    Inline = 1,
    /// None, unless the program calls `malloc_trim`.
    Never = 2,
}

static HARDENED: AtomicU8 = AtomicU8::new(0);
static STANDARD: AtomicU8 = AtomicU8::new(0);
static PURGE: AtomicU8 = AtomicU8::new(0);
static NO_HUGE_PAGES: AtomicU8 = AtomicU8::new(0);
static NO_SECTIONS: AtomicU8 = AtomicU8::new(0);

/// Whether the process's heap starts with the Standard front end: `PLIMSOLL_HEAP_FRONT_END=standard`.
pub(crate) fn starts_standard() -> bool {
    STANDARD.load(Ordering::Relaxed) != 0
}

/// Whether the process's heap is hardened: `PLIMSOLL_HEAP_PROFILE=hardened`.
pub(crate) fn hardened() -> bool {
    HARDENED.load(Ordering::Relaxed) != 0
}

/// `PLIMSOLL_HEAP_PURGE=thread|inline|never`.
pub(crate) fn purge_mode() -> PurgeMode {
    match PURGE.load(Ordering::Relaxed) {
        0 => PurgeMode::Thread,
        1 => PurgeMode::Inline,
        _ => PurgeMode::Never,
    }
}

/// Changes the mode, if the system does not allow the requested one.
pub(crate) fn set_purge_mode(mode: PurgeMode) {
    PURGE.store(mode as u8, Ordering::Relaxed);
}

/// Whether huge pages may be asked for: not with `PLIMSOLL_HEAP_THP=off`.
pub(crate) fn huge_pages() -> bool {
    NO_HUGE_PAGES.load(Ordering::Relaxed) == 0
}

/// Whether restartable sequences may serve slots: not with `PLIMSOLL_HEAP_RSEQ=off`.
pub(crate) fn sections() -> bool {
    NO_SECTIONS.load(Ordering::Relaxed) == 0
}

/// Reads the environment. Unknown values leave the default. A process without a readable environment prints that: it
/// may have been meant to be hardened.
pub(crate) fn read() {
    let read = with_environment(|variable| match variable {
        b"PLIMSOLL_HEAP_FRONT_END=standard" => STANDARD.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PROFILE=hardened" => HARDENED.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PURGE=inline" => PURGE.store(PurgeMode::Inline as u8, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PURGE=never" => PURGE.store(PurgeMode::Never as u8, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_RSEQ=off" => NO_SECTIONS.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_THP=off" => NO_HUGE_PAGES.store(1, Ordering::Relaxed),
        _ => {}
    });
    if !read {
        write_error(UNREADABLE);
    }
    // The helper has no part of the C library, which a handler of faults may use.
    if memory::is_managed() && purge_mode() == PurgeMode::Thread {
        set_purge_mode(PurgeMode::Inline);
    }
}

const UNREADABLE: &[u8] =
    b"plimsoll-malloc: cannot read the environment variables PLIMSOLL_HEAP_*: /proc/self/environ \
cannot be read, and the C library has no environment yet; mount /proc\n";
