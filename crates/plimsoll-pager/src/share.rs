//! A pager's share of a pool: the thread that follows its grant.
//!
//! The thread sleeps until the pool changes: for a second at most, or for 260 ms if threads of the program wait for pages. Then it
//! reports the pager's use of memory, takes the grant as the pager's budget, trims to it together with the balance-set manager, and
//! acknowledges. See [`pool`](crate::pool) for the promise that an acknowledgement is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, thread_time};

use crate::backing::Backing;
use crate::driver::Driver;
use crate::manager::Manager;
use crate::own_thread::OwnThread;
use crate::page::{PAGE_SIZE, PageState};
use crate::pool::{Grant, Limits, Member, Pool, PoolError, Reader, SHARED_PART, Usage};

/// The longest time between two ticks of a member.
const TICK: Duration = Duration::from_secs(1);
/// The same of a member whose threads wait for pages: each tick is a round of the pool, by its coarse clock too.
const STALLED_TICK: Duration = Duration::from_millis(260);
/// The shortest time between two ticks of a member that shares pages with its parent or with children, and looks at them: a write
/// makes a page its own without a fault. The time between two ticks is so many times the CPU time of the looks of one, up to [`TICK`] or [`STALLED_TICK`].
const SHORTEST_LOOK: Duration = Duration::from_millis(10);
const LOOK_PART: u32 = 20;
/// Reports of one tick at most, while a process writes to shared pages faster than the pool grants free ones.
const WISHES: u32 = 4;
/// Tries to lower the budget before a fork, each of which may wait for a check of the pages for 100 us.
const GIVE_BACK_TRIES: u32 = 50;
/// The longest time between two tries of a member that waits for its first grant, and the number of tries.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const FIRST_TRIES: u32 = 20;

/// The share of a pager in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// The grant of the last tick.
    pub grant: Grant,
    /// Ticks so far.
    pub ticks: u64,
    /// Ticks that failed since the start: the pager kept its grant.
    pub failed_ticks: u64,
}

/// The growth of a budget that is possible as of the last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Growth {
    /// The limits of the member, and the minima of others, allow more.
    pub(crate) is_possible: bool,
    /// The pool has pages that no other member uses.
    pub(crate) is_free: bool,
    /// Pages that no member is charged for.
    pub(crate) free: u64,
    /// Pages of the pool; 0 without one.
    pub(crate) total: u64,
    /// Pages that other members are charged for.
    pub(crate) others: u64,
}

/// A pager that has its budget from a pool.
pub(crate) trait Tenant: Send + Sync {
    /// The use of memory now.
    fn usage(&self) -> Usage<'_>;

    /// Begins the change of the budget: to the grant, and to the `inherited` bytes of pages that the parent pays for. The latter fall
    /// with each such page that a trim copies.
    /// `copies` were made before the look that found the inherited ones.
    fn set_budget(&self, grant: u64, inherited: u64, copies: u64);

    /// Pages that were shared and are not any more, as this process copied or released them, since its start.
    fn copies(&self) -> u64;

    /// Trims towards the budget: bounded work. Returns whether it has that budget now, or cannot get there during a fork.
    fn approach_budget(&self) -> bool;

    /// Whether it has the budget that was set last.
    fn has_budget(&self) -> bool;

    /// Whether the budget may grow: faults may wait for it.
    fn set_growth(&self, growth: Growth);

    /// Bytes of its memory that another process maps too, as after a fork.
    fn shared_bytes(&self) -> u64;
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// The use of memory, as a member of a pool reports it.
    pub(crate) fn usage(&self) -> Usage<'_> {
        let count =
            |states: &[PageState]| -> u64 { states.iter().map(|state| self.counters.pages_in(*state)).sum() };
        let evicted = count(&[PageState::Compressed, PageState::PageFile]);
        let managed = evicted + count(&[PageState::Active, PageState::Modified, PageState::Standby]);
        let pages = (managed + self.budget.native()) * PAGE_SIZE as u64;
        // A process without copies does not use the store's tables and buffers.
        let fixed = if evicted > 0 {
            self.backing.fixed_bytes()
        } else {
            0
        };
        let needed = pages + self.metadata_bytes() + fixed + self.budget.reserve();
        Usage {
            resident: self.resident_bytes(),
            // The stock of spare frames counts too: without it the last pages would be trimmed again and again.
            wanted: needed + needed / 16 + self.need.wished() * PAGE_SIZE as u64,
            stall: self.refaults.stall(),
            is_suspended: self.regions.are_suspended(),
            // A wait ends once there are spare frames: else each tick until then would ask for more.
            is_needy: self.need.is_open() && self.budget.spare(self.overhead_bytes()) == 0,
            is_wishing: self.need.is_wished(),
            ..Usage::new(self.refaults.distances())
        }
    }
}

