//! Processes that share a budget.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use plimsoll_pager::pool::{Limits, Member, PAGE, Pool, PoolError, RefaultDistances, Usage};

use crate::children::{Child, Random, Shared, alone_as_nobody, folder_of_test, this_program_again, wait};

const TOTAL: u64 = 64 << 20;

fn minimum(bytes: u64) -> Limits {
    Limits {
        minimum: bytes,
        ..Limits::default()
    }
}

/// A tick of a member that fills its grant and wants this much, at once. The pool takes idle pages of others only for a
/// member that fills its own.
fn tick(member: &mut Member, wanted: u64) -> u64 {
    let distances = RefaultDistances::new();
    let usage = Usage {
        resident: member.grant().bytes(),
        wanted,
        ..Usage::new(&distances)
    };
    member.tick_now(&usage).expect("it is a member").bytes()
}

/// Ticks, and answers each grant at once, until it is at least `bytes`. The number of tries is bounded.
fn tick_until(member: &mut Member, wanted: u64, bytes: u64) {
    let mut given = 0;
    for _ in 0..2000 {
        given = tick(member, wanted);
        member.acknowledge(given).expect("it has no more");
        if given >= bytes {
            return;
        }
        member.wait(Duration::from_millis(5));
    }
    panic!("{given} bytes of {bytes}: {:?}", member.pool().status());
}

fn member_of(pool: &Pool, pid: u32) -> plimsoll_pager::pool::MemberStatus {
    let members = pool.status().expect("it is whole").members;
    let found = members.into_iter().find(|member| member.identity.pid() == pid);
    found.expect("it is a member")
}

mod kills {
    use super::*;

    const MEMBERS: usize = 6;
    const ROUNDS: usize = 400;
    /// Word that counts the ticks of all members. The words before are the slots of members.
    const TICKS: usize = 100;

