//! Tests of a round.

use super::super::table::tests::entry;
use super::*;

const TOTAL: u64 = 1 << 20;
const NOW: u32 = 100;

fn table(shares: &[u64]) -> Table {
    let mut table = Table::empty();
    for (row, share) in shares.iter().enumerate() {
        table.entries[row] = Some(Entry {
            minimum: 1000,
            ..entry(row as u32 + 1, *share, *share, TOTAL)
        });
    }
    table
}

/// A member that has answered its newest grant, and wants this much.
fn answered(entry: &Entry, wanted: u64, gain: u64) -> Seen {
    let report = Report {
        wanted,
        gain,
        seen_at: NOW,
        ..Report::default()
    };
    let answer = Acknowledged {
        number: entry.number,
        held: entry.given,
    };
    Seen {
        condition: Condition::Runs,
        row: Some((report, answer)),
    }
}

fn given(table: &Table, row: usize) -> u64 {
    table.entries[row].expect("it is a member").given
}

#[test]
fn the_share_of_an_ended_member_is_given_out_in_the_same_round() {
    let before = table(&[TOTAL - 2000, 2000]);
    let next = next_table(
        &before,
        TOTAL,
        &|row, entry| match row {
            0 => Seen {
                condition: Condition::Ended,
                row: None,
            },
            _ => answered(entry, TOTAL, 0),
        },
        NOW,
    );
    assert_eq!(next.check(TOTAL), Ok(()));
    assert_eq!((next.entries[0], given(&next, 1)), (None, TOTAL));
    assert_eq!((next.balanced_at, next.rounds), (NOW, 1));
}

/// Pages of a stopped member were given out while it still had them in memory.
#[test]
fn the_share_of_a_stopped_member_is_taken_but_given_out_once_acknowledged() {
    let stopped = |answer: Acknowledged| Seen {
        condition: Condition::Stopped,
        row: Some((Report::default(), answer)),
    };
    let mut now = table(&[TOTAL - 2000, 2000]);
    let before = Acknowledged {
        number: 1,
        held: TOTAL - 2000,
    };
    for _ in 0..5 {
        let seen = |row, entry: &Entry| match row {
            0 => stopped(before),
            _ => answered(entry, TOTAL, 1000),
        };
        now = next_table(&now, TOTAL, &seen, NOW);
        assert_eq!((given(&now, 0), given(&now, 1)), (1000, 2000));
        assert_eq!(now.entries[0].map(|entry| entry.charged), Some(TOTAL - 2000));
    }
    // It runs again, trims and answers.
    let number = now.entries[0].expect("it is a member").number;
    assert_eq!(number, 2, "one change, one number");
    let seen = |row, entry: &Entry| match row {
        0 => stopped(Acknowledged { number, held: 1000 }),
        _ => answered(entry, TOTAL, 1000),
    };
    now = next_table(&now, TOTAL, &seen, NOW);
    assert_eq!((given(&now, 0), given(&now, 1)), (1000, TOTAL - 1000));
}

#[test]
fn a_silent_member_keeps_its_grant() {
    let silent = |entry: &Entry| {
        let mut seen = answered(entry, 0, 0);
        if let Some((report, _)) = &mut seen.row {
            report.seen_at = NOW.wrapping_sub(SILENT_MS + 1);
        }
        seen
    };
    let seen = |row, entry: &Entry| match row {
        0 => silent(entry),
        1 => Seen {
            condition: Condition::Runs,
            row: None,
        },
        _ => answered(entry, TOTAL, 1000),
    };
    let next = next_table(&table(&[5000, 6000, 7000]), TOTAL, &seen, NOW);
    assert_eq!((given(&next, 0), given(&next, 1)), (5000, 6000));
    assert_eq!(given(&next, 2), TOTAL - 11_000);
}

/// A need moves the pages that it lacks, once, and nothing else.
#[test]
fn a_need_is_met_between_rounds_from_pages_in_use() {
    let mut before = table(&[TOTAL - 2000, 2000]);
    before.balanced_at = NOW - 1;
    let seen = |row, entry: &Entry| {
        let mut seen = answered(entry, TOTAL, 1000);
        if let (1, Some((report, _))) = (row, &mut seen.row) {
            (report.is_needy, report.resident) = (true, 2000);
        }
        if let (0, Some((_, answer))) = (row, &mut seen.row) {
            *answer = Acknowledged {
                number: 1,
                held: TOTAL - 2000,
            };
        }
        seen
    };
    let asked = meet_needs(&before, TOTAL, &seen, NOW);
    let more = TOTAL / NEED;
    assert_eq!((given(&asked, 0), given(&asked, 1)), (TOTAL - 2000 - more, 2000));
    assert_eq!(
        (asked.balanced_at, asked.rounds),
        (before.balanced_at, before.rounds)
    );
    assert_eq!(meet_needs(&asked, TOTAL, &seen, NOW), asked);
    // The other member has trimmed.
    let trimmed = |row, entry: &Entry| {
        let mut seen = seen(row, entry);
        if let (0, Some((_, answer))) = (row, &mut seen.row) {
            (answer.number, answer.held) = (entry.number, entry.given);
        }
        seen
    };
    assert_eq!(given(&meet_needs(&asked, TOTAL, &trimmed, NOW), 1), 2000 + more);
    // Without a need, nothing moves between two rounds.
    let content = |_, entry: &Entry| answered(entry, TOTAL, 1000);
    assert_eq!(meet_needs(&before, TOTAL, &content, NOW), before);
}

