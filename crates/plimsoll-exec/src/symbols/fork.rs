//! The symbols of forks. A child has the arena by [`plimsoll_pager::Pager::fork`] alone.
//!
//! That calls the C library's `fork` while no other thread may change a page. Handlers of `pthread_atfork` must not run in there: one that
//! takes the lock of a heap would wait for a thread that holds it and waits for a page. Nor may they run in the child before its pager works.
//! So the library keeps the handlers, and the C library has one of each kind, which does nothing in such a fork:
//!
//! | step | by |
//! |---|---|
//! | the program's handlers before a fork, the last one first; then the heap's | [`fork`] |
//! | no other thread changes a page | `Pager::fork` |
//! | the library's own locks are taken | [`fork_now`] |
//! | the C library forks | [`fork_now`] |
//! | the locks are released; the child's pager starts | [`fork_now`], `Pager::fork` |
//! | the heap's handlers after a fork; then the program's, the first one first | [`fork`] |
//!
//! A fork that the C library makes by itself runs the handlers in their usual place. Its child does not have the arena: `daemon` and
//! `forkpty` are written anew for that reason. A child of `vfork` shares the memory, and needs nothing.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{pid_t, termios, winsize};
use plimsoll_os::write_error;
use plimsoll_pager::{ForkError, Forked};

use super::descriptors::{Limit, unprotect};
use super::errors::{error, failed, returned};
use super::forker;
use crate::arena::{Arena, Pin};
use crate::lock::Locked;
use crate::next_symbol::Next;
use crate::signals_blocked::SignalsBlocked;
use crate::{arena, background, pool, statistics, trampoline, unmanaged};

type Step = Option<unsafe extern "C" fn()>;
type Fork = unsafe extern "C" fn() -> pid_t;
type Register = unsafe extern "C" fn(Step, Step, Step, *mut c_void) -> c_int;

// SAFETY: the types of the functions.
static NEXT_FORK: Next<Fork> = unsafe { Next::new(c"fork") };
// SAFETY: as above.
static NEXT_BARE: Next<Fork> = unsafe { Next::new(c"_Fork") };
// SAFETY: as above.
static NEXT_REGISTER: Next<Register> = unsafe { Next::new(c"__register_atfork") };
// SAFETY: as above.
static NEXT_FINALIZE: Next<unsafe extern "C" fn(*mut c_void)> = unsafe { Next::new(c"__cxa_finalize") };

unsafe extern "C" {
    /// The mark of this object.
    static __dso_handle: *mut c_void;
}

/// Handlers of a call of `pthread_atfork`.
#[derive(Clone, Copy)]
struct Handlers {
    prepare: Step,
    parent: Step,
    child: Step,
    /// The object that they belong to: they end with it.
    object: usize,
}

/// Handlers of a process.
const MOST: usize = 128;

#[derive(Clone, Copy)]
struct List {
    handlers: [Handlers; MOST],
    count: usize,
}

static LIST: Locked<List> = Locked::new(List {
    handlers: [Handlers {
        prepare: None,
        parent: None,
        child: None,
        object: 0,
    }; MOST],
    count: 0,
});

/// Calls a handler of the program.
fn take(step: Step) {
    if let Some(step) = step {
        // SAFETY: the object registered it for this purpose, and is still loaded.
        unsafe { step() };
    }
}

impl List {
    /// The handlers of other objects, and those of this one, in the order of their registration.
    fn halves(&self) -> [impl DoubleEndedIterator<Item = &Handlers>; 2] {
        let own = (&raw const __dso_handle) as usize;
        let of = move |is_own: bool| {
            let handlers = self.handlers[..self.count].iter();
            handlers.filter(move |handlers| (handlers.object == own) == is_own)
        };
        [of(false), of(true)]
    }

    fn before(&self) {
        let [others, own] = self.halves();
        others
            .rev()
            .chain(own.rev())
            .for_each(|handlers| take(handlers.prepare));
    }

