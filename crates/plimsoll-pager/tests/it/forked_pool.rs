//! Children of `Pager::fork` under the budget of a pool: each is a member of its own, as the kernel counts it.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use plimsoll_pager::pool::{MemberStatus, Pool};
use plimsoll_pager::{Forked, Pager, Region};

use crate::children::{Random, Shared, wait};
use crate::forked_pagers::{fork, fork_without_descriptors};
use crate::modes::builder;
use crate::shared_budget::{MIB, MOST_ROUNDS, PAGE, TOTAL, limits, with_pool};

/// Words of the test: the state of the children.
const WRITTEN: usize = 0;
const MAY_END: usize = 8;
const TRIMMED: usize = 16;
/// Words of a page that are noise.
const NOISE: usize = 128;
/// Children of a parent.
const CHILDREN: u64 = 3;

/// A region of `mib`, whose pages are a quarter noise of `seed`.
fn filled(pool: &Pool, mib: u64, seed: u64) -> (Pager, Region) {
    let member = pool.join(limits()).expect("the minima fit");
    let pager = builder().pool(member).build().expect("userfaultfd is allowed");
    let region = pager.map((mib * MIB) as usize).expect("addresses are free");
    fill(&region, seed);
    (pager, region)
}

/// Calls `work` with the words of a page of this process's copy.
fn with_page<T>(region: &Region, page: u64, work: impl FnOnce(&mut [u64]) -> T) -> T {
    let start = (page * PAGE) as usize;
    assert!(start < region.len());
    // SAFETY: each process of a test has one thread that uses its copy of the region, one page at a time.
    work(unsafe { std::slice::from_raw_parts_mut(region.as_ptr().add(start).cast(), 512) })
}

fn noise(seed: u64, page: u64) -> Random {
    Random(seed << 32 | page << 1 | 1)
}

fn fill_page(region: &Region, page: u64, seed: u64) {
    let mut random = noise(seed, page);
    with_page(region, page, |words| {
        words[..NOISE].fill_with(|| random.below(u64::MAX));
    });
}

fn verify_page(region: &Region, page: u64, seed: u64) {
    let mut random = noise(seed, page);
    let is_whole = with_page(region, page, |words| {
        let (noise, rest) = words.split_at(NOISE);
        noise.iter().all(|word| *word == random.below(u64::MAX)) && rest.iter().all(|word| *word == 0)
    });
    assert!(is_whole, "page {page} of {seed}");
}

fn pages(region: &Region) -> std::ops::Range<u64> {
    0..region.len() as u64 / PAGE
}

fn fill(region: &Region, seed: u64) {
    pages(region).for_each(|page| fill_page(region, page, seed));
}

fn verify(region: &Region, seed: u64) {
    pages(region).for_each(|page| verify_page(region, page, seed));
}

/// The share of resident memory that the kernel counts as a process's: pages that several map are divided.
pub(crate) fn proportional(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.map_or(0, |kib| kib.trim().parse::<u64>().expect("a number") << 10)
}

fn member(pool: &Pool, pid: u32) -> Option<MemberStatus> {
    let members = pool.status().expect("it is whole").members;
    members.into_iter().find(|member| member.identity.pid() == pid)
}

