//! Rows of runs: in each slot, an array of whole runs of the back end for each of a few lengths.
//!
//! They are as the arrays of buckets are, but for what guards them: whoever prepares, stops or resumes one holds the
//! drain's lock or is a section. Where sections do not serve the slots, there are none.
#![allow(unsafe_code)]

use super::SlotSet;
use super::header::Header;
use super::layout::{RUN_HEADERS, RUN_POINTERS, run_begin};

impl SlotSet {
    /// Takes the start of a run from the row in the slot that serves this thread. Null where there is none.
    #[inline(always)]
    pub(crate) fn pop_run(&self, row: usize) -> *mut u8 {
        self.sections().pop_at(RUN_HEADERS + row)
    }

    /// Puts the start of a run into the row in the slot that serves this thread. No where it is full or unused.
    #[inline(always)]
    pub(crate) fn push_run(&self, row: usize, run: *mut u8) -> bool {
        self.sections().push_at(RUN_HEADERS + row, run)
    }

    /// Makes the row usable in the slot that serves this thread, if it is unused: never used, or emptied since. Returns
    /// the number of the slot in which it did so.
    pub(crate) fn prepare_run(&self, row: usize) -> Option<usize> {
        if !self.uses_sections() {
            return None;
        }
        let prepared = Header::prepared_to_hold(run_begin(row), RUN_POINTERS as u16);
        self.prepare_at(RUN_HEADERS + row, prepared)
    }

    /// The header of a row in a slot.
    pub(crate) fn run_header(&self, slot: usize, row: usize) -> &Header {
        self.header_at(slot, RUN_HEADERS + row)
    }

    /// Takes every run out of a stopped row, the oldest first, and makes it one that was never used: so whoever puts a
    /// run there next has to prepare it. Where sections could not be restarted since it was stopped, it is usable again
    /// as it is, and keeps its runs. Returns how many were written to `runs`. The drain's lock is held.
    pub(crate) fn flush_stopped_run(
        &self,
        slot: usize,
        row: usize,
        restarted: bool,
        runs: &mut [*mut u8; RUN_POINTERS],
    ) -> usize {
        let header = self.run_header(slot, row);
        let begin = run_begin(row);
        if !restarted {
            header.resume_to_hold(begin, RUN_POINTERS as u16);
            return 0;
        }
        let count = header.current().saturating_sub(begin);
        for (at, run) in (begin..begin + count).zip(runs.iter_mut()) {
            // SAFETY: pointers up to `current` were written by sections, and nobody writes there while it is stopped.
            *run = unsafe { self.pointer(slot, at).read() };
        }
        header.set_unused();
        count as usize
    }

    /// The runs of a row in a slot, the oldest first, while nobody works on the heap.
    #[cfg(test)]
    pub(crate) fn runs_of_row(&self, slot: usize, row: usize) -> std::vec::Vec<*mut u8> {
        let header = self.run_header(slot, row);
        if header.capacity() == 0 {
            assert_eq!((header.current(), header.is_stopped()), (0, false));
            return std::vec::Vec::new();
        }
        let begin = run_begin(row);
        assert!(header.current() >= begin && usize::from(header.current() - begin) <= RUN_POINTERS);
        // SAFETY: pointers up to `current` were written by sections, and nobody writes there now.
        let read = |at: u16| unsafe { self.pointer(slot, at).read() };
        (begin..header.current()).map(read).collect()
    }
}
