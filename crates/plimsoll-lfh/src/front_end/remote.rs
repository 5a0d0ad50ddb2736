//! Remote free of blocks to their subsegments, in groups: one compare-and-swap for all blocks of a subsegment in a
//! batch.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use super::LowFragmentation;
use crate::arena;
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::integrity::{self, Damage, Link};
use crate::remote_free::Duty;
use crate::subsegment::Subsegment;

/// Groups at a time. A power of two.
const GROUPS: usize = 16;

/// Linked blocks of one subsegment, about to be freed.
#[derive(Clone, Copy)]
struct Group {
    subsegment: Subsegment,
    /// The first block, and the two after it.
    first: Link,
    /// The last block, whose link is not written yet.
    tail: *mut u8,
    /// The highest number of them.
    last: u16,
    count: u16,
}

impl LowFragmentation {
    /// Frees blocks of `bucket`, which have their tags, to their subsegments.
    pub(super) fn free_remote(&self, backend: &Backend, bucket: Bucket, blocks: &[*mut u8]) {
        let mut groups = [None::<Group>; GROUPS];
        for block in blocks {
            let subsegment = Subsegment::containing(*block as usize, bucket);
            let number = subsegment.number(*block);
            // Subsegments start at multiples of their length, so neighbours have different places.
            let place = &mut groups[(subsegment.first / crate::subsegment::units(bucket)) as usize % GROUPS];
            match place {
                Some(group) if group.subsegment.first == subsegment.first => {
                    // SAFETY: the block is free, and no other thread has it.
                    unsafe { integrity::write_link(*block, group.first) };
                    group.first = Link {
                        next: number + 1,
                        second: group.first.next,
                        third: group.first.second,
                    };
                    group.last = group.last.max(number);
                    group.count += 1;
                }
                _ => {
                    let group = Group {
                        subsegment,
                        first: Link {
                            next: number + 1,
                            ..Link::default()
                        },
                        tail: *block,
                        last: number,
                        count: 1,
                    };
                    if let Some(before) = place.replace(group) {
                        self.free_group(backend, before);
                    }
                }
            }
        }
        for group in groups.into_iter().flatten() {
            self.free_group(backend, group);
        }
    }

    /// Ends the process if one of the blocks is of another heap. It does not read the descriptions of subsegments,
    /// whose lines other threads write in remote frees.
    pub(super) fn check_heap(&self, bucket: Bucket, blocks: &[*mut u8]) {
        let heap = self.heap.load(Ordering::Relaxed);
        for block in blocks {
            let subsegment = Subsegment::containing(*block as usize, bucket);
            if !arena::belongs(subsegment.first, heap) {
                integrity::report(Damage::OtherHeap, *block as usize, Some(bucket));
            }
        }
    }

    /// Ends the process if the subsegment of a group is of another heap, or one of its blocks was never allocated.
    fn check_group(&self, group: &Group) {
        let unit = group.subsegment.unit();
        let block = group.subsegment.block(group.last);
        let damage = |damage| integrity::report(damage, block as usize, Some(group.subsegment.bucket));
        if unit.heap.load(Ordering::Relaxed) != self.heap.load(Ordering::Relaxed) {
            damage(Damage::OtherHeap);
        }
        if group.last >= unit.split.load(Ordering::Relaxed) {
            damage(Damage::Foreign);
        }
    }

    /// Frees one group, and does the [`Duty`] of it.
    fn free_group(&self, backend: &Backend, group: Group) {
        self.check_group(&group);
        let Group {
            subsegment,
            first,
            tail,
            count,
            ..
        } = group;
        let unit = subsegment.unit();
        let capacity = subsegment.capacity();
        let duty = unit.remote.push(first.next, count, capacity, |next| {
            // SAFETY: the block is free, and no other thread has it before the push.
            unsafe {
                integrity::write_link(
                    tail,
                    Link {
                        next,
                        ..Link::default()
                    },
                );
            }
        });
        if matches!(duty, Duty::Nothing | Duty::List) {
            self.note_freed(subsegment, count);
        }
        if duty == Duty::Nothing {
            return;
        }
        let mut lists = self.buckets[subsegment.bucket.index()].lock.lock();
        match duty {
            Duty::List => {
                let state = unit.remote.listed(capacity);
                lists.settle(backend, subsegment, state);
            }
            Duty::Empty => lists.empty(backend, subsegment),
            Duty::TooMany => integrity::report(Damage::DoubleFree, tail as usize, Some(subsegment.bucket)),
            Duty::Nothing => {}
        }
    }
}
