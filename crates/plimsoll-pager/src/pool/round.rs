//! A round of balancing: from a version of the table and the members' reports to the next version. Pure.

use super::balance::{self, Activity, Decision, Reading, balance, split};
use super::identity::Condition;
use super::row::{Acknowledged, Report};
use super::settle::{apply, bury, free};
use super::table::{Entry, Table};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// Time after which a member that does not report keeps its grant and gets no other.
pub(crate) const SILENT_MS: u32 = 5000;

/// A member whose faults wait gets this part of the total above its pages, and so many pages at least.
const NEED: u64 = 64;
const LEAST_NEED: u64 = 64;

/// Members keep the pages that their children share, up to this part of the total for all.
pub(crate) const SHARED_PART: u64 = 2;

/// The pages above its own that a member gets whose faults wait, of a pool with `total`.
pub(crate) fn need(total: u64) -> u64 {
    (total / NEED).max(LEAST_NEED)
}

/// The state of a member at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) condition: Condition,
    /// None if the row is another's.
    pub(crate) row: Option<(Report, Acknowledged)>,
}

/// The table without the members that have ended, with all acknowledged pages free, but for those that a member still has. `seen` has
/// the state of the member in each row.
pub(crate) fn reap(table: &Table, total: u64, seen: &dyn Fn(usize, &Entry) -> Seen) -> Table {
    let mut next = settled(table, seen);
    let states = states(&next, seen);
    charge_excess(&mut next, total, &states);
    next
}

/// The table without the members that have ended, with all acknowledged pages free.
fn settled(table: &Table, seen: &dyn Fn(usize, &Entry) -> Seen) -> Table {
    let mut next = table.clone();
    let states = states(table, seen);
    let claims = claims(table, &states);
    for (row, seen) in states.iter().enumerate() {
        let Some(seen) = seen else {
            continue;
        };
        if seen.condition == Condition::Ended {
            bury(&mut next.entries, row, &claims);
        } else if let (Some((_, answer)), Some(entry)) = (seen.row, &mut next.entries[row]) {
            entry.settle(answer);
        }
    }
    next
}

/// The pages of each living member that the charge of its parent covers: those that it shares, by its report, and those above its
/// own charge. A child that looks at its pages while its parent ends finds that it shares none of them.
fn claims(table: &Table, states: &[Option<Seen>]) -> Vec<u64> {
    let claim = |(entry, seen): (&Option<Entry>, &Option<Seen>)| match (entry, seen) {
        (
            Some(entry),
            Some(Seen {
                condition: Condition::Runs | Condition::Stopped,
                row: Some((report, _)),
            }),
        ) => report.inherited + report.resident.saturating_sub(entry.charged),
        _ => 0,
    };
    table.entries.iter().zip(states).map(claim).collect()
}

/// The next version of the table: shares of ended members return, acknowledged pages are free, and the balance of the
/// readings is granted.
pub(crate) fn next_table(table: &Table, total: u64, seen: &dyn Fn(usize, &Entry) -> Seen, now: u32) -> Table {
    let mut next = shared_out(table, total, seen, now, balance);
    next.balanced_at = now;
    next.rounds = table.rounds.wrapping_add(1);
    next
}

/// The next version of the table between two rounds: minima and needs of members that wait for memory are met.
pub(crate) fn meet_needs(table: &Table, total: u64, seen: &dyn Fn(usize, &Entry) -> Seen, now: u32) -> Table {
    shared_out(table, total, seen, now, balance::meet_needs)
}

/// The table without ended members, with the grants that `split` decides on.
fn shared_out(
    table: &Table,
    total: u64,
    seen: &dyn Fn(usize, &Entry) -> Seen,
    now: u32,
    split: fn(u64, &[Reading]) -> Vec<Decision>,
) -> Table {
    let mut next = reap(table, total, seen);
    let free = free(&next.entries, total);
    let rows: Vec<usize> = next.members().map(|(row, _)| row).collect();
    let kept = kept(&next, total, seen);
    let states = states(&next, seen);
    // A member that is stopped, or has not answered, gets none.
    let bidding = next.members().filter_map(|(row, entry)| {
        let seen = states[row]?;
        let (report, answer) = seen.row?;
        let activity = activity(entry, seen.condition, &report, answer, now);
        (activity == Activity::Bids).then_some(report)
    });
    let bidding: Vec<Report> = bidding.collect();
    let wishing = bidding.iter().filter(|report| report.is_wishing).count() as u64;
    // A need in the same round may take all free pages, and then those of others.
    let is_needed = bidding.iter().any(|report| report.is_needy);
    let free = Free {
        pages: free,
        each: if is_needed { 0 } else { free / wishing.max(1) },
    };
    let readings: Vec<Reading> = next
        .members()
        .zip(kept)
        .map(|((row, entry), kept)| reading(entry, &seen(row, entry), total, now, free, kept))
        .collect();
    let mut wishes = vec![0; next.entries.len()];
    for (row, decision) in rows.into_iter().zip(split(total, &readings)) {
        wishes[row] = decision.given;
        if let Some(entry) = &mut next.entries[row] {
            entry.history = decision.history;
        }
    }
    apply(&mut next.entries, total, &wishes);
    next
}

