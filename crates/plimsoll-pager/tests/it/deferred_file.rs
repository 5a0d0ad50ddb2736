//! Deferred page files: the pager creates them when it first moves pages there.
//!
//! Each process of `plimsoll exec` created its page file at its start: a key, tables, 16 MiB of disk space, a block written and
//! read back, an io_uring. Of the processes of a build or of a shell script hardly one needs it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;
use plimsoll_pager::page_file::{BLOCK_BYTES, CreateError, PageFileOptions, State, WriteFailure};
use plimsoll_pager::{
    BuildError, PageFileUse, Pager, PagerBuilder, Region, TrimTo, owns_descriptor, use_descriptors_from,
};
use plimsoll_testkit::status_of_fork;

use crate::children::{become_nobody, wait};
use crate::forked_files::{descend, fill, fill_page, state, validate_beside_threads, verify};
use crate::forked_pagers::fork;
use crate::forks::alone;
use crate::modes::builder;
use crate::page_file::limits::{
    Small, in_memory, limit_descriptors, limit_file_sizes, on_small_disk, refuse,
};
use crate::page_file::{entries, folder, open_files, reopen};
use crate::shared_budget::{MIB, PAGE};

const RAM: u64 = 8 * MIB;
const FILE: u64 = 64 * MIB;
/// Bytes of pages of which all copies fit into the store.
const FEW: u64 = MIB;

/// Options of a pager with a deferred file.
fn deferred(at: &Path) -> PagerBuilder {
    builder().ram(RAM).page_file(at, FILE).defer_page_file()
}

fn build(at: &Path) -> Pager {
    deferred(at).build().expect("userfaultfd is allowed")
}

/// Writes as many bytes as the store holds.
fn fill_few(region: &Region, seed: u64) {
    (0..FEW / 4096).for_each(|page| fill_page(region, page, seed));
}

/// Twice the budget of pages that do not compress, written and checked.
fn use_much(region: &Region, seed: u64) {
    fill(region, seed);
    verify(region, seed);
}

fn file_of(pager: &Pager) -> PageFileUse {
    pager.stats().page_file.expect("the pager has a file")
}

/// The number of the descriptor of the only open file in a folder.
fn number_in(at: &Path) -> i32 {
    let files = open_files(at);
    assert_eq!(files.len(), 1, "{files:?}");
    let name = files[0].file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).expect("a number")
}

/// The open descriptors of this process.
fn descriptors() -> usize {
    entries(Path::new("/proc/self/fd"))
}

#[test]
fn nothing_is_written_before_the_first_use() {
    let test = "deferred_file::nothing_is_written_before_the_first_use";
    alone(test, || {
        let folder = folder();
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        let file = reopen(folder.path());
        let before = descriptors();
        fill_few(&region, 1);
        region
            .trim(..FEW as usize, TrimTo::Store)
            .expect("it is in the region");
        assert!(pager.stats().compressed_pages > 0, "{:?}", pager.stats());
        let found = file.metadata().expect("it is open");
        assert_eq!((found.len(), found.blocks(), found.nlink()), (0, 0, 0));
        let stats = file_of(&pager);
        assert_eq!((stats.state, stats.bytes), (State::Writable, FILE));
        assert_eq!((stats.allocated_bytes, stats.written_bytes), (0, 0));
        assert_eq!(pager.validate(), []);

        use_much(&region, 2);
        let found = file.metadata().expect("it is open");
        assert!(found.len() >= 16 * MIB && found.blocks() > 0, "{found:?}");
        let stats = file_of(&pager);
        assert_eq!((stats.state, stats.bytes), (State::Writable, FILE));
        assert!(
            stats.allocated_bytes > 0 && stats.written_bytes >= RAM,
            "{stats:?}"
        );
        assert!(stats.read_bytes > 0 && stats.read_failures == 0, "{stats:?}");
        let all = pager.stats();
        assert!(all.resident_bytes() <= all.ram + MIB, "{all:?}");
        assert_eq!(descriptors(), before, "a program may use the lowest free number");
        assert_eq!(entries(folder.path()), 0);
        assert_eq!(pager.validate(), []);
        drop((region, pager));
        assert_eq!(open_files(folder.path()).len(), 1, "that of this test");
    });
}

