//! The document, text and report of heaps from synthetic counts. Each value is unique, so that a swap of two values
//! shows.

use std::collections::BTreeSet;

use plimsoll_lfh::inspect::{BucketStatistics, Description, FrontCounts, HeapRecord, HeapStatistics, Run};
use plimsoll_lfh::{FrontEnd, Heap, HeapOptions, UnitKind};
use serde_json::Value;

use super::html::html;
use super::model::{
    Cell, DamageReport, HEAP_SCHEMA, HeapReport, HeapSurvey, ProcessHeaps, UnreadHeaps, ValidationReport,
};
use super::report::{cells, report};
use super::text::{HeapDetail, render};

/// A valid record of a heap; the caller changes fields.
fn record(number: u32, front_end: FrontEnd) -> HeapRecord {
    let heap = Heap::new(HeapOptions::default()).expect("there is memory");
    let (mut record, _) = heap.statistics().expect("the heap was made");
    record.number = number;
    record.address = 0x7000_0010_0000 + number as usize * 0x1_0000;
    record.front_end = front_end;
    record
}

fn low_fragmentation() -> HeapReport {
    let mut record = record(2, FrontEnd::LowFragmentation);
    (record.hardened, record.debug, record.no_serialize) = (true, true, true);
    (record.back_contention, record.shelf_contention) = (1001, 1003);
    record.front = FrontCounts {
        slots: 8,
        slots_used: 4,
        restartable: true,
        contention: 211,
        subsegments: 61,
        created: 797,
        reused: 83,
        conversions: 89,
        spare: 7,
        refills: 503,
        flushes: 509,
        idle_flushes: 97,
    };
    let mut counts = HeapStatistics::default();
    counts.segments = 3;
    counts.reserved = 32 << 20;
    counts.virtual_bytes = 24 << 20;
    counts.committed = 20 << 20;
    counts.uncommitted = 12 << 20;
    counts.uncommitted_ranges = 41;
    (counts.free, counts.free_blocks) = (5 << 20, 43);
    (counts.large_blocks, counts.large) = (11, 6 << 20);
    (counts.cached_runs, counts.cached_run_bytes) = (5, 240 << 10);
    counts.slot_contention = 223;
    (counts.subsegments, counts.subsegment_bytes) = (53, 7 << 20);
    counts.moved = 13;
    counts.buckets[3] = bucket(17, [2000, 100, 50, 200, 300, 400]);
    counts.buckets[5] = bucket(19, [3000, 110, 60, 220, 330, 441]);
    counts.back.busy[0] = 23;
    counts.back.free[0] = 29;
    counts.back.busy[20] = 31;
    counts.back.free[21] = 37;
    report(&record, &counts)
}

/// Of a bucket: its blocks, then those cached, in quarantine, listed, absent, untouched.
fn bucket(subsegments: u64, blocks: [u64; 6]) -> BucketStatistics {
    let [capacity, cached, quarantined, listed, absent, untouched] = blocks;
    BucketStatistics {
        subsegments,
        capacity,
        cached,
        quarantined,
        listed,
        absent,
        untouched,
    }
}

/// As fragmented as the heap in Probert's talk.
fn standard() -> HeapReport {
    let mut counts = HeapStatistics::default();
    counts.segments = 1;
    counts.reserved = 130_304 << 10;
    counts.virtual_bytes = 96_888 << 10;
    counts.committed = 58_244 << 10;
    counts.uncommitted = (130_304 - 58_244) << 10;
    counts.uncommitted_ranges = 8478;
    (counts.free, counts.free_blocks) = (36_722 << 10, 10_828);
    report(&record(3, FrontEnd::Standard), &counts)
}

fn survey() -> HeapSurvey {
    let process = ProcessHeaps {
        pid: 4711,
        name: "program\u{1b}[31m".to_owned(),
        control_block: 0x7000_0000_0000,
        window: 0x7000_0000_0001,
        layout: 101,
        hardened: true,
        affinity: "rseq",
        growths: 103,
        refusals: 107,
        purges: 109,
        purged_bytes: 1 << 30,
        heaps: vec![low_fragmentation(), standard()],
        validation: Some(ValidationReport {
            units: 2048,
            all_units: 4096,
            partial: true,
            free_blocks: 1021,
            cached_blocks: 1031,
            guarded_blocks: 1033,
            quarantined_blocks: 1039,
            moved: 127,
            damaged: 1,
            damage: vec![DamageReport {
                heap: 2,
                address: 0x7000_4410_0040,
                code: "free-block-tag",
                what: "a free block was written to".to_owned(),
            }],
        }),
        took_us: 1_234_000,
    };
    HeapSurvey {
        schema: HEAP_SCHEMA,
        processes: vec![process],
        unread: vec![UnreadHeaps {
            pid: 4712,
            why: "pid 4712 (other) cannot be read".to_owned(),
            damaged: true,
        }],
        denied: 131,
    }
}

/// Every number of a document except its distribution, which repeats those of the buckets.
fn numbers(document: &Value, into: &mut Vec<String>) {
    match document {
        Value::Number(number) => into.push(number.to_string()),
        Value::Array(values) => values.iter().for_each(|value| numbers(value, into)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "distribution")
            .for_each(|(_, value)| numbers(value, into)),
        _ => {}
    }
}

