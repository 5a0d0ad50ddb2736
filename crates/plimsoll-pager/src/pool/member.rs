//! A process as a member of a pool.

use std::time::Duration;

use super::balance::{filled, room};
use super::error::PoolError;
use super::handle::{Pool, program, seen_in, this_process};
use super::identity::{Condition, Identity};
use super::joining::{end, enter};
use super::layout::PAGE;
use super::limits::{Bounds, Limits, pages_up};
use super::meter::Meter;
use super::round::reap;
use super::row::{Acknowledged, Report};
use super::table::{Entry, Table};
use super::turn::Turn;
use super::usage::Usage;

/// The share of a member as of its last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    number: u32,
    given: u64,
    charged: u64,
}

impl Grant {
    fn of(entry: &Entry) -> Grant {
        Grant {
            number: entry.number,
            given: entry.given,
            charged: entry.charged,
        }
    }

    /// Bytes that the member may have resident. If it has more, it trims, and acknowledges when it has.
    pub fn bytes(&self) -> u64 {
        self.given * PAGE
    }

    /// Bytes that the pool counts as the member's until it acknowledges; not below [`Grant::bytes`].
    pub fn charged_bytes(&self) -> u64 {
        self.charged * PAGE
    }
}

/// The membership of this process. Its drop leaves the pool: the memory must be free by then.
#[derive(Debug)]
pub struct Member {
    pool: Pool,
    row: usize,
    identity: Identity,
    limits: Limits,
    /// The member from which this process was forked, and its row.
    parent: Option<(Identity, usize)>,
    /// Whether that one is charged for the pages that both share, as of the last tick.
    has_parent: bool,
    grant: Grant,
    /// Wakes before the last tick.
    rings: u64,
    /// The last answer, which the row has.
    answer: Acknowledged,
    meter: Meter,
    /// The most pages of a grant, by the limits.
    maximum: u64,
    /// The same as of the last tick, by the minima of others too.
    most: u64,
    has_left: bool,
}

impl Pool {
    /// Makes this process a member, with its minimum as its grant as far as pages are free. The rest of it follows when others
    /// have trimmed.
    ///
    /// # Errors
    /// [`PoolError::MinimumTooLarge`], [`PoolError::LimitsOutOfOrder`], [`PoolError::Full`], [`PoolError::AlreadyMember`],
    /// [`PoolError::Closed`], [`PoolError::Damaged`], or an error of the system.
    pub fn join(&self, limits: Limits) -> Result<Member, PoolError> {
        Member::join(self, limits, None, 0)
    }
}

impl Member {
    fn join(
        pool: &Pool,
        limits: Limits,
        parent: Option<(Identity, usize)>,
        inherited: u64,
    ) -> Result<Member, PoolError> {
        let parent_identity = parent.map(|(identity, _)| identity);
        let identity = this_process()?;
        let bounds = Bounds::of(limits, pool.total_pages())?;
        let row = pool.claim_row(identity)?;
        // Until the first tick: its pages are no surplus.
        let report = Report {
            wanted: bounds.minimum.max(pages_up(inherited)),
            inherited: pages_up(inherited),
            seen_at: plimsoll_os::coarse_milliseconds(),
            ..Report::default()
        };
        pool.row(row).publish(&report);
        let mut looked = None;
        let entered = pool.change(row, |table| {
            enter(pool, table, row, identity, bounds, parent_identity, &mut looked).map(Some)
        });
        let entry = entered.and_then(|table| own_entry(table.as_ref(), row, identity));
        match entry {
            Ok(entry) => Ok(Member {
                pool: pool.clone(),
                row,
                identity,
                limits,
                parent,
                has_parent: parent.is_some() && entry.parent == parent_identity,
                grant: Grant::of(&entry),
                rings: 0,
                answer: Acknowledged { number: 0, held: 0 },
                meter: Meter::new(),
                maximum: bounds.maximum,
                most: bounds.maximum,
                has_left: false,
            }),
            Err(error) => {
                pool.row(row).release(identity);
                Err(error)
            }
        }
    }