/// A program that drops its rights, or changes its root, between its start and the first use of the file.
#[test]
fn the_folder_is_needed_at_the_start_alone() {
    let folder = folder();
    let at = folder.path().join("gone");
    std::fs::create_dir(&at).expect("the folder is this user's");
    let status = status_of_fork(|| {
        let pager = build(&at);
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        std::fs::remove_dir(&at).expect("it is empty");
        become_nobody();
        use_much(&region, 1);
        assert_eq!(state(&pager), State::Writable);
        assert!(pager.stats().page_file_pages > 0, "{:?}", pager.stats());
        assert_eq!(pager.validate(), []);
    });
    assert_eq!(status, 0);
}

#[test]
fn an_unusable_folder_or_size_is_refused_at_the_start() {
    let folder = folder();
    let at = folder.path().join("file");
    std::fs::write(&at, "data").expect("the folder takes it");
    let refused = deferred(&at).build().expect_err("the path exists");
    assert_eq!(refused, BuildError::PageFile(CreateError::Exists(at)));
    let refused = deferred(Path::new("/proc")).build();
    assert!(matches!(refused, Err(BuildError::PageFile(_))), "{refused:?}");
    let tiny = builder().page_file(folder.path(), 1000).defer_page_file();
    let refused = tiny.build().expect_err("it is too small");
    assert_eq!(refused, BuildError::PageFile(CreateError::Size(1000)));
    assert_eq!(open_files(folder.path()).len(), 0);
    let without = builder().ram(RAM).defer_page_file().build();
    assert_eq!(without.expect("userfaultfd is allowed").stats().page_file, None);
}

/// The error asked for a folder that this user can write to.
#[test]
fn a_limit_of_descriptors_below_the_pagers_numbers_is_refused_at_the_start() {
    let test = "deferred_file::a_limit_of_descriptors_below_the_pagers_numbers_is_refused_at_the_start";
    alone(test, || {
        let folder = folder();
        use_descriptors_from(700);
        limit_descriptors(512);
        let refused = deferred(folder.path()).build().expect_err("no number is allowed");
        assert_eq!(
            refused,
            BuildError::PageFile(CreateError::Descriptor(Errno::INVAL))
        );
        assert!(refused.to_string().contains("RLIMIT_NOFILE"), "{refused}");
        assert_eq!(open_files(folder.path()).len(), 0);
    });
}

/// Threads of the program, each of which may find the store full first.
const THREADS: usize = 8;

#[test]
fn threads_that_need_the_file_at_once_get_one() {
    let test = "deferred_file::threads_that_need_the_file_at_once_get_one";
    alone(test, || {
        let folder = folder();
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        let before = descriptors();
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (region, start) = (&region, &start);
                scope.spawn(move || {
                    start.wait();
                    let pages = (0..2 * RAM / PAGE).skip(thread).step_by(THREADS);
                    pages.for_each(|page| fill_page(region, page, 1));
                });
            }
        });
        assert_eq!((open_files(folder.path()).len(), descriptors()), (1, before));
        verify(&region, 1);
        let stats = file_of(&pager);
        assert_eq!((stats.state, stats.bytes), (State::Writable, FILE));
        assert!(stats.written_bytes > 0 && stats.read_failures == 0, "{stats:?}");
        validate_beside_threads(&pager);
    });
}

