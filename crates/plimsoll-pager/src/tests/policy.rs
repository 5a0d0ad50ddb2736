//! Policies of regions over the simulated driver.

use super::simulated::{PAGES, Sim, access, contents, sim};
use crate::manager::{Purpose, WorkingSetError};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange, PageState, Word};

fn range(first: u32, count: u32) -> PageRange {
    PageRange::new(PageIndex::new(first), count)
}

/// Contents of a page, none of them zeros.
fn of(page: PageIndex) -> Page {
    contents((page.number() % 255 + 1) as u8)
}

fn write(manager: &Sim, pages: PageRange) {
    for page in pages.pages() {
        access(manager, page, |bytes| *bytes = of(page));
    }
}

/// Pages of `pages` that read as they were written, and those that read as zero. No other contents are allowed.
fn kept_and_lost(manager: &Sim, pages: PageRange) -> (u32, u32) {
    let (mut kept, mut lost) = (0, 0);
    // Backwards: a stream would take frames of pages whose contents may be lost.
    for page in pages.pages().rev() {
        access(manager, page, |bytes| {
            if *bytes == of(page) {
                kept += 1;
            } else {
                assert!(bytes.iter().all(|byte| *byte == 0), "{page:?}");
                lost += 1;
            }
        });
    }
    (kept, lost)
}

fn in_state(manager: &Sim, pages: PageRange, state: PageState) -> usize {
    let now = |page| manager.table.word(page).load().state();
    pages.pages().filter(|page| now(*page) == state).count()
}

#[test]
fn frames_of_a_low_priority_go_before_those_of_a_high_one() {
    let manager = sim(4000, 0, 1);
    let (low, high) = (range(0, 200), range(CHUNK_PAGES, 200));
    manager.set_priority(low, 2);
    write(&manager, low);
    write(&manager, high);
    for pages in [low, high] {
        manager.trim_range(pages);
        manager.save_range(pages);
    }
    assert_eq!(manager.counters.standby(2), 200);
    // The hand would take these first: their priority alone keeps them.
    manager.set_priority(low, 7);
    assert_eq!(
        (manager.counters.standby(2), manager.counters.standby(7)),
        (0, 200)
    );
    assert_eq!(manager.release_standby(200), 200);
    assert_eq!(in_state(&manager, low, PageState::Standby), 200);
    assert_eq!(in_state(&manager, high, PageState::Compressed), 200);
    // The chunk's priority is that of later trims.
    assert_eq!(kept_and_lost(&manager, low), (200, 0));
    manager.trim_range(low);
    manager.save_range(low);
    assert_eq!(manager.counters.standby(7), 200);
    assert_eq!(manager.validate(), []);
}

#[test]
fn contents_that_were_given_up_stay_until_their_frames_are_needed() {
    let manager = sim(4000, 0, 1);
    let (given, other) = (range(0, 300), range(CHUNK_PAGES, 300));
    write(&manager, given);
    write(&manager, other);
    manager.trim_range(other);
    manager.save_range(other);
    // A part is standby already, a part has no frame any more.
    manager.trim_range(range(0, 100));
    manager.save_range(range(0, 100));
    manager.release_range(range(0, 50));
    let copies = manager.backing.copies();
    assert_eq!(manager.reset(given), 300);
    assert_eq!(manager.counters.standby(Word::LOWEST_PRIORITY), 250);
    assert_eq!(in_state(&manager, given, PageState::Virgin), 50);
    // Copies of zeros took the place of 50 copies; the model keeps one for each page.
    assert_eq!(manager.backing.copies(), copies - 100 + 250);
    assert_eq!(manager.validate(), []);
    // Their frames are the first to go.
    let released = manager.release_standby(100);
    assert!((100..200).contains(&released));
    assert_eq!(manager.counters.standby(Word::NORMAL_PRIORITY), 300);
    assert_eq!(kept_and_lost(&manager, given), (250 - released, 50 + released));
    // A page that was read or written is an ordinary one again.
    write(&manager, given);
    manager.trim_range(given);
    manager.save_range(given);
    manager.release_range(given);
    assert_eq!(kept_and_lost(&manager, given), (300, 0));
    assert_eq!(kept_and_lost(&manager, other), (300, 0));
    assert_eq!(manager.validate(), []);
}

#[test]
fn a_pinned_page_keeps_its_contents_when_its_range_is_given_up() {
    let manager = sim(4000, 0, 1);
    write(&manager, range(0, 40));
    let pin = manager
        .pins
        .publish(range(10, 5), Purpose::Guard)
        .expect("a free slot");
    assert_eq!(manager.reset(range(0, 40)), 35);
    manager.release_standby(35);
    assert_eq!(kept_and_lost(&manager, range(0, 40)), (5, 35));
    manager.pins.remove(pin);
    assert_eq!(manager.validate(), []);
}

#[test]
fn a_suspended_region_is_trimmed_whole_and_goes_first() {
    let manager = sim(4000, 0, 1);
    let (suspended, running) = (range(0, 400), range(CHUNK_PAGES, 400));
    write(&manager, running);
    write(&manager, suspended);
    manager.trim_range(running);
    manager.save_range(running);
    manager.suspend(suspended);
    assert_eq!(manager.stats().suspended_pages, 400);
    assert!(!manager.usage().is_suspended, "the other part runs");
    assert_eq!(manager.counters.standby(Word::SUSPENDED_PRIORITY), 400);
    assert_eq!(manager.release_standby(400), 400);
    assert_eq!(in_state(&manager, suspended, PageState::Compressed), 400);
    assert_eq!(in_state(&manager, running, PageState::Standby), 400);
    manager.resume(suspended, 6);
    assert_eq!(kept_and_lost(&manager, suspended), (400, 0));
    manager.trim_range(suspended);
    manager.save_range(suspended);
    assert_eq!(manager.counters.standby(6), 400);
    assert_eq!(manager.validate(), []);
}

