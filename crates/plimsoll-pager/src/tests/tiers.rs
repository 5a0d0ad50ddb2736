//! The manager over the compressed store and a page file: a model of memory, a file in memory, and errors injected into
//! both, against a model of the contents.

mod sequences;

use std::cell::Cell;
use std::sync::Arc;

use plimsoll_os::Errno;

use super::simulated::contents;
use crate::backing::Damaged;
use crate::driver::simulated::{Injection, Simulated};
use crate::fault::FaultError;
use crate::manager::Manager;
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange, PageState};
use crate::page_file::tests::faulty::{Fault, Faulty};
use crate::page_file::tests::page_file;
use crate::page_file::{SLOT_BYTES, State};
use crate::saved::{FileTier, SavedCopies};
use crate::store::{FirstCodec, Store, StoreOptions};

type Tiers = Manager<Simulated, SavedCopies>;

/// Pages of the region.
const PAGES: u32 = 4 * CHUNK_PAGES;
/// The budget, half of the region.
const RAM: u64 = PAGES as u64 / 2 * PAGE_SIZE as u64;
/// The limit of the store.
const CAP: u64 = 3 << 19;

/// A manager, and the file of its page file.
struct Rig {
    manager: Tiers,
    file: Arc<Faulty>,
    /// Whether bytes of the file were changed, or reads may fail.
    is_spoilt: Cell<bool>,
}

impl Rig {
    /// With a page file of so many MiB, which the file holds.
    fn new(mebibytes: u32, recompresses: bool, seed: u64) -> Rig {
        Rig::on(Faulty::new(mebibytes as usize), mebibytes, recompresses, seed)
    }

    /// On a disk with room for so many MiB.
    fn on_small_disk(mebibytes: u32, room: usize) -> Rig {
        let file = Faulty::new(mebibytes as usize);
        file.state().room = Some((room, Errno::NOSPC));
        Rig::on(file, mebibytes, false, 1)
    }

    fn on(file: Faulty, mebibytes: u32, recompresses: bool, seed: u64) -> Rig {
        let file = Arc::new(file);
        let (pages, writer) = page_file(&file, mebibytes);
        let tier = FileTier::new(pages, writer, RAM).expect("memory");
        let mut copies = SavedCopies::new(store(CAP), CAP).with_file(tier);
        if recompresses {
            copies = copies.with_recompression();
        }
        Rig {
            manager: manager(copies, seed),
            file,
            is_spoilt: Cell::new(false),
        }
    }

    fn state(&self) -> State {
        self.manager.stats().page_file.expect("it has one").state
    }

    /// The program's access to a page: as often as it faults, the manager resolves the fault.
    fn try_access<T>(&self, page: u32, access: impl FnMut(&mut Page) -> T) -> Result<T, FaultError> {
        try_access(&self.manager, page, access)
    }

    #[track_caller]
    fn write(&self, page: u32, value: u8) {
        self.try_access(page, |bytes| *bytes = contents(value))
            .expect("the fault is resolved");
        self.manager.driver.forget_race(PageIndex::new(page));
    }

    /// Reads a page. Returns false for one whose saved copy is damaged; a wrong byte is a failure.
    #[track_caller]
    fn reads(&self, page: u32, value: u8) -> bool {
        let mut expected = contents(value);
        match self.try_access(page, |bytes| *bytes) {
            Ok(bytes) => {
                // A thread of the program wrote at the moment of a move.
                if let Some(word) = self.manager.driver.raced(PageIndex::new(page)) {
                    expected[PAGE_SIZE - 8..].copy_from_slice(&word.to_ne_bytes());
                }
                assert!(bytes == expected, "page {page} has wrong bytes");
                true
            }
            Err(FaultError::Damaged(_)) if self.is_spoilt.get() => {
                let state = self.manager.table.word(PageIndex::new(page)).load().state();
                assert_eq!(state, PageState::PageFile, "page {page}");
                false
            }
            Err(error) => panic!("page {page}: {error}"),
        }
    }

    /// Checks manager, store and page file, while nothing is injected.
    fn validate(&self) {
        assert_eq!(self.manager.validate(), []);
        self.manager.backing.validate();
    }
}

fn store(limit: u64) -> Store {
    Store::new(&StoreOptions {
        most: RAM,
        limit,
        first: FirstCodec::Lz4,
    })
    .expect("there is address space")
}

fn manager(copies: SavedCopies, seed: u64) -> Tiers {
    let driver = Simulated::new(PAGES, Injection::new(0, seed));
    let manager = Manager::new(driver, copies, PAGES, RAM).expect("memory");
    let region = PageRange::new(PageIndex::new(0), PAGES);
    manager.open(region).expect("nothing is injected");
    manager
}

