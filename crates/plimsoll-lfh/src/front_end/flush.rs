//! Flush of idle slots: their blocks return to the subsegments, whose pages can return to the kernel.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering;

use super::LowFragmentation;
use crate::affinity::MOST_POINTERS;
use crate::arena::FIRST_UNIT;
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::lock::Forking;
use crate::subsegment::Subsegment;

/// The arrays to flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Arrays that hold as much as at the last flush.
    Unchanged,
    All,
}

impl LowFragmentation {
    /// Empties idle arrays, gives up their slots' active subsegments, frees spare subsegments, and purges pages of
    /// others. Returns whether a later flush may find more idle. The parts of it that another thread does now it leaves
    /// out. This thread holds no lock.
    pub(crate) fn flush_idle(&self, backend: &Backend, idle: Idle) -> bool {
        let mut left = self.flush_slots(backend, idle);
        let mut next = Some(FIRST_UNIT);
        while let Some(from) = next {
            Forking::make_way();
            let looked = self.purge_some_subsegments(backend, idle, from);
            left |= looked.left;
            next = looked.next;
        }
        left
    }

    /// The first part of [`LowFragmentation::flush_idle`]: all but the pages of subsegments. Its work is bounded by the
    /// number of slots.
    pub(crate) fn flush_slots(&self, backend: &Backend, idle: Idle) -> bool {
        let Some(_flushing) = self.upkeep.flushing.try_lock() else {
            return true;
        };
        self.slots.has_started() && self.flush_started_slots(backend, idle)
    }

    fn flush_started_slots(&self, backend: &Backend, idle: Idle) -> bool {
        let mut left = false;
        let mut stopped = false;
        for bucket in Bucket::all() {
            left |= self.look(backend, bucket, idle, &mut stopped);
        }
        left |= self.look_at_runs(idle, &mut stopped);
        if !stopped {
            return left;
        }
        let restarted = self.slots.restart_sections();
        self.flush_stopped_runs(backend, restarted);
        for bucket in Bucket::all() {
            for slot in 0..self.slots_used.load(Ordering::Relaxed) as usize {
                if self.slots.header(slot, bucket).is_stopped() {
                    self.flush_stopped(backend, slot, bucket, restarted);
                }
            }
        }
        // The freed blocks may have left a spare subsegment.
        left || restarted
    }

    /// Stops the bucket's idle arrays. For an idle and empty one, only gives up the active subsegment.
    fn look(&self, backend: &Backend, bucket: Bucket, idle: Idle, stopped: &mut bool) -> bool {
        let mut left = false;
        let mut lists = self.buckets[bucket.index()].lock.lock();
        for slot in 0..self.slots_used.load(Ordering::Relaxed) as usize {
            let header = self.slots.header(slot, bucket);
            let rests = header.rests();
            let active = self.slots.active(slot, bucket);
            if !rests && idle == Idle::Unchanged {
                left = true;
            } else if header.filled() > 0 {
                *stopped |= self.slots.stop(slot, bucket);
            } else if active.load(Ordering::Relaxed) != 0 {
                let first = active.swap(0, Ordering::Relaxed);
                lists.deactivate(backend, Subsegment::new(first, bucket));
            }
        }
        if lists.refills != lists.refills_seen && idle == Idle::Unchanged {
            lists.refills_seen = lists.refills;
            left = true;
        } else {
            lists.release_spare(backend, bucket);
        }
        left
    }

    /// Frees the pointers of a stopped array and resumes the array. If sections could not be restarted, it keeps its
    /// pointers.
    fn flush_stopped(&self, backend: &Backend, slot: usize, bucket: Bucket, restarted: bool) {
        let mut blocks = [ptr::null_mut(); MOST_POINTERS];
        let mut count = 0;
        {
            let mut lists = self.buckets[bucket.index()].lock.lock();
            // A thread that waits for a locked slot relies on its header, which changes in more than one step.
            let held = (!self.slots.uses_sections()).then(|| self.slots.lock(slot).lock());
            let header = self.slots.header(slot, bucket);
            if restarted {
                // SAFETY: it was stopped before the restart, and the locks are held.
                let pointers = unsafe { self.slots.stopped(slot, bucket) };
                count = pointers.len();
                blocks[..count].copy_from_slice(pointers);
                header.set_empty(bucket);
                lists.idle_flushes = lists.idle_flushes.wrapping_add(1);
            }
            header.resume(bucket);
            drop(held);
            let active = self.slots.active(slot, bucket).swap(0, Ordering::Relaxed);
            if active != 0 {
                lists.deactivate(backend, Subsegment::new(active, bucket));
            }
        }
        self.free_remote(backend, bucket, &blocks[..count]);
    }
}
