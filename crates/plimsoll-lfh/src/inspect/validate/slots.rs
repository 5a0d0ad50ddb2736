//! The checks of affinity slots: the ends of each array, and every block in it.

use super::Walk;
use super::damage::{Damage, Fault};
use super::runs::Look;
use crate::affinity::{MOST_POINTERS, begin, most_pointers};
use crate::block_table::State;
use crate::bucket::Bucket;
use crate::inspect::hardened::{STATE, state_bytes};
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::records::HeapRecord;
use crate::inspect::slots::{Array, Slots};
use crate::inspect::space::Space;
use crate::integrity::tag_by;
use crate::subsegment::units;
use crate::unit::{UNIT, UnitIndex};

/// How often a block is looked at that is not as it should be, before an array counts as looked at: a block that is
/// taken and put back all the time is free at one moment and in use at the next.
pub(super) const LOOKS_AT_A_BLOCK: usize = 64;

impl<M: Memory> Walk<'_, '_, M> {
    pub(super) fn slots(&mut self) -> Result<(), MemoryError> {
        for record in self.space.heaps() {
            let record = record?;
            let Some(slots) = record.slots() else { continue };
            for slot in record.slot_numbers() {
                if self.is_over() {
                    return Ok(());
                }
                for bucket in Bucket::all() {
                    let mut blocks = 0;
                    self.judge(|space| {
                        while_it_lives(space, &record, || {
                            blocks = 0;
                            array(space, &record, &slots, slot, bucket, &mut blocks)
                        })
                    })?;
                    self.seen.cached_blocks += blocks;
                }
            }
            self.quarantine(&record, &slots)?;
        }
        Ok(())
    }
}

/// The result of `look` in the slots of a heap; none if the heap has ended since its record was read, and its slots
/// with it. Another heap may have taken their place meanwhile: then it looks at those.
pub(super) fn while_it_lives<M: Memory>(
    space: &Space<'_, M>,
    record: &HeapRecord,
    mut look: impl FnMut() -> Look<Array>,
) -> Look<Array> {
    let mut looks = 0;
    loop {
        looks += 1;
        match look() {
            Err(MemoryError::Unreadable { .. }) if looks < LOOKS_AT_A_BLOCK => space.refresh(),
            looked => return looked,
        }
        let now = space.record(record.number)?;
        if now.and_then(|now| now.slots()) != record.slots() {
            return Ok(None);
        }
    }
}

/// An array must have the bounds of its bucket, and hold only free blocks of the bucket.
fn array<M: Memory>(
    space: &Space<'_, M>,
    record: &HeapRecord,
    slots: &Slots,
    slot: u32,
    bucket: Bucket,
    blocks: &mut u64,
) -> Look<Array> {
    let array = slots.array(space.memory, slot, bucket)?;
    if array.out_of_use() {
        return Ok(None);
    }
    let at = |address, fault| {
        let damage = Damage {
            heap: record.number,
            address,
            fault,
        };
        Ok(Some((damage, array)))
    };
    let (start, most) = (begin(bucket), most_pointers(bucket));
    let inside = array.begin == start
        && (start + 1..=start + most).contains(&array.end)
        && (start..=start + most).contains(&array.current);
    if !inside {
        let positions = [array.begin, array.end, array.current];
        return at(
            slots.address(slot),
            Fault::Header {
                slot,
                bucket,
                positions,
            },
        );
    }
    let mut pointers = [0; MOST_POINTERS];
    let pointers = slots.pointers(space.memory, slot, &array, &mut pointers)?;
    for (position, block) in (start..).zip(pointers) {
        let mut looks = 0;
        let mut held = *block;
        while !is_free(space, record, bucket, held)? {
            looks += 1;
            space.refresh();
            // It may have been taken meanwhile, and another be in its place.
            let now = slots.array(space.memory, slot, bucket)?;
            let Some(pointer) = slots.pointer(space.memory, slot, &now, position)? else {
                break;
            };
            if looks == LOOKS_AT_A_BLOCK && pointer == held {
                return at(held, Fault::Slot { slot, bucket });
            } else if looks == LOOKS_AT_A_BLOCK {
                break;
            }
            held = pointer;
        }
        *blocks += 1;
    }
    Ok(None)
}

/// Whether a free block of a bucket of a heap is at an address.
fn is_free<M: Memory>(
    space: &Space<'_, M>,
    record: &HeapRecord,
    bucket: Bucket,
    block: usize,
) -> Result<bool, MemoryError> {
    let unit = block.wrapping_sub(space.window) / UNIT;
    let Ok(unit) = UnitIndex::try_from(unit) else {
        return Ok(false);
    };
    let first = unit & !(units(bucket) - 1);
    if space.bucket_in(first, record.number, block)? != Some(bucket) {
        return Ok(false);
    }
    if record.hardened {
        let mut state = [0; STATE];
        space.read_states(block, &mut state[..state_bytes(bucket)])?;
        if State::of_bytes(state) != State::Free {
            return Ok(false);
        }
    }
    let mut tag = [0; 8];
    space.memory.read(block + 8, &mut tag)?;
    Ok(u64::from_ne_bytes(tag) == tag_by(space.key, block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::ThisProcess;
    use crate::{FrontEnd, Heap};
    use crate::{arena, record};

    #[test]
    fn an_array_ends_behind_its_start() {
        let heap = Heap::of(FrontEnd::LowFragmentation);
        let bucket = Bucket::for_size(1000).expect("there is one");
        let block = heap.allocate(1000);
        // SAFETY: the block is in use.
        #[allow(unsafe_code)]
        unsafe {
            heap.free(block);
        }
        let space = Space::open(&ThisProcess, arena::window()).expect("there is a heap");
        let record = space.record(heap.number()).unwrap().expect("the heap lives");
        let slots = record.slots().expect("it has slots");
        let (slot, array) = record
            .slot_numbers()
            .map(|slot| (slot, slots.array(&ThisProcess, slot, bucket).unwrap()))
            .find(|(_, array)| array.in_use())
            .expect("one is used");
        let all = &record::of(heap.number())
            .expect("the heap lives")
            .low_fragmentation()
            .slots;
        let header = all.header(slot as usize, bucket);
        let look = |begin: u16, end: u16| {
            header.set_limits(begin, end);
            let found = super::array(&space, &record, &slots, slot, bucket, &mut 0).unwrap();
            header.set_limits(array.begin, array.end);
            found.map(|(damage, _)| damage.fault)
        };
        assert_eq!(look(array.begin, array.end), None);
        assert_eq!(look(0, 0), None);
        assert_eq!(look(u16::MAX, 0), None);
        for (begin, end) in [
            (array.end, array.begin),
            (array.begin, array.begin),
            (array.begin, 0),
            (u16::MAX, 1),
        ] {
            let positions = [begin, end, array.current];
            let fault = Fault::Header {
                slot,
                bucket,
                positions,
            };
            assert_eq!(look(begin, end), Some(fault));
        }
    }
}