fn try_access<T>(
    manager: &Tiers,
    page: u32,
    mut access: impl FnMut(&mut Page) -> T,
) -> Result<T, FaultError> {
    let page = PageIndex::new(page);
    for _ in 0..100_000 {
        if let Some(result) = manager.driver.access(page, &mut access) {
            return Ok(result);
        }
        manager.fault(page)?;
    }
    panic!("{page:?} faults for ever");
}

/// A value whose contents do not compress.
const NOISE: u8 = 7;

/// The value of a page in a round: noise, and different for neighbours.
fn noise(page: u32, round: u8) -> u8 {
    (page % 15) as u8 * 16 + round % 2 * 8 + NOISE
}

#[test]
fn incompressible_pages_beyond_the_budget_are_in_the_page_file() {
    let rig = Rig::new(64, false, 1);
    for round in 0..3 {
        for page in 0..PAGES {
            rig.write(page, noise(page, round));
            let used = rig.manager.driver.resident() * PAGE_SIZE as u64 + rig.manager.overhead_bytes();
            assert!(used <= RAM, "{used} bytes after page {page} of round {round}");
        }
        for page in 0..PAGES {
            assert!(rig.reads(page, noise(page, round)));
        }
    }
    let stats = rig.manager.stats();
    assert!(stats.page_file_pages > u64::from(PAGES) / 4, "{stats:?}");
    assert_eq!((stats.forced_frames, rig.state()), (0, State::Writable));
    rig.validate();
    let region = PageRange::new(PageIndex::new(0), PAGES);
    rig.manager.close(region).expect("no page is locked");
    let file = rig.manager.stats().page_file.expect("it has one");
    assert_eq!(file.used_bytes, 0, "every slot is free");
    rig.validate();
}

#[test]
fn a_spill_makes_room_in_the_store_before_it_is_full() {
    let rig = Rig::new(64, false, 1);
    for page in 0..PAGES / 2 {
        rig.write(page, noise(page, 0));
        rig.manager.balance();
        if page % 16 == 0 {
            rig.manager.trim_active(16);
            rig.manager.save_modified(16);
        }
    }
    let stats = rig.manager.stats();
    assert!(
        stats.page_file_pages > 0 || stats.standby_pages[5] > 0,
        "{stats:?}"
    );
    assert_eq!(stats.refused_saves, 0, "{stats:?}");
    assert!(stats.page_file.expect("it has one").written_bytes > 0);
    rig.validate();
}

/// The policy of a store cap: pages beyond it are standby, with their copies in the page file.
#[test]
fn standby_pages_keep_their_frames_as_their_copies_move_to_the_page_file() {
    let rig = Rig::new(64, false, 1);
    for page in 0..300 {
        rig.write(page, noise(page, 0));
    }
    let pages = PageRange::new(PageIndex::new(0), 300);
    assert_eq!(rig.manager.trim_range(pages), 300);
    rig.manager.save_range(pages);
    while rig.manager.make_room() {}
    let stats = rig.manager.stats();
    assert!(stats.standby_pages[5] >= 200, "{stats:?}");
    assert_eq!(
        stats.page_file_pages + stats.compressed_pages,
        300 - stats.standby_pages[5]
    );
    let written = stats.page_file.expect("it has one").used_bytes;
    assert!(written >= 300 / 16 * SLOT_BYTES as u64, "{stats:?}");
    rig.validate();
    // A soft fault frees the copy, and reads nothing.
    let before = rig.file.state().reads;
    let standby = (0..300).filter(|page| {
        let word = rig.manager.table.word(PageIndex::new(*page)).load();
        word.state() == PageState::Standby
    });
    for page in standby.collect::<Vec<_>>() {
        assert!(rig.reads(page, noise(page, 0)));
    }
    assert_eq!(rig.file.state().reads, before);
    // The frames of others go: the state is then that of the copy.
    rig.manager.trim_range(pages);
    rig.manager.save_range(pages);
    while rig.manager.make_room() {}
    rig.manager.release_range(pages);
    let stats = rig.manager.stats();
    assert!(stats.page_file_pages > 250, "{stats:?}");
    for page in 0..300 {
        assert!(rig.reads(page, noise(page, 0)));
    }
    rig.validate();
}

#[test]
fn a_write_error_keeps_the_data_in_ram_and_is_reported() {
    let rig = Rig::new(64, false, 1);
    for page in 0..PAGES {
        if page == PAGES / 2 {
            let mut file = rig.file.state();
            let next = file.writes;
            file.write_faults.insert(next, Fault::Refuse(Errno::IO));
        }
        rig.write(page, noise(page, 0));
    }
    let stats = rig.manager.stats();
    let file = stats.page_file.expect("it has one");
    assert!(matches!(file.state, State::Failed(_)), "{file:?}");
    assert_eq!(file.write_failures, 1);
    assert!(
        stats.forced_frames > 0,
        "the budget is exceeded, visibly: {stats:?}"
    );
    let written = rig.file.state().writes;
    for page in 0..PAGES {
        assert!(rig.reads(page, noise(page, 0)));
        rig.write(page, noise(page, 1));
    }
    for page in 0..PAGES {
        assert!(rig.reads(page, noise(page, 1)));
    }
    assert_eq!(
        rig.file.state().writes,
        written,
        "nothing is written after an error"
    );
    rig.validate();
}

