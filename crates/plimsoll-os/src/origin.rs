//! A process, told apart from its forked children.
#![allow(unsafe_code)]

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::{Errno, address_space, page_size, this_process};

/// The process that made this value. In a child of a fork, however it forked, the value knows that it is a copy: the
/// kernel wipes a page of it there (`MADV_WIPEONFORK`), and the child's PID differs, unless it is in another namespace.
#[derive(Debug)]
pub struct Origin {
    /// Its PID; 0 where the page was wiped.
    page: NonNull<AtomicU32>,
}

// SAFETY: an atomic word in plain memory that this value owns alone, like `Box<AtomicU32>`.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    /// The calling process.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] where there is no room, [`Errno::INVAL`] on a kernel before 4.14.
    pub fn here() -> Result<Origin, Errno> {
        let length = page_size();
        let start = address_space::map(length)?;
        let page = NonNull::new(start as *mut AtomicU32).ok_or(Errno::NOMEM)?;
        let origin = Origin { page };
        // SAFETY: the range is ours; the advice changes nothing in this process.
        Errno::check(unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_WIPEONFORK) })?;
        origin.word().store(this_process(), Ordering::Relaxed);
        Ok(origin)
    }

    /// Makes the calling process, a child of a fork, that process.
    pub fn renew(&self) {
        self.word().store(this_process(), Ordering::Relaxed);
    }

    /// Makes the calling process a child again that does not have the memory, after [`Origin::renew`].
    pub fn disown(&self) {
        self.word().store(0, Ordering::Relaxed);
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: the page is mapped readable and writable as long as `self` lives, and holds an atomic word alone.
        unsafe { self.page.as_ref() }
    }

    /// Whether the caller has the memory of that process: also in a child that shares it (`vfork(2)`). No system call.
    pub fn shares_memory(&self) -> bool {
        self.word().load(Ordering::Relaxed) != 0
    }

    /// Whether the caller is that process. A system call; it does not touch `errno`.
    pub fn is_here(&self) -> bool {
        self.word().load(Ordering::Relaxed) == this_process()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // SAFETY: the page is ours, and no reference to it outlives `self`.
        let _ = unsafe { address_space::unmap(self.page.as_ptr() as usize, page_size()) };
    }
}
