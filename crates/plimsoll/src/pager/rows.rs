//! The values of a pager: a row each, for the text, the JSON document and the book.

use plimsoll_pager::published::Mapped;
use plimsoll_pager::{Stats, ThrashStep};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Pages,
    Times,
    Microseconds,
    Percent,
}

/// The heading under which the text prints a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Memory,
    States,
    Faults,
    Trims,
    Thrashing,
}

impl Group {
    pub(super) const ALL: [Group; 5] = [
        Group::Memory,
        Group::States,
        Group::Faults,
        Group::Trims,
        Group::Thrashing,
    ];

    pub(super) fn heading(self) -> &'static str {
        match self {
            Group::Memory => "Memory",
            Group::States => "Pages by state",
            Group::Faults => "Faults",
            Group::Trims => "Trims",
            Group::Thrashing => "Thrashing",
        }
    }
}

/// A value: its key in the document, its name in the text, and its source.
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) group: Group,
    pub(super) unit: Unit,
    pub(super) value: fn(&Stats, &Mapped) -> u64,
}

const fn row(
    group: Group,
    unit: Unit,
    key: &'static str,
    label: &'static str,
    value: fn(&Stats, &Mapped) -> u64,
) -> Row {
    Row {
        key,
        label,
        group,
        unit,
        value,
    }
}

/// Standby pages of all priorities. Values of another process may be anything.
pub(super) fn standby(stats: &Stats) -> u64 {
    stats
        .standby_pages
        .iter()
        .fold(0, |sum, pages| sum.saturating_add(*pages))
}

/// Time in a step of thrash control.
fn time_in(stats: &Stats, step: ThrashStep) -> u64 {
    stats.thrash_us[step as usize]
}

use Group::{Faults, Memory, States, Thrashing, Trims};
use Unit::{Bytes, Microseconds, Pages, Percent, Times};

