//! Heaps as text for a terminal, with the columns of the Windows debugger (`!heap -s`).

use std::fmt::Write;

use plimsoll_lfh::inspect::MOST_DAMAGES;

use super::model::{FrontReport, HeapReport, HeapSurvey, ProcessHeaps, ValidationReport};
use plimsoll_model::quantity::{bytes, seconds};
use plimsoll_model::sanitize::sanitize;

/// Percent of fragmentation above which a heap gets a line about it; the literature has 10 to 15.
const FRAGMENTED_PERCENT: f64 = 10.0;

/// The heaps to print in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeapDetail {
    /// None: only the table.
    Table,
    /// The process heap.
    First,
    All,
}

/// The survey as text with a final line feed.
pub fn render(survey: &HeapSurvey, detail: HeapDetail) -> String {
    let mut text = String::new();
    for (at, process) in survey.processes.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        process_text(&mut text, process, detail);
    }
    for unread in &survey.unread {
        let _ = writeln!(text, "! {}", sanitize(&unread.why));
    }
    if survey.processes.is_empty() && survey.unread.is_empty() {
        text.push_str("no process that this user can read runs on this heap\n");
    }
    if survey.denied > 0 {
        let _ = writeln!(
            text,
            "- this user cannot read {}",
            counted(survey.denied.into(), "other process", "other processes")
        );
    }
    text
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn process_text(text: &mut String, process: &ProcessHeaps, detail: HeapDetail) {
    let heaps = counted(process.heaps.len() as u64, "heap", "heaps");
    let affinity = match process.affinity {
        "rseq" => ", slots by restartable sequences",
        "lock" => ", slots by locks",
        _ => "",
    };
    let profile = if process.hardened { ", hardened" } else { "" };
    let _ = writeln!(
        text,
        "pid {} {}: {heaps}{affinity}{profile}; read in {}\n",
        process.pid,
        sanitize(&process.name),
        seconds(process.took_us as f64 / 1e6)
    );
    table(text, &process.heaps);
    let full = match detail {
        HeapDetail::Table => 0,
        HeapDetail::First => 1,
        HeapDetail::All => process.heaps.len(),
    };
    if full > 0 {
        window_text(text, process);
    }
    for heap in process.heaps.iter().take(full) {
        heap_text(text, heap);
    }
    if full < process.heaps.len() && detail == HeapDetail::First {
        text.push_str("\n--all-heaps prints the others in full\n");
    }
    if let Some(validation) = &process.validation {
        validation_text(text, validation);
    }
}

fn table(text: &mut String, heaps: &[HeapReport]) {
    let _ = writeln!(
        text,
        "Heap     Flags     Reserv    Commit      Virt      Free    List     UCR    Virt      Lock  Fast\n                    \
                             (k)       (k)       (k)       (k)  length          blocks     cont.  heap\n{}",
        "-".repeat(96)
    );
    let k = |bytes: u64| bytes / 1024;
    for heap in heaps {
        let _ = writeln!(
            text,
            "{:08x} {:08x} {:>8} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7} {:>9}  {}",
            heap.heap,
            heap.flags,
            k(heap.reserved_bytes),
            k(heap.committed_bytes),
            k(heap.virtual_bytes),
            k(heap.free_bytes),
            heap.free_blocks,
            heap.uncommitted_ranges,
            heap.virtual_blocks,
            heap.lock_contention,
            if heap.front.is_some() { "LFH" } else { "" },
        );
        let high = |percent: Option<f64>| percent.filter(|percent| *percent > FRAGMENTED_PERCENT);
        if let Some(percent) = high(heap.external_fragmentation_percent) {
            let _ = writeln!(
                text,
                "  External fragmentation  {percent:.0} % ({})",
                counted(heap.free_blocks, "free block", "free blocks")
            );
        }
        if let Some(percent) = high(heap.virtual_fragmentation_percent) {
            let _ = writeln!(
                text,
                "  Virtual address fragmentation  {percent:.0} % ({})",
                counted(heap.uncommitted_ranges, "uncommitted range", "uncommitted ranges")
            );
        }
    }
    let _ = writeln!(text, "{}", "-".repeat(96));
}

fn window_text(text: &mut String, process: &ProcessHeaps) {
    let times = |count| counted(count, "time", "times");
    let _ = writeln!(
        text,
        "Address space grew {}, refused {}; pages returned to the kernel {}, {}",
        times(process.growths),
        times(process.refusals),
        times(process.purges),
        bytes(process.purged_bytes as f64)
    );
}

