//! The heaps of this process, by themselves.

use super::memory::{MemoryError, ThisProcess};
use super::records::HeapRecord;
use super::space::Space;
use super::statistics::HeapStatistics;
use super::validate::{Damage, Validation, validate};
use crate::arena;
use crate::heap::Heap;

/// The heaps of this process; none before its first call.
fn space(memory: &ThisProcess) -> Option<Space<'_, ThisProcess>> {
    match arena::window() {
        0 => None,
        window => Space::open(memory, window).ok(),
    }
}

impl Heap {
    /// What the heap holds, with its record. It is counted now, while other threads go on. None before the first call.
    pub fn statistics(&self) -> Option<(HeapRecord, HeapStatistics)> {
        self.count().ok().flatten()
    }

    fn count(&self) -> Result<Option<(HeapRecord, HeapStatistics)>, MemoryError> {
        let Some(space) = space(&ThisProcess) else {
            return Ok(None);
        };
        let Some(record) = space.record(self.number())? else {
            return Ok(None);
        };
        let mut statistics = HeapStatistics::default();
        for run in space.runs() {
            let run = run?;
            if run.description.heap == record.number {
                statistics.count(&space, &run)?;
            }
        }
        statistics.count_slots(&space, &record)?;
        Ok(Some((record, statistics)))
    }

    /// Walks over all heaps of the process and checks that everything that describes them fits together, while other
    /// threads go on. Each damage is told to `tell`, which must not use a heap of this process. None before the first
    /// call.
    pub fn validate_all(tell: &mut dyn FnMut(Damage)) -> Option<Validation> {
        let space = space(&ThisProcess)?;
        validate(&space, tell).ok()
    }
}