/// Steps of a 64th of the total took a program that filled a pool 64 waits.
#[test]
fn a_need_takes_half_as_much_again_while_twice_as_much_is_free() {
    let seen = |_, entry: &Entry| {
        let mut seen = answered(entry, TOTAL, 0);
        if let Some((report, _)) = &mut seen.row {
            (report.is_needy, report.resident) = (true, entry.given);
        }
        seen
    };
    let more = |pages| given(&meet_needs(&table(&[pages]), TOTAL, &seen, NOW), 0) - pages;
    assert_eq!(more(100_000), 50_000);
    assert_eq!(more(2000), TOTAL / NEED, "a 64th at least");
    let free = 60_000;
    assert_eq!(more(TOTAL - free), free / 2);
}

/// Members that committed memory got the pages of others once none was free.
#[test]
fn wishes_share_the_free_pages_and_take_none_from_others() {
    let seen = |row, entry: &Entry| {
        let mut seen = answered(entry, entry.given, 0);
        if let Some((report, _)) = &mut seen.row {
            // It has more than it is charged for: pages of a fork that a write made its own.
            (report.is_wishing, report.resident) = (row > 0, entry.given + 5000);
        }
        seen
    };
    let grants = |free: u64| {
        let before = table(&[TOTAL - free - 200_000, 100_000, 100_000]);
        let next = meet_needs(&before, TOTAL, &seen, NOW);
        [0, 1, 2].map(|row| given(&next, row))
    };
    assert_eq!(grants(0), [TOTAL - 200_000, 100_000, 100_000]);
    // The excess of each row is charged first.
    let [first, second, third] = grants(15_000 + 8000);
    assert_eq!(first, TOTAL - 223_000);
    assert!(
        second + third <= 223_000 - 5000 && second > 103_000 && third > 103_000,
        "{second} {third}"
    );
}

/// Small steps took a wish of 16 MiB three rounds, each of which may take 15 ms on a busy machine.
#[test]
fn a_wish_is_met_at_once_if_no_member_needs_the_free_pages() {
    let seen = |is_needed: bool| {
        move |row, entry: &Entry| {
            let mut seen = answered(entry, entry.given, 0);
            if let Some((report, _)) = &mut seen.row {
                report.resident = entry.given;
                match row {
                    0 => (report.is_wishing, report.wanted) = (true, entry.given + 60_000),
                    _ => report.is_needy = is_needed,
                }
            }
            seen
        }
    };
    let before = table(&[4096, TOTAL - 4096 - 80_000]);
    let next = meet_needs(&before, TOTAL, &seen(false), NOW);
    assert_eq!([0, 1].map(|row| given(&next, row)), [64_096, TOTAL - 84_096]);
    let next = meet_needs(&before, TOTAL, &seen(true), NOW);
    assert_eq!(given(&next, 0), 4096);
    assert!(given(&next, 1) > TOTAL - 84_096);
    // A stopped member takes none, whatever it needed before.
    let stopped = |row, entry: &Entry| {
        let condition = if row == 0 {
            Condition::Runs
        } else {
            Condition::Stopped
        };
        Seen {
            condition,
            ..seen(true)(row, entry)
        }
    };
    assert_eq!(given(&meet_needs(&before, TOTAL, &stopped, NOW), 0), 64_096);
}

