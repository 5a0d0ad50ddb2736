//! Detection of streams: faults on adjacent pages, one after another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::page::PageIndex;

/// Streams that are followed at the same time.
const MOST_STREAMS: usize = 16;
/// Faults in a row before pages ahead are restored.
const SURE: u64 = 2;
/// The most pages restored ahead of a fault.
pub(crate) const MOST_AHEAD: u32 = 32;
/// Pages restored ahead of the first fault of a sure stream.
const LEAST_AHEAD: u32 = 4;

/// The streams, each one atomic: the page whose fault comes next in the upper half, the faults so far in the lower; 0 for
/// none.
///
/// Only a fault on exactly the next page counts for a stream. Random accesses hardly ever have it, so that they restore
/// nothing ahead.
#[derive(Debug)]
pub(crate) struct Streams {
    next: [AtomicU64; MOST_STREAMS],
    /// The entry that the next unknown fault replaces.
    oldest: AtomicU64,
    /// Whether streams are detected, while no fault acts on them.
    is_stopped: AtomicBool,
}

/// A stream that a fault belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    entry: usize,
    faults: u64,
}

impl Streams {
    pub(crate) const fn new() -> Streams {
        Streams {
            next: [const { AtomicU64::new(0) }; MOST_STREAMS],
            oldest: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// Stops restoring pages ahead of faults, or ends the stop.
    pub(crate) fn set_stopped(&self, is_stopped: bool) {
        self.is_stopped.store(is_stopped, Ordering::Relaxed);
    }

    /// Notes a fault; the stream that it belongs to, if it is a sure one.
    pub(crate) fn note(&self, page: PageIndex) -> Option<Stream> {
        let number = u64::from(page.number());
        for (entry, next) in self.next.iter().enumerate() {
            let seen = next.load(Ordering::Relaxed);
            if seen != 0 && seen >> 32 == number {
                let faults = (seen & u64::from(u32::MAX)) + 1;
                let stream = Stream { entry, faults };
                self.expect(stream, page.plus(1));
                let is_told = faults >= SURE && !self.is_stopped.load(Ordering::Relaxed);
                return is_told.then_some(stream);
            }
        }
        let entry = self.oldest.fetch_add(1, Ordering::Relaxed) as usize % MOST_STREAMS;
        self.expect(Stream { entry, faults: 0 }, page.plus(1));
        None
    }

    /// Expects the next fault of a stream at `page`.
    pub(crate) fn expect(&self, stream: Stream, page: PageIndex) {
        let value = u64::from(page.number()) << 32 | stream.faults.min(u64::from(u32::MAX));
        self.next[stream.entry].store(value, Ordering::Relaxed);
    }
}

impl Stream {
    /// Pages to restore ahead of this fault: twice as many as ahead of the one before.
    pub(crate) fn ahead(self) -> u32 {
        let doubled = self.faults.saturating_sub(SURE).min(16) as u32;
        (LEAST_AHEAD << doubled).min(MOST_AHEAD)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{MOST_AHEAD, Streams};
    use crate::page::PageIndex;

    #[test]
    fn adjacent_faults_are_a_stream_and_others_are_none() {
        let streams = Streams::new();
        let page = PageIndex::new;
        assert!(streams.note(page(10)).is_none());
        assert!(streams.note(page(500)).is_none());
        assert!(streams.note(page(11)).is_none());
        let stream = streams.note(page(12)).expect("the third in a row");
        assert_eq!(stream.ahead(), 4);
        streams.expect(stream, page(17));
        assert!(streams.note(page(13)).is_none(), "it was restored ahead");
        for (next, ahead) in [(17, 8), (26, 16), (43, MOST_AHEAD), (76, MOST_AHEAD)] {
            let stream = streams.note(page(next)).expect("the same stream");
            assert_eq!(stream.ahead(), ahead, "page {next}");
            streams.expect(stream, page(next + ahead + 1));
        }
    }

    #[test]
    fn a_stop_holds_for_streams_that_are_sure_already() {
        let streams = Streams::new();
        let told: Vec<bool> = (0..30)
            .map(|number| {
                streams.set_stopped((10..20).contains(&number));
                streams.note(PageIndex::new(100 + number)).is_some()
            })
            .collect();
        let expected = (0..30).map(|number| number >= 2 && !(10..20).contains(&number));
        assert_eq!(told, expected.collect::<Vec<_>>());
    }

    #[test]
    fn scattered_faults_restore_nothing_ahead() {
        let streams = Streams::new();
        let mut x = 1_u64;
        let ahead = (0..100_000).filter(|_| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            streams.note(PageIndex::new((x >> 40) as u32)).is_some()
        });
        assert_eq!(ahead.count(), 0);
    }
}
