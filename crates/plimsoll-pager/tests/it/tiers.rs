//! A pager whose copies go to a page file on a real disk.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_os::Errno;
use plimsoll_pager::page::PageState;
use plimsoll_pager::page_file::{CreateError, PageFileOptions, State};
use plimsoll_pager::{
    BuildError, Codec, Damaged, FaultError, Pager, PagerBuilder, RangeError, Region, TrimMode, TrimTo,
};
use plimsoll_testkit::{again, role, status_of_fork};

use crate::allocations;
use crate::children::{Child, Shared};
use crate::page_file::limits::{Small, in_memory, limit_file_sizes, on_small_disk};
use crate::page_file::{entries, folder, open_files, reopen};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
const RAM: usize = 16 * MIB;

fn builder(folder: &Path) -> PagerBuilder {
    Pager::builder()
        .ram(RAM as u64)
        .page_file(folder, 128 * MIB as u64)
}

fn build(folder: &Path) -> Pager {
    builder(folder).build().expect("userfaultfd is allowed")
}

/// The random words of a page in a round: they do not compress.
fn noise(page: usize, round: u64) -> impl Iterator<Item = u64> {
    let mut x = (page as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round << 40;
    (0..PAGE / 8).map(move |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    })
}

fn fill(bytes: &mut [u8], first: usize, round: u64) {
    for (number, page) in bytes.chunks_mut(PAGE).enumerate() {
        for (word, value) in page
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip(noise(first + number, round))
        {
            *word = value.to_ne_bytes();
        }
    }
}

#[track_caller]
fn verify(bytes: &[u8], first: usize, round: u64) {
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        let words = page
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_ne_bytes(*word));
        assert!(words.eq(noise(first + number, round)), "page {}", first + number);
    }
}

/// Statistics of the page file.
fn file_of(pager: &Pager) -> plimsoll_pager::PageFileUse {
    pager.stats().page_file.expect("it has one")
}

#[test]
fn random_bytes_of_four_times_the_budget_come_back() {
    let folder = folder();
    let pager = build(folder.path());
    assert_eq!(entries(folder.path()), 0, "the file has no name");
    let mut region = pager.map(4 * RAM).expect("addresses are free");
    for round in 1..=2 {
        fill(region.bytes_mut(), 0, round);
        verify(region.bytes(), 0, round);
        let stats = pager.stats();
        assert!(stats.resident_bytes() <= RAM as u64 / 100 * 102, "{stats:?}");
        assert_eq!(stats.forced_frames, 0, "{stats:?}");
        assert!(stats.page_file_pages as usize > 2 * RAM / PAGE, "{stats:?}");
    }
    let file = file_of(&pager);
    assert_eq!((file.state, file.read_failures), (State::Writable, 0));
    assert!(file.written_bytes >= 4 * RAM as u64 && file.read_bytes >= 4 * RAM as u64);
    assert_eq!(pager.validate(), []);
    drop(region);
    assert_eq!(file_of(&pager).used_bytes, 0);
}

