//! Policies of regions over the simulated driver.

use super::simulated::{PAGES, Sim, access, contents, sim};
use crate::page::{CHUNK_PAGES, Page, PageIndex, PageRange, PageState, Word};

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
    let pin = manager.pins.publish(range(10, 5)).expect("a free slot");
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