/// Checks that a pager without a page file keeps its data, above its budget, and that no fault waits for a file.
fn keeps_data_in_ram(pager: &Pager, region: &Region) {
    let start = Instant::now();
    for seed in 1..3 {
        use_much(region, seed);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let stats = pager.stats();
    assert!(
        stats.forced_frames > 0,
        "the budget is exceeded, visibly: {stats:?}"
    );
    assert_eq!((stats.page_file_pages, file_of(pager).bytes), (0, 0));
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_file_that_finds_no_space_leaves_the_data_in_ram_and_a_child_tries_again() {
    let test = "deferred_file::a_file_that_finds_no_space_leaves_the_data_in_ram_and_a_child_tries_again";
    alone(test, || {
        use_descriptors_from(700);
        let folder = folder();
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        let number = number_in(folder.path());
        assert!(number >= 700 && owns_descriptor(number), "{number}");
        limit_file_sizes(1 << 19);
        keeps_data_in_ram(&pager, &region);
        let (bytes, errno) = (0, Errno::FBIG);
        assert_eq!(state(&pager), State::Limited { bytes, errno });
        assert_eq!(open_files(folder.path()).len(), 0);
        assert!(!owns_descriptor(number), "the program may use the number");
        limit_file_sizes(libc::RLIM_INFINITY);
        let child = fork(&pager, || {
            assert_eq!(state(&pager), State::Writable);
            verify(&region, 2);
            use_much(&region, 3);
            assert!(file_of(&pager).written_bytes > 0);
            0
        });
        assert_eq!(wait(child), 0);
        verify(&region, 2);
    });
}

#[test]
fn a_disk_that_is_full_by_then_loses_nothing() {
    on_small_disk(Small::Tmpfs, |at| {
        let options = in_memory(PageFileOptions::default());
        let pager = deferred(at).page_file_options(options).build();
        let pager = pager.expect("userfaultfd is allowed");
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        std::fs::write(at.join("other"), vec![1; (11 << 20) + (1 << 19)]).expect("the disk has 12 MiB");
        keeps_data_in_ram(&pager, &region);
        let (bytes, errno) = (0, Errno::NOSPC);
        assert_eq!(state(&pager), State::Limited { bytes, errno });
        assert_eq!((entries(at), open_files(at).len()), (1, 0));
    });
}

/// Such a file system is refused at the start by default: nothing tests it here.
#[test]
fn a_file_that_cannot_be_written_leaves_the_data_in_ram() {
    let test = "deferred_file::a_file_that_cannot_be_written_leaves_the_data_in_ram";
    alone(test, || {
        let folder = folder();
        refuse(libc::SYS_pwrite64);
        let errno = Errno::PERM;
        let at_once = builder().ram(RAM).page_file(folder.path(), FILE).build();
        let refused = at_once.expect_err("it writes a block");
        let path = folder.path().to_owned();
        assert_eq!(
            refused,
            BuildError::PageFile(CreateError::Probe { path, source: errno })
        );
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        keeps_data_in_ram(&pager, &region);
        let (position, length) = (0, BLOCK_BYTES);
        let failure = WriteFailure::Write {
            position,
            length,
            errno,
        };
        let stats = file_of(&pager);
        assert_eq!((stats.state, stats.write_failures), (State::Failed(failure), 1));
        assert_eq!(open_files(folder.path()).len(), 0);
    });
}

#[test]
fn forks_before_the_first_use_share_no_file() {
    let test = "deferred_file::forks_before_the_first_use_share_no_file";
    alone(test, || {
        let folder = folder();
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        fill_few(&region, 1);
        let before = descriptors();
        let child = fork(&pager, || {
            assert_eq!((state(&pager), file_of(&pager).bytes), (State::Writable, FILE));
            use_much(&region, 2);
            assert_eq!((state(&pager), file_of(&pager).bytes), (State::Writable, FILE));
            validate_beside_threads(&pager);
            0
        });
        assert_eq!(
            descriptors(),
            before,
            "no pipe: the child reads no file of this process"
        );
        use_much(&region, 3);
        assert_eq!(wait(child), 0);
        verify(&region, 3);
        // From now on, children read the file.
        let child = fork(&pager, || {
            assert_eq!(state(&pager), State::OfParent);
            verify(&region, 3);
            use_much(&region, 4);
            assert_eq!(
                (state(&pager), file_of(&pager).bytes),
                (State::Writable, 2 * FILE)
            );
            validate_beside_threads(&pager);
            0
        });
        assert_eq!(descriptors(), before + 1);
        verify(&region, 3);
        assert_eq!(wait(child), 0);
        validate_beside_threads(&pager);
        assert_eq!((entries(folder.path()), open_files(folder.path()).len()), (0, 1));
    });
}

#[test]
fn a_line_of_forks_reads_the_files_above_the_first_of_which_was_deferred() {
    let test = "deferred_file::a_line_of_forks_reads_the_files_above_the_first_of_which_was_deferred";
    alone(test, || {
        let folder = folder();
        let pager = build(folder.path());
        let region = pager.map(2 * RAM as usize).expect("addresses are free");
        fill(&region, 1);
        descend(&pager, &region, 0);
        assert_eq!(entries(folder.path()), 0);
    });
}
