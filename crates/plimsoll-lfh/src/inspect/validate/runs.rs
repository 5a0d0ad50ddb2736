//! The checks of runs of units.

use super::Walk;
use super::damage::{Damage, Fault, describes_inner};
use crate::inspect::memory::{Memory, MemoryError};
use crate::inspect::runs::{Run, run_at};
use crate::inspect::space::Space;
use crate::unit::{UnitIndex, UnitKind};

impl<M: Memory> Walk<'_, '_, M> {
    pub(super) fn runs(&mut self) -> Result<(), MemoryError> {
        // Behind an invalid run, units are inside of it until a run begins.
        let mut lost = false;
        for run in self.space.runs() {
            if self.is_over() {
                break;
            }
            let run = run?;
            match run.kind {
                Some(UnitKind::Nothing) | None if lost => {}
                Some(UnitKind::Nothing) => lost = !self.judge(|space| hole(space, run.first))?,
                None => lost = !self.judge(|space| nonsense(space, run.first))?,
                Some(kind) => {
                    lost = false;
                    self.run(&run, kind)?;
                }
            }
            // What it looked at last has no verdict if the walk was cut short there.
            if !self.seen.cut_short {
                self.seen.units += u64::from(run.length);
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &Run, kind: UnitKind) -> Result<(), MemoryError> {
        let first = run.first;
        self.judge(|space| owner(space, first))?;
        if describes_inner(kind) {
            self.judge(|space| inner(space, first))?;
        }
        match kind {
            UnitKind::Free => {
                self.judge(|space| extent(space, first))?;
            }
            UnitKind::Subsegment => self.subsegment(first)?,
            UnitKind::Standard => self.standard(first)?,
            UnitKind::Large => self.large(first)?,
            UnitKind::Nothing | UnitKind::Busy | UnitKind::Cached => {}
        }
        Ok(())
    }
}

/// The result of a look: no fault, or a damage with its evidence.
pub(super) type Look<E> = Result<Option<(Damage, E)>, MemoryError>;

fn damage<M: Memory>(space: &Space<'_, M>, run: &Run, fault: Fault) -> Damage {
    Damage {
        heap: run.description.heap,
        address: space.address_of(run.first),
        fault,
    }
}

/// A unit without a run, in a segment of a heap. When a heap ends, its runs are gone before its segments, for as long
/// as its memory takes to return.
fn hole<M: Memory>(space: &Space<'_, M>, unit: UnitIndex) -> Look<Run> {
    let run = space.run(unit)?;
    let heap = space.owner(unit)?;
    let wrong = run.kind == Some(UnitKind::Nothing) && space.lives(heap)? && !space.is_covered(unit)?;
    Ok(wrong.then(|| {
        let damage = Damage {
            heap,
            address: space.address_of(unit),
            fault: Fault::Hole { unit },
        };
        (damage, run)
    }))
}

/// A description where a run should begin that is none of a run.
fn nonsense<M: Memory>(space: &Space<'_, M>, unit: UnitIndex) -> Look<Run> {
    let run = space.run(unit)?;
    // The unit may be inside of a run by now.
    if run.kind.is_some() || space.is_covered(unit)? {
        return Ok(None);
    }
    Ok(Some((damage(space, &run, description(&run)), run)))
}

fn description(run: &Run) -> Fault {
    Fault::Description {
        unit: run.first,
        kind: run.description.kind,
        first: run.description.first,
        length: run.description.length,
    }
}

/// A run must be in segments of its heap.
fn owner<M: Memory>(space: &Space<'_, M>, first: UnitIndex) -> Look<Run> {
    let run = space.run(first)?;
    for unit in [first, first + run.length - 1] {
        let segment = space.owner(unit)?;
        // A heap that ends returns its segments one after the other.
        if !matches!(run.kind, None | Some(UnitKind::Nothing)) && segment != run.description.heap {
            return Ok(Some((damage(space, &run, Fault::Owner { segment }), run)));
        }
    }
    Ok(None)
}

/// Every unit of the run must name its first.
fn inner<M: Memory>(space: &Space<'_, M>, first: UnitIndex) -> Look<Run> {
    let run = space.run(first)?;
    if !run.kind.is_some_and(describes_inner) {
        return Ok(None);
    }
    for unit in first + 1..first + run.length {
        let description = space.table.description(space.memory, unit)?;
        if description.first != first || description.kind != run.description.kind {
            let fault = Fault::Inner {
                unit,
                first: description.first,
            };
            return Ok(Some((damage(space, &run, fault), run)));
        }
    }
    Ok(None)
}

/// The last unit of a free extent must name it, its touched part must be inside of it, its neighbours must not be free,
/// and its list must be consistent.
fn extent<M: Memory>(space: &Space<'_, M>, first: UnitIndex) -> Look<Run> {
    let run = space.run(first)?;
    if run.kind != Some(UnitKind::Free) {
        return Ok(None);
    }
    let wrong = |fault| Ok(Some((damage(space, &run, fault), run)));
    let unit = first + run.length - 1;
    let last = space.table.description(space.memory, unit)?;
    if (last.kind, last.first, last.length) != (run.description.kind, first, run.length) {
        return wrong(Fault::Tail { unit });
    }
    if run.description.touched > run.length {
        return wrong(description(&run));
    }
    let next = first + run.length;
    let units = space.units_now()?;
    if units.contains(&next) {
        let right = run_at(next, units.end, space.table.description(space.memory, next)?);
        let same = right.description.heap == run.description.heap;
        if right.kind == Some(UnitKind::Free) && same && next < space.table.end {
            return wrong(Fault::Apart { next });
        }
    }
    for (neighbour, forward) in [(run.description.next, true), (run.description.previous, false)] {
        if neighbour == 0 {
            continue;
        }
        if !units.contains(&neighbour) {
            return wrong(Fault::List { neighbour, names: 0 });
        }
        let other = space.table.description(space.memory, neighbour)?;
        let names = if forward { other.previous } else { other.next };
        if names != first {
            return wrong(Fault::List { neighbour, names });
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use super::*;
    use crate::arena;
    use crate::inspect::ThisProcess;
    use crate::{Heap, HeapOptions};

    #[test]
    fn no_more_is_touched_than_there_is() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let block = heap.allocate(100_000);
        let used = arena::unit_of(block as usize).expect("it is the heap's");
        let first = used + arena::unit(used).length.load(Ordering::Relaxed);
        let space = Space::open(&ThisProcess, arena::window()).expect("there is a heap");
        let run = space.run(first).unwrap();
        assert_eq!(run.kind, Some(UnitKind::Free));
        let touched = &arena::unit(first).touched;
        for (said, wrong) in [(run.length, false), (run.length + 1, true), (u32::MAX, true)] {
            let was = touched.swap(said, Ordering::Relaxed);
            let found = extent(&space, first).unwrap().map(|(damage, _)| damage.fault);
            touched.store(was, Ordering::Relaxed);
            assert_eq!(
                found,
                wrong.then(|| description(&run)),
                "{said} of {}",
                run.length
            );
        }
    }
}
