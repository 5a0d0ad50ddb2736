//! The threads of a pager: that of the balance-set manager, and the one that resolves faults.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use plimsoll_os::Errno;

use super::Served;
use crate::backing::Backing;
use crate::driver::FaultMode;
use crate::fault::FaultThread;
use crate::manager::INTERVAL;
use crate::own_thread::OwnThread;

/// The longest time between two looks of the balance-set manager.
const TICK: Duration = Duration::from_secs(1);

pub(super) struct Threads {
    /// None once it is dropped, or if signals resolve the faults.
    pub(super) faults: Option<Arc<FaultThread>>,
    /// None once it is dropped.
    pub(super) balancer: Option<Balancer>,
}

impl Threads {
    pub(super) fn start<B: Backing + 'static>(
        served: &Arc<Served<B>>,
        mode: FaultMode,
    ) -> Result<Threads, Errno> {
        let faults = (mode == FaultMode::Thread).then(|| FaultThread::start(served.clone()));
        let threads = Threads {
            faults: faults.transpose()?.map(Arc::new),
            balancer: Some(Balancer::start(served.clone())?),
        };
        // A program that fills the store before the thread runs would exceed its budget.
        served.manager.backing.expect_page_file();
        Ok(threads)
    }
}

/// The thread of the balance-set manager; it ends when this is dropped.
pub(super) struct Balancer {
    work: Arc<dyn Work>,
    thread: Option<OwnThread>,
}

/// The work of a [`Balancer`].
trait Work: Send + Sync {
    /// Begins the work on the calling thread.
    fn begin(&self);

    /// Waits for work, does a bounded part of it, and returns whether there will be more.
    fn tick(&self) -> bool;

    /// Has [`Work::tick`] return false from now on.
    fn end(&self);
}

impl<B: Backing> Work for Served<B> {
    fn begin(&self) {
        // A fork meanwhile would leave the child the lock of this thread, which does not exist there.
        let _balancing = self.balancing.lock().unwrap_or_else(PoisonError::into_inner);
        self.manager.backing.poll_page_file();
    }

    fn tick(&self) -> bool {
        let is_at_work = self.manager.thrash.is_at_work();
        self.manager
            .wait_for_work(if is_at_work { INTERVAL } else { TICK });
        if self.is_over.load(Ordering::Acquire) {
            return false;
        }
        #[cfg(not(loom))]
        if let Some(pool) = self.pool.as_ref()
            && (self.manager.need.is_open() || self.manager.need.is_wished())
        {
            pool.wake_own_member();
        }
        let _balancing = self.balancing.lock().unwrap_or_else(PoisonError::into_inner);
        self.manager.backing.poll_page_file();
        let start = Instant::now();
        self.manager.balance();
        let worked = start.elapsed();
        let elapsed = self.built.elapsed();
        let seconds = elapsed.as_secs();
        if self.aged.swap(seconds, Ordering::Relaxed) != seconds {
            self.manager.age();
        }
        self.manager.age_chunks(elapsed);
        self.manager.control_thrash(elapsed, worked);
        if let Some(publication) = self.publication.get() {
            publication.refresh(self.manager.derived());
        }
        true
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.manager.wake_balancer();
    }
}

impl Balancer {
    fn start(work: Arc<dyn Work>) -> Result<Balancer, Errno> {
        let ticker = work.clone();
        let thread = OwnThread::start(c"pager", move || {
            ticker.begin();
            while ticker.tick() {}
        })?;
        Ok(Balancer {
            work,
            thread: Some(thread),
        })
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.work.end();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}
