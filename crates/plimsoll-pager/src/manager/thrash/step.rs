//! The steps of thrash control, its rule, and the measures that a step has in force.

/// The action of a pager against thrashing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ThrashControl {
    /// It detects thrashing and reports it, and does nothing about it.
    #[default]
    Off,
    /// It tries one measure after another while it thrashes, and keeps those that reduce the time lost to faults.
    On,
    /// It has the measures up to this step in force all the time: for experiments and tests.
    Fixed(ThrashStep),
}

/// The state of thrash control: whether the pager thrashes, and the furthest measure in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum ThrashStep {
    /// Threads wait little for evicted pages, or for pages that were evicted long ago.
    #[default]
    Calm = 0,
    /// It thrashes, and no measure is in force.
    Thrashing = 1,
    /// More frames are standby: a page in use returns by a soft fault before its frame is taken.
    GrownStandby = 2,
    /// No page is restored ahead of the fault of a stream.
    NoReadAhead = 3,
    /// The thread with the most faults on evicted pages waits a bounded time at each of them.
    Throttle = 4,
}

impl ThrashStep {
    /// Every step, in order.
    pub const ALL: [ThrashStep; 5] = [
        ThrashStep::Calm,
        ThrashStep::Thrashing,
        ThrashStep::GrownStandby,
        ThrashStep::NoReadAhead,
        ThrashStep::Throttle,
    ];

    /// Its name in documents and texts.
    pub fn name(self) -> &'static str {
        match self {
            ThrashStep::Calm => "calm",
            ThrashStep::Thrashing => "thrashing",
            ThrashStep::GrownStandby => "grown-standby",
            ThrashStep::NoReadAhead => "no-read-ahead",
            ThrashStep::Throttle => "throttle",
        }
    }

    /// The step with this number; an unknown one is calm.
    pub(crate) fn of_number(number: u64) -> ThrashStep {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        ThrashStep::ALL.get(number).copied().unwrap_or_default()
    }
}

/// The wait of a thread at its faults on evicted pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) thread: usize,
    pub(crate) delay_us: u32,
}

/// The measures in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Measures {
    /// Frames that are standby beyond the usual stock, in parts of [`Measures::STANDBY_PARTS`] of all frames.
    pub(crate) standby: u8,
    pub(crate) no_read_ahead: bool,
    pub(crate) throttle: Option<Throttle>,
}

impl Measures {
    /// The parts of all frames in which standby ones are counted.
    pub(crate) const STANDBY_PARTS: u64 = 16;

    /// The furthest one.
    pub(crate) fn step(&self) -> ThrashStep {
        if self.throttle.is_some() {
            ThrashStep::Throttle
        } else if self.no_read_ahead {
            ThrashStep::NoReadAhead
        } else if self.standby > 0 {
            ThrashStep::GrownStandby
        } else {
            ThrashStep::Thrashing
        }
    }
}
