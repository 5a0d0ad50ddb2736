//! The C functions. Every pointer is checked for null; what else must hold is the caller's to guarantee, as the header
//! says.
#![allow(unsafe_code, reason = "the C functions, and pointers of C programs")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use plimsoll_pager::{Pager, TrimTo};

use crate::failure::{self, Failure, report};
use crate::handle::Handle;
use crate::layout::{Options, Statistics};

/// The pager behind a pointer of the program.
///
/// # Safety
/// It is null, or a pager that [`plimsoll_pager_create`] made and that is not destroyed.
unsafe fn pager<'p>(pager: *mut Handle) -> Result<&'p Handle, Failure> {
    // SAFETY: the caller's premise.
    unsafe { pager.as_ref() }.ok_or_else(|| Failure::invalid("cannot use a pager: the pointer is null"))
}

fn not_null<T>(pointer: *mut T, name: &str) -> Result<*mut T, Failure> {
    match pointer.is_null() {
        true => Err(Failure::invalid(format!(
            "cannot return a result: `{name}` is null"
        ))),
        false => Ok(pointer),
    }
}

/// The structure of a program that may be older or newer than this library: `size` of its bytes, the rest zero.
///
/// # Safety
/// `source` begins with a `size_t` that is its number of readable bytes.
unsafe fn options(source: *const Options) -> Result<Options, Failure> {
    // SAFETY: the caller's premise.
    let size = unsafe { source.cast::<usize>().read() };
    if size < size_of::<usize>() || size > size_of::<Options>() {
        return Err(Failure::invalid(format!(
            "cannot create a pager: `size` of the options is {size}; set it to sizeof(plimsoll_pager_options_t)"
        )));
    }
    let mut options = Options::default();
    // SAFETY: `size` bytes are readable, and no more than the target has; any bytes are a value.
    unsafe { ptr::copy_nonoverlapping(source.cast::<u8>(), (&raw mut options).cast(), size) };
    Ok(options)
}

/// See the header.
///
/// # Safety
/// `options` is null or begins with its own size, and its paths are null or end with a byte 0; `pager` is null or a place
/// for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_create(source: *const Options, result: *mut *mut Handle) -> c_int {
    let create = || {
        let result = not_null(result, "pager")?;
        let chosen = match source.is_null() {
            true => Options::default(),
            // SAFETY: the caller's premise.
            false => unsafe { options(source) }?,
        };
        // SAFETY: the caller's premise.
        let pager: Pager = unsafe { chosen.builder() }?.build()?;
        // SAFETY: the caller's premise.
        unsafe { result.write(Box::into_raw(Box::new(Handle::new(pager)))) };
        Ok(())
    };
    report(create())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager that no thread uses any more, nor its regions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_destroy(handle: *mut Handle) {
    if !handle.is_null() {
        // SAFETY: the caller's premise; the box was made by `plimsoll_pager_create`.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `address` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_map(
    handle: *mut Handle,
    bytes: usize,
    address: *mut *mut c_void,
) -> c_int {
    let map = || {
        let result = not_null(address, "address")?;
        // SAFETY: the caller's premise.
        let start = unsafe { pager(handle) }?.map(bytes)?;
        // SAFETY: the caller's premise.
        unsafe { result.write(start as *mut c_void) };
        Ok(())
    };
    report(map())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; no thread uses the region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_unmap(handle: *mut Handle, address: *mut c_void) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.unmap(address as usize)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `trimmed` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_trim(
    handle: *mut Handle,
    address: *mut c_void,
    bytes: usize,
    step: c_int,
    trimmed: *mut usize,
) -> c_int {
    let trim = || {
        let to = match step {
            0 => TrimTo::Modified,
            1 => TrimTo::Standby,
            2 => TrimTo::Store,
            other => return Err(Failure::invalid(format!("cannot trim: step {other} is unknown"))),
        };
        // SAFETY: the caller's premise.
        let pages = unsafe { pager(handle) }?.trim(address as usize, bytes, to)?;
        if !trimmed.is_null() {
            // SAFETY: the caller's premise.
            unsafe { trimmed.write(pages as usize) };
        }
        Ok(())
    };
    report(trim())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_prefetch(
    handle: *mut Handle,
    address: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.prefetch(address as usize, bytes)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_discard(
    handle: *mut Handle,
    address: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.discard(address as usize, bytes)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `pages` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_reset(
    handle: *mut Handle,
    address: *mut c_void,
    bytes: usize,
    pages: *mut usize,
) -> c_int {
    let reset = || {
        // SAFETY: the caller's premise.
        let count = unsafe { pager(handle) }?.reset(address as usize, bytes)?;
        if !pages.is_null() {
            // SAFETY: the caller's premise.
            unsafe { pages.write(count as usize) };
        }
        Ok(())
    };
    report(reset())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_set_priority(
    handle: *mut Handle,
    address: *mut c_void,
    priority: u32,
) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.set_priority(address as usize, priority)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_set_working_set(
    handle: *mut Handle,
    address: *mut c_void,
    minimum: u64,
    maximum: u64,
) -> c_int {
    // SAFETY: the caller's premise.
    report(
        unsafe { pager(handle) }.and_then(|pager| pager.set_working_set(address as usize, minimum, maximum)),
    )
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_suspend(handle: *mut Handle, address: *mut c_void) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.suspend(address as usize)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_resume(handle: *mut Handle, address: *mut c_void) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.resume(address as usize)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `serves` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_serves_system_calls(
    handle: *mut Handle,
    serves: *mut c_int,
) -> c_int {
    let read = || {
        let result = not_null(serves, "serves")?;
        // SAFETY: the caller's premise.
        let serves = unsafe { pager(handle) }?.serves_system_calls();
        // SAFETY: the caller's premise.
        unsafe { result.write(c_int::from(serves)) };
        Ok(())
    };
    report(read())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `pin` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_pin(
    handle: *mut Handle,
    address: *mut c_void,
    bytes: usize,
    pin: *mut u64,
) -> c_int {
    let make = || {
        let result = not_null(pin, "pin")?;
        // SAFETY: the caller's premise.
        let number = unsafe { pager(handle) }?.pin(address as usize, bytes)?;
        // SAFETY: the caller's premise.
        unsafe { result.write(number) };
        Ok(())
    };
    report(make())
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_unpin(handle: *mut Handle, pin: u64) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.unpin(pin)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_set_ram(handle: *mut Handle, bytes: u64) -> c_int {
    // SAFETY: the caller's premise.
    report(unsafe { pager(handle) }.and_then(|pager| pager.set_ram(bytes)))
}

/// See the header.
///
/// # Safety
/// `handle` is null or a pager; `stats` is null or begins with its own size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_pager_stats(handle: *mut Handle, stats: *mut Statistics) -> c_int {
    let read = || {
        let result = not_null(stats, "stats")?;
        // SAFETY: the caller's premise.
        let size = unsafe { result.cast::<usize>().read() };
        if size < size_of::<usize>() || size > size_of::<Statistics>() {
            return Err(Failure::invalid(format!(
                "cannot return the counters: `size` is {size}; set it to sizeof(plimsoll_pager_stats_t)"
            )));
        }
        // SAFETY: the caller's premise.
        let statistics = Statistics::new(&unsafe { pager(handle) }?.stats(), size);
        // SAFETY: `size` bytes are writable, and no more than the source has.
        unsafe { ptr::copy_nonoverlapping((&raw const statistics).cast::<u8>(), result.cast(), size) };
        Ok(())
    };
    report(read())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_pager_error() -> *const c_char {
    failure::last()
}
