//! Walks over the blocks of the Standard front end, and the executable twin of its invariants.

use core::sync::atomic::Ordering;

use super::{HEADER, Header, NEXT, RUN_STEPS, STEP, Standard, key, list_of, neighbour, word};
use crate::arena;
use crate::unit::{UnitIndex, UnitKind};

/// Where a walk over the blocks of a run found it damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DamagedHeader {
    /// Address of the header.
    pub(crate) header: usize,
}

/// Visits the blocks of a run: address of the header, and what it says.
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
        let mut runs = 0;
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
                false => free += 1,
            })
        })?;
        for (list, head) in self.heads.iter().enumerate() {
            let occupied = self.occupied[list / 64] >> (list % 64) & 1 == 1;
            if occupied != (*head != 0) {
                return Err(DamagedHeader { header: *head });
            }
            let mut header = *head;
            while header != 0 {
                let contents = Header::decode(word(header).load(Ordering::Relaxed), key())
                    .ok_or(DamagedHeader { header })?;
                if contents.in_use || list_of(contents.size) != list || free == 0 {
                    return Err(DamagedHeader { header });
                }
                free -= 1;
                header = neighbour(header, NEXT).ok_or(DamagedHeader { header })?;
            }
        }
        match (runs, blocks, steps, free) == (self.runs, self.blocks, self.steps, 0) {
            true => Ok(()),
            false => Err(DamagedHeader { header: 0 }),
        }
    }
}
