//! Walks over the blocks of the Standard front end, and the executable twin of its invariants.

use core::sync::atomic::Ordering;

use super::{
    HEADER, Header, NEXT, PREVIOUS, RUN_STEPS, STEP, Standard, follow, key, list_of, neighbour, word,
};
use crate::arena;
use crate::unit::{UnitIndex, UnitKind};

/// Where a walk over the blocks of a run found it damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedHeader {
    /// Address of the header.
    pub(crate) header: usize,
}

/// Visits the blocks of a run: address of the header, and its contents.
///
/// # Errors
/// [`DamagedHeader`] at the first header that breaks an invariant of [`Standard`].
fn walk(first: UnitIndex, mut visit: impl FnMut(usize, Header)) -> Result<(), DamagedHeader> {
    let mut header = arena::address_of(first) + HEADER;
    let end = header + RUN_STEPS as usize * STEP;
    let mut previous = Header {
        size: 0,
        previous: 0,
        in_use: true,
    };
    loop {
        let contents =
            Header::decode(word(header).load(Ordering::Relaxed), key()).ok_or(DamagedHeader { header })?;
        let past = header + contents.size as usize * STEP > end;
        let ends = (contents.size == 0) == (header == end);
        if contents.previous != previous.size || past || !ends || !(contents.in_use || previous.in_use) {
            return Err(DamagedHeader { header });
        }
        if header == end {
            return Ok(());
        }
        visit(header, contents);
        header += contents.size as usize * STEP;
        previous = contents;
    }
}

impl Standard {
    /// The executable twin of the invariants, for the runs of heap `heap`.
    ///
    /// # Errors
    /// [`DamagedHeader`] at the first header or list that breaks one.
    pub(crate) fn check(&self, heap: u32) -> Result<(), DamagedHeader> {
        let (mut blocks, mut steps, mut free) = (0, 0, 0u64);
        let (mut runs, mut empty_runs) = (0, 0);
        arena::for_each_run(heap, |first, kind| {
            if kind != UnitKind::Standard {
                return Ok(());
            }
            runs += 1;
            walk(first, |_, contents| match contents.in_use {
                true => {
                    blocks += 1;
                    steps += u64::from(contents.size);
                }
                false => {
                    free += 1;
                    empty_runs += u32::from(contents.size == RUN_STEPS);
                }
            })
        })?;
        for (list, head) in self.heads.iter().enumerate() {
            let occupied = self.occupied[list / 64] >> (list % 64) & 1 == 1;
            if occupied != (*head != 0) {
                return Err(DamagedHeader { header: *head });
            }
            let (mut header, mut previous) = (*head, 0);
            while header != 0 {
                let contents = Header::decode(word(header).load(Ordering::Relaxed), key())
                    .ok_or(DamagedHeader { header })?;
                let listed = !contents.in_use && list_of(contents.size) == list;
                if !listed || follow(header, PREVIOUS) != previous || free == 0 {
                    return Err(DamagedHeader { header });
                }
                free -= 1;
                previous = header;
                header = neighbour(header, NEXT).ok_or(DamagedHeader { header })?;
            }
        }
        let counted = (runs, empty_runs, blocks, steps, free);
        match counted == (self.runs, self.empty_runs, self.blocks, self.steps, 0) && empty_runs <= 1 {
            true => Ok(()),
            false => Err(DamagedHeader { header: 0 }),
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use crate::record;
    use crate::standard::{HEADER, PREVIOUS, link};
    use crate::{Heap, HeapOptions};

    #[test]
    #[allow(unsafe_code)]
    fn a_list_that_does_not_hold_together_is_found() {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        let blocks: [*mut u8; 5] = core::array::from_fn(|_| heap.allocate(100));
        for block in [blocks[0], blocks[2]] {
            // SAFETY: the block is in use.
            unsafe { heap.free(block) };
        }
        let record = record::of(heap.number()).expect("the heap lives");
        let check = || record.standard.lock().check(heap.number());
        assert_eq!(check(), Ok(()));
        let first = blocks[0] as usize - HEADER;
        let previous = link(first, PREVIOUS);
        let was = previous.fetch_xor(0x40, Ordering::Relaxed);
        assert!(check().is_err(), "it names another one before it");
        previous.store(was, Ordering::Relaxed);
        let counted = |by: i32| {
            let mut standard = record.standard.lock();
            standard.empty_runs = standard.empty_runs.wrapping_add_signed(by);
        };
        counted(1);
        assert!(check().is_err(), "no run is empty");
        counted(-1);
        assert_eq!(check(), Ok(()));
    }
}