/// Waits until `goal` holds, for a number of rounds of the pool at most.
pub(crate) fn wait_for(pool: &Pool, what: &str, mut goal: impl FnMut() -> bool) {
    let rounds = || pool.status().expect("it is whole").rounds;
    let first = rounds();
    while !goal() {
        assert!(rounds() - first < MOST_ROUNDS, "{what}: {:#?}", pool.status());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pages of both cost the pool once; a page that the child writes is the child's, and all are when the parent ends.
#[test]
fn a_forked_child_is_a_member_and_pays_for_its_own_pages() {
    const DATA: u64 = 24;
    let test = "forked_pool::a_forked_child_is_a_member_and_pays_for_its_own_pages";
    with_pool(test, |pool, shared| {
        let parent = plimsoll_testkit::fork(600, || {
            let (pager, region) = filled(pool, DATA, 1);
            let child = fork(&pager, || {
                verify(&region, 1);
                let pid = std::process::id();
                let charged = member(pool, pid).expect("it is a member").charged;
                assert!(charged < 8 * MIB, "{charged} bytes are charged for shared pages");
                fill(&region, 2);
                wait_for(pool, "own pages", || {
                    // Pages that it trimmed on a busy machine are in use too.
                    verify(&region, 2);
                    member(pool, pid).is_some_and(|own| own.given >= DATA * MIB && own.charged >= DATA * MIB)
                });
                verify(&region, 2);
                let membership = pager.membership().expect("it is a member");
                assert_eq!(membership.failed_ticks, 0);
                shared.set(WRITTEN, u64::from(pid));
                shared.wait_for(MAY_END, 1);
                verify(&region, 2);
                i32::from(!pager.validate().is_empty())
            });
            shared.wait_for(WRITTEN, 1);
            // The child's pages are not this one's.
            verify(&region, 1);
            assert_eq!(pager.validate(), []);
            assert_eq!(pool.status().expect("it is whole").members.len(), 2);
            assert_eq!(wait(child), 0);
            verify(&region, 1);
            0
        });
        shared.wait_for(WRITTEN, 1);
        shared.set(MAY_END, 1);
        assert_eq!(wait(parent), 0);
        let other = pool.join(limits()).expect("the minima fit");
        assert_eq!(pool.status().expect("it is whole").members.len(), 1);
        drop(other);
    });
}

/// A child cannot free a page that it shares: of a parent with nearly all of the pool, it would have no memory of its own.
#[test]
fn a_parent_releases_memory_before_a_fork_if_the_pool_has_little_left() {
    let test = "forked_pool::a_parent_releases_memory_before_a_fork_if_the_pool_has_little_left";
    with_pool(test, |pool, _| {
        let (pager, region) = filled(pool, 60, 1);
        wait_for(pool, "most of the pool", || {
            fill(&region, 1);
            pool.status().expect("it is whole").free < TOTAL / 4
        });
        let before = pager.stats();
        assert!(before.resident_bytes() > TOTAL / 2, "{before:?}");
        // 200 ms may be too short on a busy machine. Then the grant falls to what is left, which may free a quarter of the pool, and later
        // forks release no more.
        let is_enough = || {
            let free = pool.status().expect("it is whole").free;
            pager.stats().resident_bytes() <= TOTAL / 2 || free >= TOTAL / 4
        };
        for _ in 0..300 {
            pager.prepare_fork();
            if is_enough() {
                break;
            }
        }
        let after = pager.stats();
        assert!(is_enough(), "{after:?} after {before:?}");
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}

/// The parent held 992 of 1,024 MB after it had released most of that, so that its children copied and compressed all pages that they
/// shared: a write makes a page theirs, and a trim of a shared page frees nothing.
///
/// A round gives free pages to the parent again. On a busy machine, it may come before the child has written to its pages: so there are
/// several tries.
#[test]
fn children_of_a_parent_that_has_released_memory_write_to_shared_pages_without_trims() {
    const TRIES: usize = 8;
    let test =
        "forked_pool::children_of_a_parent_that_has_released_memory_write_to_shared_pages_without_trims";
    with_pool(test, |pool, shared| {
        let (pager, region) = filled(pool, SHARED_MIB, 1);
        let mut trimmed = Vec::new();
        while trimmed.len() < TRIES && trimmed.last().is_none_or(|pages| *pages >= MOST_TRIMMED) {
            release_nearly_all(pool, &pager, &region);
            trimmed.push(trimmed_by_a_child(pool, shared, &pager, &region));
        }
        assert!(
            trimmed.last().is_some_and(|pages| *pages < MOST_TRIMMED),
            "trimmed pages of each try: {trimmed:?}"
        );
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}

/// The memory that the children of a test share with their parent.
const SHARED_MIB: u64 = 16;
/// A child that trims an eighth of these pages lacked memory.
const MOST_TRIMMED: u64 = SHARED_MIB * MIB / PAGE / 8;

/// Has the pager use nearly all of the pool, and release all but `region`.
fn release_nearly_all(pool: &Pool, pager: &Pager, region: &Region) {
    let free = || pool.status().expect("it is whole").free;
    let released = pager.map((TOTAL - SHARED_MIB * MIB - 8 * MIB) as usize);
    let released = released.expect("addresses are free");
    wait_for(pool, "nearly all of the pool", || {
        fill(&released, 1);
        free() < 4 * MIB
    });
    drop(released);
    verify(region, 1);
    assert!(free() < 4 * MIB);
    // On a busy machine, the balance-set manager may hold the budget. A process gives back what it does not use, unless so much is free
    // already: then a round has taken a half of these 48 MiB before.
    for _ in 0..300 {
        pager.prepare_fork();
        if free() > SHARED_MIB * MIB / 4 * 5 {
            return;
        }
    }
    panic!("{} bytes are free", free());
}

/// The pages that a child trims while it writes to all pages that it shares with its parent.
fn trimmed_by_a_child(pool: &Pool, shared: &Shared, pager: &Pager, region: &Region) -> u64 {
    let before = pager.stats().trimmed_pages;
    let trimmed = || pager.stats().trimmed_pages - before;
    let child = fork(pager, || {
        fill(region, 2);
        wait_for(pool, "own pages", || {
            let own = member(pool, std::process::id());
            trimmed() >= MOST_TRIMMED || own.is_some_and(|own| own.given >= SHARED_MIB * MIB)
        });
        shared.set(TRIMMED, trimmed());
        verify(region, 2);
        i32::from(!pager.validate().is_empty())
    });
    assert_eq!(wait(child), 0);
    shared.get(TRIMMED)
}

#[test]
fn the_pages_of_a_parent_that_ends_are_charged_to_its_child() {
    const DATA: u64 = 24;
    let test = "forked_pool::the_pages_of_a_parent_that_ends_are_charged_to_its_child";
    with_pool(test, |pool, shared| {
        let parent = plimsoll_testkit::fork(600, || {
            let (pager, region) = filled(pool, DATA, 1);
            fork(&pager, || {
                shared.set(WRITTEN, u64::from(std::process::id()));
                shared.wait_for(MAY_END, 1);
                verify(&region, 1);
                i32::from(!pager.validate().is_empty())
            });
            shared.wait_for(MAY_END, 1);
            0
        });
        shared.wait_for(WRITTEN, 1);
        let child = shared.get(WRITTEN);
        // SAFETY: the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(parent, libc::SIGKILL) }, 0);
        wait(parent);
        let other = builder()
            .pool(pool.join(limits()).expect("the minima fit"))
            .build();
        let other = other.expect("userfaultfd is allowed");
        let region = other.map((48 * MIB) as usize).expect("addresses are free");
        fill(&region, 3);
        // The charge of the parent stays until a round passes it on.
        let members = pool.status().expect("it is whole").members;
        let charged: u64 = members.iter().map(|member| member.charged).sum();
        let resident = proportional(child as u32) + proportional(std::process::id());
        assert!(
            charged + 4 * MIB >= resident,
            "{charged} bytes are charged for {resident}"
        );
        wait_for(pool, "the charge of the child", || {
            let charged = member(pool, child as u32).map_or(0, |member| member.charged);
            charged + 4 * MIB >= proportional(child as u32)
        });
        shared.set(MAY_END, 1);
        assert_eq!(wait(child as i32), 0);
        verify(&region, 3);
    });
}

/// The children shared those pages among themselves alone, and each took them for pages that the parent pays for: 2 x 24 MiB
/// were charged to none.
#[test]
fn pages_that_a_parent_changes_are_charged_to_its_children() {
    const DATA: u64 = 24;
    let test = "forked_pool::pages_that_a_parent_changes_are_charged_to_its_children";
    with_pool(test, |pool, shared| {
        let (pager, region) = filled(pool, DATA, 1);
        let pids: Vec<i32> = (0..2)
            .map(|number| {
                fork(&pager, || {
                    shared.set(WRITTEN + number, 1);
                    shared.wait_for(MAY_END, 1);
                    verify(&region, 1);
                    i32::from(!pager.validate().is_empty())
                })
            })
            .collect();
        for number in 0..pids.len() {
            shared.wait_for(WRITTEN + number, 1);
        }
        fill(&region, 2);
        // The pages of both children are resident, or the pool has had them trimmed.
        wait_for(pool, "charges of both children", || {
            pids.iter().all(|pid| {
                let charged = member(pool, *pid as u32).map_or(0, |member| member.charged);
                charged + MIB >= proportional(*pid as u32)
            })
        });
        shared.set(MAY_END, 1);
        for pid in &pids {
            assert_eq!(wait(*pid), 0);
        }
        verify(&region, 2);
        assert_eq!(pager.validate(), []);
    });
}

/// Three children change 20 MiB of 30 each: 120 MiB of data under 64, a quarter of it noise.
#[test]
fn a_parent_and_its_children_stay_within_one_budget() {
    let test = "forked_pool::a_parent_and_its_children_stay_within_one_budget";
    with_pool(test, |pool, shared| {
        let base = proportional(std::process::id());
        let (pager, region) = filled(pool, 30, 1);
        let pids: Vec<i32> = (0..CHILDREN)
            .map(|number| {
                fork(&pager, || {
                    change_and_verify(pool, shared, &pager, &region, number)
                })
            })
            .collect();
        for number in 0..CHILDREN {
            shared.wait_for(WRITTEN + number as usize, 1);
        }
        let all = || pids.iter().map(|pid| *pid as u32).chain([std::process::id()]);
        let sum = || all().map(proportional).sum::<u64>();
        // What fork(2) itself shares is counted once, and each child has a stack and the words of its libraries.
        let most = TOTAL / 100 * 102 + base + (CHILDREN + 1) * MIB;
        // A write makes a page the child's own without a fault: it counts at the child's next look.
        let mut since = Instant::now();
        wait_for(pool, "the sum", || {
            verify(&region, 1);
            if sum() > most {
                since = Instant::now();
            }
            since.elapsed() > Duration::from_secs(3)
        });
        shared.set(MAY_END, 1);
        for pid in &pids {
            assert_eq!(wait(*pid), 0);
        }
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}

/// The work of a child: it changes two thirds of the region's pages, each child others, and checks all again and again.
fn change_and_verify(pool: &Pool, shared: &Shared, pager: &Pager, region: &Region, number: u64) -> i32 {
    let seed = |page: u64| match page % CHILDREN == number {
        true => 1,
        false => number + 2,
    };
    for page in pages(region).filter(|page| seed(*page) > 1) {
        fill_page(region, page, seed(page));
    }
    loop {
        pages(region).for_each(|page| verify_page(region, page, seed(page)));
        shared.set(WRITTEN + number as usize, 1);
        if shared.get(MAY_END) > 0 {
            pool.validate().expect("it is valid");
            return i32::from(!pager.validate().is_empty());
        }
    }
}

/// The copy of the parent's membership waited for a thread that the child does not have, for ever.
#[test]
fn a_child_that_cannot_manage_its_copies_leaves_the_membership_of_its_parent_alone() {
    let test = "forked_pool::a_child_that_cannot_manage_its_copies_leaves_the_membership_of_its_parent_alone";
    with_pool(test, |pool, _| {
        let (pager, region) = filled(pool, 16, 1);
        let status = fork_without_descriptors(&pager, &region);
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        assert_eq!(signal, Some(libc::SIGSEGV), "{status:#x}");
        assert_eq!(pool.status().expect("it is whole").members.len(), 1);
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}

/// A pool promises a minimum to each child. Without a share, the memory of a child would be charged to none.
#[test]
fn a_child_that_finds_no_room_in_the_pool_does_not_have_the_regions() {
    let test = "forked_pool::a_child_that_finds_no_room_in_the_pool_does_not_have_the_regions";
    with_pool(test, |pool, shared| {
        let (pager, region) = filled(pool, 4, 1);
        let mut children = Vec::new();
        loop {
            // SAFETY: the child makes system calls, waits for a word, and ends.
            match unsafe { pager.fork() }.expect("the kernel forks") {
                Forked::Parent { child } => children.push(child),
                forked => {
                    let code = match forked {
                        Forked::Child => 0,
                        _ => i32::from(!pager.is_forked()) + 2,
                    };
                    shared.set(WRITTEN + 1, code as u64 + 1);
                    shared.wait_for(MAY_END, 1);
                    // SAFETY: ends the child.
                    unsafe { libc::_exit(code) };
                }
            }
            shared.wait_for(WRITTEN + 1, 1);
            if shared.get(WRITTEN + 1) > 1 {
                break;
            }
            shared.set(WRITTEN + 1, 0);
        }
        shared.set(MAY_END, 1);
        let codes: Vec<i32> = children
            .iter()
            .map(|child| libc::WEXITSTATUS(wait(*child)))
            .collect();
        let (last, others) = codes.split_last().expect("the first child");
        // 12 minima of 5 MiB and 4 of 1 MiB, the least of a pager, fill the pool.
        assert_eq!(children.len(), 16);
        assert_eq!(*last, 2, "the child has the regions");
        assert!(others.iter().all(|code| *code == 0), "{codes:?}");
        verify(&region, 1);
        assert_eq!(pager.validate(), []);
    });
}