/// The membership of a pager, and its thread, which ends when this is dropped. The member leaves the pool after that: the
/// pager's memory must be free by then.
#[derive(Debug)]
pub(crate) struct Share {
    state: Arc<State>,
    /// None once it is dropped.
    thread: Option<OwnThread>,
    /// Reads the lives of the other members.
    _reader: Reader,
}

#[derive(Debug)]
struct State {
    pool: Pool,
    member: Mutex<Member>,
    /// Bytes that the parent of this process pays for, an upper bound as of the last tick: 0 without a parent in the pool. It
    /// never grows, as pages that a child of this process shares are this one's.
    inherited: AtomicU64,
    /// Whether a child of this process may share its pages.
    has_children: AtomicBool,
    /// The CPU time of the looks at the shared pages in this tick.
    look_nanoseconds: AtomicU64,
    is_over: AtomicBool,
    ticks: AtomicU64,
    failed_ticks: AtomicU64,
}

impl Share {
    /// Has `tenant` follow the grants of `member`.
    pub(crate) fn start(member: Member, tenant: Arc<dyn Tenant>) -> Result<Share, Errno> {
        Share::with_inherited(member, 0, tenant)
    }

    /// Has `tenant`, a copy in a child of a fork, follow the grants of a membership of its own. `parent` is the copy of its
    /// parent's. Pages count against the grant once they are this process's own. The minimum is `least` bytes at least.
    pub(crate) fn start_in_child(
        parent: &Member,
        least: u64,
        tenant: Arc<dyn Tenant>,
    ) -> Result<Share, Errno> {
        let inherited = tenant.usage().resident;
        let copies = tenant.copies();
        // As for a fork(2) that a limit on processes refuses.
        let member = parent.forked(inherited, least).map_err(|_| Errno::AGAIN)?;
        set_budget(tenant.as_ref(), &member, inherited, copies);
        Share::with_inherited(member, inherited, tenant)
    }

    fn with_inherited(member: Member, inherited: u64, tenant: Arc<dyn Tenant>) -> Result<Share, Errno> {
        let state = Arc::new(State {
            pool: member.pool().clone(),
            member: Mutex::new(member),
            inherited: AtomicU64::new(inherited),
            has_children: AtomicBool::new(false),
            look_nanoseconds: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            failed_ticks: AtomicU64::new(0),
        });
        let reader = Reader::start()?;
        // Faults may come before the thread's first tick.
        tenant.set_growth(growth(&state.member()).unwrap_or_default());
        let ticker = state.clone();
        let thread = OwnThread::start(c"pager-pool", move || ticker.follow(&*tenant))?;
        reader.wait();
        Ok(Share {
            state,
            thread: Some(thread),
            _reader: reader,
        })
    }

    /// The membership, which the thread of the share does not change until the guard is dropped: for a fork.
    pub(crate) fn still(&self) -> MutexGuard<'_, Member> {
        self.state.member()
    }

    /// The bytes that this process should have at a fork: the part of the pool that its members keep for shared pages. None if it
    /// already shares pages (a release of those only copies them), or if at least a quarter of the pool is free.
    pub(crate) fn most_shared(&self) -> Option<u64> {
        let pool = &self.state.pool;
        most_at_fork(
            pool.total(),
            pool.free().ok()? * PAGE_SIZE as u64,
            self.state.looks(),
        )
    }

    /// Gives back the part of the grant that this process does not use, if that is more than the pool has free: children need memory
    /// of their own at once, and a round gives them a quarter of the unused pages.
    pub(crate) fn give_back(&self, tenant: &dyn Tenant) {
        // The grant stays if that fails: it may rise or fall later.
        let _ = self.state.give_back(tenant);
    }

    /// Prepares a fork, whose child shares the pages of this process, while `member` is kept still.
    pub(crate) fn begin_fork(&self, member: &Member) {
        self.state.has_children.store(true, Ordering::Relaxed);
        member.begin_fork();
    }

    /// The share now.
    pub(crate) fn membership(&self) -> Membership {
        Membership {
            grant: self.state.member().grant(),
            ticks: self.state.ticks.load(Ordering::Relaxed),
            failed_ticks: self.state.failed_ticks.load(Ordering::Relaxed),
        }
    }

    /// States whether the process is about to execute another program.
    pub(crate) fn set_executing(&self, is_executing: bool) {
        self.state.member().set_executing(is_executing);
    }

    /// Changes the limits of the member.
    pub(crate) fn set_limits(&self, limits: Limits) -> Result<(), PoolError> {
        self.state.member().set_limits(limits)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() {
            // It may look at `is_over` just before this call, and sleep after it.
            self.state.pool.wake_own_member();
            thread::sleep(Duration::from_millis(1));
        }
        thread.join();
    }
}

