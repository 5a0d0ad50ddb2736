//! One combination of values becomes the settings of a trial, and settings become text again.

use std::path::PathBuf;

use super::assignment::{Assignment, CONSUMERS, MAX_LOAD};
use super::error::{Invalid, Problem};
use super::heap::{Heap, HeapLoad};
use super::keys::Id;
use super::model::{FillClass, Settings, Subject, ThpMode, TrimMechanism};
use super::value::Value;
use super::workloads::{
    CapBy, Contention, Loadline, Map, Mapping, Pattern, Thrash, Touch, Workload, WorkloadKind, Wscap,
};

/// Every setting of a combination; what is not given has its default.
pub(super) fn settings(assignment: &Assignment<'_>) -> Result<Settings, Box<Invalid>> {
    let value = |id| assignment.value(id).map(|(value, _)| value);
    let optional = |id| match value(id) {
        Some(Value::Integer(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    let seconds = |id, default| match value(id) {
        Some(Value::Seconds(seconds)) => *seconds,
        _ => default,
    };
    let size = assignment.bytes(Id::Size)?;
    Ok(Settings {
        workload: workload(assignment)?,
        subject: match value(Id::Subject) {
            Some(Value::Subject(subject)) => subject.clone(),
            _ => Subject::Zram(None),
        },
        class: match value(Id::Class) {
            Some(Value::Class(class)) => class.clone(),
            _ => FillClass::Random,
        },
        size,
        request: assignment.bytes(Id::Request)?.min(size),
        limit: assignment.bytes(Id::Limit)?,
        swap_size: assignment.bytes(Id::SwapSize)?,
        trim: match value(Id::Trim) {
            Some(Value::Trim(trim)) => *trim,
            _ => TrimMechanism::Worker,
        },
        hold: seconds(Id::Hold, 2.0),
        swappiness: optional(Id::Swappiness),
        page_cluster: optional(Id::PageCluster),
        thp: match value(Id::Thp) {
            Some(Value::Thp(thp)) => *thp,
            _ => ThpMode::System,
        },
        zswap_pool_percent: optional(Id::ZswapPoolPercent),
        swap_dir: match value(Id::SwapDir) {
            Some(Value::Folder(path)) => path.clone(),
            _ => PathBuf::from("/var/tmp"),
        },
        phase_timeout: seconds(Id::PhaseTimeout, 600.0),
    })
}

/// The text of a setting as it came out, for every key that is one.
pub(super) fn resolved_text(settings: &Settings, id: Id) -> Option<String> {
    let bytes = |bytes: u64| Value::Size(super::size::SizeExpr::Bytes(bytes));
    let optional = |number: Option<u32>| number.map_or(Value::System, |n| Value::Integer(u64::from(n)));
    let value = match id {
        Id::Workload => Value::Workload(settings.workload.kind()),
        Id::Subject => Value::Subject(settings.subject.clone()),
        Id::Class => Value::Class(settings.class.clone()),
        Id::Size => bytes(settings.size),
        Id::Request => bytes(settings.request),
        Id::Limit => bytes(settings.limit),
        Id::SwapSize => bytes(settings.swap_size),
        Id::Trim => Value::Trim(settings.trim),
        Id::Hold => Value::Seconds(settings.hold),
        Id::Swappiness => optional(settings.swappiness),
        Id::PageCluster => optional(settings.page_cluster),
        Id::Thp => Value::Thp(settings.thp),
        Id::ZswapPoolPercent => optional(settings.zswap_pool_percent),
        Id::SwapDir => Value::Folder(settings.swap_dir.clone()),
        Id::PhaseTimeout => Value::Seconds(settings.phase_timeout),
        Id::Repeat | Id::Order | Id::Seed | Id::TimeLimit => return None,
        _ => text_of_work(&settings.workload, id)?,
    };
    Some(value.to_string())
}

/// What the kind of work alone needs to know.
fn workload(assignment: &Assignment<'_>) -> Result<Workload, Box<Invalid>> {
    let choice = |id| match assignment.value(id) {
        Some((Value::Choice(name), _)) => Some(*name),
        _ => None,
    };
    let shrunk = |id, number: f64| match assignment.value(id) {
        Some((_, place)) if place.source.is_argument() => number,
        _ => number * assignment.number(Id::Scale, 1.0),
    };
    let duration = assignment.number(Id::Duration, 2.0);
    Ok(match assignment.kind() {
        WorkloadKind::Compression => Workload::Compression,
        WorkloadKind::Thrash => Workload::Thrash(Thrash {
            // The ranges of the keys keep them far below 2^32.
            consumers: assignment
                .integer(Id::Consumers, CONSUMERS)
                .try_into()
                .unwrap_or(u32::MAX),
            consumer_size: assignment.bytes(Id::ConsumerSize)?,
            writes: (shrunk(Id::Writes, assignment.integer(Id::Writes, 10_000) as f64).round() as u64).max(1),
            sleep: assignment.number(Id::Sleep, 0.1),
            stagger: shrunk(Id::Stagger, assignment.number(Id::Stagger, 30.0)),
        }),
        WorkloadKind::Loadline => Workload::Loadline(Loadline {
            pattern: choice(Id::Pattern)
                .and_then(Pattern::of_name)
                .unwrap_or(Pattern::Uniform),
            max_load: assignment.number(Id::MaxLoad, MAX_LOAD),
            compute: assignment.number(Id::Compute, 10e-6),
            duration,
        }),
        WorkloadKind::Wscap => Workload::Wscap(Wscap {
            load: assignment.number(Id::Load, 2.0),
            cap_by: choice(Id::CapBy).and_then(CapBy::of_name).unwrap_or(CapBy::Limit),
            duration,
        }),
        WorkloadKind::Map => Workload::Map(Map {
            mapping: choice(Id::Mapping)
                .and_then(Mapping::of_name)
                .unwrap_or(Mapping::Anonymous),
            touch: choice(Id::Touch).and_then(Touch::of_name).unwrap_or(Touch::Whole),
        }),
        WorkloadKind::Contention => Workload::Contention(Contention {
            suspended: matches!(assignment.value(Id::Suspended), Some((Value::Flag(true), _))),
        }),
        WorkloadKind::Heap => Workload::Heap(heap(assignment)?),
    })
}

/// The load on malloc. One of blocks that are all alike has no range of sizes.
fn heap(assignment: &Assignment<'_>) -> Result<Heap, Box<Invalid>> {
    let heap = assignment.heap(assignment.bytes(Id::Volume)?);
    match assignment.value(Id::BlockSize) {
        Some((value, place)) if heap.load == HeapLoad::Aggressive && heap.sizes.low != heap.sizes.high => {
            let message = format!("`aggressive` allocates blocks of one size, not of {value} bytes");
            Err(place
                .error(Problem::BadValue, message, "a range of sizes")
                .help("write for example block-size = 32"))
        }
        _ => Ok(heap),
    }
}

/// The value of a setting that one kind of work alone has.
fn text_of_work(workload: &Workload, id: Id) -> Option<Value> {
    let value = match (*workload, id) {
        // Shown as written: resolving what is shown must not shrink it twice.
        (Workload::Thrash(_), Id::Scale) => Value::Number(1.0),
        (Workload::Thrash(thrash), Id::Consumers) => Value::Integer(thrash.consumers.into()),
        (Workload::Thrash(thrash), Id::ConsumerSize) => {
            Value::Size(super::size::SizeExpr::Bytes(thrash.consumer_size))
        }
        (Workload::Thrash(thrash), Id::Writes) => Value::Integer(thrash.writes),
        (Workload::Thrash(thrash), Id::Sleep) => Value::Seconds(thrash.sleep),
        (Workload::Thrash(thrash), Id::Stagger) => Value::Seconds(thrash.stagger),
        (Workload::Loadline(loadline), Id::MaxLoad) => Value::Number(loadline.max_load),
        (Workload::Loadline(loadline), Id::Pattern) => Value::Choice(loadline.pattern.name()),
        (Workload::Loadline(loadline), Id::Compute) => Value::Seconds(loadline.compute),
        (
            Workload::Loadline(Loadline { duration, .. }) | Workload::Wscap(Wscap { duration, .. }),
            Id::Duration,
        )
        | (Workload::Heap(Heap { duration, .. }), Id::Duration) => Value::Seconds(duration),
        (Workload::Wscap(wscap), Id::Load) => Value::Number(wscap.load),
        (Workload::Wscap(wscap), Id::CapBy) => Value::Choice(wscap.cap_by.name()),
        (Workload::Map(map), Id::Mapping) => Value::Choice(map.mapping.name()),
        (Workload::Map(map), Id::Touch) => Value::Choice(map.touch.name()),
        (Workload::Heap(heap), Id::HeapLoad) => Value::Choice(heap.load.name()),
        (Workload::Heap(heap), Id::Threads) => Value::Integer(heap.threads.into()),
        (Workload::Heap(heap), Id::Blocks) => Value::Integer(heap.blocks.into()),
        (Workload::Heap(heap), Id::BlockSize) => Value::BlockSizes(heap.sizes),
        (Workload::Heap(heap), Id::Volume) => Value::Size(super::size::SizeExpr::Bytes(heap.volume)),
        (Workload::Contention(contention), Id::Suspended) => Value::Flag(contention.suspended),
        _ => return None,
    };
    Some(value)
}
