//! Memory for tests, at addresses of the arena or elsewhere.
#![allow(unsafe_code, reason = "memory of tests")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::{ARENA, PAGE};

type Hook = Box<dyn Fn()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static REFUSES_PINS: Cell<bool> = const { Cell::new(false) };
}

/// Refuses the pins of calls of this thread until the value is dropped, as if other calls had pinned half of the budget.
pub(crate) fn without_pins() -> impl Drop {
    struct Refusing;
    impl Drop for Refusing {
        fn drop(&mut self) {
            REFUSES_PINS.set(false);
        }
    }
    REFUSES_PINS.set(true);
    Refusing
}

/// Whether [`without_pins`] is in force.
pub(super) fn refuses_pins() -> bool {
    REFUSES_PINS.get()
}

/// Runs code before each call that this thread makes for the program while it blocks signals, until the value is dropped.
pub(crate) fn while_pinned(code: impl Fn() + 'static) -> impl Drop {
    struct Installed;
    impl Drop for Installed {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }
    HOOK.set(Some(Box::new(code)));
    Installed
}

/// Runs the code of [`while_pinned`].
pub(super) fn run_hook() {
    HOOK.with_borrow(|hook| hook.iter().for_each(|code| code()));
}

/// Pages of a test, unmapped when dropped.
pub(crate) struct Pages {
    start: usize,
    count: usize,
}

/// Pages of the arena that a test has, and one behind them for what runs over.
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Pages {
    pub(crate) fn of_arena(count: usize) -> Pages {
        let before = NEXT.fetch_add(count + 1, Ordering::Relaxed);
        Pages::at(ARENA + before * PAGE, count)
    }

    pub(crate) fn of_process(count: usize) -> Pages {
        Pages::at(0, count)
    }

    fn at(address: usize, count: usize) -> Pages {
        let fixed = if address == 0 {
            0
        } else {
            libc::MAP_FIXED_NOREPLACE
        };
        // SAFETY: new memory.
        let start = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                count * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Pages {
            start: start as usize,
            count,
        }
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn fill(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.count * PAGE);
        // SAFETY: in the pages, which no other code uses.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.start + offset) as *mut u8, bytes.len())
        };
    }

    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.count * PAGE);
        // SAFETY: in the pages, which no other code uses.
        unsafe { std::slice::from_raw_parts((self.start + offset) as *const u8, length) }.to_vec()
    }

    /// Takes every right to a page away.
    pub(crate) fn forbid(&self, page: usize) {
        let start = (self.start + page * PAGE) as *mut libc::c_void;
        // SAFETY: a page of the test.
        assert_eq!(unsafe { libc::mprotect(start, PAGE, libc::PROT_NONE) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `at`.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.count * PAGE) };
    }
}
