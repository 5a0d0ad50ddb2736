//! Copies of pages that a fork shares, where faults inside system calls come to the pager.
//!
//! The program may drop such a page (`MADV_DONTNEED`) while a trimmer holds it busy and has the kernel copy it. The copy is then a
//! fault inside the trimmer's call, and the thread for faults would wait for the busy page for ever. It finds the page here
//! instead, and fills it with zeros, which a dropped page holds.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

use plimsoll_os::Errno;

/// The page that a thread has the kernel copy: one at a time.
///
/// Invariant: a fill of [`Unsharing::fill`] has ended when [`Unsharing::during`] of its page returns: the page may be trimmed
/// after that. Checked by `no_page_is_filled_after_its_copy`.
#[derive(Debug, Default)]
pub(super) struct Unsharing {
    /// The number of the page, plus 1; 0 without one.
    page: AtomicU64,
    /// Whether the thread for faults is about to look at `page`, or fills it.
    is_filling: AtomicBool,
    /// The thread for faults, which cannot wait for itself.
    server: AtomicUsize,
}

impl Unsharing {
    /// Notes the thread that resolves the faults.
    pub(super) fn set_server(&self, thread: usize) {
        self.server.store(thread, Ordering::Relaxed);
    }

    /// Calls `copy` with the page of that number noted, on `thread`.
    ///
    /// # Errors
    /// `EBUSY` on the thread for faults, or while another page is copied; those of `copy`.
    pub(super) fn during(
        &self,
        thread: usize,
        page: u32,
        copy: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let is_server = self.server.load(Ordering::Relaxed) == thread;
        let number = u64::from(page) + 1;
        let begin = || {
            self.page
                .compare_exchange(0, number, Ordering::Acquire, Ordering::Relaxed)
        };
        if is_server || begin().is_err() {
            return Err(Errno::BUSY);
        }
        let copied = copy();
        self.page.store(0, Ordering::Release);
        // Either the thread for faults sees no page, or it is seen here.
        fence(Ordering::SeqCst);
        while self.is_filling.load(Ordering::Acquire) {
            #[cfg(not(loom))]
            std::hint::spin_loop();
            #[cfg(loom)]
            loom::thread::yield_now();
        }
        copied
    }

    /// Calls `fill` if the page of that number is copied at the moment, on the thread for faults. Returns whether it is.
    pub(super) fn fill(&self, page: u32, fill: impl FnOnce()) -> bool {
        self.is_filling.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_copied = self.page.load(Ordering::Acquire) == u64::from(page) + 1;
        if is_copied {
            fill();
        }
        self.is_filling.store(false, Ordering::Release);
        is_copied
    }

    /// Ends the copy of a thread of the parent, in a child of a fork.
    pub(super) fn renew(&self) {
        self.page.store(0, Ordering::Relaxed);
        self.is_filling.store(false, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_page_is_copied_at_a_time_and_not_by_the_thread_for_faults() {
        let unsharing = Unsharing::default();
        unsharing.set_server(7);
        assert_eq!(unsharing.during(7, 0, || Ok(())), Err(Errno::BUSY));
        let copied = unsharing.during(1, 0, || {
            assert_eq!(unsharing.during(2, 5, || Ok(())), Err(Errno::BUSY));
            let mut filled = 0;
            assert!(unsharing.fill(0, || filled += 1) && !unsharing.fill(1, || filled += 1));
            assert_eq!(filled, 1);
            Err(Errno::NOMEM)
        });
        assert_eq!(copied, Err(Errno::NOMEM));
        assert!(!unsharing.fill(0, || panic!("no page is copied")));
        assert_eq!(unsharing.during(1, 0, || Ok(())), Ok(()));
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A fault that the thread read earlier must not fill the page once it is trimmed: zeros would replace its contents.
    #[test]
    fn no_page_is_filled_after_its_copy() {
        loom::model(|| {
            let unsharing = Arc::new(Unsharing::default());
            let is_trimmed = Arc::new(AtomicBool::new(false));
            let server = {
                let (unsharing, is_trimmed) = (unsharing.clone(), is_trimmed.clone());
                thread::spawn(move || {
                    unsharing.fill(3, || assert!(!is_trimmed.load(Ordering::Relaxed)));
                })
            };
            assert_eq!(unsharing.during(1, 3, || Ok(())), Ok(()));
            is_trimmed.store(true, Ordering::Relaxed);
            server.join().unwrap();
        });
    }
}
