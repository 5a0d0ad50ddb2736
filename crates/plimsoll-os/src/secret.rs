//! A value that no core dump and, where the limit allows it, no swap device gets to see.
#![allow(unsafe_code)]

use core::fmt;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use crate::{Errno, address_space, page_size};

/// A value in pages of its own, which core dumps leave out (`MADV_DONTDUMP`), which are locked in RAM where
/// RLIMIT_MEMLOCK allows it, and which are overwritten when the value ends. A forked child has a copy.
///
/// Invariant: `value` is initialised, stands at the start of `length` mapped bytes, and belongs to this value alone.
pub struct Secret<T> {
    value: NonNull<T>,
    length: usize,
}

// SAFETY: owns its value alone, like `Box<T>`.
unsafe impl<T: Send> Send for Secret<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Secret<T> {}

impl<T> Secret<T> {
    /// Moves the result of `make` into pages of its own. The stack keeps the traces that `make` and the move leave: the
    /// caller wipes those.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] where there is no room. Then `make` was not called.
    pub fn new(make: impl FnOnce() -> T) -> Result<Secret<T>, Errno> {
        const { assert!(align_of::<T>() <= 4096, "pages are aligned so far") };
        let length = size_of::<T>().max(1).next_multiple_of(page_size());
        let start = address_space::map(length)?;
        let value = NonNull::new(start as *mut T).ok_or(Errno::NOMEM)?;
        // SAFETY: the range is ours, and neither call changes its contents. A kernel without them keeps the value as
        // any other memory.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTDUMP);
            libc::mlock(start as *const libc::c_void, length);
        }
        // SAFETY: the range is mapped writable, aligned to a page and long enough.
        unsafe { value.as_ptr().write(make()) };
        Ok(Secret { value, length })
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.length
    }
}

impl<T> Deref for Secret<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by the invariant.
        unsafe { self.value.as_ref() }
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T> Drop for Secret<T> {
    fn drop(&mut self) {
        let start = self.value.as_ptr();
        // SAFETY: by the invariant; the value ends here.
        unsafe { ptr::drop_in_place(start) };
        for word in 0..self.length / size_of::<u64>() {
            // SAFETY: within the pages, which are ours and hold no value any more. Volatile: the pages are unmapped
            // next, so the compiler would leave out a plain write.
            unsafe { start.cast::<u64>().add(word).write_volatile(0) };
        }
        // SAFETY: the range is ours, and no reference to it outlives `self`.
        let _ = unsafe { address_space::unmap(start as usize, self.length) };
    }
}
