//! The heaps of this process, by themselves.

use super::memory::ThisProcess;
use super::records::HeapRecord;
use super::space::{Space, SpaceError};
use super::statistics::HeapStatistics;
use super::validate::{Damage, Validation, validate};
use crate::arena;
use crate::heap::Heap;

/// The heaps of this process; none before its first call.
fn space(memory: &ThisProcess) -> Result<Option<Space<'_, ThisProcess>>, SpaceError> {
    match arena::window() {
        0 => Ok(None),
        window => Space::open(memory, window).map(Some),
    }
}

impl Heap {
    /// The contents of the heap, with its record, counted now, while other threads run. None before the first call, and
    /// if the control block is damaged: [`Heap::validate_all`] returns the error.
    pub fn statistics(&self) -> Option<(HeapRecord, HeapStatistics)> {
        self.count().ok().flatten()
    }

    fn count(&self) -> Result<Option<(HeapRecord, HeapStatistics)>, SpaceError> {
        let Some(space) = space(&ThisProcess)? else {
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

    /// Walks over all heaps of the process and checks the consistency of their data, while other threads run. Calls
    /// `tell` with each damage; it must not use a heap of this process. None before the first call.
    ///
    /// # Errors
    /// [`SpaceError`] if the walk could not begin, or ended early, as the way to the heaps is damaged; `tell` has the findings until then.
    pub fn validate_all(tell: &mut dyn FnMut(Damage)) -> Result<Option<Validation>, SpaceError> {
        match space(&ThisProcess)? {
            Some(space) => Ok(Some(validate(&space, tell)?)),
            None => Ok(None),
        }
    }
}