    /// Makes this process, a forked child of the member, a member of its own; `self` is the copy of the parent's membership.
    /// `inherited` is an upper bound of the bytes that it shares with its parent: the parent's resident bytes. If the parent
    /// has left or ended before, the child's memory is charged to none: it must trim to its grant at once.
    ///
    /// # Errors
    /// As [`Pool::join`].
    pub fn join_as_child(&self, limits: Limits, inherited: u64) -> Result<Member, PoolError> {
        Member::join(&self.pool, limits, Some((self.identity, self.row)), inherited)
    }

    /// As [`Member::join_as_child`] with the limits of the parent and a minimum of `least` bytes at least. The minimum is `least` if
    /// the pool cannot promise that of the parent again.
    pub(crate) fn forked(&self, inherited: u64, least: u64) -> Result<Member, PoolError> {
        let with_minimum = |minimum| {
            let limits = Limits {
                minimum,
                ..self.limits
            };
            self.join_as_child(limits, inherited)
        };
        match with_minimum(self.limits.minimum.max(least)) {
            Err(PoolError::MinimumTooLarge { .. }) => with_minimum(least),
            joined => joined,
        }
    }

    /// Whether another member, from which this process was forked, is charged for the pages that both share: as of the last
    /// tick. Not once that one has left or ended.
    pub(crate) fn has_parent(&self) -> bool {
        self.has_parent
    }

    /// An upper bound of the bytes that this process and the member from which it was forked share: at most `before`, the bound of the
    /// last tick, and `shared`, the bytes that this process shares with any other now. It is `before` if that member has ended or executes
    /// another program: the next round charges its children.
    pub(crate) fn still_inherited(&self, before: u64, shared: u64) -> u64 {
        let by_parent = || {
            let (parent, row) = self.parent?;
            let row = self.pool.row(row);
            if row.is_executing() || row.program() != program() {
                return None;
            }
            let (report, _) = row.of(parent)?;
            let inherited = before.min(shared).min(report.shared * PAGE);
            // To read its condition costs more than all the rest.
            (inherited < before && parent.condition() != Condition::Ended).then_some(inherited)
        };
        by_parent().unwrap_or(before)
    }

    /// Lowers the grant to the pages that the member fills with `resident` bytes, as a round would in some seconds, if that frees more
    /// pages than the pool has free now: once the member acknowledges. Returns whether the grant fell.
    pub(crate) fn give_back(&mut self, resident: u64) -> Result<bool, PoolError> {
        self.check_process()?;
        let kept = filled(pages_up(resident), room(self.pool.total_pages()));
        let free = self.pool.free()?;
        // Most forks find nothing to give back.
        if self.grant.given.saturating_sub(kept) <= free {
            return Ok(false);
        }
        let changed = self.change_entry(|_, entry| {
            let kept = kept.max(entry.minimum);
            if entry.given.saturating_sub(kept) > free && entry.can_change(self.answer) {
                entry.give(kept);
            }
            Ok(())
        })?;
        if let Some(entry) = &changed {
            self.grant = Grant::of(entry);
        }
        Ok(changed.is_some())
    }

    /// Frees the pages that the last answer leaves, which the next round would do.
    pub(crate) fn settle(&mut self) -> Result<(), PoolError> {
        self.check_process()?;
        let settle = |_: &Table, entry: &mut Entry| {
            entry.settle(self.answer);
            Ok(())
        };
        if let Some(entry) = self.change_entry(settle)? {
            self.grant = Grant::of(&entry);
        }
        Ok(())
    }

    /// Changes the entry of this member alone. None if it stays as it is.
    fn change_entry(
        &self,
        mut change: impl FnMut(&Table, &mut Entry) -> Result<(), PoolError>,
    ) -> Result<Option<Entry>, PoolError> {
        let changed = self.pool.change(self.row, |table| {
            let before = own_entry(Some(table), self.row, self.identity)?;
            let mut entry = before;
            change(table, &mut entry)?;
            let mut next = table.clone();
            next.entries[self.row] = Some(entry);
            Ok((entry != before).then_some(next))
        })?;
        Ok(changed.and_then(|table| table.entries[self.row]))
    }

