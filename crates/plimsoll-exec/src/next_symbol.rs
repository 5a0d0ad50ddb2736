//! The C library's own definitions of symbols that this library exports.
#![allow(unsafe_code, reason = "addresses of functions from the dynamic linker")]

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The definition of a symbol in the libraries after this one, of the type `F`, a pointer to a function.
pub(crate) struct Next<F> {
    name: &'static CStr,
    /// 0 before the first search.
    address: AtomicUsize,
    kind: PhantomData<F>,
}

/// The address of a symbol that no library has.
const NONE: usize = 1;

impl<F: Copy> Next<F> {
    /// # Safety
    /// A definition of that name has the type `F`.
    pub(crate) const unsafe fn new(name: &'static CStr) -> Next<F> {
        assert!(size_of::<F>() == size_of::<*const c_void>());
        Next {
            name,
            address: AtomicUsize::new(0),
            kind: PhantomData,
        }
    }

    /// The function. None if no library has it. The first call is not async-signal-safe.
    pub(crate) fn find(&self) -> Option<F> {
        let address = match self.address.load(Ordering::Relaxed) {
            0 => self.search(),
            known => known,
        };
        // SAFETY: an address of the dynamic linker, with the type of the premise of `new`.
        (address != NONE)
            .then(|| unsafe { std::mem::transmute_copy(&ptr::with_exposed_provenance::<c_void>(address)) })
    }

    #[cold]
    fn search(&self) -> usize {
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let address = if found.is_null() { NONE } else { found as usize };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_or_not() {
        // SAFETY: the types of the functions.
        let (known, unknown) = unsafe {
            (
                Next::<unsafe extern "C" fn() -> libc::pid_t>::new(c"getpid"),
                Next::<unsafe extern "C" fn()>::new(c"no_such_symbol_of_any_library"),
            )
        };
        for _ in 0..2 {
            // SAFETY: the function has no premise.
            let process = known.find().map(|getpid| unsafe { getpid() });
            assert_eq!(process, Some(std::process::id() as libc::pid_t));
            assert!(unknown.find().is_none());
        }
    }
}
