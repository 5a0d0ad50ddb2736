//! Pages that are taken away: the next access faults, and a handler of SIGSEGV brings the page back, as that of a pager
//! does on SIGBUS. Meanwhile the kernel cannot access them either.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use plimsoll_lfh::{Access, Heap};
use plimsoll_os::Errno;

use crate::arena::{ARENA, own_call, protection};
use crate::child::in_child;
use crate::numbers::Numbers;
use crate::this_process::stay_on_one_processor;
use crate::threads::work;

const PAGE: usize = 4096;
/// Pages that are away at a time: each may be two mappings more.
const MOST_AWAY: usize = 512;
const MOST_RANGES: usize = 1024;

/// State of a page: its [`Access`], as a number, and whether it is away.
const NONE: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;
const AWAY: u8 = 4;

static START: AtomicUsize = AtomicUsize::new(0);
/// Address of the states of the arena's pages.
static STATES: AtomicUsize = AtomicUsize::new(0);
/// Whether pages are taken away: then [`LOCK`] guards the states.
static TAKING: AtomicBool = AtomicBool::new(false);
static LOCK: AtomicBool = AtomicBool::new(false);
/// Pages that came back.
static FAULTS: AtomicU32 = AtomicU32::new(0);
/// Of these, faults in a restartable sequence, which the kernel restarts.
static RESTARTED: AtomicU32 = AtomicU32::new(0);

/// Pages that came back of late.
const RECENT: usize = 64;

/// The writable ranges of the arena.
struct Ranges {
    recent: [usize; RECENT],
    faults: usize,
    ranges: [(usize, usize); MOST_RANGES],
    count: usize,
}

struct Known(UnsafeCell<Ranges>);

// SAFETY: used under `LOCK`.
unsafe impl Sync for Known {}

static KNOWN: Known = Known(UnsafeCell::new(Ranges {
    recent: [0; RECENT],
    faults: 0,
    ranges: [(0, 0); MOST_RANGES],
    count: 0,
}));

/// Makes room for the states of the arena's pages.
pub(crate) fn prepare(start: usize, length: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: maps where nothing is.
    let states = unsafe { libc::mmap(std::ptr::null_mut(), length / PAGE, access, flags, -1, 0) };
    assert_ne!(states, libc::MAP_FAILED);
    START.store(start, Ordering::Relaxed);
    STATES.store(states as usize, Ordering::Relaxed);
}

fn state(address: usize) -> &'static AtomicU8 {
    let at = (address - START.load(Ordering::Relaxed)) / PAGE;
    // SAFETY: `prepare` mapped a byte for each page of the arena, and zero is valid for it.
    unsafe { &*((STATES.load(Ordering::Relaxed) + at) as *const AtomicU8) }
}

fn pages(start: usize, length: usize) -> impl Iterator<Item = usize> {
    (start..start + length).step_by(PAGE)
}

/// Does `work` under the lock. It accesses no memory of the arena, so that no handler waits for its own thread.
fn locked<T>(work: impl FnOnce(&mut Ranges) -> T) -> T {
    while LOCK.swap(true, Ordering::Acquire) {
        std::thread::yield_now();
    }
    // SAFETY: under the lock, and `work` cannot come here again.
    let done = work(unsafe { &mut *KNOWN.0.get() });
    LOCK.store(false, Ordering::Release);
    done
}