    /// The pages that each member uses, beside a number that changes with it.
    struct Slots<'s>(&'s Shared);

    const PAGE_BITS: u32 = 40;

    impl Slots<'_> {
        fn set(&self, at: usize, bytes: u64) {
            let changes = (self.0.get(at) >> PAGE_BITS) + 1;
            self.0.set(at, changes << PAGE_BITS | bytes.div_ceil(PAGE));
        }

        fn collect(&self) -> [u64; MEMBERS] {
            std::array::from_fn(|at| self.0.get(at))
        }

        /// The bytes that all members use at one time: two equal collections prove it, as every change changes the word.
        fn together(&self) -> u64 {
            loop {
                let once = self.collect();
                if once == self.collect() {
                    let pages = once.map(|word| word & ((1 << PAGE_BITS) - 1));
                    return pages.iter().sum::<u64>() * PAGE;
                }
            }
        }
    }

    /// Joins, ticks with changing wishes, follows grants late or at once, changes limits, leaves and joins again, until it is
    /// killed.
    fn live(pool: &Pool, shared: &Shared, at: usize, seed: u64) {
        let slots = Slots(shared);
        let mut random = Random(seed);
        loop {
            let limits = minimum(random.below(TOTAL / 8));
            let mut member = match pool.join(limits) {
                Ok(member) => member,
                Err(PoolError::MinimumTooLarge { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let mut used = 0;
            for _ in 0..random.below(200) {
                let given = tick(&mut member, random.below(TOTAL));
                // A member that is slow to shrink answers with the pages that it still has.
                used = match used.max(given) > given && random.below(3) == 0 {
                    true => given + random.below(used - given),
                    false => given,
                };
                slots.set(at, used);
                if random.below(4) > 0 {
                    member.acknowledge(used).expect("it was given so many");
                }
                shared
                    .word(TICKS)
                    .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                if random.below(20) == 0 {
                    pool.validate().expect("it is valid");
                    let _ = member.set_limits(minimum(random.below(TOTAL / 8)));
                }
            }
            slots.set(at, 0);
            member.leave().expect("it is a member");
        }
    }

    #[test]
    fn killed_members_lose_no_share_and_get_none_twice() {
        let test = "pool::kills::killed_members_lose_no_share_and_get_none_twice";
        alone_as_nobody(test, |folder| {
            let pool = Pool::at(&folder.join("pool"), TOTAL).expect("the folder is this user's");
            let shared = Shared::new(folder);
            let slots = Slots(&shared);
            let mut random = Random(0x5EED_1234_5678_9ABC);
            let mut seeds = Random(77);
            let mut start = |at: usize| {
                let seed = seeds.below(u64::MAX) | 1;
                Child::fork(|| live(&pool, &shared, at, seed))
            };
            let mut children: Vec<Child> = (0..MEMBERS).map(&mut start).collect();
            for _ in 0..ROUNDS {
                shared.rest(TICKS + 1, Duration::from_micros(random.below(2000)));
                let at = random.below(MEMBERS as u64) as usize;
                if random.below(4) == 0 {
                    // Stopped for a while: the others go on, and it is killed or continues.
                    children[at].send(libc::SIGSTOP);
                    shared.rest(TICKS + 1, Duration::from_micros(random.below(2000)));
                    assert!(slots.together() <= TOTAL);
                    if random.below(2) == 0 {
                        children[at].send(libc::SIGCONT);
                        continue;
                    }
                }
                let child = children.remove(at);
                child.kill();
                slots.set(at, 0);
                assert!(slots.together() <= TOTAL, "a share was granted twice");
                pool.validate().expect("it is valid after a kill");
                children.insert(at, start(at));
            }
            assert!(shared.get(TICKS) > ROUNDS as u64, "members were at work");
            children.into_iter().for_each(Child::kill);
            // All of it is there for the next one at once.
            let last = pool.join(minimum(TOTAL)).expect("no other member is left");
            assert_eq!(last.grant().bytes(), TOTAL, "a share was lost");
            last.leave().expect("it is a member");
            pool.validate().expect("it is valid at the end");
            pool.remove().expect("it has no members");
            assert!(!folder.join("pool").exists());
        });
    }
}

#[test]
fn a_stopped_member_keeps_its_pages_from_others_until_it_has_trimmed() {
    const READY: usize = 0;
    const SHRINKS: usize = 1;
    const FLOOR: u64 = 1 << 20;
    let test = "pool::a_stopped_member_keeps_its_pages_from_others_until_it_has_trimmed";
    alone_as_nobody(test, |folder| {
        let pool = Pool::at(&folder.join("pool"), TOTAL).expect("the folder is this user's");
        let shared = Shared::new(folder);
        let child = Child::fork(|| {
            let mut member = pool.join(minimum(FLOOR)).expect("it is empty");
            tick_until(&mut member, TOTAL, TOTAL);
            shared.set(READY, 1);
            shared.wait_for(SHRINKS, 1);
            // Its wish is small from now on, so that the other gets the rest.
            loop {
                let given = tick(&mut member, FLOOR);
                member.acknowledge(given).expect("it has no more");
                member.wait(Duration::from_millis(5));
            }
        });
        shared.wait_for(READY, 1);
        child.send(libc::SIGSTOP);
        while !member_of(&pool, child.pid()).is_suspended {
            shared.rest(READY, Duration::from_millis(1));
        }
        let charged = member_of(&pool, child.pid()).charged;
        let mut mine = pool.join(minimum(FLOOR)).expect("the minima fit");
        for _ in 0..20 {
            let given = tick(&mut mine, TOTAL);
            mine.acknowledge(given).expect("it has no more");
            let stopped = member_of(&pool, child.pid());
            assert!(stopped.given <= FLOOR.max(stopped.minimum), "it is trimmed first");
            assert_eq!(stopped.charged, charged, "it has its pages still");
            assert!(given <= TOTAL - charged, "pages that are not free were granted");
        }
        child.send(libc::SIGCONT);
        // A round before the child states its smaller wish: both want all, and the child gets a part of its pages back.
        tick(&mut mine, TOTAL);
        assert!(member_of(&pool, child.pid()).given > FLOOR);
        shared.set(SHRINKS, 1);
        tick_until(&mut mine, TOTAL, TOTAL - FLOOR);
        child.kill();
        tick_until(&mut mine, TOTAL, TOTAL);
    });
}

/// A process whose first thread has ended is a zombie by its state, and its share was given out while it ran on.
#[test]
fn a_member_whose_first_thread_ended_keeps_its_share() {
    const TICKS: usize = 0;
    let test = "pool::a_member_whose_first_thread_ended_keeps_its_share";
    alone_as_nobody(test, |folder| {
        let pool = Pool::in_memory(TOTAL).expect("there is memory");
        let shared = Shared::new(folder);
        let child = Child::fork(|| {
            let mut member = pool.join(minimum(TOTAL / 2)).expect("it is empty");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for ticks in 1.. {
                        let given = tick(&mut member, TOTAL / 2);
                        member.acknowledge(given).expect("it has no more");
                        shared.set(TICKS, ticks);
                        member.wait(Duration::from_millis(1));
                    }
                });
                shared.wait_for(TICKS, 1);
                // SAFETY: ends this thread alone, and nothing uses its stack: the other one borrows from it, and it stays.
                unsafe { libc::syscall(libc::SYS_exit, 0) };
            });
        });
        shared.wait_for(TICKS, 1);
        let stat = format!("/proc/{}/stat", child.pid());
        while !std::fs::read_to_string(&stat).expect("it runs").contains(") Z ") {
            shared.rest(TICKS, Duration::from_millis(1));
        }
        let mut mine = pool.join(Limits::default()).expect("the minima fit");
        let before = shared.get(TICKS);
        for _ in 0..20 {
            assert!(
                tick(&mut mine, TOTAL) <= TOTAL / 2,
                "the share of a running process was granted"
            );
        }
        shared.wait_for(TICKS, before + 2);
        child.kill();
        tick_until(&mut mine, TOTAL, TOTAL);
    });
}

