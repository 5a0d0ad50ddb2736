//! Rows of runs: in each slot, an array of whole runs of the back end for each of a few lengths.
//!
//! They work like the arrays of buckets, under another lock: a thread that prepares, stops or resumes one holds the
//! flush lock or is in a section. Slots without sections have none.
#![allow(unsafe_code)]

use super::SlotSet;
use super::header::Header;
use super::layout::{RUN_HEADERS, RUN_POINTERS, run_begin};

impl SlotSet {
    /// Takes the start of a run from the row in the slot that serves this thread. Null if there is none.
    #[inline(always)]
    pub(crate) fn pop_run(&self, row: usize) -> *mut u8 {
        self.sections().pop_at(RUN_HEADERS + row)
    }

    /// Puts the start of a run into the row in the slot that serves this thread. Returns false if it is full or unused.
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

    /// Takes every run out of a stopped row, the oldest first, and makes the row unused: the next thread that puts a
    /// run there has to prepare it. If sections could not be restarted since it was stopped, the row resumes as it is,
    /// and keeps its runs. Returns the number of runs written to `runs`. The caller holds the flush lock.
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
            // SAFETY: sections wrote pointers up to `current`, and no thread writes there while the row is stopped.
            *run = unsafe { self.pointer(slot, at).read() };
        }
        header.set_unused();
        count as usize
    }

    /// The runs of a row in a slot, the oldest first, while no thread uses the heap.
    #[cfg(test)]
    pub(crate) fn runs_of_row(&self, slot: usize, row: usize) -> std::vec::Vec<*mut u8> {
        let header = self.run_header(slot, row);
        if header.capacity() == 0 {
            assert_eq!((header.current(), header.is_stopped()), (0, false));
            return std::vec::Vec::new();
        }
        let begin = run_begin(row);
        assert!(header.current() >= begin && usize::from(header.current() - begin) <= RUN_POINTERS);
        // SAFETY: sections wrote pointers up to `current`, and no thread writes there now.
        let read = |at: u16| unsafe { self.pointer(slot, at).read() };
        (begin..header.current()).map(read).collect()
    }
}
