//! The symbols of `clone(2)`, by which sandboxes and service managers fork. A child that does not share the memory of its parent has
//! the arena by [`plimsoll_pager::Pager::fork`] alone, as one of [`fork`](super::fork).
//!
//! The C library's `fork` makes a child that is no different from one of that, so that its state is right in the child. A system call
//! makes the others (namespaces, another signal): the library starts threads in such a child, which may wait for ever if another thread
//! of the parent was in `pthread_create` or `dlopen`.
//!
//! The kernel would write numbers while no page of the arena can return. So it writes them elsewhere, or not at all.
#![allow(unsafe_code, reason = "exported symbols")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long, c_void};
use std::mem::offset_of;
use std::ptr;

use libc::{clone_args, pid_t};
use plimsoll_os::write_error;

use super::errors::failed;
use super::fork::{Steps, System, fork_by};
use super::signals::sigaction;
use super::stacks::keep_below;
use crate::next_symbol::Next;
use crate::{arena, calls};

type Start = unsafe extern "C" fn(*mut c_void) -> c_int;
type Clone = unsafe extern "C" fn(
    Option<Start>,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut pid_t,
    *mut c_void,
    *mut pid_t,
) -> c_int;
type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

// SAFETY: the types of the functions, with all arguments that they read.
static NEXT_CLONE: Next<Clone> = unsafe { Next::new(c"clone") };
// SAFETY: as above.
static NEXT_SYSCALL: Next<Syscall> = unsafe { Next::new(c"syscall") };

const fn bit(flag: c_int) -> u64 {
    flag as u32 as u64
}

/// The part of the flags of `clone` that is the signal at the end of the child.
const SIGNAL: u64 = 0xff;
const PIDFD: u64 = bit(libc::CLONE_PIDFD);
const PARENT_SETTID: u64 = bit(libc::CLONE_PARENT_SETTID);
const CHILD_SETTID: u64 = bit(libc::CLONE_CHILD_SETTID);
const CHILD_CLEARTID: u64 = bit(libc::CLONE_CHILD_CLEARTID);
const VFORK: u64 = bit(libc::CLONE_VFORK);
/// `CLONE_CLEAR_SIGHAND`.
const CLEAR_SIGHAND: u64 = 1 << 32;
/// Flags that this library serves: the kernel does not get them.
const SERVED: u64 = PARENT_SETTID | CHILD_CLEARTID | VFORK | CLEAR_SIGHAND;

/// A child that the program asks for.
#[derive(Clone, Copy)]
struct Asked {
    flags: u64,
    /// The signal that the parent gets at the end of the child.
    signal: u64,
    /// Places of the program for the TID in the parent, a descriptor of the child, and the TID in the child.
    parent: *mut c_int,
    descriptor: *mut c_int,
    child: *mut c_int,
}

/// Numbers that the kernel writes.
#[derive(Default)]
struct Numbers {
    descriptor: c_int,
    child: c_int,
}

/// Whether a child by these flags has a copy of the memory, and this library has to make it.
fn is_fork(flags: u64) -> bool {
    flags & bit(libc::CLONE_VM) == 0 && arena::arena().is_some()
}

/// The reason why a child with these flags cannot be managed, and the error of its call.
fn refusal(flags: u64) -> Option<(&'static [u8], c_int)> {
    let has = |flag| flags & bit(flag) != 0;
    if has(libc::CLONE_FILES) {
        let reason = b"plimsoll exec: a child that shares the descriptors of its parent, but not its memory, cannot be managed\n";
        return Some((reason, libc::EINVAL));
    }
    if has(libc::CLONE_SETTLS) {
        let reason = b"plimsoll exec: a child with other thread-local storage than the thread that forks cannot be managed\n";
        return Some((reason, libc::EINVAL));
    }
    // The child has no privilege over the user namespace of the kernel.
    let needs_privilege = || arena::arena().is_some_and(|arena| !arena.has_signals());
    if has(libc::CLONE_NEWUSER) && needs_privilege() && !is_for_all() && !has_device() {
        let reason = b"plimsoll exec: a child in another user namespace cannot be managed: it may not use userfaultfd; a run as \
            a user without privilege has no such limit\n";
        return Some((reason, libc::EPERM));
    }
    None
}

