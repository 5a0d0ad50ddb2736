//! Pagers of several processes under one budget, as the kernel counts it.

use std::path::Path;
use std::time::Duration;

use plimsoll_pager::pool::{Limits, MemberStatus, Pool};
use plimsoll_pager::{BuildError, Pager, RamError, Stats};

use crate::children::{Child, Random, Shared, alone_as_nobody, resident_of};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const TOTAL: u64 = 64 * MIB;
/// Bytes of the region of each process.
const REGION: u64 = 64 * MIB;
pub(crate) const PAGE: u64 = 4096;
/// The most processes of a test.
const MOST: usize = 4;

/// Words of the test, one a process: pages of its hot set; its resident bytes beside the pager, plus 1; accesses so far.
const HOT: usize = 0;
const BASE: usize = MOST;
const WORK: usize = 2 * MOST;

/// Rounds of the pool in which a goal must be reached: there are four in a second.
pub(crate) const MOST_ROUNDS: u64 = 960;

pub(crate) fn limits() -> Limits {
    Limits {
        minimum: 5 * MIB,
        ..Limits::default()
    }
}

/// A word of a page: different for each page, alike for neighbours.
fn value(page: u64, part: usize) -> u64 {
    (page * 31 + part as u64 / 64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Fills a region, then reads random pages of its hot set for ever, and checks their contents.
fn live(pool: &Pool, shared: &Shared, at: usize) {
    let member = pool.join(limits()).expect("the minima fit");
    let pager = Pager::builder()
        .pool(member)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(REGION as usize).expect("addresses are free");
    let stats = pager.stats();
    let base = resident_of(std::process::id()) - stats.metadata_bytes - stats.store_bytes;
    shared.set(BASE + at, base + 1);
    for (page, bytes) in (0..).zip(region.bytes_mut().chunks_mut(PAGE as usize)) {
        for (part, bytes) in bytes.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&value(page, part).to_ne_bytes());
        }
    }
    let mut random = Random(0x1234_5678_9ABC + at as u64);
    loop {
        for _ in 0..500 {
            let page = random.below(shared.get(HOT + at));
            let part = random.below(PAGE / 8) as usize;
            let start = (page * PAGE) as usize + part * 8;
            assert_eq!(region.bytes()[start..start + 8], value(page, part).to_ne_bytes());
        }
        shared.set(WORK + at, shared.get(WORK + at) + 500);
        // The machine has other work.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The processes of a test.
struct Group<'t> {
    pool: &'t Pool,
    shared: &'t Shared,
    children: Vec<Option<Child>>,
    /// Sums of resident bytes that were compared with the total.
    sums: u64,
}

impl<'t> Group<'t> {
    /// No process.
    fn new(pool: &'t Pool, shared: &'t Shared) -> Group<'t> {
        Group {
            pool,
            shared,
            children: Vec::new(),
            sums: 0,
        }
    }

    /// Starts processes with hot sets of these many MiB, and waits until each has filled its region.
    fn start(pool: &'t Pool, shared: &'t Shared, hot: &[u64]) -> Group<'t> {
        let mut group = Group::new(pool, shared);
        for (at, hot) in hot.iter().enumerate() {
            group.set_hot(at, *hot);
            group.children.push(Some(Child::fork(|| live(pool, shared, at))));
        }
        for at in 0..hot.len() {
            while shared.get(WORK + at) == 0 {
                group.check_sum();
                shared.rest(WORK + at, Duration::from_millis(20));
                group.check_alive();
            }
        }
        group
    }

    fn set_hot(&self, at: usize, mib: u64) {
        self.shared.set(HOT + at, mib * MIB / PAGE);
    }

    fn pid(&self, at: usize) -> Option<u32> {
        self.children[at].as_ref().map(Child::pid)
    }

    /// Checks that no process has ended by itself.
    fn check_alive(&self) {
        for pid in (0..self.children.len()).filter_map(|at| self.pid(at)) {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is a child");
            assert!(!stat.contains(") Z "), "a process has ended: {stat}");
        }
    }

    fn member(&self, at: usize) -> Option<MemberStatus> {
        let pid = self.pid(at)?;
        let members = self.pool.status().expect("it is whole").members;
        members.into_iter().find(|member| member.identity.pid() == pid)
    }

    fn given(&self, at: usize) -> u64 {
        self.member(at).map_or(0, |member| member.given)
    }

    /// Whether a process still fills its region.
    fn is_filling(&self) -> bool {
        self.check_alive();
        (0..self.children.len()).any(|at| self.shared.get(WORK + at) == 0)
    }

    /// Resident bytes of each pager, as the kernel counts them.
    fn residents(&self) -> Vec<u64> {
        let resident = |at| {
            let base = self.shared.get(BASE + at);
            let pid = self.pid(at).filter(|_| base > 0)?;
            Some(resident_of(pid).saturating_sub(base - 1))
        };
        (0..self.children.len())
            .map(|at| resident(at).unwrap_or(0))
            .collect()
    }

    /// Compares the resident bytes of all with the total. They are read one after another, so they count only if a second
    /// reading agrees: a share that moves between two readings would count twice.
    fn check_sum(&mut self) {
        let (once, again) = (self.residents(), self.residents());
        let is_stable = once
            .iter()
            .zip(&again)
            .all(|(once, again)| once.abs_diff(*again) <= MIB / 8);
        if is_stable {
            let sum: u64 = again.iter().sum();
            let status = self.pool.status();
            assert!(sum <= TOTAL / 100 * 102, "{sum} bytes: {again:?} {status:#?}");
            self.sums += 1;
        }
    }

    /// Waits until `goal` holds, for a number of rounds at most.
    fn wait_for(&mut self, goal: impl Fn(&Group<'_>) -> bool) {
        let rounds = |pool: &Pool| pool.status().expect("it is whole").rounds;
        let first = rounds(self.pool);
        while !goal(self) {
            let status = self.pool.status();
            assert!(rounds(self.pool) - first < MOST_ROUNDS, "{status:#?}");
            self.check_alive();
            self.check_sum();
            self.shared.rest(WORK, Duration::from_millis(5));
        }
    }

    fn kill(&mut self, at: usize) {
        self.children[at].take().expect("it lives").kill();
    }
}