/// Changes the rights to a range by `change`; its pages are there afterwards.
pub(crate) fn note_access(
    start: usize,
    length: usize,
    access: Access,
    change: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Errno> {
    if !TAKING.load(Ordering::Relaxed) {
        // A process that forks must not hold the lock.
        return change();
    }
    locked(|known| {
        change()?;
        let now = match access {
            Access::None => NONE,
            Access::Read => READ,
            Access::Write => WRITE,
        };
        pages(start, length).for_each(|page| state(page).store(now, Ordering::Relaxed));
        if now == WRITE {
            known.note(start, start + length);
        }
        Ok(())
    })
}

impl Ranges {
    fn note(&mut self, start: usize, end: usize) {
        let known = &mut self.ranges[..self.count];
        if let Some(before) = known.iter_mut().find(|range| range.1 == start) {
            before.1 = end;
        } else if self.count < MOST_RANGES {
            self.ranges[self.count] = (start, end);
            self.count += 1;
        }
    }

    /// Any writable page; of two calls, one returns a page that was accessed of late.
    fn some(&self, numbers: &mut Numbers) -> Option<usize> {
        let recent = self.recent[numbers.next() as usize % RECENT];
        if recent != 0 && numbers.next().is_multiple_of(2) {
            return Some(recent);
        }
        let number = (numbers.next() as usize).checked_rem(self.count)?;
        let (start, end) = self.ranges[number];
        Some(start + numbers.next() as usize % ((end - start) / PAGE) * PAGE)
    }
}

fn access_of(state: u8) -> Access {
    match state & !AWAY {
        READ => Access::Read,
        WRITE => Access::Write,
        _ => Access::None,
    }
}

/// Takes a page away, unless it is. Under the lock.
fn take(page: usize) -> bool {
    let now = state(page).load(Ordering::Relaxed);
    if now == NONE || now & AWAY != 0 {
        return false;
    }
    // SAFETY: the page is the arena's, and the next access brings it back.
    let taken = unsafe { own_call(libc::SYS_mprotect, page, PAGE, libc::PROT_NONE) }.is_ok();
    if taken {
        state(page).store(now | AWAY, Ordering::Relaxed);
    }
    taken
}

/// Brings a page back, if it is away. Under the lock.
fn bring_back(page: usize) -> bool {
    let now = state(page).load(Ordering::Relaxed);
    let access = protection(access_of(now));
    // SAFETY: the page is the arena's, and has the rights that it had before.
    let is_back = now & AWAY != 0 && unsafe { own_call(libc::SYS_mprotect, page, PAGE, access) }.is_ok();
    if is_back {
        state(page).store(now & !AWAY, Ordering::Relaxed);
    }
    is_back
}

/// Begins to serve faults. The program has used no heap yet.
fn begin() {
    TAKING.store(true, Ordering::Relaxed);
    // SAFETY: zero is valid for the structure, and the handler has the signature of one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        let set = libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        assert_eq!(set, 0);
    }
}

