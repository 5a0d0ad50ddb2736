//! The handler of SIGBUS, and the pagers that it serves.
#![allow(unsafe_code, reason = "the handler of SIGBUS, and signal masks")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::FaultError;
use super::last_words::{Facts, report};
use crate::manager::Patience;

/// Pagers of a process at the same time.
const MOST_PAGERS: usize = 16;

/// A pager whose faults the handler resolves.
pub(crate) trait Faults: Send + Sync {
    /// Makes the page at `address`, which is in the arena, present. Called in the signal handler.
    fn resolve(&self, address: usize) -> Result<(), FaultError>;

    /// Whether the page at `address`, which is in the arena, is a mapping of the program. Called in the signal handler.
    fn is_surrendered(&self, address: usize) -> bool;

    /// Has the calling thread wait if it is throttled, before its fault at `address`. Called in the signal handler.
    fn pace(&self, address: usize);

    /// Maps a page in place of one that a file of the pager lost. Returns whether `address` is such a page. Called in the
    /// signal handler.
    fn replace_lost_page(&self, address: usize) -> bool;

    /// Facts about `address`, for the last line of the process. Called in the signal handler.
    fn facts(&self, address: usize) -> Facts;

    /// Whether the caller has the pager's memory. A child of a fork does not: its faults in the arena are others' business,
    /// and resolving them would change the memory of the parent.
    fn is_here(&self) -> bool;
}

struct Entry {
    arena: Range<usize>,
    pager: Arc<dyn Faults>,
}

/// Invariant: `entry` is null or a leaked box, which is freed only after `entry` was null while `users` was 0. A handler
/// counts itself in `users` before it reads `entry`.
struct Slot {
    users: AtomicUsize,
    entry: AtomicPtr<Entry>,
}

static SLOTS: [Slot; MOST_PAGERS] = [const {
    Slot {
        users: AtomicUsize::new(0),
        entry: AtomicPtr::new(null_mut()),
    }
}; MOST_PAGERS];

/// The disposition of SIGBUS before ours: null until it is installed, then a leaked box.
static FORMER: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// Held while the handler is installed.
static INSTALL: Mutex<()> = Mutex::new(());

/// The process has as many pagers as the handler serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooManyPagers;

/// The registration of a pager with the handler; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration(usize);

impl Registration {
    /// Has the handler resolve the faults in `arena`, and installs it if it is not.
    pub(crate) fn new(arena: Range<usize>, pager: Arc<dyn Faults>) -> Result<Registration, TooManyPagers> {
        install();
        let entry = Box::into_raw(Box::new(Entry { arena, pager }));
        for (number, slot) in SLOTS.iter().enumerate() {
            let free = slot
                .entry
                .compare_exchange(null_mut(), entry, Ordering::SeqCst, Ordering::Relaxed);
            if free.is_ok() {
                return Ok(Registration(number));
            }
        }
        // SAFETY: made above, and in no slot.
        drop(unsafe { Box::from_raw(entry) });
        Err(TooManyPagers)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let slot = &SLOTS[self.0];
        let entry = slot.entry.swap(null_mut(), Ordering::SeqCst);
        let mut patience = Patience::default();
        while slot.users.load(Ordering::SeqCst) != 0 {
            patience.wait();
        }
        if !entry.is_null() {
            // SAFETY: a box leaked by `new`; by the invariant no handler has it any more.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}

/// Forgets the handlers of the parent's other threads, in a child of a fork: they do not exist here.
pub(crate) fn forget_other_handlers() {
    for slot in &SLOTS {
        slot.users.store(0, Ordering::SeqCst);
    }
}

/// Installs the handler once for the process. It is never removed: handlers installed later may call it.
fn install() {
    let _held = INSTALL.lock().unwrap_or_else(PoisonError::into_inner);
    if !FORMER.load(Ordering::Acquire).is_null() {
        return;
    }
    let mut former = MaybeUninit::<libc::sigaction>::zeroed();
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads and sets the disposition of a signal by structures of that type, which are valid as zeroes too. The
    // handler obeys the rules for handlers. The former disposition is stored before the handler can need it.
    unsafe {
        libc::sigaction(libc::SIGBUS, ptr::null(), former.as_mut_ptr());
        FORMER.store(Box::into_raw(Box::new(former.assume_init())), Ordering::Release);
        let action = action.assume_init_mut();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, action, null_mut());
    }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `siginfo_t`; `errno` is this thread's.
    let (code, address, errno) = unsafe {
        (
            (*info).si_code,
            (*info).si_addr() as usize,
            *libc::__errno_location(),
        )
    };
    // Faults of a userfaultfd and of a file that was cut have this code. Codes of 0 and below are signals that a process
    // sent; others are memory errors (`BUS_MCEERR_AR`), which no page that the pager fills in would mend.
    let outcome = match code {
        libc::BUS_ADRERR => resolve(address),
        _ => None,
    };
    // SAFETY: `errno` is this thread's.
    unsafe { *libc::__errno_location() = errno };
    match outcome {
        Some(Ok(())) => {}
        Some(Err((error, facts))) => {
            report(error, facts);
            chain(signal, info, context);
        }
        None => chain(signal, info, context),
    }
}

/// Has the pager of that address resolve the fault; none if no pager has it. An error comes with facts about the address.
fn resolve(address: usize) -> Option<Result<(), (FaultError, Facts)>> {
    SLOTS.iter().find_map(|slot| {
        slot.users.fetch_add(1, Ordering::SeqCst);
        // SAFETY: by the invariant of the slot the entry lives while `users` counts this thread.
        let entry = unsafe { slot.entry.load(Ordering::SeqCst).as_ref() };
        let outcome = entry.filter(|entry| entry.pager.is_here()).and_then(|entry| {
            let is_in_arena = entry.arena.contains(&address);
            match is_in_arena && !entry.pager.is_surrendered(address) {
                true => {
                    entry.pager.pace(address);
                    let resolved = entry.pager.resolve(address);
                    Some(resolved.map_err(|error| (error, entry.pager.facts(address))))
                }
                false => entry.pager.replace_lost_page(address).then_some(Ok(())),
            }
        });
        slot.users.fetch_sub(1, Ordering::SeqCst);
        outcome
    })
}

/// Passes a signal on to the disposition before ours.
fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: null, or a box that is never freed.
    let former = unsafe { FORMER.load(Ordering::Acquire).as_ref() };
    let handler = former.map_or(libc::SIG_DFL, |former| former.sa_sigaction);
    let takes_info = former.is_some_and(|former| former.sa_flags & libc::SA_SIGINFO != 0);
    // SAFETY: the kernel gives a valid `siginfo_t`. A former handler has the type that its flags state. Without one, the
    // default action follows: a fault repeats when this handler returns, a sent signal is sent again.
    unsafe {
        match handler {
            libc::SIG_IGN if (*info).si_code <= 0 => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                libc::signal(signal, libc::SIG_DFL);
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
            handler if takes_info => {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}
