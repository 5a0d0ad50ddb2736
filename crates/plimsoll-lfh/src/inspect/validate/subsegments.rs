//! The checks of subsegments: their counts, and every block of their lists.

use super::damage::{Damage, Fault};
use super::evidence::{Evidence, Numbers};
use super::runs::Look;
use super::{Walk, hardened};
use crate::bucket::Bucket;
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::space::Space;
use crate::integrity::{decode_link, tag_by};
use crate::remote_free::{FreeBlocks, SubsegmentState};
use crate::subsegment::{Absent, capacity, units};
use crate::unit::{UnitIndex, UnitKind};

impl<M: Memory> Walk<'_, '_, M> {
    pub(super) fn subsegment(&mut self, first: UnitIndex) -> Result<(), MemoryError> {
        let mut blocks = Blocks::default();
        self.judge(|space| {
            blocks = Blocks::default();
            subsegment(space, first, &mut blocks)
        })?;
        self.seen.free_blocks += blocks.free;
        self.seen.guarded_blocks += blocks.guarded;
        Ok(())
    }
}

/// Blocks that a look found to be as they should.
#[derive(Default)]
struct Blocks {
    free: u64,
    guarded: u64,
}

/// A subsegment's counts must be possible, and its lists have as many different free blocks as counted. Of a hardened
/// heap the block table must agree.
fn subsegment<M: Memory>(space: &Space<'_, M>, first: UnitIndex, blocks: &mut Blocks) -> Look<Evidence> {
    let run = space.run(first)?;
    if run.kind != Some(UnitKind::Subsegment) {
        return Ok(None);
    }
    let description = &run.description;
    let at = |address, fault| {
        let damage = Damage {
            heap: description.heap,
            address,
            fault,
        };
        Ok(Some((damage, Evidence::Run(run))))
    };
    let wrong = |fault| at(space.address_of(first), fault);
    let free = FreeBlocks::of_word(description.remote);
    let Some(bucket) = Bucket::new(description.bucket) else {
        // Taken from the back end, or about to be freed to it.
        let between = description.bucket == 0 && free.state == SubsegmentState::Nothing;
        let number = description.bucket;
        return if between {
            Ok(None)
        } else {
            wrong(Fault::NoBucket { number })
        };
    };
    if run.length != units(bucket) || !first.is_multiple_of(units(bucket)) {
        return wrong(Fault::NoBucket {
            number: bucket.number(),
        });
    }
    let capacity = u32::from(capacity(bucket));
    let absent = Absent {
        pages: description.absent,
        bucket,
    };
    let unchained =
        description.local_free + capacity.saturating_sub(description.split) + u32::from(absent.count());
    let count = |counted: u32, most: u32| Fault::Count {
        bucket,
        counted: counted.into(),
        most: most.into(),
    };
    if description.split > capacity {
        return wrong(count(description.split, capacity));
    }
    let listed = description.local_free + u32::from(free.chained) + u32::from(absent.count());
    if listed > description.split {
        return wrong(count(listed, description.split));
    }
    if !matches!(free.state, SubsegmentState::Active | SubsegmentState::Nothing)
        && u32::from(free.unchained) != unchained
    {
        return wrong(count(free.unchained.into(), unchained));
    }
    let mut walk = Lists {
        space,
        first,
        bucket,
        split: description.split,
        seen: Numbers::default(),
    };
    for number in (0..capacity).filter(|number| absent.has(*number as u16)) {
        walk.seen.add(number);
    }
    blocks.free += u64::from(absent.count());
    for (head, length) in [
        (u32::from(free.head), free.chained.into()),
        (description.local, description.local_free),
    ] {
        if let Some((number, fault)) = walk.list(head, length)? {
            return at(walk.block(number.min(capacity)), fault);
        }
        blocks.free += u64::from(length);
    }
    if !space.is_hardened(description.heap)? {
        return Ok(None);
    }
    let wrong = hardened::blocks(space, &run, bucket, &walk.seen, &mut blocks.guarded)?;
    Ok(wrong.map(|(address, fault, evidence)| {
        let damage = Damage {
            heap: description.heap,
            address,
            fault,
        };
        (damage, evidence)
    }))
}

/// A walk along the lists of a subsegment.
struct Lists<'w, 'm, M> {
    space: &'w Space<'m, M>,
    first: UnitIndex,
    bucket: Bucket,
    split: u32,
    /// Blocks that were in a list, or are absent.
    seen: Numbers,
}

impl<M: Memory> Lists<'_, '_, M> {
    fn block(&self, number: u32) -> usize {
        self.space.address_of(self.first) + number as usize * self.bucket.size()
    }

    /// Follows a list of `length` blocks from the block of number `head` - 1. Returns the first fault, with the number
    /// of the block. Takes `length` steps at most, which is at most the number of blocks.
    fn list(&mut self, head: u32, length: u32) -> Result<Option<(u32, Fault)>, MemoryError> {
        let bucket = self.bucket;
        let mut next = head;
        let mut last = 0;
        for found in 0..length {
            if next == 0 {
                let said = length;
                return Ok(Some((last, Fault::Length { bucket, found, said })));
            }
            if next > self.split {
                let number = next - 1;
                return Ok(Some((last, Fault::Link { bucket, number })));
            }
            let number = next - 1;
            if !self.seen.add(number) {
                return Ok(Some((number, Fault::Twice { bucket })));
            }
            let block = self.block(number);
            let [link, tag] = words(self.space.memory, block)?;
            let expected = tag_by(self.space.key, block);
            if tag != expected {
                return Ok(Some((number, Fault::Mark { bucket, found: tag })));
            }
            let Some(link) = decode_link(link, expected) else {
                return Ok(Some((number, Fault::Mark { bucket, found: link })));
            };
            (last, next) = (number, link.next.into());
        }
        let (found, said) = (length + 1, length);
        Ok((next != 0).then_some((last, Fault::Length { bucket, found, said })))
    }
}

/// The first two words of a block.
fn words(memory: &impl Memory, block: usize) -> Result<[u64; 2], MemoryError> {
    let mut bytes = [0; 16];
    memory.read(block, &mut bytes)?;
    let word = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("16 bytes"));
    Ok([word(0), word(8)])
}
