//! The table with a new member.

use super::balance::History;
use super::error::PoolError;
use super::handle::{Pool, program, seen_in};
use super::identity::{Condition, Identity};
use super::limits::Bounds;
use super::looks::Conditions;
use super::round::{Seen, reap};
use super::settle::free;
use super::table::{Damage, Entry, Table};

/// The table with a new member. `looked` has the findings of the look of an earlier try, or of this one.
pub(super) fn enter(
    pool: &Pool,
    table: &Table,
    row: usize,
    identity: Identity,
    bounds: Bounds,
    parent: Option<Identity>,
    looked: &mut Option<Conditions>,
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
    let room = |conditions: &Conditions| {
        let seen = pool.states(table, conditions);
        room(pool, table, row, identity, bounds, seen)
    };
    // To look at each process of a large pool costs milliseconds: only for the memory that ended ones had.
    let known = looked.clone().unwrap_or_else(|| pool.last_look(table, identity));
    let (mut next, given) = match room(&known) {
        Ok((next, given)) if given == bounds.minimum || looked.is_some() => (next, given),
        Err(error) if looked.is_some() => return Err(error),
        _ => room(looked.insert(pool.look(table, identity)))?,
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
    let next = reap(table, total, &|at, _| seen_in(&seen, at));
    if next.entries[row].is_some() {
        return Err(pool.damaged(Damage::Row { row }));
    }
    bounds.check_minima(next.minima(), total)?;
    let given = bounds.minimum.min(free(&next.entries, total));
    Ok((next, given))
}

/// Marks the entry of a process as ended.
pub(super) fn end(seen: &mut [Option<Seen>], table: &Table, identity: Identity) {
    if let Some((at, _)) = table.of(identity)
        && let Some(seen) = &mut seen[at]
    {
        seen.condition = Condition::Ended;
    }
}
