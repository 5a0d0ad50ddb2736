//! Runs in the slots: the large blocks that the processor freed last.

use core::ptr;
use core::sync::atomic::Ordering;

use super::{Idle, LowFragmentation};
use crate::affinity::{RUN_POINTERS, RUN_ROWS, units_of};
use crate::arena;
use crate::backend::Backend;
use crate::purge::{self, THRESHOLD};
use crate::unit::UnitIndex;

impl LowFragmentation {
    /// Takes a run of that row, see [`run_cache`](crate::run_cache), from this processor's slot.
    #[inline]
    pub(crate) fn take_run(&self, row: usize) -> Option<UnitIndex> {
        if row >= RUN_ROWS {
            return None;
        }
        let run = self.slots.pop_run(row);
        (!run.is_null()).then(|| arena::unit_within(run as usize))
    }

    /// Puts a run of that row into this processor's slot. Returns false if it has no room.
    #[inline]
    pub(crate) fn put_run(&self, row: usize, first: UnitIndex) -> bool {
        if row >= RUN_ROWS {
            return false;
        }
        let run = arena::address_of(first) as *mut u8;
        self.slots.push_run(row, run) || self.prepare_and_put_run(row, run)
    }

    #[cold]
    fn prepare_and_put_run(&self, row: usize, run: *mut u8) -> bool {
        let Some(slot) = self.slots.prepare_run(row) else {
            return false;
        };
        self.slots_used.fetch_max(slot as u32 + 1, Ordering::Relaxed);
        if self.units_of_rows() > THRESHOLD {
            purge::request_helper();
        }
        self.slots.push_run(row, run)
    }

    /// Units of all runs that fit into rows that were used since they were last idle.
    pub(crate) fn units_of_rows(&self) -> u32 {
        let units = |(slot, row)| {
            let room = self.slots.run_header(slot, row).capacity();
            u32::from(room) * units_of(row)
        };
        self.rows().map(units).sum()
    }

    /// Stops rows that hold as much as at the last flush, or all. Empty ones too, to notice a later put. Returns
    /// whether others are in use. The caller holds the flush lock.
    pub(super) fn look_at_runs(&self, idle: Idle, stopped: &mut bool) -> bool {
        let mut left = false;
        for (slot, row) in self.rows() {
            let header = self.slots.run_header(slot, row);
            let rests = header.rests();
            if header.capacity() == 0 {
                continue;
            }
            match rests || idle == Idle::All {
                true => *stopped |= header.stop(),
                false => left = true,
            }
        }
        left
    }

    /// Frees the runs in stopped rows. The caller holds the flush lock.
    pub(super) fn flush_stopped_runs(&self, backend: &Backend, restarted: bool) {
        for (slot, row) in self.rows() {
            if !self.slots.run_header(slot, row).is_stopped() {
                continue;
            }
            let mut runs = [ptr::null_mut(); RUN_POINTERS];
            let count = self.slots.flush_stopped_run(slot, row, restarted, &mut runs);
            let units = runs.map(|run| {
                if run.is_null() {
                    0
                } else {
                    arena::unit_within(run as usize)
                }
            });
            backend.free_cached(&units[..count], 1);
        }
    }

    /// Every run in slots, with its row, while no thread uses the heap.
    #[cfg(test)]
    pub(crate) fn runs_of_slots(&self) -> std::vec::Vec<(usize, UnitIndex)> {
        let of_row = |(slot, row)| {
            let runs = self.slots.runs_of_row(slot, row).into_iter();
            runs.map(move |run| (row, arena::unit_within(run as usize)))
        };
        self.rows().flat_map(of_row).collect()
    }

    fn rows(&self) -> impl Iterator<Item = (usize, usize)> {
        let used = match self.slots.uses_sections() {
            true => self.slots_used.load(Ordering::Relaxed) as usize,
            false => 0,
        };
        (0..used).flat_map(|slot| (0..RUN_ROWS).map(move |row| (slot, row)))
    }
}
