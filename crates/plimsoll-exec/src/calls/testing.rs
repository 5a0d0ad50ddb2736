//! Memory for tests, at addresses of the arena or elsewhere, and signals.
#![allow(unsafe_code, reason = "memory and signals of tests")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::Duration;

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

/// A signal whose handler interrupts calls.
pub(crate) const INTERRUPTING: i32 = libc::SIGUSR1;
/// A signal with a handler after which the kernel makes calls again.
pub(crate) const RESTARTING: i32 = libc::SIGUSR2;

/// Installs the handlers of both, which count, and maps the trampoline.
pub(crate) fn install_handlers() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        crate::trampoline::map().expect("free addresses");
        handle(INTERRUPTING, 0);
        handle(RESTARTING, libc::SA_RESTART);
    });
}

thread_local! {
    /// Number of signals that handlers of this thread took.
    static HANDLED: AtomicUsize = const { AtomicUsize::new(0) };
}

fn handle(signal: i32, flags: i32) {
    extern "C" fn on_signal(_: i32) {
        HANDLED.with(|count| count.fetch_add(1, Ordering::Relaxed));
    }
    // SAFETY: the structure is valid as zeroes, and the handler touches a word alone.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(
            libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
            0
        );
    }
}

/// A thread that sends [`INTERRUPTING`] to the thread that started it, again and again until it is dropped.
pub(crate) struct Signals {
    thread: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn to_this_thread() -> Signals {
        install_handlers();
        let is_over = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&is_over);
        // SAFETY: these take no memory.
        let (process, target) = unsafe { (libc::getpid(), libc::gettid()) };
        let thread = std::thread::spawn(move || {
            while !shared.load(Ordering::Relaxed) {
                // SAFETY: the thread lives until this one has ended, and handles the signal.
                unsafe { libc::syscall(libc::SYS_tgkill, process, target, INTERRUPTING) };
                // Signals without a pause would leave the thread in its handler.
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        Signals {
            thread: Some(thread),
            is_over,
        }
    }

    /// Number of signals that handlers of this thread took.
    pub(crate) fn handled() -> usize {
        HANDLED.with(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a sender of signals");
        }
    }
}

/// Pages of a test, unmapped when dropped.
pub(crate) struct Pages {
    start: usize,
    count: usize,
}

/// Pages of the arena that tests have taken. One page behind those of each test stays unmapped: an overrun faults.
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