#[test]
fn a_document_has_each_value_under_its_name() {
    let heap = serde_json::to_value(low_fragmentation()).expect("it is JSON");
    let mut found = Vec::new();
    numbers(&heap, &mut found);
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert_eq!(distinct.len(), found.len(), "a number stands twice in {heap:#}");
    assert!(!distinct.contains(&"0".to_owned()), "{heap:#}");
    let text = serde_json::to_string_pretty(&survey()).expect("it is JSON");
    insta::assert_snapshot!("document", text);
}

#[test]
fn the_book_has_each_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/heap-stat.md");
    let book = std::fs::read_to_string(path).expect("the chapter is there");
    let heap = serde_json::to_value(low_fragmentation()).expect("it is JSON");
    let names = |document: &Value| -> Vec<String> {
        let fields = document.as_object().expect("an object");
        fields.keys().cloned().collect()
    };
    for name in names(&heap).into_iter().chain(names(&heap["front"])) {
        assert!(book.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_text_has_each_value_behind_its_name() {
    insta::assert_snapshot!("text", render(&survey(), HeapDetail::All));
}

#[test]
fn less_detail_leaves_heaps_out_and_says_how_to_see_them() {
    insta::assert_snapshot!("text_of_the_first", render(&survey(), HeapDetail::First));
    let table = render(&survey(), HeapDetail::Table);
    assert!(table.contains("\n00000003 "), "{table}");
    for left_out in ["Heap 2 at", "Address space grew", "--all-heaps"] {
        assert!(!table.contains(left_out), "{left_out}: {table}");
    }
}

#[test]
fn the_word_on_fragmentation_begins_above_a_tenth() {
    let said = |free: u64| {
        let mut counts = HeapStatistics::default();
        (counts.committed, counts.virtual_bytes) = (1000, 1000 + free);
        (counts.free, counts.free_blocks) = (free, 1);
        let mut survey = survey();
        survey.processes[0].heaps = vec![report(&record(3, FrontEnd::Standard), &counts)];
        let line = |detail, words: &str| {
            let text = render(&survey, detail);
            text.lines().any(|line| line.starts_with(words))
        };
        (
            line(HeapDetail::Table, "  External fragmentation  "),
            line(HeapDetail::Table, "  Virtual address fragmentation  "),
            line(HeapDetail::All, "  The low-fragmentation front end would help"),
        )
    };
    assert_eq!(said(100), (false, false, false));
    assert_eq!(said(101), (true, false, true));
    assert_eq!(said(112), (true, true, true));
}

/// The cells of adjacent runs of heap 2, by kind and number of units.
fn cells_of(runs: &[(UnitKind, u32)]) -> Vec<Cell> {
    let mut first = 0;
    let run = |(kind, length): &(UnitKind, u32)| {
        let run = Run {
            first,
            length: *length,
            kind: Some(*kind),
            description: Description {
                bucket: 3,
                heap: 2,
                touched: 3,
                ..Description::default()
            },
        };
        first += length;
        run
    };
    let runs: Vec<Run> = runs.iter().map(run).collect();
    runs.iter().flat_map(|run| cells(run, 0.25)).collect()
}

#[test]
fn the_report_has_a_legend_with_the_bytes_of_each_kind() {
    let cells = cells_of(&[
        (UnitKind::Subsegment, 2),
        (UnitKind::Large, 5),
        (UnitKind::Free, 11),
        (UnitKind::Cached, 4),
        (UnitKind::Standard, 6),
        (UnitKind::Subsegment, 1),
        (UnitKind::Busy, 9),
    ]);
    let survey = survey();
    let page = html(&survey, &[cells]);
    for (class, words) in [
        ("subsegment", "the filled part is in use): 48.0 KiB<"),
        ("large", "large block: 80.0 KiB<"),
        ("standard", "Standard front end: 96.0 KiB<"),
        // Three units of the free extent, and the cached run.
        ("dirty", "free, committed: 112 KiB<"),
        ("uncommitted", "free, uncommitted: 128 KiB<"),
        ("busy", "being freed: 144 KiB<"),
    ] {
        let entry = page
            .split("<li>")
            .find(|entry| entry.starts_with(&format!("<span class=\"swatch {class}\">")));
        assert!(
            entry.is_some_and(|entry| entry.contains(words)),
            "{class}: {entry:?}"
        );
    }
    assert_eq!(page.matches("<svg class=\"units\"").count(), 2, "one a heap");
    let note = |attributes: &str| {
        let (_, rest) = page.split_once(&format!(" {attributes}>")).expect("a note");
        rest.split("</li>").next().expect("it ends")
    };
    let damage = &survey.processes[0].validation.as_ref().expect("a walk").damage[0];
    assert!(note("data-heap=\"2\" data-address=\"0x700044100040\"").ends_with(&damage.what));
    assert!(note("data-unread=\"4712\"").ends_with(&survey.unread[0].why));
    assert!(!page.contains("data-left-out"));
}

#[test]
fn the_report_counts_rows_left_out() {
    let page = html(&survey(), &[cells_of(&[(UnitKind::Large, 128 * 2050)])]);
    assert!(page.contains(" data-left-out=\"2\">"));
}
