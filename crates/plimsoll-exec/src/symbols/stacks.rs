//! The symbols by which a program runs on a stack of its own memory.
//!
//! The kernel writes the frame of a signal to the stack of the thread, and ends the process if it cannot. So where signals serve the
//! faults, a stack in the arena stays present: every page, as a stack that is new has pages that were never used. The pin stays
//! when the stack is given up: others may have got its address from the heap by then. A stack beyond half of the budget, or beyond the
//! number of such pins, is not kept: the process ends if a page of it is absent when the thread needs it.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{pthread_attr_t, size_t, ucontext_t};
use plimsoll_os::{address_space, write_error};

use crate::arena::Arena;
use crate::next_symbol::Next;
use crate::{arena, calls};

/// Whether signals serve the faults.
fn has_signals() -> bool {
    arena::arena().is_some_and(Arena::has_signals)
}

/// Keeps a stack in the arena present, if that is possible. Says so once if it is not.
fn keep(start: usize, bytes: usize) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let is_kept = !has_signals() || calls::keep_memory(start, bytes).is_ok();
    if !is_kept && !SAID.swap(true, Ordering::Relaxed) {
        write_error(
            b"plimsoll exec: a stack of the program cannot stay in RAM, and the process ends if a page of it is absent: too many \
              stacks, or more than half of the budget: raise --ram\n",
        );
    }
}

/// Bytes of a stack of which the program names only the upper end.
const BELOW: usize = 256 << 10;

/// As [`keep`], of a stack that ends at `end`.
pub(super) fn keep_below(end: usize) {
    if let Some(arena) = arena::arena().filter(|_| calls::is_managed(end.wrapping_sub(1))) {
        let bytes = arena.anonymous_below(end, BELOW);
        if bytes > 0 {
            keep(end - bytes, bytes);
        }
    }
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
    // SAFETY: the caller's premise.
    unsafe {
        if !has_signals() || !calls::is_managed(start as usize) {
            next(attributes, start, bytes)
        } else if names_a_stack(attributes) {
            // The attributes would go on to name that one. Each such call has a new stack: nothing states when one is free.
            match address_space::map(bytes) {
                Ok(stack) => next(attributes, stack as *mut c_void, bytes),
                Err(error) => error.raw(),
            }
        } else {
            libc::pthread_attr_setstacksize(attributes, bytes)
        }
    }
}

/// Whether attributes name a stack. Without one, its end is 0.
///
/// # Safety
/// They are initialised.
unsafe fn names_a_stack(attributes: *const pthread_attr_t) -> bool {
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the caller's premise.
    let error = unsafe { libc::pthread_attr_getstack(attributes, &raw mut start, &raw mut bytes) };
    error == 0 && (start as usize).wrapping_add(bytes) != 0
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
    if stack.ss_size > 0 {
        keep(stack.ss_sp as usize, stack.ss_size);
    }
    NEXT.find().unwrap_or(no_function)
}

unsafe extern "C" fn no_function(_: *mut ucontext_t, _: unsafe extern "C" fn(), _: c_int) {
    plimsoll_os::abort()
}
