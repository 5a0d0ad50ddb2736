//! The environment that the process was started with, where the C library may not know it yet.
#![allow(unsafe_code)]

use core::ffi::c_char;

use crate::kernel_file::read_file;
use crate::{Errno, weak};

/// Bytes of one variable: longer ones are cut.
const LONGEST: usize = 256;

/// Calls `visit` with each variable of the environment that the process was started with, `NAME=value`, cut at 256
/// bytes. Returns false if no source of it can be read. No call touches `errno`.
///
/// The sources, in this order: the kernel (`/proc/self/environ`); the C library's `environ`, if that is set already; and
/// glibc's pointer to the start of the stack, where the kernel put the environment.
pub fn with_environment(mut visit: impl FnMut(&[u8])) -> bool {
    from_kernel(&mut visit).is_ok() || from_c_library(&mut visit) || from_stack(&mut visit)
}

fn from_kernel(mut visit: impl FnMut(&[u8])) -> Result<(), Errno> {
    let mut variable = [0u8; LONGEST];
    let mut length = 0;
    read_file(c"/proc/self/environ", |bytes| {
        for byte in bytes {
            if *byte == 0 {
                visit(&variable[..length]);
                length = 0;
            } else if length < LONGEST {
                variable[length] = *byte;
                length += 1;
            }
        }
    })
}

fn from_c_library(visit: impl FnMut(&[u8])) -> bool {
    let environment = weak!("environ") as *const *const *const c_char;
    if environment.is_null() {
        return false;
    }
    // SAFETY: it is the address of the C library's variable.
    let first = unsafe { environment.read_volatile() };
    if first.is_null() {
        return false;
    }
    // SAFETY: the C library's list of variables ends with null. At the first call of the heap no code of the program
    // has changed it, as that allocates.
    unsafe { visit_each(first, visit) };
    true
}

/// More arguments than any program gets.
const MOST_ARGUMENTS: usize = 1 << 20;

fn from_stack(visit: impl FnMut(&[u8])) -> bool {
    let end = weak!("__libc_stack_end") as *const *const usize;
    if end.is_null() {
        return false;
    }
    // SAFETY: the dynamic linker sets it, before it loads a library, to where the kernel put the number of arguments.
    // They follow, null, the variables, and null.
    unsafe {
        let start = end.read();
        if start.is_null() {
            return false;
        }
        let count = start.read();
        if count > MOST_ARGUMENTS || start.add(1 + count).read() != 0 {
            return false;
        }
        visit_each(start.add(2 + count).cast::<*const c_char>(), visit);
    }
    true
}

/// # Safety
/// A list of strings, with null at its end.
unsafe fn visit_each(mut next: *const *const c_char, mut visit: impl FnMut(&[u8])) {
    // SAFETY: the caller's premise; a string ends with NUL, and is read up to it.
    unsafe {
        while !next.read().is_null() {
            let mut variable = [0u8; LONGEST];
            let mut length = 0;
            while length < LONGEST && next.read().add(length).read() != 0 {
                variable[length] = next.read().add(length).cast::<u8>().read();
                length += 1;
            }
            visit(&variable[..length]);
            next = next.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn is_path(variable: &[u8]) -> bool {
        let path = std::format!("PATH={}", std::env::var("PATH").expect("tests have a PATH"));
        variable == &path.as_bytes()[..path.len().min(LONGEST)]
    }

    #[test]
    fn every_variable_is_visited() {
        let mut seen = Vec::new();
        assert!(with_environment(|variable| seen.push(variable.to_vec())));
        assert!(seen.iter().any(|variable| is_path(variable)));
    }

    /// Without `/proc` there was no environment: a process that was to be hardened was not, in silence.
    #[test]
    fn every_source_has_the_same_variables() {
        let mut sources = [Vec::new(), Vec::new(), Vec::new()];
        let [kernel, library, stack] = &mut sources;
        from_kernel(|variable| kernel.push(variable.to_vec())).expect("there is /proc");
        assert!(from_c_library(|variable| library.push(variable.to_vec())));
        if cfg!(target_env = "gnu") {
            assert!(from_stack(|variable| stack.push(variable.to_vec())));
        } else {
            stack.clone_from(kernel);
        }
        for source in &mut sources {
            source.retain(|variable| !variable.is_empty());
            // An emulator gives the program the variables in another order.
            source.sort();
            assert!(source.iter().any(|variable| is_path(variable)));
        }
        assert_eq!(sources[0], sources[1]);
        assert_eq!(sources[0], sources[2]);
    }
}