pub(crate) fn with_pool(test: &str, work: impl FnOnce(&Pool, &Shared)) {
    alone_as_nobody(test, |folder: &Path| {
        let pool = Pool::at(&folder.join("pool"), TOTAL).expect("the folder is this user's");
        let shared = Shared::new(folder);
        work(&pool, &shared);
        pool.validate().expect("it is valid at the end");
    });
}

#[test]
fn the_budget_of_two_pagers_follows_their_refaults() {
    let test = "shared_budget::the_budget_of_two_pagers_follows_their_refaults";
    with_pool(test, |pool, shared| {
        let mut group = Group::start(pool, shared, &[8, 40]);
        group.wait_for(|group| group.given(1) >= 40 * MIB);
        assert!(group.given(0) <= 24 * MIB);
        // The other way round.
        group.set_hot(0, 44);
        group.set_hot(1, 8);
        group.wait_for(|group| group.given(0) >= 36 * MIB);
        assert!(group.given(1) <= 28 * MIB);
        // A killed process returns its share.
        group.kill(1);
        group.wait_for(|group| group.given(0) == TOTAL);
        eprintln!("sums {}", group.sums);
        assert!(group.sums > 20, "{} sums were compared", group.sums);
    });
}

#[test]
fn four_pagers_stay_within_one_budget() {
    let test = "shared_budget::four_pagers_stay_within_one_budget";
    with_pool(test, |pool, shared| {
        let mut group = Group::start(pool, shared, &[4, 30, 6, 4]);
        group.wait_for(|group| group.given(1) >= 30 * MIB);
        for at in [0, 2, 3] {
            assert!((5 * MIB..24 * MIB).contains(&group.given(at)));
        }
        group.kill(1);
        group.kill(0);
        // Each of the others wants all that is free.
        group.wait_for(|group| group.given(2) + group.given(3) == TOTAL);
        let before = [2, 3].map(|at| shared.get(WORK + at));
        group.wait_for(|_| {
            let now = [2, 3].map(|at| shared.get(WORK + at));
            now.iter().zip(before).all(|(now, before)| *now > before + 5000)
        });
        eprintln!("sums {}", group.sums);
        assert!(group.sums > 20, "{} sums were compared", group.sums);
    });
}

