//! The symbols by which a program runs on a stack of its own memory.
//!
//! The kernel writes the frame of a signal to the stack of the thread, and ends the process if it cannot. So where signals serve the
//! faults, a stack in the arena stays present: every page, as a stack that is new has pages that were never used. The pin stays
//! when the stack is given up: others may have got its address from the heap by then.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_void};

use libc::{pthread_attr_t, size_t, ucontext_t};
use plimsoll_os::write_error;

use crate::handlers::strips_masks;
use crate::next_symbol::Next;
use crate::{arena, calls};

/// Keeps a stack in the arena present. Returns whether it is so.
fn keep(start: usize, bytes: usize) -> bool {
    !strips_masks() || calls::keep_memory(start, bytes).is_ok()
}

/// Bytes of a stack of which the program names only the upper end.
const BELOW: usize = 256 << 10;

/// As [`keep`], of a stack that ends at `end`.
pub(super) fn keep_below(end: usize) -> bool {
    let is_managed = strips_masks() && calls::is_managed(end.wrapping_sub(1));
    let Some(arena) = arena::arena().filter(|_| is_managed) else {
        return true;
    };
    let bytes = arena.anonymous_below(end, BELOW);
    keep(end - bytes, bytes)
}

/// `pthread_attr_setstack(3)`. Where signals serve the faults, a thread whose stack would be in the arena has one of the C library, of
/// the same size: the C library begins a thread with all signals blocked, and calls of it on memory in the arena would end the
/// process.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setstack(
    attributes: *mut pthread_attr_t,
    start: *mut c_void,
    bytes: size_t,
) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(*mut pthread_attr_t, *mut c_void, size_t) -> c_int> =
        unsafe { Next::new(c"pthread_attr_setstack") };
    let Some(next) = NEXT.find() else {
        return libc::ENOSYS;
    };
    if strips_masks() && calls::is_managed(start as usize) {
        // SAFETY: the caller's premise.
        unsafe { libc::pthread_attr_setstacksize(attributes, bytes) }
    } else {
        // SAFETY: as above.
        unsafe { next(attributes, start, bytes) }
    }
}

/// A pointer to `makecontext`.
type MakeContext = unsafe extern "C" fn(*mut ucontext_t, unsafe extern "C" fn(), c_int);

/// `makecontext(3)`. It jumps to the C library's, which takes any number of arguments.
///
/// # Safety
/// As for the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn makecontext(context: *mut ucontext_t, start: unsafe extern "C" fn(), count: c_int) {
    // The argument registers, which leave the stack aligned for the call.
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {prepare}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        prepare = sym prepare,
    )
}

/// Keeps the stack of a context present. Returns the C library's function.
unsafe extern "C" fn prepare(context: *mut ucontext_t) -> MakeContext {
    // SAFETY: the type of the function.
    static NEXT: Next<MakeContext> = unsafe { Next::new(c"makecontext") };
    // SAFETY: the premise of `makecontext`.
    let stack = unsafe { (*context).uc_stack };
    if !keep(stack.ss_sp as usize, stack.ss_size) {
        write_error(
            b"plimsoll exec: the stacks of coroutines would need more than half of the budget: raise --ram\n",
        );
        plimsoll_os::abort()
    }
    NEXT.find().unwrap_or(no_function)
}

unsafe extern "C" fn no_function(_: *mut ucontext_t, _: unsafe extern "C" fn(), _: c_int) {
    plimsoll_os::abort()
}
