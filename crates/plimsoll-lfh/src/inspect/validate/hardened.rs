//! The checks of hardened heaps: the block table, canaries behind blocks in use, and the quarantine.

use super::Walk;
use super::damage::{Damage, Fault};
use super::evidence::{Evidence, Numbers};
use super::runs::Look;
use super::slots::{LOOKS_AT_A_BLOCK, while_it_lives};
use crate::affinity::MOST_POINTERS;
use crate::block_table::State;
use crate::bucket::{Bucket, SMALLEST_BLOCK};
use crate::guards::GUARD;
use crate::hardened::CANARY;
use crate::inspect::hardened::{STATE, state_bytes};
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::records::HeapRecord;
use crate::inspect::runs::Run;
use crate::inspect::slots::{Array, Slots};
use crate::inspect::space::Space;
use crate::integrity::canary_by;
use crate::subsegment::capacity;
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Bytes of the table of blocks for the longest subsegment.
const MOST_STATES: usize = 8 * UNIT / SMALLEST_BLOCK;
/// Bytes of a block that are looked at at once.
const READ_AT_ONCE: usize = 1024;

impl<M: Memory> Walk<'_, '_, M> {
    pub(super) fn large(&mut self, first: UnitIndex) -> Result<(), MemoryError> {
        let mut guarded = 0;
        self.judge(|space| {
            guarded = 0;
            large(space, first, &mut guarded)
        })?;
        self.seen.guarded_blocks += guarded;
        Ok(())
    }

    pub(super) fn quarantine(&mut self, record: &HeapRecord, slots: &Slots) -> Result<(), MemoryError> {
        for slot in slots.with_quarantine(record) {
            let mut blocks = 0;
            self.judge(|space| {
                while_it_lives(space, record, || {
                    blocks = 0;
                    quarantine(space, record, slots, slot, &mut blocks)
                })
            })?;
            self.seen.quarantined_blocks += blocks;
        }
        Ok(())
    }
}

/// A fault of a block of a subsegment: its address, the fault, and its evidence.
type Wrong = (usize, Fault, Evidence);

/// A free block must be free by the table, too, and a block in use must have its canary. Counts the blocks in use.
pub(super) fn blocks<M: Memory>(
    space: &Space<'_, M>,
    run: &Run,
    bucket: Bucket,
    unchained: &Numbers,
    guarded: &mut u64,
) -> Result<Option<Wrong>, MemoryError> {
    let start = space.address_of(run.first);
    let mut states = [0; MOST_STATES];
    let states = &mut states[..run.length as usize * UNIT / SMALLEST_BLOCK];
    space.read_states(start, states)?;
    for number in 0..u32::from(capacity(bucket)) {
        let offset = number as usize * bucket.size();
        let block = start + offset;
        let mut state = [0; STATE];
        let bytes = state_bytes(bucket);
        state[..bytes].copy_from_slice(&states[offset / SMALLEST_BLOCK..][..bytes]);
        let free = number >= run.description.split || unchained.has(number);
        match State::of_bytes(state) {
            State::Free => {}
            _ if free => {
                let fault = Fault::State {
                    bucket,
                    state: state[0],
                };
                return Ok(Some((block, fault, Evidence::Run(*run))));
            }
            State::Resting => {}
            State::InUse { .. } => match in_use(space, block, bucket, state)? {
                Some((fault, evidence)) => return Ok(Some((block, fault, evidence))),
                None => *guarded += 1,
            },
        }
    }
    Ok(None)
}

/// The fault of a block in use, unless it is freed meanwhile.
fn in_use<M: Memory>(
    space: &Space<'_, M>,
    block: usize,
    bucket: Bucket,
    mut state: [u8; STATE],
) -> Result<Option<(Fault, Evidence)>, MemoryError> {
    let mut wrong = None;
    for _ in 0..LOOKS_AT_A_BLOCK {
        let State::InUse { slack } = State::of_bytes(state) else {
            return Ok(None);
        };
        wrong = match (CANARY..=bucket.size()).contains(&slack) {
            true => canary(space, block + bucket.size() - slack)?.map(|found| {
                let fault = Fault::Canary {
                    bucket: Some(bucket),
                    found,
                };
                (fault, Evidence::Block(state, found))
            }),
            false => {
                let fault = Fault::State {
                    bucket,
                    state: state[0],
                };
                Some((fault, Evidence::Block(state, 0)))
            }
        };
        if wrong.is_none() {
            return Ok(None);
        }
        let was = state;
        space.refresh();
        space.read_states(block, &mut state[..state_bytes(bucket)])?;
        if was != state {
            wrong = None;
        }
    }
    Ok(wrong)
}