/// Whether the system allows userfaultfd for system calls to all users.
fn is_for_all() -> bool {
    let mut digit = 0u8;
    // SAFETY: a path that ends; the kernel writes a byte at most.
    unsafe {
        let file = libc::open(
            c"/proc/sys/vm/unprivileged_userfaultfd".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        let read = libc::read(file, (&raw mut digit).cast(), 1);
        libc::close(file);
        read == 1 && digit == b'1'
    }
}

/// Whether `/dev/userfaultfd` can be opened.
fn has_device() -> bool {
    // SAFETY: a path that ends.
    unsafe { libc::access(c"/dev/userfaultfd".as_ptr(), libc::R_OK | libc::W_OK) == 0 }
}

/// The wait of a parent until its child executes a program or ends: a pipe whose end for writes is the child's. Children that the child
/// makes before have that end too: the parent waits for them as well.
#[derive(Clone, Copy)]
struct Latch {
    read: c_int,
    write: c_int,
}

impl Latch {
    fn new() -> Option<Latch> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0;
        made.then_some(Latch {
            read: ends[0],
            write: ends[1],
        })
    }

    /// Keeps the end of the child in the child, and that of the parent in the parent. `child` is the result of the fork.
    fn split(self, child: pid_t) {
        // SAFETY: a descriptor of the latch, which this process uses no more.
        unsafe { libc::close(if child == 0 { self.read } else { self.write }) };
    }

    /// Waits in the parent.
    fn wait(self, child: pid_t) {
        let mut byte = 0u8;
        // SAFETY: a descriptor of the latch, and a byte that nothing else uses.
        unsafe {
            while child > 0
                && libc::read(self.read, (&raw mut byte).cast(), 1) == -1
                && super::errors::error() == libc::EINTR
            {}
            libc::close(self.read);
        }
    }
}

/// The steps around the fork of a child.
struct Making<'a> {
    asked: &'a Asked,
    by_system: bool,
    numbers: *const Numbers,
    latch: Option<Latch>,
}

impl Steps for Making<'_> {
    /// A pipe created earlier would be inherited by other threads' children.
    fn before(&mut self) -> Result<(), c_int> {
        if self.asked.flags & VFORK != 0 {
            self.latch = Some(Latch::new().ok_or(libc::EAGAIN)?);
        }
        Ok(())
    }

    fn forked(&mut self, child: pid_t) {
        if let Some(latch) = self.latch {
            latch.split(child);
        }
    }

    fn made(&mut self, child: pid_t) {
        // SAFETY: the program asks for these numbers; those of the kernel are there.
        unsafe {
            match child {
                0 => self.asked.begin(self.by_system, self.numbers),
                child => self.asked.tell(child, self.numbers),
            }
        }
    }
}

impl Asked {
    /// Whether the C library's `fork` makes such a child. It makes no descriptor of it, which may have been waited for before this thread
    /// could open one.
    fn is_plain(&self) -> bool {
        let numbers = CHILD_SETTID | SERVED;
        self.signal == libc::SIGCHLD as u64 && self.flags & !numbers == 0
    }

    /// Makes the child. `system` returns the call for these flags, which has the kernel write numbers to that place.
    unsafe fn fork(&self, system: impl FnOnce(u64, *mut Numbers) -> System) -> pid_t {
        if let Some((reason, error)) = refusal(self.flags) {
            write_error(reason);
            return failed(error);
        }
        let numbers = UnsafeCell::new(Numbers::default());
        let system = (!self.is_plain()).then(|| system(self.flags & !SERVED, numbers.get()));
        let mut making = Making {
            asked: self,
            by_system: system.is_some(),
            numbers: numbers.get(),
            latch: None,
        };
        // SAFETY: the caller's premise.
        let made = unsafe { fork_by(system.as_ref(), &mut making) };
        if let Some(latch) = making.latch.filter(|_| made != 0) {
            let error = super::errors::error();
            latch.wait(made);
            if made < 0 {
                failed(error);
            }
        }
        made
    }

