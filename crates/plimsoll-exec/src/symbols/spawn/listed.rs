//! The functions of `exec(3)` whose arguments are a list.
#![allow(unsafe_code, reason = "exported symbols, and arguments of any number")]

use std::ffi::{c_char, c_int};

use super::{execv, execve, execvp};

/// The arguments of a function with a list of texts that ends with a null pointer: five in registers, and the rest on the stack, behind the
/// return address.
struct Listed {
    registers: *const *const c_char,
    used: usize,
}

impl Listed {
    const IN_REGISTERS: usize = 5;

    /// The next argument.
    unsafe fn next(&mut self) -> *const c_char {
        let return_address = usize::from(self.used >= Listed::IN_REGISTERS);
        // SAFETY: the caller's premise.
        let argument = unsafe { *self.registers.add(self.used + return_address) };
        self.used += 1;
        argument
    }

    /// The arguments to the null pointer, with it.
    unsafe fn all(&mut self) -> Vec<*const c_char> {
        let mut all = Vec::new();
        loop {
            // SAFETY: the caller's premise.
            let argument = unsafe { self.next() };
            all.push(argument);
            if argument.is_null() {
                return all;
            }
        }
    }
}

unsafe extern "C" fn execl_listed(path: *const c_char, registers: *const *const c_char) -> c_int {
    let mut listed = Listed { registers, used: 0 };
    // SAFETY: the caller's premise.
    unsafe { execv(path, listed.all().as_ptr()) }
}

unsafe extern "C" fn execlp_listed(file: *const c_char, registers: *const *const c_char) -> c_int {
    let mut listed = Listed { registers, used: 0 };
    // SAFETY: the caller's premise.
    unsafe { execvp(file, listed.all().as_ptr()) }
}

unsafe extern "C" fn execle_listed(path: *const c_char, registers: *const *const c_char) -> c_int {
    let mut listed = Listed { registers, used: 0 };
    // SAFETY: the caller's premise: the environment follows the list.
    unsafe {
        let arguments = listed.all();
        execve(path, arguments.as_ptr(), listed.next().cast())
    }
}

/// Functions with a list of texts as arguments: the registers of the list are stored below the return address, in their order.
macro_rules! listed_functions {
    ($($name:ident, $listed:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(3)`, whose arguments are of any number.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "mov rsi, rsp",
                "call {listed}",
                "add rsp, 40",
                "ret",
                listed = sym $listed,
            )
        }
    )*};
}

listed_functions! {
    execl, execl_listed;
    execlp, execlp_listed;
    execle, execle_listed;
}