extern "C" fn on_fault(signal: libc::c_int, info: *const libc::siginfo_t, context: *const c_void) {
    // SAFETY: the kernel passes a valid structure.
    let address = unsafe { (*info).si_addr() } as usize;
    let served = ARENA.contains(address)
        && locked(|known| {
            let page = address & !(PAGE - 1);
            known.recent[known.faults % RECENT] = page;
            known.faults += 1;
            // Another thread may have brought it back.
            bring_back(page) || state(page).load(Ordering::Relaxed) == WRITE
        });
    if !served {
        // The same access faults again, and ends the process.
        // SAFETY: the default action takes no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    FAULTS.fetch_add(1, Ordering::Relaxed);
    if is_at_restart(context) {
        RESTARTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Whether the thread goes on where a restartable sequence begins again: behind the signature of its abort handler.
#[cfg(target_arch = "x86_64")]
fn is_at_restart(context: *const c_void) -> bool {
    const SIGNATURE: u32 = 0x5305_3053;
    // SAFETY: the kernel passes a valid structure, and the thread's code is in front of its next instruction, or the
    // start files.
    unsafe {
        let context = &*context.cast::<libc::ucontext_t>();
        let next = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
        std::ptr::with_exposed_provenance::<u32>(next - 4).read_unaligned() == SIGNATURE
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_at_restart(_context: *const c_void) -> bool {
    false
}

/// Whether restartable sequences serve the slots.
fn is_restartable() -> bool {
    let statistics = Heap::process().statistics();
    statistics.is_some_and(|(record, _)| record.front.restartable)
}

/// Takes all writable pages of the arena away.
fn take_all() {
    locked(|known| {
        for (start, end) in &known.ranges[..known.count] {
            pages(*start, end - start).for_each(|page| _ = take(page));
        }
    });
}

const SIZE: usize = 48;

fn filled(byte: u8) -> *mut u8 {
    let block = Heap::process().allocate(SIZE);
    // SAFETY: the block was just made.
    unsafe { block.write_bytes(byte, SIZE) };
    block
}

fn free(block: *mut u8, byte: u8) {
    // SAFETY: the block is in use, and is the caller's.
    unsafe {
        let bytes = std::slice::from_raw_parts(block, SIZE);
        assert!(bytes.iter().all(|found| *found == byte));
        Heap::process().free(block);
    }
}

/// Every access of every call faults: also those of sequences, in the fast paths, and of batches, in the slow ones.
#[test]
fn sections_restart_after_faults() {
    in_child(
        "taken_away::sections_restart_after_faults",
        &[("PLIMSOLL_HEAP_PURGE", "never")],
        || {
            begin();
            stay_on_one_processor();
            let mut blocks = vec![(filled(0), 0)];
            let mut numbers = Numbers(5);
            for round in 0..2000_u32 {
                if round.is_multiple_of(10) {
                    take_all();
                }
                let byte = round as u8;
                match numbers.next() % 2 {
                    0 => blocks.push((filled(byte), byte)),
                    _ if blocks.len() > 40 => {
                        let (block, byte) = blocks.swap_remove(numbers.next() as usize % blocks.len());
                        free(block, byte);
                    }
                    _ => blocks.extend((0..50).map(|_| (filled(byte), byte))),
                }
            }
            let (faults, restarted) = (FAULTS.load(Ordering::Relaxed), RESTARTED.load(Ordering::Relaxed));
            println!("measured: {faults} faults, {restarted} of them in sequences");
            assert!(faults > 300);
            assert!(restarted > 100 || !is_restartable(), "{restarted}");
            blocks.into_iter().for_each(|(block, byte)| free(block, byte));
            assert!(is_sound());
        },
    );
}

/// Whether a walk over the heaps finds no damage.
fn is_sound() -> bool {
    let mut damages = 0;
    let walked = Heap::validate_all(&mut |_| damages += 1).expect("it can be read");
    walked.is_some() && damages == 0
}

/// Takes one page after the other away until `ended`, and brings back those that are away for longest.
fn take_until(ended: &AtomicBool) {
    let mut numbers = Numbers(3);
    let mut away = std::collections::VecDeque::with_capacity(MOST_AWAY + 1);
    while !ended.load(Ordering::Relaxed) {
        // Outside of the lock: it allocates, from the heap of the system.
        if away.len() == MOST_AWAY
            && let Some(page) = away.pop_front()
        {
            locked(|_| bring_back(page));
        }
        let taken = locked(|known| known.some(&mut numbers).filter(|page| take(*page)));
        away.extend(taken);
    }
}

fn work_while_pages_are_taken_away() {
    begin();
    assert!(!Heap::process().allocate(1).is_null());
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| take_until(&ended));
        work(Heap::process(), 4);
        ended.store(true, Ordering::Relaxed);
    });
    println!(
        "measured: {} faults, {} of them in sequences",
        FAULTS.load(Ordering::Relaxed),
        RESTARTED.load(Ordering::Relaxed)
    );
    assert!(FAULTS.load(Ordering::Relaxed) > 50);
    assert!(is_sound());
}

#[test]
fn threads_work_while_pages_are_taken_away() {
    in_child(
        "taken_away::threads_work_while_pages_are_taken_away",
        &[],
        work_while_pages_are_taken_away,
    );
}

#[test]
fn threads_work_while_pages_are_taken_away_without_sections() {
    in_child(
        "taken_away::threads_work_while_pages_are_taken_away_without_sections",
        &[("PLIMSOLL_HEAP_RSEQ", "off")],
        work_while_pages_are_taken_away,
    );
}