    /// Writes the numbers in the parent.
    unsafe fn tell(&self, made: pid_t, numbers: *const Numbers) {
        // SAFETY: the program asks for the numbers there; the rest is the caller's premise.
        unsafe {
            if self.flags & PARENT_SETTID != 0 {
                self.parent.write(made);
            }
            if self.flags & PIDFD != 0 {
                self.descriptor.write((*numbers).descriptor);
            }
        }
    }

    /// Does in the child as the kernel would.
    unsafe fn begin(&self, by_system: bool, numbers: *const Numbers) {
        // SAFETY: as for `tell`.
        unsafe {
            if self.flags & CHILD_SETTID != 0 {
                self.child.write(match by_system {
                    true => (*numbers).child,
                    false => libc::gettid(),
                });
            }
            if self.flags & CHILD_CLEARTID != 0 {
                libc::syscall(libc::SYS_set_tid_address, self.child);
            }
            if self.flags & CLEAR_SIGHAND != 0 {
                clear_handlers();
            }
        }
    }
}

/// Gives each signal with a handler its default.
unsafe fn clear_handlers() {
    for signal in 1..=64 {
        // SAFETY: structures that are valid as zeroes, which stands for the default.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let has_handler = sigaction(signal, ptr::null(), &raw mut action) == 0
                && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
            if has_handler {
                action = std::mem::zeroed();
                sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }
}

/// `clone(2)`. A child that has a copy of the memory runs on its copy of this thread's stack.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    start: Option<Start>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut pid_t,
    thread: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    let Some(next) = NEXT_CLONE.find() else {
        return failed(libc::ENOSYS);
    };
    if flags & libc::CLONE_VM != 0 {
        keep_below(stack as usize);
    }
    let bits = flags as u32 as u64;
    let Some(begin) = start.filter(|_| !stack.is_null() && is_fork(bits)) else {
        // SAFETY: the caller's premise.
        return unsafe { next(start, stack, flags, argument, parent, thread, child) };
    };
    // SAFETY: the caller's premise.
    match unsafe { asked(bits, parent, child).fork(|flags, numbers| by_clone(flags, bits, numbers)) } {
        // The library's threads would keep the process alive without its first one.
        // SAFETY: the caller's premise.
        0 => unsafe { libc::_exit(begin(argument)) },
        made => made,
    }
}

/// [`clone`] by its other name.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __clone(
    start: Option<Start>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut pid_t,
    thread: *mut c_void,
    child: *mut pid_t,
) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { clone(start, stack, flags, argument, parent, thread, child) }
}

/// A child by the flags of `clone`, whose descriptor has the place of the parent's number.
fn asked(bits: u64, parent: *mut c_int, child: *mut c_int) -> Asked {
    Asked {
        flags: bits & !SIGNAL,
        signal: bits & SIGNAL,
        parent,
        descriptor: parent,
        child,
    }
}

/// The system call `clone`, on the stack of the thread.
fn by_clone(flags: u64, bits: u64, numbers: *mut Numbers) -> System {
    // SAFETY: the places are the caller's; nothing is read.
    let (descriptor, child) = unsafe { (&raw mut (*numbers).descriptor, &raw mut (*numbers).child) };
    System {
        number: libc::SYS_clone,
        arguments: [
            (flags | bits & SIGNAL) as usize,
            0,
            descriptor as usize,
            child as usize,
            0,
            0,
        ],
    }
}

