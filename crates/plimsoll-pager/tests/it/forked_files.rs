//! Page files of children of `Pager::fork`: each writes to a file of its own, and reads those of its parents.
#![allow(unsafe_code)]

use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll_os::Errno;
use plimsoll_pager::page_file::{PageFileOptions, State};
use plimsoll_pager::{Pager, Region, TrimTo};

use crate::children::{Random, Shared, wait};
use crate::forked_pagers::fork;
use crate::forked_pool::{proportional, wait_for};
use crate::forks::{alone, words};
use crate::modes::builder;
use crate::page_file::limits::{Small, in_memory, on_small_disk};
use crate::page_file::{entries, folder};
use crate::shared_budget::{MIB, PAGE, TOTAL, limits, with_pool};

/// Words of a test: the state of each child.
const WRITTEN: usize = 0;
const MAY_END: usize = 8;

fn pages(region: &Region) -> std::ops::Range<u64> {
    0..region.len() as u64 / PAGE
}

/// Words without a pattern, different for each page and seed: a page of them does not compress.
fn noise(seed: u64, page: u64) -> Random {
    Random(seed << 32 | page << 1 | 1)
}

pub(crate) fn fill_page(region: &Region, page: u64, seed: u64) {
    let mut random = noise(seed, page);
    for word in 0..512 {
        // SAFETY: each process of a test has its own copy of the region, and one thread, or threads with pages of their own.
        unsafe {
            let place = words(region).add(page as usize * 512 + word);
            place.write(random.below(u64::MAX));
        }
    }
}

#[track_caller]
fn verify_page(region: &Region, page: u64, seed: u64) {
    let mut random = noise(seed, page);
    // SAFETY: as above.
    let read = |word: usize| unsafe { words(region).add(page as usize * 512 + word).read() };
    let is_whole = (0..512).all(|word| read(word) == random.below(u64::MAX));
    assert!(is_whole, "page {page} of {seed}");
}

pub(crate) fn fill(region: &Region, seed: u64) {
    pages(region).for_each(|page| fill_page(region, page, seed));
}

#[track_caller]
pub(crate) fn verify(region: &Region, seed: u64) {
    pages(region).for_each(|page| verify_page(region, page, seed));
}

pub(crate) fn state(pager: &Pager) -> State {
    pager.stats().page_file.expect("the pager has a file").state
}

/// Checks a pager whose threads may trim meanwhile: one of 20 checks must find nothing.
pub(crate) fn validate_beside_threads(pager: &Pager) {
    let mut found = pager.validate();
    for _ in 0..20 {
        if found.is_empty() {
            return;
        }
        eprintln!("{}: {found:?}", std::process::id());
        std::thread::sleep(Duration::from_millis(50));
        found = pager.validate();
    }
    assert_eq!(found, []);
}

/// Pages that do not compress stayed in the RAM of the children: a parent and three children with 120 MiB used 120 MiB of 64.
#[test]
fn children_with_data_that_do_not_compress_stay_within_one_budget() {
    const DATA: u64 = 30;
    const CHILDREN: u64 = 3;
    let test = "forked_files::children_with_data_that_do_not_compress_stay_within_one_budget";
    with_pool(test, |pool, shared| {
        let base = proportional(std::process::id());
        let folder = folder();
        let member = pool.join(limits()).expect("the minima fit");
        let pager = builder().pool(member).page_file(folder.path(), 128 * MIB).build();
        let pager = pager.expect("userfaultfd is allowed");
        let region = pager.map((DATA * MIB) as usize).expect("addresses are free");
        fill(&region, 1);
        let work = |number: u64| {
            let seed = |page: u64| match page % CHILDREN == number {
                true => 1,
                false => number + 2,
            };
            let changed = pages(&region).filter(|page| seed(*page) > 1);
            changed.for_each(|page| fill_page(&region, page, seed(page)));
            loop {
                pages(&region).for_each(|page| verify_page(&region, page, seed(page)));
                shared.set(WRITTEN + number as usize, 1);
                if shared.get(MAY_END) > 0 {
                    assert_eq!(state(&pager), State::Writable);
                    pool.validate().expect("it is valid");
                    validate_beside_threads(&pager);
                    return 0;
                }
            }
        };
        let pids: Vec<i32> = (0..CHILDREN)
            .map(|number| fork(&pager, || work(number)))
            .collect();
        (0..CHILDREN).for_each(|number| shared.wait_for(WRITTEN + number as usize, 1));
        let all = || pids.iter().map(|pid| *pid as u32).chain([std::process::id()]);
        let each = || all().map(proportional).collect::<Vec<u64>>();
        // As in `forked_pool`, where the data compress.
        let most = TOTAL / 100 * 102 + base + (CHILDREN + 1) * MIB;
        let mut since = Instant::now();
        let mut last = Vec::new();
        wait_for(pool, "the sum", || {
            verify(&region, 1);
            last = each();
            if last.iter().sum::<u64>() > most {
                eprintln!("{last:?} of {most}");
                since = Instant::now();
            }
            since.elapsed() > Duration::from_secs(3)
        });
        eprintln!("{last:?} of {most}");
        shared.set(MAY_END, 1);
        for pid in &pids {
            assert_eq!(wait(*pid), 0);
        }
        verify(&region, 1);
        validate_beside_threads(&pager);
        assert_eq!(entries(folder.path()), 0);
    });
}