/// The word behind a block that ends at an address, if it is not its canary.
fn canary<M: Memory>(space: &Space<'_, M>, end: usize) -> Result<Option<u64>, MemoryError> {
    let mut bytes = [0; CANARY];
    space.memory.read(end, &mut bytes)?;
    let found = u64::from_ne_bytes(bytes);
    Ok((found != canary_by(space.key, end)).then_some(found))
}

/// A large block of a hardened heap must have its canary behind it. It has none while its description has all bytes of
/// its run as requested: then it is being made, or freed.
fn large<M: Memory>(space: &Space<'_, M>, first: UnitIndex, guarded: &mut u64) -> Look<(Run, u64)> {
    let mut wrong = None;
    for _ in 0..LOOKS_AT_A_BLOCK {
        let run = space.run(first)?;
        let slack = run.description.slack as usize;
        if run.kind != Some(UnitKind::Large) || slack == 0 || !space.is_hardened(run.description.heap)? {
            return Ok(None);
        }
        let bytes = run.length as usize * UNIT;
        let (fault, found) = match (CANARY + GUARD..=bytes).contains(&slack) {
            true => match canary(space, space.address_of(first) + bytes - slack)? {
                Some(found) => (Fault::Canary { bucket: None, found }, found),
                None => {
                    *guarded += 1;
                    return Ok(None);
                }
            },
            false => (Fault::Slack { slack }, 0),
        };
        let damage = Damage {
            heap: run.description.heap,
            address: space.address_of(first),
            fault,
        };
        wrong = Some((damage, (run, found)));
        space.refresh();
    }
    Ok(wrong)
}

/// A quarantine must have the bounds of a slot's quarantine, and hold only blocks that rest and are zero.
fn quarantine<M: Memory>(
    space: &Space<'_, M>,
    record: &HeapRecord,
    slots: &Slots,
    slot: u32,
    blocks: &mut u64,
) -> Look<Array> {
    let array = slots.quarantine(space.memory, slot)?;
    let at = |address, fault| {
        let damage = Damage {
            heap: record.number,
            address,
            fault,
        };
        Ok(Some((damage, array)))
    };
    let positions = [array.begin, array.end, array.current];
    if positions == [0; 3] {
        return Ok(None);
    } else if !array.is_quarantine() {
        return at(slots.address(slot), Fault::Quarantine { slot, positions });
    }
    let mut pointers = [0; MOST_POINTERS];
    let pointers = slots.pointers(space.memory, slot, &array, &mut pointers)?;
    for (position, block) in (array.begin..).zip(pointers) {
        let mut looks = 0;
        let mut held = *block;
        while !rests(space, record.number, held)? {
            looks += 1;
            space.refresh();
            // It may have left meanwhile, and another be in its place.
            let now = slots.quarantine(space.memory, slot)?;
            let Some(pointer) = slots.pointer(space.memory, slot, &now, position)? else {
                break;
            };
            if looks == LOOKS_AT_A_BLOCK && pointer == held {
                return at(held, Fault::Resting { slot });
            } else if looks == LOOKS_AT_A_BLOCK {
                break;
            }
            held = pointer;
        }
        *blocks += 1;
    }
    Ok(None)
}

/// Whether a block of a heap that rests is at an address, and is zero.
fn rests<M: Memory>(space: &Space<'_, M>, heap: u32, block: usize) -> Result<bool, MemoryError> {
    let Some(bucket) = space.bucket_of(heap, block)? else {
        return Ok(false);
    };
    let mut state = [0; STATE];
    space.read_states(block, &mut state[..state_bytes(bucket)])?;
    if State::of_bytes(state) != State::Resting {
        return Ok(false);
    }
    let mut bytes = [0; READ_AT_ONCE];
    for at in (0..bucket.size()).step_by(READ_AT_ONCE) {
        let bytes = &mut bytes[..(bucket.size() - at).min(READ_AT_ONCE)];
        space.memory.read(block + at, bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}
