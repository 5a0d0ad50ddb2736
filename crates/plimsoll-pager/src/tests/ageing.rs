//! The heat of chunks over the simulated driver.

use std::time::Duration;

use super::simulated::{PAGES, Sim, access, an_hour_later, sim, sim_of_kernel};
use crate::manager::{AgeingState, WINDOW};
use crate::page::{CHUNK_PAGES, PageIndex, PageRange, PageState};
use crate::trim::MOST_APART;

/// The full chunks of the arena.
const CHUNKS: [u32; 2] = [0, 1];

fn pages(chunk: u32) -> PageRange {
    PageRange::new(PageIndex::new(chunk * CHUNK_PAGES), CHUNK_PAGES)
}

fn write(manager: &Sim, pages: PageRange) {
    for page in pages.pages() {
        access(manager, page, |bytes| bytes.fill(7));
    }
}

/// A manager with room for all pages, of which every chunk is managed and has active pages.
fn managed(moves: bool) -> Sim {
    let manager = sim_of_kernel(4000, 0, 1, moves);
    manager.ageing.start(Duration::ZERO);
    for chunk in CHUNKS {
        write(&manager, pages(chunk));
        manager.trim_range(pages(chunk));
        write(&manager, pages(chunk));
    }
    manager
}

/// Ends the open window, in which the program accesses the first `accessed` pages of a chunk, and begins the next one.
fn window(manager: &Sim, chunk: u32, accessed: u32) {
    write(manager, PageRange::new(pages(chunk).first, accessed));
    // Without trims no window begins.
    let last = PageIndex::new(PAGES - 1);
    access(manager, last, |_| ());
    manager.trim_range(PageRange::new(last, 1));
    manager.age_chunks(an_hour_later());
}

fn heat(manager: &Sim) -> [u8; 2] {
    CHUNKS.map(|chunk| manager.chunks.of(pages(chunk)).heat())
}

fn active(manager: &Sim, chunk: u32) -> u32 {
    manager.chunks.of(pages(chunk)).pages_in(PageState::Active)
}

#[test]
fn a_chunk_that_is_accessed_gets_hotter_and_then_colder() {
    let manager = managed(true);
    window(&manager, 0, CHUNK_PAGES);
    for expected in [4, 6, 7, 7] {
        window(&manager, 0, CHUNK_PAGES);
        assert_eq!(heat(&manager), [expected, 0]);
    }
    // Less than one page in 16 is no access.
    for expected in [3, 1, 0, 0] {
        window(&manager, 0, CHUNK_PAGES / 16 - 1);
        assert_eq!(heat(&manager), [expected, 0]);
    }
    window(&manager, 0, CHUNK_PAGES / 16);
    assert_eq!(heat(&manager), [4, 0]);
    let stats = manager.stats();
    assert_eq!(stats.ageing, AgeingState::On);
    assert!(stats.ageing_windows >= 9, "{stats:?}");
    assert_eq!((stats.heat_chunks[0], stats.heat_chunks[4]), (2, 1));
    assert_eq!(manager.validate(), []);
}

#[test]
fn the_coldest_chunk_is_trimmed_first_wherever_the_hand_stands() {
    for hot in CHUNKS {
        let manager = managed(true);
        window(&manager, hot, CHUNK_PAGES);
        window(&manager, hot, CHUNK_PAGES);
        assert_eq!(
            (heat(&manager)[hot as usize], heat(&manager)[1 - hot as usize]),
            (4, 0)
        );
        let cold = 1 - hot;
        assert_eq!(manager.trim_active(CHUNK_PAGES), CHUNK_PAGES);
        assert_eq!((active(&manager, hot), active(&manager, cold)), (CHUNK_PAGES, 0));
        // The budget comes first: with no other active pages, hot ones are trimmed.
        assert!(manager.trim_active(64) > 0);
        assert!(active(&manager, hot) < CHUNK_PAGES);
        assert_eq!(manager.validate(), []);
    }
}

#[test]
fn without_trims_no_window_begins() {
    let manager = managed(true);
    manager.age_chunks(an_hour_later());
    manager.age_chunks(an_hour_later());
    let windows = manager.stats().ageing_windows;
    write(&manager, pages(0));
    for _ in 0..10 {
        manager.age_chunks(an_hour_later());
    }
    assert_eq!(manager.stats().ageing_windows, windows);
}

#[test]
fn a_window_lasts_its_time() {
    let manager = managed(true);
    manager.ageing.start(WINDOW);
    manager.age_chunks(Duration::ZERO);
    manager.age_chunks(WINDOW - Duration::from_millis(1));
    assert_eq!(manager.stats().ageing_windows, 0);
    manager.age_chunks(WINDOW);
    assert_eq!(manager.stats().ageing_windows, 1);
}

#[test]
fn a_kernel_that_does_not_tell_has_its_chunks_trimmed_in_turn() {
    let manager = managed(false);
    manager.age_chunks(an_hour_later());
    assert_eq!(manager.stats().ageing, AgeingState::Unsupported);
    assert_eq!(heat(&manager), [0, 0]);
    assert!(manager.trim_active(64) > 0);
}

#[test]
fn a_region_that_opens_again_is_cold() {
    let manager = sim(4000, 0, 1);
    window(&manager, 0, CHUNK_PAGES);
    let all = PageRange::new(PageIndex::new(0), PAGES);
    manager.trim_range(all);
    write(&manager, pages(0));
    window(&manager, 0, CHUNK_PAGES);
    assert!(heat(&manager)[0] > 0);
    manager.close(all).expect("it closes");
    manager.open(all).expect("it opens");
    assert_eq!(heat(&manager), [0, 0]);
}

/// The number of chunks that were set apart once only grew: after 8,192 of them, of regions long closed, neighbours shared
/// their heat.
#[test]
fn chunks_of_closed_regions_do_not_count_as_set_apart() {
    let manager = managed(true);
    let chunk = pages(1);
    for round in 0..=MOST_APART {
        window(&manager, 1, 1);
        assert!(manager.chunks.of(chunk).is_apart(), "{round}");
        manager.close(chunk).expect("no page is locked");
        manager.open(chunk).expect("the addresses are free");
        let page = PageRange::new(chunk.first, 1);
        write(&manager, page);
        manager.trim_range(page);
        write(&manager, page);
    }
    assert_eq!(manager.validate(), []);
}
