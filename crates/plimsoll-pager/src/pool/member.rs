//! A process as a member of a pool.

use std::time::Duration;

use super::balance::{HIGHEST_PRIORITY, History};
use super::distances::RefaultDistances;
use super::error::PoolError;
use super::handle::{Pool, program, seen_in, this_process};
use super::identity::{Condition, Identity};
use super::layout::PAGE;
use super::meter::Meter;
use super::round::{Seen, meet_needs, next_table, reap};
use super::row::{Acknowledged, Report};
use super::settle::free;
use super::table::{Damage, Entry, Table};

/// Time between two rounds of balancing.
const ROUND_MS: u32 = 1000;
/// Priority of a member that states none.
const DEFAULT_PRIORITY: u8 = 5;

/// The bounds of a member's grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the member always gets: promised when it joins, granted as soon as others have freed them.
    pub minimum: u64,
    /// The most bytes that it gets. More than the total counts as the total.
    pub maximum: u64,
    /// 0 to 7; a higher one counts as 7. Each step doubles the weight of the member's stall.
    pub priority: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            minimum: 0,
            maximum: u64::MAX,
            priority: DEFAULT_PRIORITY,
        }
    }
}

/// The use of memory that a member reports. Sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Usage<'d> {
    /// Bytes that count against the grant: resident pages, compressed store, metadata.
    pub resident: u64,
    /// The working set: bytes that the member would keep if it could. It gets no more, and others get those above.
    pub wanted: u64,
    /// Its refaults since its start, by distance.
    pub distances: &'d RefaultDistances,
    /// The time that its threads waited for refaults since its start.
    pub stall: Duration,
    /// The member is suspended: it keeps its minimum alone until a later report. A stopped process counts as suspended
    /// without this.
    pub is_suspended: bool,
    /// Threads of the member wait for memory and can trim nothing: the pool takes pages for it from others at once, down to
    /// their minima.
    pub is_needy: bool,
    /// Bytes of pages that it still shares with the member from which it was forked, an upper bound.
    pub inherited: u64,
    /// Bytes of pages that it shares with members forked from it, an upper bound.
    pub shared: u64,
}