#[test]
fn a_pager_whose_regions_are_all_suspended_says_so_to_its_pool() {
    let manager = sim(4000, 0, 1);
    let all = range(0, PAGES);
    write(&manager, all);
    manager.suspend(all);
    assert!(manager.usage().is_suspended);
    manager.resume(all, Word::NORMAL_PRIORITY);
    assert!(!manager.usage().is_suspended);
    assert_eq!(manager.stats().suspended_pages, 0);
    assert_eq!(kept_and_lost(&manager, all), (PAGES, 0));
}

/// The pool took the grant of a region that was not saved yet. Then the store had no room for the rest, which stayed resident
/// until the process ran again: 5 MiB of 64 MiB, seen in an experiment with a stopped process.
#[test]
fn a_region_counts_as_suspended_once_it_is_saved() {
    let manager = sim(4000, 0, 1);
    let all = range(0, PAGES);
    write(&manager, all);
    let unsaved = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !manager.usage().is_suspended {
                std::thread::yield_now();
            }
            let states = [PageState::Active, PageState::Modified];
            states.map(|state| in_state(&manager, all, state))
        });
        manager.suspend(all);
        watcher.join().expect("no panic")
    });
    assert_eq!(unsaved, [0, 0]);
}

fn limit(manager: &Sim, pages: PageRange, minimum: u64, maximum: u64) -> u8 {
    let page = PAGE_SIZE as u64;
    manager
        .limit_working_set(pages, 0, minimum * page, maximum * page)
        .expect("half of the budget is free")
}

#[test]
fn a_region_at_its_maximum_replaces_its_own_pages() {
    let manager = sim(4000, 0, 1);
    let (limited, other) = (range(0, 400), range(CHUNK_PAGES, 400));
    write(&manager, limited);
    write(&manager, other);
    // The region's pages above the maximum go at once.
    let number = limit(&manager, limited, 0, 100);
    assert!(in_state(&manager, limited, PageState::Active) <= 100);
    let before = manager.stats();
    for page in limited.pages().chain(limited.pages().rev().step_by(3)) {
        access(&manager, page, |bytes| assert!(*bytes == of(page)));
        assert!(in_state(&manager, limited, PageState::Active) <= 100);
    }
    let after = manager.stats();
    assert!(after.soft_faults > before.soft_faults);
    assert_eq!(
        after.hard_faults, before.hard_faults,
        "the budget has room for the frames"
    );
    assert_eq!(manager.trim_range(other), 400, "the other region is as it was");
    manager.end_working_set(limited, number);
    assert_eq!(kept_and_lost(&manager, limited), (400, 0));
    assert_eq!(in_state(&manager, limited, PageState::Active), 400);
    assert_eq!(manager.validate(), []);
}

#[test]
fn the_trimmer_passes_a_region_at_its_minimum_while_others_have_pages() {
    let manager = sim(4000, 0, 1);
    let (kept, other) = (range(0, 300), range(CHUNK_PAGES, 300));
    write(&manager, kept);
    write(&manager, other);
    // The pages of native chunks all count: both are managed first.
    for pages in [kept, other] {
        manager.trim_range(pages);
        write(&manager, pages);
    }
    let number = limit(&manager, kept, 300, 1000);
    assert_eq!(manager.trim_active(200), 200);
    assert_eq!(in_state(&manager, kept, PageState::Active), 300);
    assert_eq!(in_state(&manager, other, PageState::Active), 100);
    // More than its minimum: it takes part.
    limit_again(&manager, kept, number, 50);
    manager.trim_active(100);
    manager.trim_active(100);
    assert!(in_state(&manager, kept, PageState::Active) < 300);
    // Nothing else is left: the budget comes first.
    limit_again(&manager, kept, number, 300);
    let active = manager.counters.pages_in(PageState::Active) as u32;
    let trimmed: u32 = (0..20).map(|_| manager.trim_active(64)).sum();
    assert_eq!(trimmed, active);
    manager.end_working_set(kept, number);
    assert_eq!(manager.working_sets.used().count(), 0);
    assert_eq!(manager.validate(), []);
}

fn limit_again(manager: &Sim, pages: PageRange, number: u8, minimum: u64) {
    let page = PAGE_SIZE as u64;
    let same = manager.limit_working_set(pages, number, minimum * page, 1000 * page);
    assert_eq!(same, Ok(number));
}

#[test]
fn impossible_limits_are_refused_and_sets_come_back() {
    let manager = sim(1000, 0, 1);
    let all = range(0, PAGES);
    let page = PAGE_SIZE as u64;
    let refused = |minimum, maximum| manager.limit_working_set(all, 0, minimum * page, maximum * page);
    assert!(matches!(
        refused(200, 100),
        Err(WorkingSetError::OutOfOrder { .. })
    ));
    assert!(matches!(refused(0, 10), Err(WorkingSetError::OutOfOrder { .. })));
    assert!(matches!(
        refused(501, 800),
        Err(WorkingSetError::MinimumTooLarge { .. })
    ));
    for _ in 0..3 {
        let numbers: Vec<u8> = (0..63).map(|_| limit(&manager, all, 0, 1000)).collect();
        assert_eq!(refused(0, 1000), Err(WorkingSetError::TooMany));
        numbers
            .into_iter()
            .for_each(|number| manager.end_working_set(all, number));
    }
}
