//! Memory of a file that several processes map: words that each of them may change at any time.
#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use crate::futex::{Scope, wait_at, wake_at};
use crate::{Errno, page_size};

/// The words of a file, mapped shared. A forked child keeps the mapping.
///
/// Invariant: `count` words from `start` on are mapped readable and writable until the value is dropped, and this process
/// accesses them as atomic words alone.
///
/// Past the end of the file, an access raises SIGBUS: seal the file against shrinking, or have the handler of SIGBUS call
/// [`SharedWords::replace_lost_page`].
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: atomic words may be used from any thread; the mapping belongs to the process.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps the first `count` words of `file`, the raw number of a descriptor that is open for reading and writing. The
    /// mapping outlives the descriptor. The file must have no other mapping in this process that is not one of atomic
    /// words.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for zero words, [`Errno::NOMEM`] if the address space has no room, `EACCES` for a descriptor that
    /// does not allow both, `ENODEV` for a file that cannot be mapped.
    pub fn map(file: i32, count: usize) -> Result<SharedWords, Errno> {
        let length = count.checked_mul(size_of::<u64>()).ok_or(Errno::NOMEM)?;
        if length > isize::MAX as usize {
            return Err(Errno::NOMEM);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED the kernel picks an unused range, so no memory in use is touched.
        let address = unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, file, 0) };
        if address == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let start = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(SharedWords { start, count })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: by the invariant they are mapped, aligned to a page, and accessed as atomic words alone; any bits are a
        // valid word.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    /// Sleeps while the low half of word number `index` is that of `expected`: until [`SharedWords::wake`] of any process,
    /// a signal, or for `limit` at most. It may wake for no reason. Returns at once if there is no such word.
    pub fn wait(&self, index: usize, expected: u64, limit: Duration) {
        if let Some(word) = self.words().get(index) {
            wait_at(low_half(word), expected as u32, Some(limit), Scope::Shared);
        }
    }

    /// Wakes all threads of all processes that [`wait`](SharedWords::wait) for word number `index`.
    pub fn wake(&self, index: usize) {
        if let Some(word) = self.words().get(index) {
            wake_at(low_half(word), i32::MAX as u32, Scope::Shared);
        }
    }

    /// Maps a private page of zeros in place of the page with `address`, which the file lost: a handler of SIGBUS calls it
    /// and returns, and the access then reads zero. Returns false, and does nothing, if the address is not one of these
    /// words. It makes one system call and may be called in a signal handler.
    pub fn replace_lost_page(&self, address: usize) -> bool {
        let start = self.start.as_ptr() as usize;
        if address < start || address - start >= self.count * size_of::<u64>() {
            return false;
        }
        let page = address & !(page_size() - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let arguments = [
            page,
            page_size(),
            (libc::PROT_READ | libc::PROT_WRITE) as usize,
            flags as usize,
            usize::MAX,
            0,
        ];
        // SAFETY: the page is one of this mapping, which holds atomic words alone: their values may change at any time.
        unsafe { crate::raw::system_call(libc::SYS_mmap, arguments) }.is_ok()
    }
}

/// The half of a word that changes with its lowest bit.
fn low_half(word: &AtomicU64) -> *const u32 {
    let halves = word.as_ptr().cast::<u32>();
    halves.wrapping_add(usize::from(cfg!(target_endian = "big")))
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the range is ours and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering;
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::thread;

    use super::*;

    fn memory_file(words: u64) -> File {
        // SAFETY: the kernel reads a string that ends with 0, and returns a new descriptor.
        let descriptor = unsafe { libc::memfd_create(c"words".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(descriptor >= 0);
        // SAFETY: the descriptor is new, and this is its only owner.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(words * 8).expect("it is a file in memory");
        file
    }

    #[test]
    fn two_mappings_of_a_file_share_their_words() {
        let file = memory_file(512);
        let one = SharedWords::map(file.as_raw_fd(), 512).expect("the file can be mapped");
        let other = SharedWords::map(file.as_raw_fd(), 512).expect("the file can be mapped");
        drop(file);
        one.words()[511].store(7, Ordering::Relaxed);
        assert_eq!(other.words()[511].load(Ordering::Relaxed), 7);
        assert_eq!(
            SharedWords::map(-1, 512).err(),
            Some(Errno::of_number(libc::EBADF))
        );
        assert_eq!(SharedWords::map(-1, usize::MAX).err(), Some(Errno::NOMEM));
    }

    /// Without the scope of all processes, a waiter on another mapping slept until its limit.
    #[test]
    fn a_waiter_on_another_mapping_wakes() {
        let file = memory_file(512);
        let one = SharedWords::map(file.as_raw_fd(), 512).expect("the file can be mapped");
        let other = SharedWords::map(file.as_raw_fd(), 512).expect("the file can be mapped");
        let (ready, started) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            ready.send(()).expect("the test waits for it");
            while other.words()[3].load(Ordering::Acquire) == 0 {
                other.wait(3, 0, Duration::from_secs(1000));
            }
        });
        started.recv().expect("the thread starts");
        one.words()[3].store(1, Ordering::Release);
        // Either the waiter sees the new value before it sleeps, or the wake-up ends its sleep.
        one.wake(3);
        waiter.join().expect("it ends");
    }

    #[test]
    fn a_lost_page_becomes_zeros() {
        let words = page_size() / 8 * 2;
        let file = memory_file(words as u64);
        let mapped = SharedWords::map(file.as_raw_fd(), words).expect("the file can be mapped");
        mapped.words()[0].store(5, Ordering::Relaxed);
        mapped.words()[words - 1].store(6, Ordering::Relaxed);
        file.set_len(page_size() as u64).expect("it is a file in memory");
        let lost = mapped.words()[words - 1].as_ptr() as usize;
        assert!(mapped.replace_lost_page(lost));
        assert_eq!(mapped.words()[words - 1].load(Ordering::Relaxed), 0);
        assert_eq!(mapped.words()[0].load(Ordering::Relaxed), 5);
        assert!(!mapped.replace_lost_page(lost + 8), "past the last word");
        assert!(!mapped.replace_lost_page(0));
    }
}
