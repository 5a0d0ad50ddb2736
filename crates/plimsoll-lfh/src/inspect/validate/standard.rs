//! The checks of runs of the Standard front end.

use super::Walk;
use super::damage::{Damage, Fault};
use super::runs::Look;
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::space::Space;
use crate::inspect::standard::{Blocks, Found};
use crate::standard::HEADER;
use crate::unit::{UnitIndex, UnitKind};

impl<M: Memory> Walk<'_, '_, M> {
    pub(super) fn standard(&mut self, first: UnitIndex) -> Result<(), MemoryError> {
        let mut blocks = 0;
        self.judge(|space| {
            blocks = 0;
            standard(space, first, &mut blocks)
        })?;
        self.seen.free_blocks += blocks;
        Ok(())
    }
}

/// The blocks of a run must follow each other from its start to its end, and no two that are free side by side.
fn standard<M: Memory>(space: &Space<'_, M>, first: UnitIndex, blocks: &mut u64) -> Look<Found> {
    let run = space.run(first)?;
    if run.kind != Some(UnitKind::Standard) {
        return Ok(None);
    }
    let mut before_is_free = false;
    for found in Blocks::new(space.memory, space.key, space.address_of(first)) {
        let found = found?;
        let free = found.block.map(|block| !block.in_use);
        if free.is_none() || (free == Some(true) && before_is_free) {
            let damage = Damage {
                heap: run.description.heap,
                address: found.header + HEADER,
                fault: Fault::Standard { header: found.word },
            };
            return Ok(Some((damage, found)));
        }
        before_is_free = free == Some(true);
        *blocks += u64::from(before_is_free);
    }
    Ok(None)
}