/// Every value, in the order of the text.
pub(super) const ROWS: &[Row] = &[
    row(Memory, Bytes, "budget_bytes", "Budget", |stats, _| stats.ram),
    row(Memory, Bytes, "resident_bytes", "Resident", |stats, _| {
        stats.resident_bytes()
    }),
    row(Memory, Bytes, "store_bytes", "Compressed store", |stats, _| {
        stats.store_bytes
    }),
    row(Memory, Bytes, "metadata_bytes", "Metadata", |stats, _| {
        stats.metadata_bytes
    }),
    row(Memory, Pages, "mapped_pages", "Regions", |_, mapped| mapped.pages),
    row(Memory, Pages, "pinned_pages", "Pinned", |stats, _| {
        stats.pinned_pages
    }),
    row(Memory, Pages, "suspended_pages", "Suspended", |stats, _| {
        stats.suspended_pages
    }),
    row(Memory, Pages, "forced_frames", "Over the budget", |stats, _| {
        stats.forced_frames
    }),
    row(States, Pages, "native_pages", "Native", |stats, _| {
        stats.native_pages
    }),
    row(States, Pages, "virgin_pages", "Virgin", |_, mapped| {
        mapped.virgin_pages
    }),
    row(States, Pages, "active_pages", "Active", |stats, _| {
        stats.active_pages
    }),
    row(States, Pages, "modified_pages", "Modified", |stats, _| {
        stats.modified_pages
    }),
    row(States, Pages, "standby_pages", "Standby", |stats, _| {
        standby(stats)
    }),
    row(States, Pages, "compressed_pages", "Compressed", |stats, _| {
        stats.compressed_pages
    }),
    row(States, Pages, "page_file_pages", "Page file", |stats, _| {
        stats.page_file_pages
    }),
    row(Faults, Times, "zero_faults", "Zero", |stats, _| stats.zero_faults),
    row(Faults, Times, "soft_faults", "Soft", |stats, _| stats.soft_faults),
    row(Faults, Times, "hard_faults", "Hard", |stats, _| stats.hard_faults),
    row(Faults, Times, "spurious_faults", "Spurious", |stats, _| {
        stats.spurious_faults
    }),
    row(Faults, Times, "refaults", "Refaults", |stats, _| stats.refaults),
    row(Faults, Microseconds, "stall_us", "Stall", |stats, _| {
        stats.stall_us
    }),
    row(Faults, Pages, "stream_pages", "Read ahead", |stats, _| {
        stats.stream_pages
    }),
    row(Faults, Pages, "copied_frames", "Copied", |stats, _| {
        stats.copied_frames
    }),
    row(Faults, Times, "no_memory", "Without memory", |stats, _| {
        stats.no_memory
    }),
    row(Trims, Pages, "trimmed_pages", "Trimmed", |stats, _| {
        stats.trimmed_pages
    }),
    row(Trims, Pages, "saved_pages", "Saved", |stats, _| stats.saved_pages),
    row(
        Trims,
        Times,
        "refused_saves",
        "Refused by the store",
        |stats, _| stats.refused_saves,
    ),
    row(Trims, Pages, "taken_frames", "Frames taken", |stats, _| {
        stats.taken_frames
    }),
    row(Trims, Pages, "released_frames", "Frames released", |stats, _| {
        stats.released_frames
    }),
    row(
        Trims,
        Times,
        "direct_reclaims",
        "By faulting threads",
        |stats, _| stats.direct_reclaims,
    ),
    row(Trims, Times, "ageing_windows", "Windows of ageing", |stats, _| {
        stats.ageing_windows
    }),
    row(Trims, Microseconds, "ageing_us", "Time in ageing", |stats, _| {
        stats.ageing_us
    }),
    row(Trims, Times, "hot_chunks", "Hot chunks", |stats, _| {
        // Those that were accessed in the last window.
        let hot = stats.heat_chunks[4..].iter();
        hot.fold(0, |sum, chunks| sum.saturating_add(*chunks))
    }),
    row(Trims, Times, "cold_chunks", "Cold chunks", |stats, _| {
        stats.heat_chunks[0]
    }),
    row(Trims, Times, "unmovable_pages", "Not movable", |stats, _| {
        stats.unmovable_pages
    }),
    row(Trims, Times, "partial_moves", "Ended early", |stats, _| {
        stats.partial_moves
    }),
    row(Trims, Pages, "unshared_pages", "Shared by a fork", |stats, _| {
        stats.unshared_pages
    }),
    row(Trims, Pages, "adopted_pages", "Taken over", |stats, _| {
        stats.adopted_pages
    }),
    row(Thrashing, Microseconds, "calm_us", "Calm", |stats, _| {
        time_in(stats, ThrashStep::Calm)
    }),
    row(
        Thrashing,
        Microseconds,
        "thrashing_us",
        "Without a measure",
        |stats, _| time_in(stats, ThrashStep::Thrashing),
    ),
    row(
        Thrashing,
        Microseconds,
        "grown_standby_us",
        "Grown standby",
        |stats, _| time_in(stats, ThrashStep::GrownStandby),
    ),
    row(
        Thrashing,
        Microseconds,
        "no_read_ahead_us",
        "No read-ahead",
        |stats, _| time_in(stats, ThrashStep::NoReadAhead),
    ),
    row(Thrashing, Microseconds, "throttle_us", "Throttle", |stats, _| {
        time_in(stats, ThrashStep::Throttle)
    }),
    row(
        Thrashing,
        Microseconds,
        "throttled_us",
        "Throttled threads",
        |stats, _| stats.throttled_us,
    ),
    row(
        Thrashing,
        Percent,
        "worst_faulter_percent",
        "Worst thread",
        |stats, _| stats.worst_faulter_percent,
    ),
    row(Thrashing, Times, "thrash_trials", "Trials", |stats, _| {
        stats.thrash_trials
    }),
    row(Thrashing, Times, "kept_trials", "Trials kept", |stats, _| {
        stats.kept_trials
    }),
];