    fn in_parent(&self) {
        let [others, own] = self.halves();
        own.chain(others).for_each(|handlers| take(handlers.parent));
    }

    /// The heap's handlers alone: a fork by a system call runs no others.
    fn of_heap(mut self) -> List {
        let own = (&raw const __dso_handle) as usize;
        let mut kept = 0;
        for index in 0..self.count {
            if self.handlers[index].object == own {
                self.handlers[kept] = self.handlers[index];
                kept += 1;
            }
        }
        self.count = kept;
        self
    }

    fn in_child(&self) {
        let [others, own] = self.halves();
        own.chain(others).for_each(|handlers| take(handlers.child));
    }

    /// A copy: handlers run without the lock.
    fn copy() -> List {
        *LIST.hold()
    }
}

unsafe extern "C" fn before_foreign() {
    if !forker::is_this_thread() {
        List::copy().before();
    }
}

unsafe extern "C" fn in_parent_of_foreign() {
    if !forker::is_this_thread() {
        List::copy().in_parent();
    }
}

unsafe extern "C" fn in_child_of_foreign() {
    if !forker::is_this_thread() {
        // Another thread of the parent may have been in `fork`.
        forker::clear();
        List::copy().in_child();
    }
}

/// Has the C library call the three functions above. Called before the first handler is registered.
fn register_own(register: Register) {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.swap(true, Ordering::SeqCst) {
        let steps: [Step; 3] = [
            Some(before_foreign),
            Some(in_parent_of_foreign),
            Some(in_child_of_foreign),
        ];
        // SAFETY: this object is never unloaded.
        unsafe {
            register(
                steps[0],
                steps[1],
                steps[2],
                (&raw const __dso_handle) as *mut c_void,
            )
        };
    }
}

/// Registers handlers of forks: `pthread_atfork(3)` of each object calls it.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __register_atfork(
    prepare: Step,
    parent: Step,
    child: Step,
    object: *mut c_void,
) -> c_int {
    let Some(register) = NEXT_REGISTER.find() else {
        return libc::ENOSYS;
    };
    register_own(register);
    let mut list = LIST.hold();
    let count = list.count;
    if count == MOST {
        drop(list);
        // SAFETY: the caller's premise.
        return unsafe { register(prepare, parent, child, object) };
    }
    list.handlers[count] = Handlers {
        prepare,
        parent,
        child,
        object: object as usize,
    };
    list.count += 1;
    0
}

/// Ends an object: its handlers of forks end with it. Each object calls it when it is unloaded.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cxa_finalize(object: *mut c_void) {
    if !object.is_null() {
        forget(object as usize);
    }
    if let Some(next) = NEXT_FINALIZE.find() {
        // SAFETY: the caller's premise.
        unsafe { next(object) };
    }
}

fn forget(object: usize) {
    let mut list = LIST.hold();
    let mut kept = 0;
    for index in 0..list.count {
        let handlers = list.handlers[index];
        if handlers.object != object {
            list.handlers[kept] = handlers;
            kept += 1;
        }
    }
    list.count = kept;
}

/// `fork(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> pid_t {
    let Some(next) = NEXT_FORK.find() else {
        return failed(libc::ENOSYS);
    };
    if forker::is_this_thread() {
        // SAFETY: the pager calls it.
        return unsafe { fork_now(next) };
    }
    let Some(arena) = arena::arena() else {
        // SAFETY: the caller's premise.
        return unsafe { next() };
    };
    // SAFETY: the caller's premise.
    unsafe { fork_arena(arena, &List::copy(), None, &mut NoSteps) }
}

/// `_Fork(3)`: as [`fork`], without the handlers of the program.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> pid_t {
    // SAFETY: the caller's premise.
    unsafe {
        match (arena::arena(), NEXT_BARE.find()) {
            (Some(_), _) => fork_by(None, &mut NoSteps),
            (None, Some(next)) => next(),
            (None, None) => failed(libc::ENOSYS),
        }
    }
}