#[test]
fn a_trim_to_the_store_passes_its_cap_into_the_page_file() {
    let folder = folder();
    let builder = Pager::builder().ram(64 * MIB as u64).store_cap(2 * MIB as u64);
    let pager = builder.page_file(folder.path(), 128 * MIB as u64).build();
    let pager = pager.expect("userfaultfd is allowed");
    let mut region = pager.map(32 * MIB).expect("addresses are free");
    fill(region.bytes_mut(), 0, 1);
    let (trimmed, allocations) = allocations::count(|| region.trim(.., TrimTo::Store));
    assert!(trimmed.is_ok());
    assert_eq!(allocations, 0, "a signal handler spills too");
    let stats = pager.stats();
    assert_eq!((stats.active_pages, stats.modified_pages), (0, 0), "{stats:?}");
    assert!(stats.page_file_pages as usize > 30 * MIB / PAGE, "{stats:?}");
    verify(region.bytes(), 0, 1);
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_store_cap_without_a_page_file_leaves_pages_in_their_frames() {
    let builder = Pager::builder().ram(64 * MIB as u64).store_cap(2 * MIB as u64);
    let pager = builder.build().expect("userfaultfd is allowed");
    let mut region = pager.map(32 * MIB).expect("addresses are free");
    fill(region.bytes_mut(), 0, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    let stats = pager.stats();
    assert!(stats.store_bytes <= 2 * MIB as u64, "{stats:?}");
    assert!(stats.modified_pages as usize > 28 * MIB / PAGE, "{stats:?}");
    assert_eq!((stats.page_file, stats.page_file_pages), (None, 0));
    verify(region.bytes(), 0, 1);
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_full_disk_keeps_the_rest_in_ram_and_is_reported() {
    for small in [Small::Tmpfs, Small::Ext4] {
        on_small_disk(small, |at| {
            let builder = builder(at).page_file_options(in_memory(PageFileOptions::default()));
            let pager = builder.build().expect("userfaultfd is allowed");
            let mut region = pager.map(3 * RAM).expect("addresses are free");
            for round in 1..=2 {
                fill(region.bytes_mut(), 0, round);
                verify(region.bytes(), 0, round);
            }
            let State::Limited { bytes, errno } = file_of(&pager).state else {
                panic!("{:?}", pager.stats());
            };
            assert_eq!(errno, Errno::NOSPC);
            let file = file_of(&pager);
            assert!(
                file.used_bytes > bytes / 4 * 3 && file.used_bytes <= bytes,
                "{file:?}"
            );
            assert!(file.written_bytes > bytes, "slots are used again: {file:?}");
            assert!(pager.stats().forced_frames > 0, "the budget is exceeded, visibly");
            assert_eq!(pager.validate(), []);
        });
    }
}

#[test]
fn a_limit_of_file_sizes_costs_no_byte() {
    let status = status_of_fork(|| {
        let folder = folder();
        limit_file_sizes(20 << 20);
        let pager = build(folder.path());
        let mut region = pager.map(3 * RAM).expect("addresses are free");
        fill(region.bytes_mut(), 0, 1);
        verify(region.bytes(), 0, 1);
        let (bytes, errno) = (20 << 20, Errno::FBIG);
        assert_eq!(file_of(&pager).state, State::Limited { bytes, errno });
        // Lowered below the space that the file has: the next write there fails, for good.
        limit_file_sizes(1 << 20);
        for round in 2..=3 {
            fill(region.bytes_mut(), 0, round);
            verify(region.bytes(), 0, round);
        }
        let file = file_of(&pager);
        assert!(matches!(file.state, State::Failed(_)), "{file:?}");
        assert_eq!(file.write_failures, 1);
        assert_eq!(pager.validate(), []);
    });
    assert_eq!(status, 0);
}

/// The test once put back the bytes that it had read before a late spill of the busy balance-set manager: those of the spill were
/// gone, and the last check ended the process by SIGBUS.
#[test]
fn bytes_that_changed_on_the_disk_are_an_error_of_the_page() {
    const TRIES: u32 = 20;
    let is_checked = || {
        let folder = folder();
        let pager = build(folder.path());
        let region = spilled(&pager);
        pager.set_trim_mode(TrimMode::PerFault);
        // Waits for the work of the balance-set manager as well.
        assert_eq!(pager.validate(), []);
        let written = file_of(&pager).written_bytes;
        let snapshot = pager.snapshot();
        let in_file = snapshot
            .runs()
            .iter()
            .find(|run| run.state == PageState::PageFile);
        let first = in_file.expect("most pages are there").pages.first.offset();
        let file = reopen(folder.path());
        let length = file.metadata().expect("it is open").len();
        let mut saved = vec![0; length as usize];
        file.read_exact_at(&mut saved, 0).expect("the file is read");
        file.write_all_at(&vec![0x5a; length as usize], 0)
            .expect("the file is written");
        let outcome = region.prefetch(first..first + PAGE);
        let failures = file_of(&pager).read_failures;
        file.write_all_at(&saved, 0).expect("the file is written");
        let violations = pager.validate();
        if file_of(&pager).written_bytes != written {
            return false;
        }
        assert_eq!(violations, []);
        let damaged = Damaged::File(Errno::BADMSG);
        let error = outcome.expect_err("its block is damaged");
        assert_eq!(error, RangeError::Fault(FaultError::Damaged(damaged)));
        assert_eq!(failures, 1);
        // The page is as it was: once the disk is right again, so is the page.
        verify(region.bytes(), 0, 1);
        assert_eq!(pager.validate(), []);
        true
    };
    assert!((0..TRIES).any(|_| is_checked()), "the pager wrote in each try");
}

/// The first region of a pager, most of whose pages are in the page file.
fn spilled(pager: &Pager) -> Region {
    let mut region = pager.map(3 * RAM).expect("addresses are free");
    fill(region.bytes_mut(), 0, 1);
    region.trim(.., TrimTo::Store).expect("the whole region");
    assert!(file_of(pager).used_bytes as usize > RAM, "{:?}", pager.stats());
    region
}

#[test]
fn threads_write_and_read_beside_spills() {
    const THREADS: usize = 8;
    let folder = folder();
    let pager = builder(folder.path())
        .codec(Codec::Auto)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(3 * RAM).expect("addresses are free");
    let part = region.len() / THREADS;
    let done = AtomicBool::new(false);
    let other = pager.map(RAM).expect("addresses are free");
    std::thread::scope(|scope| {
        let workers: Vec<_> = region
            .bytes_mut()
            .chunks_mut(part)
            .enumerate()
            .map(|(number, bytes)| {
                scope.spawn(move || {
                    let first = number * part / PAGE;
                    let mut rounds = vec![0_u64; part / PAGE];
                    let mut x = number as u64 + 1;
                    for _ in 0..3 * part / PAGE {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                        let page = (x >> 33) as usize % rounds.len();
                        let bytes = &mut bytes[page * PAGE..(page + 1) * PAGE];
                        match rounds[page] {
                            0 => assert!(bytes.iter().all(|byte| *byte == 0), "page {page}"),
                            round => verify(bytes, first + page, round),
                        }
                        rounds[page] += 1;
                        fill(bytes, first + page, rounds[page]);
                    }
                })
            })
            .collect();
        let trimmer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                other.prefetch(..MIB).expect("the range is in the region");
                other.trim(.., TrimTo::Store).expect("the whole region");
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        trimmer.join().expect("no panic");
        results
            .into_iter()
            .for_each(|result| result.expect("no byte is lost"));
    });
    assert!(file_of(&pager).written_bytes > 0);
    assert_eq!(pager.validate(), []);
}

/// The child has copies of the tables; its end, and its own page file, change nothing of the parent's.
#[test]
fn a_forked_child_leaves_the_page_file_of_its_parent() {
    let test = "tiers::a_forked_child_leaves_the_page_file_of_its_parent";
    if role().is_none() {
        let output = again(test, "alone").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    let folder = folder();
    let pager = build(folder.path());
    let mut region = spilled(&pager);
    for round in 1..=4 {
        let child = Child::fork(|| {
            let own = build(folder.path());
            let mut region = own.map(2 * RAM).expect("addresses are free");
            fill(region.bytes_mut(), 0, 9);
            verify(region.bytes(), 0, 9);
            drop((region, own));
        });
        verify(region.bytes(), 0, round);
        fill(region.bytes_mut(), 0, round + 1);
        assert_eq!(child.wait(), 0);
    }
    verify(region.bytes(), 0, 5);
    assert_eq!(pager.validate(), []);
    assert_eq!((entries(folder.path()), open_files(folder.path()).len()), (0, 1));
}

#[test]
fn a_killed_process_leaves_no_file() {
    let test = "tiers::a_killed_process_leaves_no_file";
    if role().is_none() {
        let output = again(test, "alone").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        return;
    }
    let (folder, own) = (folder(), tempfile::tempdir().expect("a folder"));
    let shared = Shared::new(own.path());
    let child = Child::fork(|| {
        let pager = build(folder.path());
        let mut region = pager.map(3 * RAM).expect("addresses are free");
        for round in 1.. {
            fill(region.bytes_mut(), 0, round);
            shared.set(0, round);
        }
    });
    shared.wait_for(0, 2);
    child.kill();
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn impossible_options_are_refused_and_leave_nothing() {
    let folder = folder();
    let small = Pager::builder().ram(RAM as u64).store_cap(1000).build();
    let Err(BuildError::StoreCap { given: 1000, least }) = small else {
        panic!("{small:?}");
    };
    assert_eq!(least, 1 << 20);
    let tiny = Pager::builder().page_file(folder.path(), 1000).build();
    assert!(
        matches!(tiny, Err(BuildError::PageFile(CreateError::Size(1000)))),
        "{tiny:?}"
    );
    let huge = Pager::builder().page_file(folder.path(), (4 << 40) + 1).build();
    assert!(
        matches!(huge, Err(BuildError::PageFile(CreateError::Size(_)))),
        "{huge:?}"
    );
    let path = folder.path().join("taken");
    std::fs::write(&path, "data").expect("the folder takes it");
    let taken = Pager::builder().page_file(&path, 1 << 20).build();
    let exists = BuildError::PageFile(CreateError::Exists(path.clone()));
    assert_eq!(taken.expect_err("the path exists"), exists);
    assert_eq!(std::fs::read(path).expect("it is there"), b"data");
    assert_eq!(entries(folder.path()), 1);
    assert_eq!(open_files(folder.path()).len(), 0);
}