#[test]
fn a_forked_child_joins_and_inherits_the_pages_of_its_parent() {
    const JOINED: usize = 0;
    const PARENT_IS_GONE: usize = 1;
    let test = "pool::a_forked_child_joins_and_inherits_the_pages_of_its_parent";
    alone_as_nobody(test, |folder| {
        let pool = Pool::in_memory(TOTAL).expect("there is memory");
        let shared = Shared::new(folder);
        let has = TOTAL / 2;
        let parent = Child::fork(|| {
            let mut member = pool.join(Limits::default()).expect("it is empty");
            tick_until(&mut member, has, has);
            let child = Child::fork(|| {
                let distances = RefaultDistances::new();
                let refused = member.tick(&Usage::new(&distances));
                assert!(matches!(refused, Err(PoolError::Forked)), "{refused:?}");
                assert!(matches!(member.acknowledge(0), Err(PoolError::Forked)));
                let mut own = member
                    .join_as_child(minimum(PAGE), has)
                    .expect("it is a process of its own");
                assert_eq!(own.grant().bytes(), PAGE, "shared pages are the parent's");
                shared.set(JOINED, u64::from(std::process::id()));
                shared.wait_for(PARENT_IS_GONE, 1);
                let usage = Usage {
                    wanted: 2 * has,
                    inherited: has,
                    ..Usage::new(&distances)
                };
                let given = own.tick_now(&usage).expect("it is a member").bytes();
                assert!(given >= has, "{given} bytes, and {has} are in its memory");
                own.acknowledge(given).expect("it has no more");
                own.leave().expect("it is a member");
            });
            shared.wait_for(PARENT_IS_GONE, 1);
            drop(child);
        });
        shared.wait_for(JOINED, 1);
        let child = shared.get(JOINED);
        parent.kill();
        // Before the child has said anything, no other process gets the pages that it shares.
        let mut other = pool.join(Limits::default()).expect("the minima fit");
        let given = tick(&mut other, TOTAL);
        assert!(given <= TOTAL - has, "pages of the child were granted");
        assert!(member_of(&pool, child as u32).charged >= has);
        shared.set(PARENT_IS_GONE, 1);
        assert_eq!(wait(child as i32), 0);
        pool.validate().expect("it is valid");
        tick_until(&mut other, TOTAL, TOTAL);
    });
}

/// The work of the program that a member executes.
fn rejoin(folder: &Path) {
    let pool = Pool::existing(&folder.join("pool")).expect("it is there");
    assert_eq!(
        pool.status().expect("it is whole").members.len(),
        1,
        "the former program's"
    );
    let member = pool.join(minimum(TOTAL / 4)).expect("the former share is free");
    assert_eq!(member.grant().bytes(), TOTAL / 4);
    assert_eq!(pool.status().expect("it is whole").members.len(), 1);
    assert!(matches!(
        pool.join(Limits::default()),
        Err(PoolError::AlreadyMember)
    ));
    pool.validate().expect("it is valid");
    member.leave().expect("it is a member");
    assert_eq!(pool.status().expect("it is whole").free, TOTAL);
}

