//! The locks under which a heap changes in more than one step.

use core::mem::offset_of;

use super::damage::{Damage, Fault};
use crate::arena::RECORD;
use crate::backend::Backend;
use crate::front_end::{BucketLock, LowFragmentation};
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::space::Space;
use crate::lock::Lock;
use crate::record::Record;

impl<M: Memory> Space<'_, M> {
    /// Whether a thread may be about to change the data of a damage: one holds the back end's lock of the heap, that of
    /// its Standard front end, that of a bucket, or the flush lock, whose holder purges pages of subsegments that it
    /// owns meanwhile. Data that change without a lock are consistent at each step; so are blocks in use of a hardened
    /// heap.
    pub(super) fn is_locked(&self, damage: &Damage) -> Result<bool, MemoryError> {
        // Copies may be older than the data.
        self.refresh();
        if !(1..=self.highest_heap()).contains(&damage.heap) {
            return Ok(false);
        }
        let record = self.records + (damage.heap as usize - 1) * RECORD;
        let front = offset_of!(Record, low_fragmentation);
        let locks = match (damage.fault.bucket(), damage.fault) {
            (_, Fault::Canary { .. }) => return Ok(false),
            (Some(bucket), _) => {
                let buckets = front + offset_of!(LowFragmentation, buckets);
                let lock = buckets + bucket.index() * size_of::<BucketLock>() + offset_of!(BucketLock, lock);
                [lock, front + offset_of!(LowFragmentation, upkeep.flushing)]
            }
            (None, Fault::Standard { .. }) => [offset_of!(Record, standard); 2],
            (None, _) => [offset_of!(Record, backend) + offset_of!(Backend, extents); 2],
        };
        for lock in locks {
            let mut state = [0; 4];
            self.memory
                .read(record + lock + offset_of!(Lock<()>, state), &mut state)?;
            if state != [0; 4] {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