impl State {
    fn member(&self) -> MutexGuard<'_, Member> {
        self.member.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn follow(&self, tenant: &dyn Tenant) {
        while !self.is_over() {
            if self.tick(tenant).is_err() {
                self.failed_ticks.fetch_add(1, Ordering::Relaxed);
            }
            self.ticks.fetch_add(1, Ordering::Relaxed);
            let (row, rings) = self.member().place();
            if !self.is_over() {
                self.pool.wait(row, rings, self.next_look());
            }
        }
    }

    /// The longest time until the next tick.
    fn next_look(&self) -> Duration {
        let most = match self.member().is_stalled() {
            true => STALLED_TICK,
            false => TICK,
        };
        match self.looks() {
            false => most,
            true => {
                let cost = Duration::from_nanos(self.look_nanoseconds.load(Ordering::Relaxed));
                (cost * LOOK_PART).clamp(SHORTEST_LOOK, most)
            }
        }
    }

    /// Whether this process may share pages with its parent or with children.
    fn looks(&self) -> bool {
        self.inherited.load(Ordering::Relaxed) > 0 || self.has_children.load(Ordering::Relaxed)
    }

    /// Reports, follows the grant, and acknowledges it.
    fn tick(&self, tenant: &dyn Tenant) -> Result<(), PoolError> {
        self.look_nanoseconds.store(0, Ordering::Relaxed);
        loop {
            let (before, grant) = self.take_grant(tenant)?;
            let looked = Instant::now();
            let is_recent = || !self.looks() || looked.elapsed() < self.next_look();
            let mut is_there = false;
            while !is_there && !self.is_over() && is_recent() {
                is_there = tenant.approach_budget();
            }
            if !is_there && !self.is_over() {
                continue;
            }
            let mut member = self.member();
            let usage = self.own_usage(tenant, &member);
            // Pages that were trimmed are shared no more, and a fork may have given a part of the grant back.
            let is_same = usage.inherited == before && member.grant() == grant;
            // Not during a fork, if its threads could still use the former budget: the next tick answers.
            if !tenant.has_budget() && !self.is_over() {
                return Ok(());
            }
            if self.is_over() || is_same {
                return member.acknowledge_use(&usage);
            }
        }
    }

    /// Reports, and sets the budget by the grant and by the bytes that the parent pays for. Returns these.
    fn take_grant(&self, tenant: &dyn Tenant) -> Result<(u64, Grant), PoolError> {
        let mut member = self.member();
        // Before a look: the last shared page may have become its own.
        let shared = self.looks();
        let mut tries = 0;
        let (before, copies) = loop {
            let mut usage = self.own_usage(tenant, &member);
            usage.is_wishing |= shared && self.lacks_free_pages(&usage, &member);
            member.tick(&usage)?;
            let copies = tenant.copies();
            // The parent may have ended in this round, whose grant then has its pages; and writes go on.
            let usage = self.own_usage(tenant, &member);
            tries += 1;
            if tries == WISHES || !(shared && self.lacks_free_pages(&usage, &member)) {
                break (usage.inherited, copies);
            }
        };
        set_budget(tenant, &member, before, copies);
        // After the budget: a thread that waits for it goes on without it once the pool has no free pages.
        tenant.set_growth(growth(&member)?);
        Ok((before, member.grant()))
    }

    /// Whether this process, which shares pages, has more of its own than its grant, and the pool may grant more. A write makes a shared
    /// page its own without a fault. A trim would copy and compress all pages that it shares, and free nothing.
    fn lacks_free_pages(&self, usage: &Usage<'_>, member: &Member) -> bool {
        usage.resident > member.grant().bytes()
            && member.can_grow()
            && self.pool.free().is_ok_and(|free| free > 0)
    }