/// The share of a program before `execve` was lost until the process ended, and the new program could not join.
#[test]
fn a_program_takes_over_the_share_of_the_one_before_it() {
    const FORMER: &str = "PLIMSOLL_TEST_FORMER";
    let test = "pool::a_program_takes_over_the_share_of_the_one_before_it";
    alone_as_nobody(test, |folder| {
        if std::env::var_os(FORMER).is_some() {
            return rejoin(folder);
        }
        let pool = Pool::at(&folder.join("pool"), TOTAL).expect("the folder is this user's");
        let child = Child::fork(|| {
            let member = pool.join(minimum(TOTAL)).expect("it is empty");
            std::mem::forget(member);
            let error = this_program_again(test).env(FORMER, "1").exec();
            panic!("{error}");
        });
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn a_program_opens_an_inherited_pool_by_its_descriptor() {
    const DESCRIPTOR: &str = "PLIMSOLL_TEST_DESCRIPTOR";
    let test = "pool::a_program_opens_an_inherited_pool_by_its_descriptor";
    alone_as_nobody(test, |_| {
        if let Ok(number) = std::env::var(DESCRIPTOR) {
            let number = number.parse().expect("it is a number");
            // SAFETY: the parent passes an open descriptor, which nothing else here uses.
            let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
            let pool = Pool::of_descriptor(descriptor).expect("it is a pool");
            assert_eq!(pool.total(), TOTAL);
            let mut member = pool.join(Limits::default()).expect("there is room");
            tick_until(&mut member, TOTAL / 2, TOTAL / 2);
            return;
        }
        let pool = Pool::in_memory(TOTAL).expect("there is memory");
        let mut mine = pool.join(minimum(PAGE)).expect("it is empty");
        tick_until(&mut mine, TOTAL / 2, TOTAL / 2);
        let number = pool.descriptor().as_raw_fd();
        let child = Child::fork(|| {
            // SAFETY: clears the flag that closes the descriptor on exec.
            assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
            let error = this_program_again(test)
                .env(DESCRIPTOR, number.to_string())
                .exec();
            panic!("{error}");
        });
        assert_eq!(child.wait(), 0);
        tick_until(&mut mine, TOTAL, TOTAL);
        let members = pool.status().expect("it is whole").members;
        assert_eq!(members.len(), 1);
    });
}

#[test]
fn answers_above_the_charge_and_impossible_limits_are_refused() {
    let test = "pool::answers_above_the_charge_and_impossible_limits_are_refused";
    alone_as_nobody(test, |folder| {
        assert_eq!(folder, folder_of_test());
        let pool = Pool::in_memory(TOTAL).expect("there is memory");
        let mut member = pool.join(minimum(TOTAL / 2)).expect("it is empty");
        let above = member.acknowledge(TOTAL / 2 + 1);
        let allowed_now = TOTAL / 2;
        assert!(matches!(above, Err(PoolError::AboveCharge { allowed, .. }) if allowed == allowed_now));
        let child = Child::fork(|| {
            let refused = pool.join(minimum(TOTAL / 2 + PAGE));
            assert!(matches!(refused, Err(PoolError::MinimumTooLarge { left, .. }) if left == TOTAL / 2));
            let limits = Limits {
                maximum: PAGE,
                ..minimum(2 * PAGE)
            };
            assert!(matches!(
                pool.join(limits),
                Err(PoolError::LimitsOutOfOrder { .. })
            ));
            assert!(matches!(pool.remove(), Err(PoolError::InUse { members: 1 })));
            pool.join(minimum(TOTAL / 2))
                .expect("it fits")
                .leave()
                .expect("it is a member");
        });
        assert_eq!(child.wait(), 0);
        member.set_limits(minimum(TOTAL)).expect("it is alone");
        assert_eq!(tick(&mut member, 0), TOTAL, "the minimum alone");
        drop(member);
        assert_eq!(pool.status().expect("it is whole").free, TOTAL);
    });
}
