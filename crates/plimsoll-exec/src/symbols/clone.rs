//! The symbols of `clone(2)`, by which sandboxes and service managers fork. A child that does not share the memory of its parent has
//! the arena by [`plimsoll_pager::Pager::fork`] alone, as one of [`fork`](super::fork).
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_long, c_void};
use std::mem::offset_of;

use libc::{clone_args, pid_t};
use plimsoll_os::write_error;

use super::errors::failed;
use super::fork::{System, fork_by};
use super::stacks::keep_below;
use crate::arena;
use crate::next_symbol::Next;

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

/// Where the kernel writes process numbers: [`fork_by`] is given places outside of the arena, as the kernel does not wait for the pager.
struct Numbers {
    /// That of the parent's side: its TID or a descriptor.
    parent: *mut c_int,
    child: *mut c_int,
}

/// Whether a child by these flags has a copy of the memory, and this library has to make it.
fn is_fork(flags: u64) -> bool {
    flags & libc::CLONE_VM as u64 == 0 && arena::arena().is_some()
}

/// Makes a child. `system` returns the call, given places for the two numbers.
unsafe fn fork_with(
    flags: u64,
    numbers: &Numbers,
    system: impl FnOnce(*mut c_int, *mut c_int) -> System,
) -> pid_t {
    if flags & libc::CLONE_FILES as u64 != 0 {
        write_error(b"plimsoll exec: a child that shares the descriptors of its parent, but not its memory, cannot be managed\n");
        return failed(libc::EINVAL);
    }
    let (mut of_parent, mut of_child) = (0, 0);
    let system = system(&raw mut of_parent, &raw mut of_child);
    // SAFETY: the caller's premise.
    let made = unsafe { fork_by(&system) };
    let is_set = |flag: c_int| flags & flag as u64 != 0;
    // SAFETY: the program asks for these numbers there.
    unsafe {
        if made > 0 && (is_set(libc::CLONE_PIDFD) || is_set(libc::CLONE_PARENT_SETTID)) {
            numbers.parent.write(of_parent);
        }
        if made == 0 && is_set(libc::CLONE_CHILD_SETTID) {
            numbers.child.write(of_child);
        }
    }
    made
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
    if flags & libc::CLONE_VM != 0 && !keep_below(stack as usize) {
        return failed(libc::ENOMEM);
    }
    let bits = flags as u32 as u64;
    let Some(begin) = start.filter(|_| !stack.is_null() && is_fork(bits)) else {
        // SAFETY: the caller's premise.
        return unsafe { next(start, stack, flags, argument, parent, thread, child) };
    };
    // SAFETY: the caller's premise.
    unsafe {
        let numbers = Numbers { parent, child };
        let made = fork_with(bits, &numbers, |parent, child| System {
            number: libc::SYS_clone,
            arguments: [
                bits as usize,
                0,
                parent as usize,
                child as usize,
                thread as usize,
                0,
            ],
        });
        match made {
            // The library's threads would keep the process alive without its first one.
            0 => libc::_exit(begin(argument)),
            made => made,
        }
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
    // SAFETY: the caller's premise.
    unsafe {
        let made = match number {
            libc::SYS_fork if is_fork(0) => fork_with(0, &NONE, |_, _| System {
                number,
                arguments: [0; 6],
            }),
            libc::SYS_clone if second == 0 && is_fork(first as u64) => {
                let numbers = Numbers {
                    parent: third as *mut c_int,
                    child: fourth as *mut c_int,
                };
                fork_with(first as u64, &numbers, |parent, child| System {
                    number,
                    arguments: [first, 0, parent as usize, child as usize, fifth, 0],
                })
            }
            libc::SYS_clone3 if second >= LEAST_ARGUMENTS && arena::arena().is_some() => {
                match fork_by_arguments(first as *const clone_args, second) {
                    Some(made) => made,
                    None => return other(number, [first, second, third, fourth, fifth, sixth]),
                }
            }
            _ => return other(number, [first, second, third, fourth, fifth, sixth]),
        };
        c_long::from(made)
    }
}

/// No numbers are asked for.
const NONE: Numbers = Numbers {
    parent: std::ptr::null_mut(),
    child: std::ptr::null_mut(),
};

/// The smallest structure of `clone3` (`CLONE_ARGS_SIZE_VER0`).
const LEAST_ARGUMENTS: usize = 64;
const _: () = assert!(offset_of!(clone_args, set_tid) == LEAST_ARGUMENTS);

/// Makes a child by `clone3`, if it has a copy of the memory, and of the stack.
unsafe fn fork_by_arguments(program: *const clone_args, bytes: usize) -> Option<pid_t> {
    let known = bytes.min(size_of::<clone_args>());
    // SAFETY: the structure is valid as zeroes.
    let mut copy: clone_args = unsafe { std::mem::zeroed() };
    // SAFETY: the program passes a structure of at least that many bytes.
    unsafe { std::ptr::copy_nonoverlapping(program.cast::<u8>(), (&raw mut copy).cast::<u8>(), known) };
    // A structure of a newer kernel is that of one for it.
    if copy.stack != 0 || !is_fork(copy.flags) || bytes > known {
        return None;
    }
    let is_descriptor = copy.flags & libc::CLONE_PIDFD as u64 != 0;
    let numbers = Numbers {
        parent: if is_descriptor {
            copy.pidfd
        } else {
            copy.parent_tid
        } as *mut c_int,
        child: copy.child_tid as *mut c_int,
    };
    // SAFETY: the caller's premise. The structure outlives the call.
    Some(unsafe {
        fork_with(copy.flags, &numbers, |parent, child| {
            // One that asks for both numbers of the parent's side gets the second from the kernel.
            match is_descriptor {
                true => copy.pidfd = parent as u64,
                false => copy.parent_tid = parent as u64,
            }
            copy.child_tid = child as u64;
            System {
                number: libc::SYS_clone3,
                arguments: [(&raw const copy) as usize, known, 0, 0, 0, 0],
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