#[test]
fn a_full_disk_limits_the_file_and_loses_nothing() {
    let rig = Rig::on_small_disk(64, 2);
    for round in 0..4 {
        for page in 0..PAGES {
            rig.write(page, noise(page, round));
        }
        for page in 0..PAGES {
            assert!(rig.reads(page, noise(page, round)));
        }
    }
    let State::Limited { bytes, errno } = rig.state() else {
        panic!("{:?}", rig.state());
    };
    assert_eq!((bytes % (1 << 20), errno), (0, Errno::NOSPC));
    let file = rig.manager.stats().page_file.expect("it has one");
    assert!(file.used_bytes > bytes / 2, "its space is used: {file:?}");
    assert!(
        file.written_bytes > 2 * bytes,
        "its slots are used again: {file:?}"
    );
    assert!(rig.manager.stats().forced_frames > 0);
    rig.validate();
}

#[test]
fn slots_that_are_partly_out_of_use_are_cleaned() {
    let rig = Rig::new(2, false, 1);
    let pages = PageRange::new(PageIndex::new(0), 450);
    for page in 0..450 {
        rig.write(page, noise(page, 0));
    }
    rig.manager.trim_range(pages);
    rig.manager.save_range(pages);
    while rig.manager.make_room() {}
    rig.manager.release_range(pages);
    let full = rig.manager.stats();
    assert!(full.page_file_pages > 430, "{full:?}");
    // Three of four pages come back: each slot keeps some.
    for page in (0..450).filter(|page| page % 4 > 0) {
        assert!(rig.reads(page, noise(page, 0)));
    }
    let used = |stats: crate::Stats| stats.page_file.expect("it has one").used_bytes;
    let before = used(rig.manager.stats());
    assert_eq!(before, used(full), "no slot is out of use as a whole");
    rig.manager.age();
    let after = used(rig.manager.stats());
    assert!(after <= before / 2, "{after} bytes of {before}");
    rig.validate();
    for page in 0..450 {
        assert!(rig.reads(page, noise(page, 0)));
    }
    rig.validate();
}

/// The balance-set manager had no time to clean.
#[test]
fn a_full_page_file_is_cleaned_by_the_thread_that_needs_room() {
    let rig = Rig::new(4, false, 1);
    let mut x = 1_u64;
    let mut rounds = vec![0; PAGES as usize];
    for page in 0..1400 {
        rig.write(page, noise(page, 0));
    }
    for _ in 0..20_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let page = (x >> 33) as u32 % 1400;
        assert!(rig.reads(page, noise(page, rounds[page as usize])));
        rounds[page as usize] = (x >> 20) as u8 % 2;
        rig.write(page, noise(page, rounds[page as usize]));
    }
    let stats = rig.manager.stats();
    let file = stats.page_file.expect("it has one");
    assert!(file.written_bytes > 8 * file.bytes, "{file:?}");
    assert_eq!(stats.forced_frames, 0, "{stats:?}");
    rig.validate();
}

#[test]
fn a_failed_read_is_an_error_of_the_page_alone_and_can_be_tried_again() {
    let rig = Rig::new(64, false, 1);
    let page = spilled(&rig, 5);
    let one = PageIndex::new(page);
    let fail = |errno| {
        let mut file = rig.file.state();
        let next = file.reads;
        file.read_faults.insert(next, errno);
    };
    fail(Errno::IO);
    let frames = rig.manager.budget.frames();
    let error = rig.manager.fault(one).expect_err("the read fails");
    assert_eq!(error, FaultError::Damaged(Damaged::File(Errno::IO)));
    assert_eq!(rig.manager.table.word(one).load().state(), PageState::PageFile);
    assert_eq!(rig.manager.budget.frames(), frames);
    assert!(
        rig.manager.driver.access(one, |_| ()).is_none(),
        "nothing was made present"
    );
    assert_eq!(
        rig.manager.stats().page_file.expect("it has one").read_failures,
        1
    );
    assert!(rig.reads(page, noise(page, 0)));
    rig.validate();
}