/// Five processes wrote to pages that they shared, 12 MiB beside a budget of 80: each was over its grant, and the pool gave
/// pages that it took for free to the others.
#[test]
fn pages_above_a_charge_are_given_to_no_other_until_they_are_trimmed() {
    let above = |resident: u64| {
        move |row, entry: &Entry| {
            let mut seen = answered(entry, TOTAL, 1000);
            if let (0, Some((report, _))) = (row, &mut seen.row) {
                // It bids for none of them.
                (report.resident, report.wanted) = (resident, 1000);
            }
            seen
        }
    };
    let before = table(&[5000, 7000]);
    let next = next_table(&before, TOTAL, &above(50_000), NOW);
    let charged = next.entries[0].expect("it is a member").charged;
    assert!(charged >= 50_000 && given(&next, 1) <= TOTAL - 50_000, "{next:?}");
    // Nothing is free: the excess stays as it is.
    let full = table(&[5000, TOTAL - 5000]);
    assert_eq!(meet_needs(&full, TOTAL, &above(50_000), NOW), full);
    // It has trimmed.
    let next = meet_needs(&next, TOTAL, &above(1000), NOW);
    let entry = next.entries[0].expect("it is a member");
    assert_eq!(entry.charged, entry.given);
}

/// A parent trimmed pages that its children shared, which freed nothing: the children had them until they looked.
#[test]
fn pages_that_a_parent_gave_up_are_charged_to_its_child_before_it_has_looked() {
    let mut before = table(&[5000, 1000, 2000]);
    let parent = before.entries[0].map(|entry| entry.identity);
    if let Some(child) = &mut before.entries[1] {
        child.parent = parent;
    }
    let seen = |shared: u64| {
        move |row, entry: &Entry| {
            let mut seen = answered(entry, if row == 2 { TOTAL } else { 0 }, 0);
            if let Some((report, _)) = &mut seen.row {
                (report.inherited, report.shared) = match row {
                    0 => (0, shared),
                    1 => (4000, 0),
                    _ => (0, 0),
                };
                report.resident = entry.charged;
            }
            seen
        }
    };
    let given = |shared| given(&next_table(&before, TOTAL, &seen(shared), NOW), 2);
    assert_eq!(given(4000) - given(1500), 2500);
    assert_eq!(given(9000), given(4000));
}

/// Workers of a fork pool took the pages of their parent, which they shared with it: the parent freed none, and each worker had
/// to trim its copies.
#[test]
fn a_parent_keeps_the_pages_that_its_children_share_up_to_a_half_of_the_total() {
    let rest = |shared: u64, inherited: u64| {
        let mut now = table(&[TOTAL - 2000, 2000]);
        for _ in 0..100 {
            let seen = |row, entry: &Entry| {
                let mut seen = answered(entry, TOTAL, if row == 0 { 0 } else { 1_000_000 });
                if let Some((report, _)) = &mut seen.row {
                    (report.resident, report.gain_now) = (entry.given, report.gain);
                    if row == 0 {
                        (report.shared, report.inherited) = (shared, inherited);
                    }
                }
                seen
            };
            now = next_table(&now, TOTAL, &seen, NOW);
        }
        given(&now, 0)
    };
    assert_eq!(rest(0, 0), 1000, "its minimum");
    assert_eq!(rest(TOTAL / 4, 0), TOTAL / 4);
    assert_eq!(
        rest(TOTAL / 4, TOTAL / 8),
        TOTAL / 8,
        "its parent keeps the inherited ones"
    );
    assert_eq!(rest(TOTAL, 0), TOTAL / SHARED_PART);
}

#[test]
fn the_heir_of_an_ended_parent_is_charged_for_the_shared_pages() {
    let child = heir_of(500_000, |entry, report| {
        (report.resident, report.inherited) = (entry.charged, 300_000);
    });
    assert_eq!((child.given, child.charged), (301_000, 301_000));
}

/// The child looked at its pages after the kernel had released its parent's memory, and before the parent had ended: it reported
/// that it shares none, and the charge of the parent was free.
#[test]
fn pages_that_a_child_shares_no_more_as_its_parent_ends_are_charged_to_it() {
    let child = heir_of(500_000, |_, report| {
        (report.resident, report.inherited) = (301_000, 0);
    });
    assert_eq!((child.given, child.charged), (301_000, 301_000));
    let child = heir_of(200_000, |_, report| {
        (report.resident, report.inherited) = (251_000, 100_000);
    });
    assert_eq!(child.charged, 201_000, "no more than the charge of the parent");
}

/// The child, with a grant of 1000 pages, of a parent that ended with a grant of `pages`. `report` states its pages.
fn heir_of(pages: u64, report: impl Fn(&Entry, &mut Report)) -> Entry {
    let mut before = table(&[pages, 1000]);
    let parent = before.entries[0].map(|entry| entry.identity);
    if let Some(child) = &mut before.entries[1] {
        child.parent = parent;
    }
    let seen = |row, entry: &Entry| match row {
        0 => Seen {
            condition: Condition::Ended,
            row: None,
        },
        _ => {
            let mut seen = answered(entry, 400_000, 0);
            if let Some((own, _)) = &mut seen.row {
                report(entry, own);
            }
            seen
        }
    };
    settled(&before, &seen).entries[1].expect("it is a member")
}
