//! Descriptors that a pager opens while its program runs. Programs use the lowest free numbers, and close those that they do not know:
//! an embedder that is loaded into such a program has the pager use high numbers, and keeps the program away from them.
#![allow(unsafe_code, reason = "descriptors by their numbers")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use plimsoll_os::Errno;

/// Numbers that the table has.
const NUMBERS: usize = 2048;

/// The first number to use; 0: any.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// The numbers in use, one bit each.
static OWN: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// Has all pagers of this process use descriptor numbers from `number` on for deferred page files, and for the descriptors that
/// they open after they were built. By default they use the lowest free numbers. A build with a deferred page file, and a fork,
/// fail if RLIMIT_NOFILE allows no such number.
pub fn use_descriptors_from(number: i32) {
    FIRST.store(number.clamp(0, NUMBERS as i32 - 1), Ordering::Relaxed);
}

/// Whether a number is one of those: the program must not close it, nor give it to another file.
pub fn owns_descriptor(number: i32) -> bool {
    bit(number).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

fn bit(number: i32) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(number).ok()?;
    OWN.get(number / 64).map(|word| (word, 1 << (number % 64)))
}

/// The first number for descriptors of a pager; none if any is as good.
pub(crate) fn first_number() -> Option<i32> {
    Some(FIRST.load(Ordering::Relaxed)).filter(|first| *first > 0)
}

/// The number of an open descriptor of a pager, which the program leaves alone until this is dropped: before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct OwnNumber(i32);

impl OwnNumber {
    pub(crate) fn of(number: i32) -> OwnNumber {
        if let Some((word, bit)) = bit(number) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        OwnNumber(number)
    }
}

impl Drop for OwnNumber {
    fn drop(&mut self) {
        if let Some((word, bit)) = bit(self.0) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// An open descriptor of a pager.
#[derive(Debug)]
pub(crate) struct Descriptor(Option<OwnedFd>);

impl Descriptor {
    /// Moves a file to a number of the pager's, closed on exec.
    ///
    /// # Errors
    /// No such number is free.
    pub(crate) fn of(file: OwnedFd) -> Result<Descriptor, Errno> {
        let Some(first) = first_number() else {
            return Ok(Descriptor(Some(file)));
        };
        // SAFETY: the call takes no memory.
        let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first) };
        if moved < 0 {
            let error = std::io::Error::last_os_error().raw_os_error();
            return Err(Errno::of_number(error.unwrap_or(libc::EMFILE)));
        }
        if let Some((word, bit)) = bit(moved) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        // SAFETY: the descriptor is new.
        Ok(Descriptor(Some(unsafe { OwnedFd::from_raw_fd(moved) })))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(file) => file.as_fd(),
            None => unreachable!("it is taken by its end alone"),
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(file) = self.0.take() else { return };
        // Before it is closed: another thread may open a file with its number right after.
        if let Some((word, bit)) = bit(file.as_raw_fd()) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Pagers of other tests of this process use the numbers too.
    #[test]
    fn descriptors_are_at_the_embedders_numbers_and_known_until_they_end() {
        const FIRST_OF_TEST: i32 = 700;
        use_descriptors_from(FIRST_OF_TEST);
        let (reader, writer) = std::io::pipe().expect("descriptors are free");
        let low = reader.as_raw_fd();
        let moved = Descriptor::of(reader.into()).expect("numbers are free");
        use_descriptors_from(0);
        let number = moved.as_fd().as_raw_fd();
        assert!(number >= FIRST_OF_TEST && owns_descriptor(number) && !owns_descriptor(low));
        // SAFETY: the call takes no memory.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert!(flags & libc::FD_CLOEXEC != 0);
        drop(moved);
        assert!(!owns_descriptor(number));
        let plain = Descriptor::of(writer.into()).expect("it keeps its number");
        assert!(!owns_descriptor(plain.as_fd().as_raw_fd()));
        assert!(!owns_descriptor(-1) && !owns_descriptor(i32::MAX));
    }
}
