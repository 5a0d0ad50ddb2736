//! The symbol that ends a thread: the library has to know of the end of the first one.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::c_void;

use crate::background;
use crate::next_symbol::Next;

/// A pointer to `pthread_exit`.
type Function = unsafe extern "C" fn(*mut c_void) -> !;

/// `pthread_exit(3)`. It jumps to the C library's, which unwinds the stack: no frame of this library may be on it.
///
/// # Safety
/// As for the C library's.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_exit(value: *mut c_void) -> ! {
    core::arch::naked_asm!("push rdi", "call {prepare}", "pop rdi", "jmp rax", prepare = sym prepare)
}

/// Notes the end of the thread. Returns the C library's function.
extern "C" fn prepare() -> Function {
    // SAFETY: the type of the function.
    static NEXT: Next<Function> = unsafe { Next::new(c"pthread_exit") };
    // SAFETY: the calls take no memory.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    if is_first {
        background::note_end_of_first_thread();
    }
    NEXT.find().unwrap_or(no_function)
}

extern "C" fn no_function(_value: *mut c_void) -> ! {
    plimsoll_os::abort()
}
