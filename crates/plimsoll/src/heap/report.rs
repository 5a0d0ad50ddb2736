//! Converts the counts of `plimsoll_lfh::inspect` to reports.

use plimsoll_lfh::inspect::{Distribution, HeapRecord, HeapStatistics, RANGES, Run};
use plimsoll_lfh::{Bucket, FrontEnd, UNIT, UnitKind};

use super::model::{BucketReport, Cell, CellKind, FrontReport, HeapReport, RangeReport};

pub(super) fn report(record: &HeapRecord, counts: &HeapStatistics) -> HeapReport {
    let percent = |share: Option<f64>| share.map(|share| share * 100.0);
    let front = (record.front_end == FrontEnd::LowFragmentation).then(|| front(record, counts));
    HeapReport {
        heap: record.number,
        address: record.address as u64,
        flags: record.flags(),
        flag_names: record.flag_names().collect(),
        front_end: match record.front_end {
            FrontEnd::Standard => "standard",
            FrontEnd::LowFragmentation => "low-fragmentation",
        },
        segments: counts.segments,
        reserved_bytes: counts.reserved,
        committed_bytes: counts.committed,
        virtual_bytes: counts.virtual_bytes,
        free_bytes: counts.free,
        free_blocks: counts.free_blocks,
        uncommitted_bytes: counts.uncommitted,
        uncommitted_ranges: counts.uncommitted_ranges,
        virtual_blocks: counts.large_blocks,
        virtual_block_bytes: counts.large,
        cached_runs: counts.cached_runs,
        cached_run_bytes: counts.cached_run_bytes,
        lock_contention: record.lock_contention(counts),
        external_fragmentation_percent: percent(counts.external_fragmentation()),
        virtual_fragmentation_percent: percent(counts.virtual_fragmentation()),
        front,
        distribution: ranges(counts),
        moved_units: counts.moved,
    }
}

fn front(record: &HeapRecord, counts: &HeapStatistics) -> FrontReport {
    let own = &record.front;
    FrontReport {
        affinity_limit: own.slots.into(),
        affinity_slots: own.slots_used.into(),
        swaps: own.refills + own.flushes,
        resets: own.idle_flushes,
        lock_contention: own.contention + counts.slot_contention,
        metadata_bytes: counts.metadata(record),
        subsegments: counts.subsegments,
        subsegment_bytes: counts.subsegment_bytes,
        created: own.created,
        deleted: own.created.saturating_sub(own.subsegments),
        reused: own.reused,
        conversions: own.conversions,
        kept_empty: own.spare,
        buckets: Bucket::all()
            .filter_map(|bucket| bucket_report(bucket, counts))
            .collect(),
    }
}

fn bucket_report(bucket: Bucket, counts: &HeapStatistics) -> Option<BucketReport> {
    let own = &counts.buckets[bucket.index()];
    (own.subsegments > 0).then(|| BucketReport {
        block_bytes: bucket.size() as u64,
        subsegments: own.subsegments,
        capacity: own.capacity,
        busy: own.busy(),
        cached: own.cached,
        quarantined: own.quarantined,
        listed: own.listed,
        absent: own.absent,
        untouched: own.untouched,
    })
}

fn ranges(counts: &HeapStatistics) -> Vec<RangeReport> {
    let (back, front) = (&counts.back, counts.front());
    (0..RANGES)
        .filter_map(|range| {
            let (above_bytes, to_bytes) = Distribution::bounds(range);
            let report = RangeReport {
                above_bytes,
                to_bytes,
                back_busy: back.busy[range],
                back_free: back.free[range],
                front_busy: front.busy[range],
                front_free: front.free[range],
            };
            let all = report.back_busy + report.back_free + report.front_busy + report.front_free;
            (all > 0).then_some(report)
        })
        .collect()
}

/// The cells of a run in the map: two for a free extent of which only the start is committed.
pub(super) fn cells(run: &Run, used: f64) -> impl Iterator<Item = Cell> {
    let description = &run.description;
    let cell = |first, units, kind, block_bytes| Cell {
        first,
        units,
        heap: description.heap,
        kind,
        block_bytes,
        used,
    };
    let (first, length) = (run.first, run.length);
    let cells = match run.kind {
        None | Some(UnitKind::Nothing) => [None, None],
        Some(UnitKind::Free) => {
            let touched = description.touched.min(length);
            let part = |first, units, kind| (units > 0).then(|| cell(first, units, kind, 0));
            [
                part(first, touched, CellKind::Dirty),
                part(first + touched, length - touched, CellKind::Uncommitted),
            ]
        }
        Some(UnitKind::Subsegment) => {
            let size = Bucket::new(description.bucket).map_or(0, |bucket| bucket.size() as u64);
            [Some(cell(first, length, CellKind::Subsegment, size)), None]
        }
        Some(UnitKind::Large) => {
            let bytes = u64::from(length) * UNIT as u64;
            [Some(cell(first, length, CellKind::Large, bytes)), None]
        }
        Some(UnitKind::Standard) => [Some(cell(first, length, CellKind::Standard, 0)), None],
        Some(UnitKind::Cached) => [Some(cell(first, length, CellKind::Dirty, 0)), None],
        Some(UnitKind::Busy) => [Some(cell(first, length, CellKind::Busy, 0)), None],
    };
    cells.into_iter().flatten()
}
