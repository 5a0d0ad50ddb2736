//! The symbols of calls on the address space.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_uchar, c_uint, c_void};

use crate::arena;
use crate::mappings::{self, Request};
use crate::trampoline;

/// The result of a system call as C has it: `errno`, and -1.
fn returned(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        // SAFETY: `errno` of this thread.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result
}

/// `mmap(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let request = Request {
        address: address as usize,
        length,
        protection,
        flags,
        file,
        offset: offset as usize,
    };
    returned(mappings::map(&request)) as *mut c_void
}

/// `mmap64(3)`, the same where offsets have 64 bits.
///
/// # Safety
/// As for [`mmap`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's premise.
    unsafe { mmap(address, length, protection, flags, file, offset) }
}

/// `munmap(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, length: usize) -> c_int {
    returned(mappings::unmap(address as usize, length)) as c_int
}

/// `mremap(2)`. The last argument is there with MREMAP_FIXED alone: otherwise its register has some value.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_length: usize,
    new_length: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    let new = match flags & (libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) {
        0 => 0,
        _ => new as usize,
    };
    returned(mappings::remap(old as usize, old_length, new_length, flags, new)) as *mut c_void
}

/// `mprotect(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int {
    returned(mappings::protect(address as usize, length, protection, None)) as c_int
}

/// `pkey_mprotect(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    key: c_int,
) -> c_int {
    // The C library's function is that of `mprotect` without a key, which needs no processor with keys.
    let key = (key != -1).then_some(key);
    returned(mappings::protect(address as usize, length, protection, key)) as c_int
}

/// `madvise(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    returned(mappings::advise(address as usize, length, advice)) as c_int
}

/// `posix_madvise(3)`, which returns the error itself. As in the C library, POSIX_MADV_DONTNEED keeps the contents: it does
/// nothing.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    -mappings::advise(address as usize, length, advice) as c_int
}

/// `mlock(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock(address: *const c_void, length: usize) -> c_int {
    returned(mappings::lock(address as usize, length, 0)) as c_int
}

/// `mlock2(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlock2(address: *const c_void, length: usize, flags: c_uint) -> c_int {
    returned(mappings::lock(address as usize, length, flags as c_int)) as c_int
}

/// `munlock(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munlock(address: *const c_void, length: usize) -> c_int {
    returned(mappings::unlock(address as usize, length)) as c_int
}

/// `mlockall(2)`: refused with `ENOMEM`, as where RLIMIT_MEMLOCK is too low. The kernel would fill and keep the whole arena.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    let result = match arena::arena() {
        Some(_) => -(libc::ENOMEM as isize),
        // SAFETY: the caller's premise.
        None => unsafe { trampoline::call(libc::SYS_mlockall, [flags as usize, 0, 0, 0, 0, 0]) },
    };
    returned(result) as c_int
}

/// `mincore(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mincore(address: *mut c_void, length: usize, vector: *mut c_uchar) -> c_int {
    returned(mappings::is_resident(address as usize, length, vector)) as c_int
}

/// `brk(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn brk(address: *mut c_void) -> c_int {
    let address = address as usize;
    // SAFETY: the caller's premise.
    let at = mappings::set_break(address).unwrap_or_else(|| unsafe { kernel_break(address) });
    returned(if at == address {
        0
    } else {
        -(libc::ENOMEM as isize)
    }) as c_int
}

/// `sbrk(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sbrk(by: isize) -> *mut c_void {
    // SAFETY: the caller's premise.
    let former = mappings::move_break(by).unwrap_or_else(|| unsafe {
        let former = kernel_break(0);
        let new = former.wrapping_add_signed(by);
        if by == 0 || kernel_break(new) == new {
            former as isize
        } else {
            -(libc::ENOMEM as isize)
        }
    });
    returned(former) as *mut c_void
}

/// Sets the break of the kernel, and returns it.
///
/// # Safety
/// As for the system call.
unsafe fn kernel_break(address: usize) -> usize {
    // SAFETY: the caller's premise.
    unsafe { trampoline::call(libc::SYS_brk, [address, 0, 0, 0, 0, 0]) as usize }
}