    /// States that this process forks a child that shares its pages.
    pub(crate) fn begin_fork(&self) {
        self.pool.row(self.row).share_all();
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The place of the member in the pool, and its wakes before the last tick.
    pub(crate) fn place(&self) -> (usize, u64) {
        (self.row, self.rings)
    }

    /// The process.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The share as of the last tick.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Reports the use of memory, balances the pool if its last round is a quarter of a second ago, and returns the present grant. To be
    /// called about once a second and after [`Member::wait`].
    ///
    /// # Errors
    /// [`PoolError::Forked`] in a child of the member; [`PoolError::Lost`], [`PoolError::Damaged`], [`PoolError::Busy`]: the
    /// former grant stays in force.
    pub fn tick(&mut self, usage: &Usage<'_>) -> Result<Grant, PoolError> {
        self.turn(usage, false)
    }

    /// As [`Member::tick`], and balances the pool in any case: for a member that cannot wait for its minimum.
    ///
    /// # Errors
    /// As [`Member::tick`].
    pub fn tick_now(&mut self, usage: &Usage<'_>) -> Result<Grant, PoolError> {
        self.turn(usage, true)
    }

    fn turn(&mut self, usage: &Usage<'_>, at_once: bool) -> Result<Grant, PoolError> {
        self.check_process()?;
        let now = plimsoll_os::coarse_milliseconds();
        // A wake for a change that this tick does not see yet ends the next wait at once.
        self.rings = self.pool.rings(self.row);
        let (_, table) = self.pool.table()?;
        self.report(usage, &table, now)?;
        let total = self.pool.total_pages();
        let (row, identity) = (self.row, self.identity);
        let mut turn = Turn {
            pool: &self.pool,
            row,
            identity,
            now,
            at_once,
            asks: usage.is_needy || usage.is_wishing,
            looked: None,
        };
        self.pool.change(row, |table| {
            own_entry(Some(table), row, identity)?;
            // An unmet need must not wake all members again and again.
            Ok(turn.next(table).filter(|next| next != table))
        })?;
        let (_, table) = self.pool.table()?;
        let entry = own_entry(Some(&table), row, identity)?;
        self.grant = Grant::of(&entry);
        self.has_parent = self
            .parent
            .is_some_and(|(parent, _)| entry.parent == Some(parent));
        self.most = most(&table, &entry, total);
        Ok(self.grant)
    }

    fn report(&mut self, usage: &Usage<'_>, table: &Table, now: u32) -> Result<(), PoolError> {
        let entry = own_entry(Some(table), self.row, self.identity)?;
        let total = self.pool.total_pages();
        let more = most(table, &entry, total).saturating_sub(entry.given);
        self.meter
            .measure(usage.distances, usage.stall, now, (total / 256).max(1), more);
        self.pool.row(self.row).publish(&Report {
            resident: pages_up(usage.resident),
            wanted: pages_up(usage.wanted),
            refaults: self.meter.counts.iter().sum(),
            stall_us: self.meter.stall_us,
            gain: self.meter.gain,
            gain_now: self.meter.gain_now,
            is_suspended: usage.is_suspended,
            is_needy: usage.is_needy,
            is_wishing: usage.is_wishing,
            inherited: pages_up(usage.inherited),
            shared: pages_up(usage.shared),
            seen_at: now,
        });
        Ok(())
    }

    /// States that the member has at most `bytes` resident now, and until a later tick returns a larger grant. The pool
    /// takes the pages above both this and the last grant back. To be called after each trim, at least once for each new grant.
    ///
    /// # Errors
    /// [`PoolError::AboveCharge`] if the member may not have so many; [`PoolError::Forked`].
    pub fn acknowledge(&mut self, bytes: u64) -> Result<(), PoolError> {
        self.check_process()?;
        let held = pages_up(bytes);
        self.check_held(held)?;
        self.pool.row(self.row).limit_resident(held);
        self.answer_with(held);
        Ok(())
    }

    /// As [`Member::acknowledge`], after a trim that may have left more than the charge: pages that the member shared, and wrote to
    /// without a fault. Those are free to no other member.
    ///
    /// # Errors
    /// [`PoolError::Forked`].
    pub(crate) fn acknowledge_use(&mut self, usage: &Usage<'_>) -> Result<(), PoolError> {
        self.check_process()?;
        // Before the answer, which frees pages.
        self.pool.row(self.row).publish_use(
            pages_up(usage.resident),
            pages_up(usage.inherited),
            pages_up(usage.shared),
            usage.is_needy,
        );
        // Pages that cannot be trimmed stay charged.
        let held = pages_up(usage.resident).max(self.grant.given);
        self.answer_with(held.min(self.most_held()));
        Ok(())
    }

    /// The most pages that the member may hold by its grants.
    fn most_held(&self) -> u64 {
        match self.answer.number == self.grant.number {
            true => self.answer.held.max(self.grant.given),
            false => self.grant.charged,
        }
    }

    fn check_held(&self, held: u64) -> Result<(), PoolError> {
        let allowed = self.most_held();
        match held > allowed {
            true => Err(PoolError::AboveCharge {
                bytes: held * PAGE,
                allowed: allowed * PAGE,
            }),
            false => Ok(()),
        }
    }

    fn answer_with(&mut self, held: u64) {
        self.answer = Acknowledged {
            number: self.grant.number,
            held,
        };
        self.pool.row(self.row).acknowledge(self.answer);
    }

    /// Changes the limits. The next round follows them.
    ///
    /// # Errors
    /// As [`Pool::join`].
    pub fn set_limits(&mut self, limits: Limits) -> Result<(), PoolError> {
        self.check_process()?;
        let bounds = Bounds::of(limits, self.pool.total_pages())?;
        self.change_entry(|table, entry| {
            bounds.check_minima(table.minima() - entry.minimum, self.pool.total_pages())?;
            bounds.set(entry);
            Ok(())
        })?;
        self.limits = limits;
        self.maximum = bounds.maximum;
        Ok(())
    }

    /// The most bytes of a grant, by the limits.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.maximum * PAGE
    }

