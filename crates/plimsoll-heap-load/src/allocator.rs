//! Which allocator this process runs on.
//!
//! Premise of the unsafe code: `dladdr` takes any address and, when it succeeds, leaves a NUL-terminated path that stays
//! valid while its library is loaded; the library of `malloc` is never unloaded.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::path::Path;

/// The file name of the library that `malloc` comes from, such as `libc.so.6` or `libjemalloc.so.2`; of the program
/// itself where the allocator is linked into it.
pub fn allocator_name() -> String {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let malloc: unsafe extern "C" fn(usize) -> *mut libc::c_void = libc::malloc;
    // SAFETY: `found` is one Dl_info, and ours.
    let known = unsafe { libc::dladdr(malloc as *const libc::c_void, &raw mut found) };
    if known == 0 || found.dli_fname.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: the module's premise.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_string_lossy();
    let name = Path::new(&*path).file_name();
    name.map_or_else(|| path.to_string(), |name| name.to_string_lossy().into_owned())
}