impl<'d> Usage<'d> {
    /// No memory in use.
    pub fn new(distances: &'d RefaultDistances) -> Usage<'d> {
        Usage {
            resident: 0,
            wanted: 0,
            distances,
            stall: Duration::ZERO,
            is_suspended: false,
            is_needy: false,
            inherited: 0,
            shared: 0,
        }
    }
}

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
        let entered = pool.change(row, |table| {
            enter(pool, table, row, identity, bounds, parent_identity).map(Some)
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

    /// The bytes that the member from which this process was forked shares with its children, an upper bound. None if that member
    /// has ended or executes another program: the next round charges its children.
    pub(crate) fn shared_by_parent(&self) -> Option<u64> {
        let (parent, row) = self.parent?;
        let row = self.pool.row(row);
        if row.is_executing() || row.program() != program() || parent.condition() == Condition::Ended {
            return None;
        }
        row.of(parent).map(|(report, _)| report.shared * PAGE)
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

    /// Reports the use of memory, balances the pool if its last round is a second ago, and returns the present grant. To be
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
        let is_due = |table: &Table| at_once || now.wrapping_sub(table.balanced_at) >= ROUND_MS;
        self.pool.change(row, |table| {
            own_entry(Some(table), row, identity)?;
            if !is_due(table) && !usage.is_needy {
                return Ok(None);
            }
            let with = |seen: Vec<Option<Seen>>| {
                let seen = |at, entry: &Entry| seen_in(&seen, at, entry);
                match is_due(table) {
                    true => next_table(table, total, &seen, now),
                    false => meet_needs(table, total, &seen, now),
                }
            };
            // A need is urgent, and free pages meet it: what ended processes have is looked for only if they do not.
            let given = |table: &Table| table.entries[row].map_or(0, |entry| entry.given);
            let quick = (!is_due(table)).then(|| with(self.pool.reported_states(table)));
            let next = match quick.filter(|quick| given(quick) > given(table)) {
                Some(quick) => quick,
                None => with(self.pool.states(table)),
            };
            // An unmet need must not wake all members again and again.
            Ok((next != *table).then_some(next))
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
        let (row, identity) = (self.row, self.identity);
        let changed = self.pool.change(row, |table| {
            let mut entry = own_entry(Some(table), row, identity)?;
            bounds.check_minima(table.minima() - entry.minimum, self.pool.total_pages())?;
            bounds.set(&mut entry);
            let mut next = table.clone();
            next.entries[row] = Some(entry);
            Ok(Some(next))
        });
        changed?;
        self.limits = limits;
        self.maximum = bounds.maximum;
        Ok(())
    }

    /// The most bytes of a grant, by the limits.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.maximum * PAGE
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
        let left = self.pool.change(self.row, |table| {
            let mut seen = self.pool.states(table);
            end(&mut seen, table, identity);
            let total = self.pool.total_pages();
            Ok(Some(reap(table, total, &|at, entry| seen_in(&seen, at, entry))))
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

/// The table with a new member.
fn enter(
    pool: &Pool,
    table: &Table,
    row: usize,
    identity: Identity,
    bounds: Bounds,
    parent: Option<Identity>,
) -> Result<Table, PoolError> {
    if table.is_closed {
        return Err(PoolError::Closed);
    }
    // Two threads may join at the same time.
    if let Some((at, _)) = table.of(identity)
        && at != row
        && pool.row(at).program() == program()
    {
        return Err(PoolError::AlreadyMember);
    }
    let total = pool.total_pages();
    // To look at each process of a large pool costs milliseconds: only for what they would free.
    let (mut next, given) = match room(pool, table, row, identity, bounds, pool.reported_states(table)) {
        Ok((next, given)) if given == bounds.minimum => (next, given),
        _ => room(pool, table, row, identity, bounds, pool.states(table))?,
    };
    let mut entry = Entry {
        identity,
        number: 1,
        given,
        charged: given,
        minimum: 0,
        maximum: 0,
        priority: 0,
        parent: parent.filter(|parent| next.of(*parent).is_some()),
        history: History::new(total),
    };
    bounds.set(&mut entry);
    next.entries[row] = Some(entry);
    Ok(next)
}

/// The table with room for a new member in its row, and the pages that are free for its minimum. `seen` has the states of the others.
fn room(
    pool: &Pool,
    table: &Table,
    row: usize,
    identity: Identity,
    bounds: Bounds,
    mut seen: Vec<Option<Seen>>,
) -> Result<(Table, u64), PoolError> {
    // An entry of this process is that of the program that it ran before; the process that had the row has ended.
    end(&mut seen, table, identity);
    if let Some(seen) = &mut seen[row] {
        seen.condition = Condition::Ended;
    }
    let total = pool.total_pages();
    let next = reap(table, total, &|at, entry| seen_in(&seen, at, entry));
    if next.entries[row].is_some() {
        return Err(pool.damaged(Damage::Row { row }));
    }
    bounds.check_minima(next.minima(), total)?;
    let given = bounds.minimum.min(free(&next.entries, total));
    Ok((next, given))
}

/// Marks the entry of a process as ended.
fn end(seen: &mut [Option<Seen>], table: &Table, identity: Identity) {
    if let Some((at, _)) = table.of(identity)
        && let Some(seen) = &mut seen[at]
    {
        seen.condition = Condition::Ended;
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

/// Whole pages that hold these bytes.
fn pages_up(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Limits in pages of a pool.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    minimum: u64,
    maximum: u64,
    priority: u8,
}

impl Bounds {
    fn of(limits: Limits, total: u64) -> Result<Bounds, PoolError> {
        let minimum = pages_up(limits.minimum);
        let maximum = (limits.maximum / PAGE).min(total);
        if minimum > maximum {
            return Err(PoolError::LimitsOutOfOrder {
                minimum: limits.minimum,
                maximum: maximum * PAGE,
            });
        }
        Ok(Bounds {
            minimum,
            maximum,
            priority: limits.priority.min(HIGHEST_PRIORITY),
        })
    }

    /// Whether the minimum can be promised beside those of others.
    fn check_minima(&self, others: u64, total: u64) -> Result<(), PoolError> {
        let left = total.saturating_sub(others);
        if self.minimum > left {
            return Err(PoolError::MinimumTooLarge {
                minimum: self.minimum * PAGE,
                left: left * PAGE,
            });
        }
        Ok(())
    }

    fn set(&self, entry: &mut Entry) {
        entry.minimum = self.minimum;
        entry.maximum = self.maximum;
        entry.priority = self.priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_whole_pages_of_the_pool() {
        let limits = Limits {
            minimum: 1,
            maximum: 3 * PAGE - 1,
            priority: 99,
        };
        let bounds = Bounds::of(limits, 10).expect("they are in order");
        assert_eq!((bounds.minimum, bounds.maximum, bounds.priority), (1, 2, 7));
        assert_eq!(
            Bounds::of(Limits::default(), 10)
                .map(|bounds| bounds.maximum)
                .ok(),
            Some(10)
        );
        let above = Limits {
            minimum: 11 * PAGE,
            ..limits
        };
        assert!(matches!(
            Bounds::of(above, 10),
            Err(PoolError::LimitsOutOfOrder { .. })
        ));
        assert!(bounds.check_minima(9, 10).is_ok());
        assert!(matches!(
            bounds.check_minima(10, 10),
            Err(PoolError::MinimumTooLarge {
                minimum: PAGE,
                left: 0
            })
        ));
    }
}
