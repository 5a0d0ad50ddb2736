//! What the environment asks of the process's heap. Read once, at the first call, from the kernel: the C library's
//! environment may not be there yet.

use core::sync::atomic::{AtomicU8, Ordering};

use plimsoll_os::with_environment;

/// Who gives pages of free memory back to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PurgeMode {
    /// Whoever allocates or frees, now and then, and a thread of the heap's own where much is left.
    Thread = 0,
    /// Whoever allocates or frees, now and then.
    Inline = 1,
    /// Nobody, unless the program asks.
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

/// Changes who gives pages back, where the system does not allow what was asked for.
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

/// Reads the environment. What it does not know, it leaves as it is by default.
pub(crate) fn read() {
    with_environment(|variable| match variable {
        b"PLIMSOLL_HEAP_FRONT_END=standard" => STANDARD.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PROFILE=hardened" => HARDENED.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PURGE=inline" => PURGE.store(PurgeMode::Inline as u8, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_PURGE=never" => PURGE.store(PurgeMode::Never as u8, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_RSEQ=off" => NO_SECTIONS.store(1, Ordering::Relaxed),
        b"PLIMSOLL_HEAP_THP=off" => NO_HUGE_PAGES.store(1, Ordering::Relaxed),
        _ => {}
    });
}
