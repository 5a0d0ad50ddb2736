//! Counters of states and events, by atomics alone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::PageState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Event {
    /// A fault on a virgin page.
    ZeroFault,
    /// A fault on a modified or standby page.
    SoftFault,
    /// A fault on a compressed or page-file page.
    HardFault,
    /// A page that a detected stream restored ahead of its fault.
    StreamPage,
    /// A fault whose page another thread had made present.
    SpuriousFault,
    /// A page moved to the modified list.
    Trimmed,
    /// A page saved.
    Saved,
    /// A page that the store refused.
    Refused,
    /// A standby frame given to another page.
    FrameTaken,
    /// A standby frame returned to the kernel.
    FrameReleased,
    /// A page that could not be moved: shared by a fork, or pinned by a device.
    Unmovable,
    /// A page that a fork shared, moved after it became a copy of its own.
    Unshared,
    /// A move that the kernel ended early.
    PartialMove,
    /// A page that a fault could restore only by copying its frame.
    CopiedFrame,
    /// A batch that a faulting thread trimmed by itself.
    DirectReclaim,
    /// A call that failed as the kernel had no memory.
    NoMemory,
    /// Present pages found when a native chunk was registered.
    Adopted,
}

impl Event {
    const COUNT: usize = Event::Adopted as usize + 1;

    /// The events of which each is at least one transition of a page. No other transition exists but that to virgin.
    pub(crate) const TRANSITIONS: [Event; 9] = [
        Event::ZeroFault,
        Event::SoftFault,
        Event::HardFault,
        Event::StreamPage,
        Event::Trimmed,
        Event::Saved,
        Event::FrameTaken,
        Event::FrameReleased,
        Event::Adopted,
    ];
}

/// Pages in each state, standby ones by priority, and events since the start.
///
/// [`published`](crate::published) shows them to other processes by their layout.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Counters {
    states: [AtomicU64; PageState::ALL.len()],
    standby: [AtomicU64; 8],
    events: [AtomicU64; Event::COUNT],
}

impl Counters {
    /// Counters with these bytes, which were copied from a value in another process.
    pub(crate) fn of_bytes(bytes: &[u8; size_of::<Counters>()]) -> Counters {
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word)));
        let mut next = || words.next().unwrap_or_default();
        Counters {
            states: std::array::from_fn(|_| next()),
            standby: std::array::from_fn(|_| next()),
            events: std::array::from_fn(|_| next()),
        }
    }

    /// Counts a page that went from one state to another.
    pub(crate) fn count_state(&self, from: PageState, to: PageState, priority: u8) {
        self.states[to as usize].fetch_add(1, Ordering::Relaxed);
        // Virgin pages are not counted: a region opens with them.
        if from != PageState::Virgin {
            let before = self.states[from as usize].fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "{from:?} to {to:?}");
        }
        let standby = &self.standby[usize::from(priority & 7)];
        if to == PageState::Standby {
            standby.fetch_add(1, Ordering::Relaxed);
        }
        if from == PageState::Standby {
            standby.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts a standby page that got another priority.
    pub(crate) fn count_priority(&self, from: u8, to: u8) {
        self.standby[usize::from(to & 7)].fetch_add(1, Ordering::Relaxed);
        self.standby[usize::from(from & 7)].fetch_sub(1, Ordering::Relaxed);
    }

    /// Pages in a state. Those that became virgin again are counted under it, those that never were anything else not.
    pub(crate) fn pages_in(&self, state: PageState) -> u64 {
        self.states[state as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn standby(&self, priority: u8) -> u64 {
        self.standby[usize::from(priority & 7)].load(Ordering::Relaxed)
    }

    /// The lowest priority of a standby page.
    pub(crate) fn lowest_standby(&self) -> Option<u8> {
        (0..8).find(|priority| self.standby(*priority) > 0)
    }

    pub(crate) fn add(&self, event: Event, number: u64) {
        self.events[event as usize].fetch_add(number, Ordering::Relaxed);
    }

    /// The number of events so far.
    pub(crate) fn of(&self, event: Event) -> u64 {
        self.events[event as usize].load(Ordering::Relaxed)
    }
}