/// Steps of a caller around a fork.
pub(super) trait Steps {
    /// Before the fork. No other thread makes a child with a copy of the memory until [`Steps::forked`].
    ///
    /// # Errors
    /// The number of the error of the whole call.
    fn before(&mut self) -> Result<(), c_int> {
        Ok(())
    }

    /// After the fork, which made `child`: 0 in the child, -1 if it failed. Pages of the arena may be absent for ever.
    fn forked(&mut self, _child: pid_t) {}

    /// After a fork that made `child`, before a handler of a signal runs.
    fn made(&mut self, _child: pid_t) {}
}

struct NoSteps;

impl Steps for NoSteps {}

/// A system call that makes a child.
pub(super) struct System {
    pub(super) number: c_long,
    pub(super) arguments: [usize; 6],
}

/// As [`fork`], without the handlers of the program, by the C library's `fork` or a system call.
///
/// # Safety
/// As for the system call. Its child has a copy of the memory, and continues on its copy of this stack.
pub(super) unsafe fn fork_by(system: Option<&System>, steps: &mut dyn Steps) -> pid_t {
    match arena::arena() {
        // SAFETY: the caller's premise.
        Some(arena) => unsafe { fork_arena(arena, &List::copy().of_heap(), system, steps) },
        None => failed(libc::ENOSYS),
    }
}

/// Bytes of the stack that a fork uses: below its frame, and those of its callers with what the kernel reads.
const BELOW: usize = 64 << 10;
const ABOVE: usize = 32 << 10;
/// The least that a fork needs, used if the larger range cannot be pinned.
const LEAST_BELOW: usize = 16 << 10;
const LEAST_ABOVE: usize = 16 << 10;

/// Holds the pages of a coroutine's stack around `here` in RAM: none could return during a fork. None if the budget does not allow it.
fn hold_stack(arena: &'static Arena, here: usize) -> Option<Option<Pin>> {
    if !arena::contains(here) {
        return Some(None);
    }
    let range = |below, above| {
        let below = arena.anonymous_below(here, below);
        (here - below, here + arena.anonymous_above(here, above))
    };
    let (first, end) = range(BELOW, ABOVE);
    if let Some(pin) = arena.pin(first, end) {
        return Some(Some(pin));
    }
    // Stacks pinned for the life of the process may have used up the pin budget; this stack may be one of them.
    let (first, end) = range(LEAST_BELOW, LEAST_ABOVE);
    arena.keep(first, end).then_some(None)
}

/// Forks with the arena, by the C library's `fork` or a system call.
unsafe fn fork_arena(
    arena: &'static Arena,
    list: &List,
    system: Option<&System>,
    steps: &mut dyn Steps,
) -> pid_t {
    let Some(_stack) = hold_stack(arena, (&raw const steps) as usize) else {
        return failed(libc::ENOMEM);
    };
    // Before other threads wait for the locks of the heap.
    arena.pager.prepare_fork();
    list.before();
    // A handler that forked meanwhile would be taken for the pager.
    let blocked = SignalsBlocked::others();
    forker::become_forker();
    if let Err(error) = steps.before() {
        forker::clear();
        drop(blocked);
        list.in_parent();
        return failed(error);
    }
    SYSTEM.store(
        system.map_or(ptr::null_mut(), |system| ptr::from_ref(system).cast_mut()),
        Ordering::Relaxed,
    );
    let limit = Limit::current();
    // The numbers of the pager's pipe may be above the limit.
    limit.raise();
    // SAFETY: the child has the locks of the library and of the heap; the rest is the caller's premise.
    let forked = unsafe { arena.pager.fork() };
    steps.forked(match forked {
        Ok(Forked::Parent { child }) => child,
        Ok(_) => 0,
        Err(_) => -1,
    });
    forker::clear();
    if !matches!(forked, Ok(Forked::Child)) {
        limit.set();
    }
    match forked {
        Ok(Forked::Parent { child }) => steps.made(child),
        Ok(Forked::Child) => steps.made(0),
        _ => {}
    }
    drop(blocked);
    match forked {
        Ok(Forked::Parent { child }) => {
            list.in_parent();
            child
        }
        Ok(Forked::Child) => {
            limit.set();
            if let Some(file) = statistics::end_in_child() {
                unprotect(file);
            }
            pool::note_process();
            list.in_child();
            background::start(1);
            0
        }
        Ok(Forked::ChildWithoutRegions(_)) => {
            write_error(
                b"plimsoll exec: cannot manage the memory of a forked child: the kernel refuses it\n",
            );
            plimsoll_os::abort()
        }
        Err(error) => {
            list.in_parent();
            failed(match error {
                ForkError::System(errno) => errno.raw(),
                _ => libc::ENOMEM,
            })
        }
    }
}