    /// As [`Share::give_back`].
    fn give_back(&self, tenant: &dyn Tenant) -> Result<(), PoolError> {
        let mut member = self.member();
        // An upper bound of its own pages: no look.
        if !member.give_back(tenant.usage().resident)? {
            return Ok(());
        }
        let copies = tenant.copies();
        let before = self.own_usage(tenant, &member).inherited;
        set_budget(tenant, &member, before, copies);
        (0..GIVE_BACK_TRIES).any(|_| tenant.approach_budget());
        let usage = self.own_usage(tenant, &member);
        // Else faults of other threads have used the former grant, or another thread forks: the next tick answers.
        if tenant.has_budget() && usage.inherited == before {
            member.acknowledge_use(&usage)?;
            member.settle()?;
        }
        tenant.set_growth(growth(&member)?);
        Ok(())
    }

    /// The use of memory without the pages that the parent pays for: no more than this process shares, and no more than the parent
    /// does. Pages that the parent has changed, and its children share among themselves, are the children's.
    ///
    /// The kernel states that a page is shared, not with which process. So of a process that shares pages with its parent and with
    /// children of its own, pages that it shares with the children alone count as the parent's, up to the bytes that the parent
    /// shares: the process charges too little until its children have ended or changed those pages.
    fn own_usage<'t>(&self, tenant: &'t dyn Tenant, member: &Member) -> Usage<'t> {
        let before = match member.has_parent() {
            true => self.inherited.load(Ordering::Relaxed),
            false => 0,
        };
        self.inherited.store(before, Ordering::Relaxed);
        let shared = match self.looks() {
            true => self.look(tenant),
            false => 0,
        };
        // After the look: the pages of a parent that has ended are shared no more, and its charge covers them until the next round.
        let inherited = match before {
            0 => 0,
            _ => member.still_inherited(before, shared),
        };
        self.inherited.store(inherited, Ordering::Relaxed);
        // Without a shared page, no child has one of them.
        self.has_children.fetch_and(shared > 0, Ordering::Relaxed);
        let usage = tenant.usage();
        Usage {
            resident: usage.resident.saturating_sub(inherited),
            wanted: usage.wanted.saturating_sub(inherited),
            inherited,
            shared,
            ..usage
        }
    }

    /// The bytes that this process shares with others.
    fn look(&self, tenant: &dyn Tenant) -> u64 {
        // Not the time that passes: other threads that run meanwhile would make the looks rare when they are needed most.
        let start = thread_time();
        let shared = tenant.shared_bytes();
        let nanoseconds = u64::try_from(thread_time().saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        self.look_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        shared
    }
}

/// As [`Share::most_shared`], of a pool with so many bytes, some of them free.
fn most_at_fork(total: u64, free: u64, shares_pages: bool) -> Option<u64> {
    (!shares_pages && free < total / 4).then_some(total / SHARED_PART)
}

/// Has the pager follow its grant, beside the pages that the parent pays for. Both fit into the pool.
fn set_budget(tenant: &dyn Tenant, member: &Member, inherited: u64, copies: u64) {
    let grant = member.grant().bytes();
    let most = member.pool().total();
    tenant.set_budget(grant, inherited.min(most.saturating_sub(grant)), copies);
}

/// The growth that is possible as of the last tick of `member`.
fn growth(member: &Member) -> Result<Growth, PoolError> {
    let (free, total) = (member.pool().free()?, member.pool().total_pages());
    let own = member.grant().charged_bytes() / PAGE_SIZE as u64;
    Ok(Growth {
        is_possible: member.can_grow(),
        is_free: member.pool().has_spare_pages(member.place().0)?,
        free,
        total,
        others: total.saturating_sub(free + own),
    })
}

/// Waits until `member` has a grant of at least `least` bytes, for two seconds at most, and not beyond its maximum. It gets up to
/// `wanted` bytes if they are free. Returns the last grant.
pub(crate) fn first_grant(member: &mut Member, wanted: u64, least: u64) -> Result<u64, PoolError> {
    let distances = crate::pool::RefaultDistances::new();
    let usage = Usage {
        wanted: wanted.max(least),
        ..Usage::new(&distances)
    };
    // The round of a tick costs all members: none is made for a grant that is enough to begin with.
    let mut given = member.grant().bytes();
    for _ in 0..FIRST_TRIES {
        if given >= least.min(member.most_bytes()) {
            break;
        }
        given = member.tick_now(&usage)?.bytes();
        member.acknowledge(given)?;
        if given < least {
            member.wait(FIRST_WAIT);
        }
    }
    Ok(given)
}

#[cfg(test)]
mod tests {
    use super::most_at_fork;

    #[test]
    fn a_fork_releases_memory_if_the_pool_has_little_left_and_no_page_is_shared() {
        assert_eq!(most_at_fork(64, 15, false), Some(32));
        assert_eq!(most_at_fork(64, 16, false), None);
        assert_eq!(most_at_fork(64, 15, true), None);
    }
}