/// Faults did not wait for a grant: two such members took 69.6 MiB of a pool of 64 MiB.
#[test]
fn members_that_fill_at_once_stay_within_one_budget() {
    const FILLED: u64 = 44 * MIB;
    let test = "shared_budget::members_that_fill_at_once_stay_within_one_budget";
    with_pool(test, |pool, shared| {
        let mut group = Group::new(pool, shared);
        for at in 0..2 {
            let fill = || fill_and_check(pool, shared, at, FILLED, PAGE / 2, forced);
            group.children.push(Some(Child::fork(fill)));
        }
        while group.is_filling() {
            group.check_sum();
        }
        for at in 0..2 {
            assert_eq!(
                shared.get(WORK + at),
                1,
                "frames above the budget of member {at}, plus 1"
            );
        }
        eprintln!("sums {}", group.sums);
        assert!(group.sums > 20, "{} sums were compared", group.sums);
    });
}

/// A grant followed the pages once a second: a member that filled 24 MiB compressed three quarters of them, while 59 MiB of
/// the pool were free.
#[test]
fn a_member_trims_nothing_while_the_pool_has_free_pages() {
    let test = "shared_budget::a_member_trims_nothing_while_the_pool_has_free_pages";
    with_pool(test, |pool, shared| {
        let mut group = Group::new(pool, shared);
        for at in 0..2 {
            let trimmed = |stats: &Stats| stats.trimmed_pages + stats.forced_frames;
            let fill = || fill_and_check(pool, shared, at, 24 * MIB, PAGE / 2, trimmed);
            group.children.push(Some(Child::fork(fill)));
            while group.is_filling() {
                group.check_sum();
            }
            let status = pool.status();
            assert_eq!(
                shared.get(WORK + at),
                1,
                "pages that member {at} trimmed, plus 1: {status:#?}"
            );
        }
        assert!(group.given(0) + group.given(1) >= 48 * MIB);
    });
}

/// A growing member had room for a sixteenth more than it used, once a second: hardly any part that it committed fitted, and each of
/// its pages was a fault of the pager.
#[test]
fn memory_that_a_member_commits_is_the_kernels_while_the_pool_has_free_pages() {
    let test = "shared_budget::memory_that_a_member_commits_is_the_kernels_while_the_pool_has_free_pages";
    with_pool(test, |pool, _| {
        // A machine that is busy for 100 ms makes a wish vain, and the next pauses.
        let members: Vec<Stats> = (0..5).map(|_| member_that_commits(pool)).collect();
        let by_faults = |stats: &Stats| (stats.zero_faults + stats.stream_pages) * PAGE;
        let is_right = |stats: &Stats| {
            by_faults(stats) <= 8 * MIB && (stats.trimmed_pages, stats.forced_frames) == (0, 0)
        };
        assert!(members.iter().any(is_right), "{members:?}");
    });
}

/// A member that commits and fills 40 MiB in parts, and then more than the pool has. Returns its statistics after the parts.
fn member_that_commits(pool: &Pool) -> Stats {
    const SPACE: usize = 1 << 30;
    const PART: usize = 4 << 20;
    const PARTS: usize = 10;
    let pager = pager_of(pool, SPACE);
    let mut region = pager.map(SPACE).expect("addresses are free");
    let mut fill = |number: usize, bytes: usize| {
        let range = number * PART..number * PART + bytes;
        region.commit(range.clone()).expect("inside");
        region.bytes_mut()[range.clone()].fill(number as u8 + 1);
        range
    };
    for number in 0..PARTS {
        fill(number, PART);
    }
    let stats = pager.stats();
    // The rest is the pager's.
    let last = fill(PARTS, TOTAL as usize);
    let expected = |at: usize| (at / PART).min(PARTS) as u8 + 1;
    let mut bytes = region.bytes()[..last.end].iter().enumerate();
    assert_eq!(bytes.find(|(at, byte)| **byte != expected(*at)), None);
    assert!(pager.stats().trimmed_pages > 0);
    stats
}