/// The system call by which the thread in [`fork_arena`] forks: none for the C library's `fork`.
static SYSTEM: AtomicPtr<System> = AtomicPtr::new(ptr::null_mut());

/// Forks while the library's own locks are held: no other thread has them, and the child finds the data that they protect whole.
unsafe fn fork_now(next: Fork) -> pid_t {
    let arena = arena::arena();
    LIST.lock().acquire();
    if let Some(arena) = arena {
        arena.hold_for_fork();
    }
    unmanaged::hold_for_fork();
    // SAFETY: the thread in `fork_arena`, which is this one, keeps it.
    let child = match unsafe { SYSTEM.load(Ordering::Relaxed).as_ref() } {
        // SAFETY: the premise of `fork_by`.
        Some(system) => returned(unsafe { trampoline::call(system.number, system.arguments) }) as pid_t,
        // SAFETY: the caller's premise.
        None => unsafe { next() },
    };
    let errno = error();
    unmanaged::release_after_fork();
    if let Some(arena) = arena {
        arena.release_after_fork();
    }
    LIST.lock().release();
    if child == 0 {
        // The pager opens its files anew, maybe at numbers above the limit.
        Limit::current().raise();
    }
    if child < 0 {
        failed(errno);
    }
    child
}

/// [`fork`] by its other name.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __fork() -> pid_t {
    // SAFETY: the caller's premise.
    unsafe { fork() }
}

/// `daemon(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(keeps_folder: c_int, keeps_files: c_int) -> c_int {
    // SAFETY: the child is the process from here on, and the parent ends.
    unsafe {
        match fork() {
            -1 => return -1,
            0 => {}
            _ => libc::_exit(0),
        }
        if libc::setsid() == -1 || (keeps_folder == 0 && libc::chdir(c"/".as_ptr()) == -1) {
            return -1;
        }
        if keeps_files == 0 {
            let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            if null == -1 {
                return -1;
            }
            for file in 0..3 {
                libc::dup2(null, file);
            }
            if null > 2 {
                libc::close(null);
            }
        }
    }
    0
}

/// `forkpty(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forkpty(
    terminal: *mut c_int,
    name: *mut c_char,
    settings: *const termios,
    size: *const winsize,
) -> pid_t {
    let (mut outer, mut inner) = (-1, -1);
    // SAFETY: the caller's premise.
    unsafe {
        if libc::openpty(&raw mut outer, &raw mut inner, name, settings, size) == -1 {
            return -1;
        }
        let child = fork();
        match child {
            -1 => {
                let errno = error();
                libc::close(outer);
                libc::close(inner);
                failed(errno);
            }
            0 => {
                libc::close(outer);
                if libc::login_tty(inner) != 0 {
                    libc::_exit(1);
                }
            }
            _ => {
                terminal.write(outer);
                libc::close(inner);
            }
        }
        child
    }
}

/// Finds the C library's functions that are called when it may not search.
pub(crate) fn prepare() {
    NEXT_FORK.find();
    NEXT_BARE.find();
    NEXT_FINALIZE.find();
}