/// The processes of a line of forks that have a file.
const FILES: u64 = 8;
const LINE: u64 = 10;

/// Changes pages, forks, and checks that the child's changes are not this process's; `level` forks are above.
pub(crate) fn descend(pager: &Pager, region: &Region, level: u64) {
    // The last process that changed a page.
    let seed = |page: u64| match page % LINE {
        last if last <= level => last + 1,
        _ => 1,
    };
    let verify = || pages(region).for_each(|page| verify_page(region, page, seed(page)));
    pages(region)
        .filter(|page| page % LINE == level)
        .for_each(|page| fill_page(region, page, seed(page)));
    verify();
    region.trim(.., TrimTo::Store).expect("the whole region");
    verify();
    let file = pager.stats().page_file.expect("the pager has a file");
    assert_eq!(file.bytes, (level.min(FILES - 1) + 1) * 64 * MIB, "level {level}");
    if level < FILES {
        assert_eq!(state(pager), State::Writable, "level {level}");
        let stats = pager.stats();
        assert!(
            stats.resident_bytes() <= stats.ram + MIB,
            "level {level}: {stats:?}"
        );
    } else {
        assert_eq!(state(pager), State::OfParent, "level {level}");
    }
    if level + 1 < LINE {
        let child = fork(pager, || {
            descend(pager, region, level + 1);
            0
        });
        // The child reads slots that this process gives up.
        verify();
        region.trim(.., TrimTo::Store).expect("the whole region");
        assert_eq!(wait(child), 0, "level {level}");
        verify();
    }
    assert_eq!(pager.validate(), [], "level {level}");
}

#[test]
fn each_of_a_line_of_forks_reads_the_files_of_those_above() {
    let test = "forked_files::each_of_a_line_of_forks_reads_the_files_of_those_above";
    alone(test, || {
        let folder = folder();
        let pager = builder().ram(8 * MIB).page_file(folder.path(), 64 * MIB).build();
        let pager = pager.expect("userfaultfd is allowed");
        let region = pager.map(16 * MIB as usize).expect("addresses are free");
        fill(&region, 1);
        descend(&pager, &region, 0);
        assert_eq!(entries(folder.path()), 0);
    });
}

/// The free bytes of a file system.
fn free_bytes(at: &Path) -> u64 {
    let path = std::ffi::CString::new(at.as_os_str().as_encoded_bytes()).expect("a path");
    let mut system = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the kernel writes the whole structure if it succeeds.
    let system = unsafe {
        assert_eq!(libc::statvfs(path.as_ptr(), system.as_mut_ptr()), 0);
        system.assume_init()
    };
    system.f_bfree * system.f_frsize
}

/// The file of a child has no name, and the kernel frees its blocks.
#[test]
fn a_killed_child_leaves_no_part_of_its_file() {
    on_small_disk(Small::Tmpfs, |at| {
        let others = folder();
        let shared = Shared::new(others.path());
        let options = in_memory(PageFileOptions::default());
        let pager = builder()
            .ram(4 * MIB)
            .page_file(at, 5 * MIB)
            .page_file_options(options);
        let pager = pager.build().expect("userfaultfd is allowed");
        let region = pager.map(6 * MIB as usize).expect("addresses are free");
        fill(&region, 1);
        region.trim(.., TrimTo::Store).expect("the whole region");
        assert!(pager.stats().page_file_pages > 100, "{:?}", pager.stats());
        let before = free_bytes(at);
        let child = fork(&pager, || {
            fill(&region, 2);
            verify(&region, 2);
            assert_eq!(state(&pager), State::Writable);
            shared.set(WRITTEN, 1);
            loop {
                verify(&region, 2);
            }
        });
        shared.wait_for(WRITTEN, 1);
        let meanwhile = free_bytes(at);
        assert!(
            meanwhile + MIB <= before,
            "the child has no blocks: {meanwhile} of {before} are free"
        );
        assert_eq!(entries(at), 0);
        // SAFETY: the child of above, which nothing else waits for.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0);
        wait(child);
        assert_eq!(free_bytes(at), before);
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}

/// As after chroot(2), or a change of the user.
#[test]
fn a_child_that_can_make_no_file_keeps_its_data() {
    let test = "forked_files::a_child_that_can_make_no_file_keeps_its_data";
    alone(test, || {
        let folder = folder();
        let at = folder.path().join("gone");
        std::fs::create_dir(&at).expect("the folder is this user's");
        let pager = builder().ram(8 * MIB).page_file(&at, 64 * MIB).build();
        let pager = pager.expect("userfaultfd is allowed");
        let region = pager.map(16 * MIB as usize).expect("addresses are free");
        fill(&region, 1);
        region.trim(.., TrimTo::Store).expect("the whole region");
        assert!(pager.stats().page_file_pages > 1000, "{:?}", pager.stats());
        std::fs::remove_dir(&at).expect("it is empty");
        let start = Instant::now();
        let child = fork(&pager, || {
            verify(&region, 1);
            fill(&region, 2);
            verify(&region, 2);
            let (bytes, errno) = (0, Errno::NOENT);
            assert_eq!(state(&pager), State::Limited { bytes, errno });
            assert_eq!(pager.validate(), []);
            0
        });
        assert_eq!(wait(child), 0);
        // No fault waits for a file that nobody makes.
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
        verify(&region, 1);
    });
}