/// A block larger than what the member used did not become native, however much of the pool was free: sort(1) fills one from both
/// ends, and each page of the descending part was a fault.
#[test]
fn a_large_block_that_a_member_commits_is_the_kernels_while_most_of_the_pool_is_free() {
    let test =
        "shared_budget::a_large_block_that_a_member_commits_is_the_kernels_while_most_of_the_pool_is_free";
    with_pool(test, |pool, _| {
        // A machine that is busy for 20 ms makes a wish vain, and the next pauses.
        let members: Vec<Stats> = (0..5).map(|_| member_that_fills_a_block(pool)).collect();
        let by_faults = |stats: &Stats| (stats.zero_faults + stats.stream_pages) * PAGE;
        let is_right =
            |stats: &Stats| by_faults(stats) <= MIB && (stats.trimmed_pages, stats.forced_frames) == (0, 0);
        assert!(members.iter().any(is_right), "{members:?}");
    });
}

/// A pager of a new member, with `space` bytes of addresses.
fn pager_of(pool: &Pool, space: usize) -> Pager {
    let member = pool.join(limits()).expect("the minima fit");
    Pager::builder()
        .pool(member)
        .address_space(space as u64)
        .build()
        .expect("userfaultfd is allowed")
}

/// A member with a block of 200 MiB, of which two threads fill 24 MiB together: one upwards, one downwards. Another 2 MiB are
/// prefetched. Returns its statistics.
fn member_that_fills_a_block(pool: &Pool) -> Stats {
    const SPACE: usize = 1 << 30;
    const BLOCK: usize = 200 << 20;
    const FILLED: usize = 12 << 20;
    let page = PAGE as usize;
    let pager = pager_of(pool, SPACE);
    let mut region = pager.map(SPACE).expect("addresses are free");
    region.commit(..BLOCK).expect("inside");
    assert_eq!(pager.stats().native_pages, 0);
    region.prefetch(BLOCK / 2..BLOCK / 2 + (2 << 20)).expect("inside");
    let (low, high) = region.bytes_mut()[..BLOCK].split_at_mut(FILLED);
    let high_start = high.len() - FILLED;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for page in low.chunks_mut(page) {
                page.fill(1);
            }
        });
        for page in high[high_start..].chunks_mut(page).rev() {
            page.fill(2);
        }
    });
    let stats = pager.stats();
    assert!(stats.resident_bytes() <= stats.ram, "{stats:?}");
    let bytes = region.bytes();
    assert!(bytes[..FILLED].iter().all(|byte| *byte == 1));
    assert!(bytes[BLOCK - FILLED..BLOCK].iter().all(|byte| *byte == 2));
    assert!(bytes[FILLED..FILLED + page].iter().all(|byte| *byte == 0));
    stats
}

/// A member that uses a page of each 2 MiB of a large block reserves half of the pool for them at most, and another one gets that when
/// it needs it.
///
/// The other one refaults. A first version of this test waited for the grant of a member that had filled its region and rested: such a
/// member gets no pages that it would not fill, so that the test took more than ten minutes to fail.
#[test]
fn untouched_parts_of_a_committed_block_are_there_for_other_members() {
    let test = "shared_budget::untouched_parts_of_a_committed_block_are_there_for_other_members";
    with_pool(test, |pool, shared| {
        let mut group = Group::new(pool, shared);
        group
            .children
            .push(Some(Child::fork(|| touch_here_and_there(pool, shared, 0))));
        while group.is_filling() {
            group.check_sum();
        }
        let native = shared.get(WORK) - 1;
        assert!(native > 0 && native <= TOTAL / 2, "{native} bytes");
        group.set_hot(1, 40);
        group.children.push(Some(Child::fork(|| live(pool, shared, 1))));
        while group.is_filling() {
            group.check_sum();
        }
        group.wait_for(|group| group.given(1) >= 40 * MIB);
    });
}