    /// Whether its threads together waited for pages for a sixteenth of the time between the last two measurements, or longer.
    pub(crate) fn is_stalled(&self) -> bool {
        self.meter.is_stalled
    }

    /// Whether the grant may rise, as of the last tick: others have pages above their minima.
    pub(crate) fn can_grow(&self) -> bool {
        self.grant.given < self.most
    }

    /// States whether the process is about to execute another program. If that never joins the pool, the share returns some seconds
    /// later. The membership goes on if the program cannot be executed. Async-signal-safe.
    pub fn set_executing(&self, is_executing: bool) {
        if self.check_process().is_ok() {
            self.pool.row(self.row).set_executing(self.identity, is_executing);
        }
    }

    /// Sleeps until a member's grant may have changed since the last tick, for `limit` at most. It may wake for no reason.
    pub fn wait(&self, limit: Duration) {
        self.pool.wait(self.row, self.rings, limit);
    }

    /// Leaves the pool; the share is free. The memory must be free by then.
    ///
    /// # Errors
    /// As [`Member::tick`]. The process is no member any more, but the share may return with its end alone.
    pub fn leave(mut self) -> Result<(), PoolError> {
        self.leave_now()
    }

    fn leave_now(&mut self) -> Result<(), PoolError> {
        self.check_process()?;
        self.has_left = true;
        let identity = self.identity;
        let mut looked = None;
        let left = self.pool.change(self.row, |table| {
            let conditions = looked.get_or_insert_with(|| self.pool.look(table, identity));
            let mut seen = self.pool.states(table, conditions);
            end(&mut seen, table, identity);
            let total = self.pool.total_pages();
            Ok(Some(reap(table, total, &|at, _| seen_in(&seen, at))))
        });
        self.pool.row(self.row).release(identity);
        left.map(drop)
    }

    fn check_process(&self) -> Result<(), PoolError> {
        match plimsoll_os::this_process() == self.identity.pid() {
            true => Ok(()),
            false => Err(PoolError::Forked),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.has_left {
            // A share that stays returns when the process has ended.
            let _ = self.leave_now();
        }
    }
}

fn own_entry(table: Option<&Table>, row: usize, identity: Identity) -> Result<Entry, PoolError> {
    let entry = table.and_then(|table| table.entries[row]);
    entry
        .filter(|entry| entry.identity == identity)
        .ok_or(PoolError::Lost)
}

/// The most pages that the member of `entry` can get, by its limits and the minima of others.
fn most(table: &Table, entry: &Entry, total: u64) -> u64 {
    entry.maximum.min(total - (table.minima() - entry.minimum))
}