/// `syscall(2)`: children, and other calls as the C library makes them.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> c_long {
    let bits = match number {
        libc::SYS_fork => libc::SIGCHLD as u64,
        // The kernel reads no more of them.
        _ => u64::from(first as u32),
    };
    // SAFETY: the caller's premise.
    let made = unsafe {
        match number {
            libc::SYS_fork if is_fork(bits) => {
                let asked = asked(bits, ptr::null_mut(), ptr::null_mut());
                Some(asked.fork(|flags, numbers| by_clone(flags, bits, numbers)))
            }
            libc::SYS_clone if second == 0 && is_fork(bits) => {
                let asked = asked(bits, third as *mut c_int, fourth as *mut c_int);
                Some(asked.fork(|flags, numbers| by_clone(flags, bits, numbers)))
            }
            libc::SYS_clone3 if arena::arena().is_some() => fork_by_structure(first, second),
            _ => None,
        }
    };
    match made {
        Some(made) => c_long::from(made),
        // SAFETY: the caller's premise.
        None => unsafe { other(number, [first, second, third, fourth, fifth, sixth]) },
    }
}

/// The smallest structure of `clone3` (`CLONE_ARGS_SIZE_VER0`).
const LEAST_BYTES: usize = 64;
const _: () = assert!(offset_of!(clone_args, set_tid) == LEAST_BYTES);
/// The most namespaces in which a child's number can be chosen (`MAX_PID_NS_LEVEL`).
const MOST_NUMBERS: usize = 32;

/// Makes a child by `clone3`, if it has a copy of the memory, and of the stack. None for other structures, the kernel's to refuse too.
unsafe fn fork_by_structure(structure: usize, bytes: usize) -> Option<pid_t> {
    let known = size_of::<clone_args>();
    // One of a newer kernel is that of one for it.
    if !(LEAST_BYTES..=known).contains(&bytes) || !calls::is_readable(structure, bytes) {
        return None;
    }
    // SAFETY: the structure is valid as zeroes.
    let mut how: clone_args = unsafe { std::mem::zeroed() };
    // SAFETY: so many bytes can be read.
    unsafe { ptr::copy_nonoverlapping(structure as *const u8, (&raw mut how).cast::<u8>(), bytes) };
    if how.stack != 0 || !is_fork(how.flags) {
        return None;
    }
    let mut chosen = [0 as pid_t; MOST_NUMBERS];
    let count = how.set_tid_size as usize;
    if count > MOST_NUMBERS
        || (count > 0 && !calls::is_readable(how.set_tid as usize, count * size_of::<pid_t>()))
    {
        return None;
    }
    if count > 0 {
        // SAFETY: so many bytes can be read.
        unsafe { ptr::copy_nonoverlapping(how.set_tid as *const pid_t, chosen.as_mut_ptr(), count) };
    }
    let asked = Asked {
        flags: how.flags,
        // The C library's `fork` chooses no number: a child with one counts as one with another signal.
        signal: if count > 0 { 0 } else { how.exit_signal },
        parent: how.parent_tid as *mut c_int,
        descriptor: how.pidfd as *mut c_int,
        child: how.child_tid as *mut c_int,
    };
    // SAFETY: the caller's premise. The structure and the numbers outlive the call.
    Some(unsafe {
        asked.fork(|flags, numbers| {
            how.flags = flags;
            how.pidfd = (&raw mut (*numbers).descriptor) as u64;
            how.child_tid = (&raw mut (*numbers).child) as u64;
            if count > 0 {
                how.set_tid = chosen.as_ptr() as u64;
            }
            System {
                number: libc::SYS_clone3,
                arguments: [(&raw const how) as usize, bytes, 0, 0, 0, 0],
            }
        })
    })
}

/// Another call, as the C library makes it.
unsafe fn other(number: c_long, arguments: [usize; 6]) -> c_long {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    match NEXT_SYSCALL.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(number, first, second, third, fourth, fifth, sixth) },
        None => c_long::from(failed(libc::ENOSYS)),
    }
}

/// Finds the C library's functions that are called when it may not search.
pub(super) fn prepare() {
    NEXT_CLONE.find();
    NEXT_SYSCALL.find();
}