/// Touches a page of each 2 MiB of a block of 512 MiB. Sets its work to the bytes of native parts, plus 1.
fn touch_here_and_there(pool: &Pool, shared: &Shared, at: usize) {
    const SPACE: usize = 1 << 30;
    const BLOCK: usize = 512 << 20;
    let pager = pager_of(pool, SPACE);
    let mut region = pager.map(SPACE).expect("addresses are free");
    region.commit(..BLOCK).expect("inside");
    for part in region.bytes_mut()[..BLOCK].chunks_mut(2 << 20) {
        part[..PAGE as usize].fill(7);
        // After a vain wish, of a busy machine, others begin a second later.
        std::thread::sleep(Duration::from_millis(5));
    }
    shared.set(WORK + at, pager.stats().native_pages * PAGE + 1);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A fault that waits for a pool which has nothing to give goes on above the budget.
#[test]
fn members_whose_data_fit_no_budget_exceed_it_and_go_on() {
    let test = "shared_budget::members_whose_data_fit_no_budget_exceed_it_and_go_on";
    with_pool(test, |pool, shared| {
        let mut group = Group::new(pool, shared);
        for at in 0..2 {
            let fill = || fill_and_check(pool, shared, at, 36 * MIB, PAGE, forced);
            group.children.push(Some(Child::fork(fill)));
        }
        while group.is_filling() {
            shared.rest(WORK, Duration::from_millis(5));
        }
        let forced: u64 = (0..2).map(|at| shared.get(WORK + at) - 1).sum();
        let needed = 2 * 36 * MIB - TOTAL;
        assert!(forced * PAGE >= needed, "{forced} frames");
    });
}

/// Frames that exceeded the budget.
fn forced(stats: &Stats) -> u64 {
    stats.forced_frames
}

/// Fills a region with pages that begin with `random` random bytes, and checks it. Sets its work to a counter of its pager at
/// the end, plus 1.
fn fill_and_check(
    pool: &Pool,
    shared: &Shared,
    at: usize,
    bytes: u64,
    random: u64,
    counter: fn(&Stats) -> u64,
) {
    let split = random as usize;
    let member = pool.join(limits()).expect("the minima fit");
    let pager = Pager::builder()
        .pool(member)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(bytes as usize).expect("addresses are free");
    let stats = pager.stats();
    let base = resident_of(std::process::id()) - stats.metadata_bytes - stats.store_bytes;
    shared.set(BASE + at, base + 1);
    let seed = |page: usize| Random(0xABCD_EF01 + (page * MOST + at) as u64);
    for (page, bytes) in region.bytes_mut().chunks_mut(PAGE as usize).enumerate() {
        let mut random = seed(page);
        for word in bytes[..split].chunks_mut(8) {
            word.copy_from_slice(&random.below(u64::MAX).to_ne_bytes());
        }
    }
    for (page, bytes) in region.bytes().chunks(PAGE as usize).enumerate() {
        let mut random = seed(page);
        let (first, rest) = bytes.split_at(split);
        let is_whole = first
            .chunks(8)
            .all(|word| *word == random.below(u64::MAX).to_ne_bytes());
        assert!(is_whole && rest.iter().all(|byte| *byte == 0), "page {page}");
    }
    shared.set(WORK + at, counter(&pager.stats()) + 1);
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_pager_in_a_pool_leaves_it_with_its_end() {
    let test = "shared_budget::a_pager_in_a_pool_leaves_it_with_its_end";
    with_pool(test, |pool, _| {
        for _ in 0..3 {
            let member = pool.join(limits()).expect("the minima fit");
            let pager = Pager::builder()
                .pool(member)
                .build()
                .expect("userfaultfd is allowed");
            let mut region = pager.map(16 << 20).expect("addresses are free");
            region.bytes_mut().fill(7);
            assert!(matches!(pager.set_ram(TOTAL), Err(RamError::InPool)));
            pager
                .set_limits(Limits {
                    maximum: 32 * MIB,
                    ..limits()
                })
                .expect("it is a member");
            let membership = pager.membership().expect("it is a member");
            assert!(membership.grant.bytes() >= 5 * MIB && membership.failed_ticks == 0);
            drop(pager);
            assert_eq!(pool.status().expect("it is whole").members.len(), 1);
            assert!(region.bytes().iter().all(|byte| *byte == 7));
            drop(region);
            assert_eq!(pool.status().expect("it is whole").members.len(), 0);
        }
        assert_eq!(pool.status().expect("it is whole").free, TOTAL);
    });
}

#[test]
fn a_grant_that_is_too_small_is_refused() {
    let test = "shared_budget::a_grant_that_is_too_small_is_refused";
    with_pool(test, |pool, _| {
        let most = Limits {
            maximum: MIB / 2,
            ..Limits::default()
        };
        let member = pool.join(most).expect("it is empty");
        let built = Pager::builder().pool(member).build();
        assert!(
            matches!(built, Err(BuildError::GrantTooSmall { given, .. }) if given == MIB / 2),
            "{built:?}"
        );
        assert_eq!(pool.status().expect("it is whole").members.len(), 0);
    });
}