fn heap_text(text: &mut String, heap: &HeapReport) {
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"));
    let names = match heap.flag_names.is_empty() {
        true => String::new(),
        false => format!(" - {}", heap.flag_names.join(", ")),
    };
    let _ = writeln!(text, "\nHeap {} at {:#x}", heap.heap, heap.address);
    let lines: [(&str, String); 12] = [
        ("Flags", format!("{:08x}{names}", heap.flags)),
        ("Front end", heap.front_end.to_owned()),
        ("Reserved", bytes(heap.reserved_bytes as f64)),
        ("Committed", bytes(heap.committed_bytes as f64)),
        ("Virtual bytes", bytes(heap.virtual_bytes as f64)),
        ("Free space", bytes(heap.free_bytes as f64)),
        (
            "External fragmentation",
            format!(
                "{} ({})",
                percent(heap.external_fragmentation_percent),
                counted(heap.free_blocks, "free block", "free blocks")
            ),
        ),
        (
            "Virtual address fragmentation",
            format!(
                "{} ({})",
                percent(heap.virtual_fragmentation_percent),
                counted(heap.uncommitted_ranges, "uncommitted range", "uncommitted ranges")
            ),
        ),
        (
            "Virtual blocks",
            format!(
                "{} ({})",
                heap.virtual_blocks,
                bytes(heap.virtual_block_bytes as f64)
            ),
        ),
        (
            "Cached runs",
            format!("{} ({})", heap.cached_runs, bytes(heap.cached_run_bytes as f64)),
        ),
        ("Lock contention", heap.lock_contention.to_string()),
        ("Segments", heap.segments.to_string()),
    ];
    pairs(text, &lines);
    if let Some(front) = &heap.front {
        front_text(text, front);
    } else if heap.external_fragmentation_percent > Some(FRAGMENTED_PERCENT) {
        text.push_str("  The low-fragmentation front end would help: fragmentation is above 10 %.\n");
    }
    distribution_text(text, heap);
    if heap.moved_units > 0 {
        let _ = writeln!(
            text,
            "  {} units changed during the read and are not counted.",
            heap.moved_units
        );
    }
}

fn pairs(text: &mut String, lines: &[(&str, String)]) {
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<30} {value}");
    }
}

fn front_text(text: &mut String, front: &FrontReport) {
    text.push_str("\n  Low-fragmentation front end\n");
    let lines: [(&str, String); 9] = [
        (
            "Affinity slots",
            format!("{} in use of {}", front.affinity_slots, front.affinity_limit),
        ),
        (
            "Statistics",
            format!("swaps {}, resets {}", front.swaps, front.resets),
        ),
        ("Lock contention", front.lock_contention.to_string()),
        ("Metadata usage", bytes(front.metadata_bytes as f64)),
        (
            "Subsegments",
            format!("{} ({})", front.subsegments, bytes(front.subsegment_bytes as f64)),
        ),
        (
            "Subsegments created",
            format!(
                "{}, deleted {}, reused {}",
                front.created, front.deleted, front.reused
            ),
        ),
        ("Conversions", front.conversions.to_string()),
        ("Kept empty", front.kept_empty.to_string()),
        ("Buckets in use", front.buckets.len().to_string()),
    ];
    pairs(text, &lines);
    text.push_str(
        "\n  Bucket  Subsegments   Capacity       Busy     Cached Quarantined     Listed     Absent  Untouched\n",
    );
    for bucket in &front.buckets {
        let _ = writeln!(
            text,
            "  {:>6} {:>12} {:>10} {:>10} {:>10} {:>11} {:>10} {:>10} {:>10}",
            bucket.block_bytes,
            bucket.subsegments,
            bucket.capacity,
            bucket.busy,
            bucket.cached,
            bucket.quarantined,
            bucket.listed,
            bucket.absent,
            bucket.untouched
        );
    }
}

fn distribution_text(text: &mut String, heap: &HeapReport) {
    text.push_str("\n  Blocks distribution            Default heap             Front heap\n");
    text.push_str("  Range (bytes)                 Busy       Free        Busy       Free\n");
    let mut total = [0; 4];
    for range in &heap.distribution {
        let counts = [
            range.back_busy,
            range.back_free,
            range.front_busy,
            range.front_free,
        ];
        for (sum, count) in total.iter_mut().zip(counts) {
            *sum += count;
        }
        let name = format!("{} - {}", range.above_bytes, range.to_bytes);
        let _ = writeln!(
            text,
            "  {name:<24} {:>9} {:>10} {:>11} {:>10}",
            counts[0], counts[1], counts[2], counts[3]
        );
    }
    let _ = writeln!(
        text,
        "  {:<24} {:>9} {:>10} {:>11} {:>10}",
        "Total", total[0], total[1], total[2], total[3]
    );
}

fn validation_text(text: &mut String, validation: &ValidationReport) {
    let _ = writeln!(
        text,
        "\nValidated {}{} units, {} free blocks, {} blocks in slots: {}",
        validation.units,
        match validation.partial {
            true => format!(" of {}", validation.all_units),
            false => String::new(),
        },
        validation.free_blocks,
        validation.cached_blocks,
        match validation.damaged {
            0 => "no damage".to_owned(),
            MOST_DAMAGES => format!("{MOST_DAMAGES} damages; the walk ended there"),
            some => counted(some, "damage", "damages"),
        }
    );
    if validation.partial && validation.damaged < MOST_DAMAGES {
        let _ = writeln!(
            text,
            "  the check ended there, as too much changed whenever it was read; the rest has no verdict: repeat it when the \
             program is less busy"
        );
    }
    if validation.moved > 0 {
        let _ = writeln!(
            text,
            "  {} changed during the read and have no verdict",
            validation.moved
        );
    }
    for damage in &validation.damage {
        let _ = writeln!(
            text,
            "! heap {} at {:#x}: {}",
            damage.heap, damage.address, damage.what
        );
    }
}
