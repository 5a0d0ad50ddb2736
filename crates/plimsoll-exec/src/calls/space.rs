//! Calls on the address space, which [`crate::mappings`] does for the arena.
#![allow(unsafe_code, reason = "system calls")]

use std::ffi::c_int;

use super::Call;
use super::loan::{Loan, Manner, Way};
use super::memory;
use super::plain::set_bytes;
use crate::arena::PAGE;
use crate::mappings::{self, Request};

/// Serves a call on the address space.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve(call: &Call) -> isize {
    let [address, length, third, fourth, fifth, sixth] = call.arguments;
    match call.number {
        libc::SYS_mmap => mappings::map(&Request {
            address,
            length,
            protection: third as c_int,
            flags: fourth as c_int,
            file: fifth as c_int,
            offset: sixth,
        }),
        libc::SYS_munmap => mappings::unmap(address, length),
        libc::SYS_mremap => mappings::remap(address, length, third, fourth as c_int, fifth),
        libc::SYS_mprotect => mappings::protect(address, length, third as c_int, None),
        libc::SYS_pkey_mprotect => mappings::protect(address, length, third as c_int, Some(fourth as c_int)),
        libc::SYS_madvise => mappings::advise(address, length, third as c_int),
        libc::SYS_mlock => mappings::lock(address, length, 0),
        libc::SYS_mlock2 => mappings::lock(address, length, third as c_int),
        libc::SYS_munlock => mappings::unlock(address, length),
        libc::SYS_mincore if memory::is_managed(address) => {
            mappings::is_resident(address, length, third as *mut u8)
        }
        // SAFETY: the caller's premise.
        libc::SYS_mincore => unsafe { with_memory(call, 2, Way::Both, length.div_ceil(PAGE)) },
        libc::SYS_brk => match mappings::set_break(address) {
            Some(end) => end as isize,
            // SAFETY: the caller's premise.
            None => unsafe { call.make(call.arguments) },
        },
        // Nothing there is a file's, and no page has a node.
        libc::SYS_msync | libc::SYS_mbind | libc::SYS_set_mempolicy_home_node
            if memory::is_managed(address) =>
        {
            0
        }
        // SAFETY: the caller's premise.
        libc::SYS_mbind => unsafe { with_memory(call, 3, Way::In, set_bytes(fifth)) },
        // Segments of System V, remapped pages and seals would stay for ever in memory that others get later.
        libc::SYS_shmat if memory::is_managed(length) => -(libc::EINVAL as isize),
        libc::SYS_remap_file_pages | libc::SYS_mseal if memory::is_managed(address) => {
            -(libc::EINVAL as isize)
        }
        // SAFETY: the caller's premise.
        _ => unsafe { call.make(call.arguments) },
    }
}

/// Makes a call on addresses outside of the arena with `bytes` of memory in it.
unsafe fn with_memory(call: &Call, argument: usize, way: Way, bytes: usize) -> isize {
    let mut loan = Loan::new();
    let mut arguments = call.arguments;
    match loan.lend(arguments[argument], bytes, way, Manner::Any) {
        Ok(lent) => arguments[argument] = lent,
        Err(error) => return -(error.raw() as isize),
    }
    // SAFETY: the caller's premise.
    loan.settle(unsafe { call.make(arguments) })
}