#[test]
fn bytes_that_changed_on_the_disk_are_an_error_and_no_wrong_byte() {
    let rig = Rig::new(64, false, 1);
    let page = spilled(&rig, 5);
    rig.file
        .state()
        .bytes
        .iter_mut()
        .step_by(4096)
        .for_each(|byte| *byte ^= 1);
    let error = rig
        .manager
        .fault(PageIndex::new(page))
        .expect_err("the block is damaged");
    assert_eq!(error, FaultError::Damaged(Damaged::File(Errno::BADMSG)));
    rig.file
        .state()
        .bytes
        .iter_mut()
        .step_by(4096)
        .for_each(|byte| *byte ^= 1);
    assert!(rig.reads(page, noise(page, 0)));
    rig.validate();
}

/// Writes and spills pages; that page is in the page file then.
fn spilled(rig: &Rig, page: u32) -> u32 {
    let pages = PageRange::new(PageIndex::new(0), 100);
    for page in 0..100 {
        rig.write(page, noise(page, 0));
    }
    rig.manager.trim_range(pages);
    rig.manager.save_range(pages);
    rig.manager.release_range(pages);
    while rig.manager.make_room() {}
    let state = rig.manager.table.word(PageIndex::new(page)).load().state();
    assert_eq!(state, PageState::PageFile);
    page
}

#[test]
fn a_store_at_its_cap_without_a_page_file_keeps_frames_and_counts_them() {
    let manager = manager(SavedCopies::new(store(CAP), CAP), 1);
    for page in 0..PAGES {
        try_access(&manager, page, |bytes| *bytes = contents(noise(page, 0))).expect("the fault is resolved");
    }
    let pages = PageRange::new(PageIndex::new(0), PAGES);
    manager.trim_range(pages);
    manager.save_range(pages);
    manager.release_range(pages);
    let stats = manager.stats();
    assert!(stats.store_bytes <= CAP, "{stats:?}");
    assert!(
        stats.modified_pages > u64::from(PAGES) / 2,
        "their frames stay: {stats:?}"
    );
    assert!(stats.forced_frames > 0 && stats.refused_saves > 0, "{stats:?}");
    assert_eq!(stats.page_file, None);
    for page in 0..PAGES {
        let expected = contents(noise(page, 0));
        assert!(try_access(&manager, page, |bytes| *bytes == expected).expect("it is resolved"));
    }
    assert_eq!(manager.validate(), []);
}

#[test]
fn idle_copies_are_compressed_again_and_quads_are_restored() {
    let rig = Rig::new(64, true, 1);
    for page in 0..400 {
        write_words(&rig, page);
    }
    let pages = PageRange::new(PageIndex::new(0), 400);
    rig.manager.trim_range(pages);
    rig.manager.save_range(pages);
    rig.manager.release_range(pages);
    rig.manager.backing.close_segments();
    let before = rig.manager.backing.store_stats();
    for _ in 0..5 {
        rig.manager.age();
    }
    let packed = rig.manager.backing.store_stats();
    assert!(packed.live_packed > 0, "{before:?} {packed:?}");
    assert!(packed.live < before.live, "{before:?} {packed:?}");
    for _ in 0..30 {
        rig.manager.backing.close_segments();
        rig.manager.age();
    }
    let quads = rig.manager.backing.store_stats();
    assert!(quads.live_quads > 0, "{quads:?}");
    rig.validate();
    // Quads of which pages are freed spill too.
    for page in (0..400).step_by(3) {
        read_words(&rig, page);
    }
    rig.manager.backing.close_segments();
    while rig.manager.make_room() {}
    assert!(
        rig.manager.stats().page_file_pages > 200,
        "{:?}",
        rig.manager.stats()
    );
    rig.validate();
    for page in 0..400 {
        read_words(&rig, page);
    }
    rig.validate();
}

/// Words in a scattered order, different for each page.
fn words(page: u32) -> Page {
    const WORDS: [&[u8]; 16] = [
        b"page ",
        b"frame ",
        b"budget ",
        b"segment ",
        b"store ",
        b"of ",
        b"the ",
        b"standby ",
        b"list ",
        b"trim ",
        b"fault ",
        b"active ",
        b"modified ",
        b"to ",
        b"a ",
        b"entry ",
    ];
    let mut bytes = [0; PAGE_SIZE];
    let mut x = u64::from(page) + 1;
    let mut at = 0;
    while at < PAGE_SIZE {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        let word = WORDS[(x >> 40) as usize % WORDS.len()];
        let length = word.len().min(PAGE_SIZE - at);
        bytes[at..at + length].copy_from_slice(&word[..length]);
        at += length;
    }
    bytes
}

fn write_words(rig: &Rig, page: u32) {
    rig.try_access(page, |bytes| *bytes = words(page))
        .expect("the fault is resolved");
}

#[track_caller]
fn read_words(rig: &Rig, page: u32) {
    let read = rig.try_access(page, |bytes| *bytes == words(page));
    assert_eq!(read, Ok(true), "page {page}");
}
