//! The executable twin of the back end's invariants.

use core::sync::atomic::Ordering;

use super::Extents;
use crate::arena;
use crate::unit::{UnitIndex, UnitKind};

/// Where the back end of a heap breaks an invariant of [`Unit`](crate::Unit) or `Bins`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedRun {
    /// First unit of the run; 0 if it is the counts that are wrong.
    pub(crate) first: UnitIndex,
    pub(crate) rule: &'static str,
}

/// Counts of a walk.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    owned: u32,
    free: u32,
    free_extents: u32,
    touched: u32,
}

impl Extents {
    /// Walks every run of the heap, and every bin.
    ///
    /// # Errors
    /// [`DamagedRun`] at the first that breaks an invariant.
    pub(crate) fn check(&self) -> Result<(), DamagedRun> {
        let mut counts = Counts::default();
        // Where a free extent that was visited last ends.
        let mut free_until = 0;
        arena::for_each_run(self.heap, |first, kind| {
            let unit = arena::unit(first);
            let length = unit.length.load(Ordering::Relaxed);
            counts.owned += length;
            self.check_marks(first, length, kind)?;
            if kind != UnitKind::Free {
                return Ok(());
            }
            let touched = unit.touched.load(Ordering::Relaxed);
            counts.free += length;
            counts.free_extents += 1;
            counts.touched += touched;
            let rule = match () {
                () if free_until == first => "free neighbours are one extent",
                () if touched > length => "no more is touched than there is",
                () => "",
            };
            free_until = first + length;
            holds(rule.is_empty(), first, rule)
        })?;
        let counted = Counts {
            owned: self.owned,
            free: self.free,
            free_extents: self.free_extents,
            touched: self.touched,
        };
        holds(counts == counted, 0, "counts are those of the runs")?;
        self.bins.check(self.heap, self.free_extents)
    }

    /// The descriptions of the units of a run.
    fn check_marks(&self, first: UnitIndex, length: u32, kind: UnitKind) -> Result<(), DamagedRun> {
        let last = first + length - 1;
        holds(arena::belongs(last, self.heap), first, "a run is of one heap")?;
        for index in first..=last {
            let unit = arena::unit(index);
            let described = match kind {
                UnitKind::Subsegment | UnitKind::Standard => true,
                UnitKind::Free => index == first || index == last,
                UnitKind::Large | UnitKind::Busy | UnitKind::Cached => index == first,
                UnitKind::Nothing => return holds(false, first, "a run has a kind"),
            };
            let (of, heap) = (
                unit.first.load(Ordering::Relaxed),
                unit.heap.load(Ordering::Relaxed),
            );
            let as_it_should = match described {
                true => {
                    (unit.kind() == kind || changes_alone(kind, unit.kind()))
                        && (of, heap) == (first, self.heap)
                }
                false => (unit.kind(), of, heap) == (UnitKind::Nothing, 0, 0),
            };
            holds(as_it_should, first, "units name their run")?;
        }
        let length_of_last = arena::unit(last).length.load(Ordering::Relaxed);
        holds(
            kind != UnitKind::Free || length_of_last == length,
            first,
            "the last unit knows the length",
        )
    }
}

/// Whether a run may become the other kind of run without the back end's lock: as a block is freed and taken again.
fn changes_alone(from: UnitKind, to: UnitKind) -> bool {
    let is_one = |kind| matches!(kind, UnitKind::Large | UnitKind::Cached);
    is_one(from) && is_one(to)
}

pub(super) fn holds(holds: bool, first: UnitIndex, rule: &'static str) -> Result<(), DamagedRun> {
    match holds {
        true => Ok(()),
        false => Err(DamagedRun { first, rule }),
    }
}