/// The state of the member in each row.
fn states(table: &Table, seen: &dyn Fn(usize, &Entry) -> Seen) -> Vec<Option<Seen>> {
    let entries = table.entries.iter().enumerate();
    let state = |(row, entry): (usize, &Option<Entry>)| entry.as_ref().map(|entry| seen(row, entry));
    entries.map(state).collect()
}

/// Charges members for the pages that they have above their charges, as far as pages are free: pages that a fork shared, and that a
/// write made their own without a fault. Its answer frees them when the member has trimmed them. A child that has not looked
/// since its parent gave up shared pages has those too.
fn charge_excess(table: &mut Table, total: u64, states: &[Option<Seen>]) {
    let report = |row: usize| {
        let seen = states.get(row).copied().flatten()?;
        seen.row.map(|(report, _)| report)
    };
    let excess = |(row, entry): (usize, &Entry)| {
        let own = report(row).unwrap_or_default();
        let parent = table
            .members()
            .find(|(_, other)| Some(other.identity) == entry.parent);
        let by_parent = parent
            .and_then(|(row, _)| report(row))
            .map_or(u64::MAX, |report| report.shared);
        let given_up = own.inherited.saturating_sub(by_parent);
        (row, (own.resident + given_up).saturating_sub(entry.charged))
    };
    let excesses: Vec<(usize, u64)> = table.members().map(excess).collect();
    let mut free = free(&table.entries, total);
    for (row, excess) in excesses {
        let more = excess.min(free);
        free -= more;
        if let Some(entry) = &mut table.entries[row] {
            entry.charged += more;
        }
    }
}

/// The pages of a member that it does not use, by its last report.
#[cfg(not(loom))]
pub(crate) fn idle(entry: &Entry, report: &Report, answer: Acknowledged, total: u64) -> u64 {
    let seen = Seen {
        condition: Condition::Runs,
        row: Some((*report, answer)),
    };
    balance::idle(
        total,
        &reading(entry, &seen, total, report.seen_at, Free::default(), 0),
    )
}

/// The pages of each member that its children share, up to a half of the total for all: the rest is for pages of their own. A parent
/// that trimmed them would free none, and each child would have to trim its copies.
fn kept(table: &Table, total: u64, seen: &dyn Fn(usize, &Entry) -> Seen) -> Vec<u64> {
    let shared = |(row, entry): (usize, &Entry)| {
        let report = seen(row, entry)
            .row
            .map_or_else(Report::default, |(report, _)| report);
        report.shared.saturating_sub(report.inherited).min(entry.given)
    };
    let shared: Vec<u64> = table.members().map(shared).collect();
    split(total / SHARED_PART, &shared)
}

/// The free pages of a pool.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    pages: u64,
    /// Those for each member that wishes for more.
    each: u64,
}

fn reading(entry: &Entry, seen: &Seen, total: u64, now: u32, free: Free, kept: u64) -> Reading {
    let (report, activity) = match seen.row {
        None => (Report::default(), Activity::Silent),
        Some((report, answer)) => (report, activity(entry, seen.condition, &report, answer, now)),
    };
    let has = report.resident.max(entry.given);
    // Free pages come in larger and larger steps: each costs a wait.
    let step = need(total).max((has / 2).min(free.pages / 2));
    let wished = step.max(report.wanted.saturating_sub(has));
    // A need counts as a minimum, for as long as it lasts. So does a wish, as far as there are free pages.
    let needed = match (report.is_needy, report.is_wishing) {
        (true, _) => (has + step).min(entry.maximum),
        (false, true) => (has.min(entry.charged) + wished.min(free.each)).min(entry.maximum),
        (false, false) => 0,
    };
    Reading {
        given: entry.given,
        charged: entry.charged,
        minimum: entry.minimum.max(needed),
        kept,
        maximum: entry.maximum,
        resident: report.resident,
        wanted: report.wanted,
        gain: report.gain,
        gain_now: report.gain_now,
        priority: entry.priority,
        activity,
        history: entry.history,
    }
}

fn activity(
    entry: &Entry,
    condition: Condition,
    report: &Report,
    answer: Acknowledged,
    now: u32,
) -> Activity {
    if !entry.can_change(answer) {
        Activity::Silent
    } else if condition == Condition::Stopped || report.is_suspended {
        Activity::Suspended
    } else if now.wrapping_sub(report.seen_at) > SILENT_MS {
        Activity::Silent
    } else {
        Activity::Bids
    }
}
