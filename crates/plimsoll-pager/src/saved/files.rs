//! The page files that copies of this process are in: its own, and those of the processes from which it was forked, which it
//! only reads.
//!
//! | file | slots, as places name them |
//! |---|---|
//! | of the first process that created one: that which built the pager, or one below | from 0 on |
//! | of each process below it that created one, down to this one | from the end of the file before on |
//!
//! So a copy keeps its place in a child of a fork, whichever file it is in.

use std::sync::OnceLock;

use plimsoll_os::Errno;

use super::slot_counts::SlotCounts;
use crate::page_file::{MOST_SLOTS, PageFile, SLOT_BYTES, SLOTS_PER_WRITE, Slot};

/// The most files of a process, its own included. A process with that many ancestors that have files creates none.
const MOST_FILES: usize = 8;

/// Nonces of a file are below; a seal has the number of the file above.
const NONCE_BITS: u32 = 40;

/// A page file, and the pages of its slots that are in use.
#[derive(Debug)]
pub(super) struct CountedFile {
    pub(super) file: PageFile,
    pub(super) counts: SlotCounts,
    /// The number that places have for its first slot.
    first: u32,
    /// The file's number among those of the process.
    number: u64,
}

impl CountedFile {
    fn new(file: PageFile, first: u32, number: usize) -> Result<CountedFile, Errno> {
        Ok(CountedFile {
            counts: SlotCounts::new(file.slots())?,
            file,
            first,
            number: number as u64,
        })
    }

    fn end(&self) -> u32 {
        self.first + self.file.slots()
    }

    /// The number that places have for a slot of the file.
    pub(super) fn number_of(&self, slot: Slot) -> u32 {
        self.first + slot.number()
    }

    /// The slot that places have that number for.
    pub(super) fn slot(&self, number: u32) -> Option<Slot> {
        let slot = number.checked_sub(self.first)?;
        Slot::new(slot).filter(|_| slot < self.file.slots())
    }

    /// A nonce of a block of the file, as a number that no block of another file of the process has.
    pub(super) fn seal(&self, nonce: u64) -> u64 {
        match nonce {
            0 => 0,
            nonce => self.number << NONCE_BITS | nonce,
        }
    }

    /// Bytes of RAM of file and counts.
    pub(super) fn bytes(&self) -> u64 {
        self.file.metadata_bytes() + self.counts.bytes()
    }
}

/// The files, the process's own last.
#[derive(Debug)]
pub(super) struct Files([OnceLock<CountedFile>; MOST_FILES]);

impl Files {
    /// None yet.
    pub(super) fn none() -> Files {
        Files([const { OnceLock::new() }; MOST_FILES])
    }

    /// Those of other processes, oldest first, then that which was created last.
    pub(super) fn iter(&self) -> impl Iterator<Item = &CountedFile> {
        self.0.iter().map_while(OnceLock::get)
    }

    /// The file that was created last: the process's own, if it has one.
    pub(super) fn last(&self) -> Option<&CountedFile> {
        self.iter().last()
    }

    /// One past the last number of a slot.
    fn end(&self) -> u32 {
        self.last().map_or(0, CountedFile::end)
    }

    /// The file of a place, and the slot there.
    pub(super) fn find(&self, number: u32) -> Option<(&CountedFile, Slot)> {
        self.iter().find_map(|file| Some((file, file.slot(number)?)))
    }

    /// The most bytes that a further file may have; none if there can be none.
    pub(super) fn most_of_next(&self) -> Option<u64> {
        self.0.iter().find(|file| file.get().is_none())?;
        let slots = MOST_SLOTS - self.end();
        let whole = slots - slots % SLOTS_PER_WRITE as u32;
        (whole > 0).then_some(u64::from(whole) * SLOT_BYTES as u64)
    }

    /// Adds the file of this process. By one thread at a time.
    ///
    /// # Errors
    /// There is no memory for its counts, or there are as many files as there can be.
    pub(super) fn add(&self, file: PageFile) -> Result<(), Errno> {
        let number = self.iter().count();
        let place = self.0.get(number).ok_or(Errno::MFILE)?;
        let counted = CountedFile::new(file, self.end(), number)?;
        place.set(counted).map_err(|_| Errno::MFILE)
    }
}

const _: () = assert!(1 << NONCE_BITS > crate::page_file::MOST_NONCE);

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::{Files, MOST_FILES};
    use crate::page_file::tests::faulty::Faulty;
    use crate::page_file::tests::page_file;
    use crate::page_file::{PageFile, Slot};

    fn file(mebibytes: u32) -> PageFile {
        page_file(&Arc::new(Faulty::new(mebibytes as usize)), mebibytes).0
    }

    #[test]
    fn a_number_names_a_slot_of_one_file() {
        let files = Files::none();
        assert!(files.find(0).is_none() && files.last().is_none());
        for mebibytes in [2, 1, 3] {
            files.add(file(mebibytes)).expect("memory");
        }
        let found = |number| {
            files
                .find(number)
                .map(|(file, slot)| (file.number, slot.number()))
        };
        assert_eq!([0, 31].map(found), [Some((0, 0)), Some((0, 31))]);
        assert_eq!([32, 47].map(found), [Some((1, 0)), Some((1, 15))]);
        assert_eq!([48, 95].map(found), [Some((2, 0)), Some((2, 47))]);
        assert_eq!(found(96), None);
        let last = files.last().expect("there are three");
        let slot = Slot::new(5).expect("a small number");
        assert_eq!((last.number_of(slot), last.slot(53)), (53, Some(slot)));
    }

    /// The nonces of each file begin at 1.
    #[test]
    fn a_seal_is_that_of_one_file() {
        let files = Files::none();
        while files.most_of_next().is_some() {
            files.add(file(1)).expect("memory");
        }
        assert!(files.add(file(1)).is_err());
        let mut seals: Vec<u64> = files.iter().map(|file| file.seal(7)).collect();
        assert!(files.iter().all(|file| file.seal(0) == 0));
        seals.dedup();
        assert_eq!(seals.len(), MOST_FILES);
    }
}
