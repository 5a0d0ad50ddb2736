//! Heaps as an HTML report: one self-contained file without scripts.

use askama::Template;

use super::model::{Cell, CellKind, HeapReport, HeapSurvey, ProcessHeaps};
use super::picture;
use plimsoll_model::quantity;
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::html::parts;

#[derive(Template)]
#[template(path = "heap.html")]
struct View {
    style: String,
    title: String,
    unread: Vec<(u32, String)>,
    processes: Vec<ProcessView>,
}

struct ProcessView {
    pid: u32,
    name: String,
    text: String,
    /// Heap, address and cause of each damage.
    damage: Vec<(u32, String, String)>,
    heaps: Vec<HeapView>,
}

struct HeapView {
    number: u32,
    facts: Vec<(&'static str, String)>,
    legend: Vec<(&'static str, &'static str, String)>,
    drawing: String,
    left_out: usize,
}

const STYLE: &str = include_str!("../../assets/heap/page.css");

/// The report. `cells` has the cells of each process of the survey, in the same order.
pub fn html(survey: &HeapSurvey, cells: &[Vec<Cell>]) -> String {
    let names: Vec<String> = survey
        .processes
        .iter()
        .map(|process| format!("{} ({})", sanitize(&process.name), process.pid))
        .collect();
    let view = View {
        style: format!("{}{STYLE}", parts::look()),
        title: names.join(", "),
        unread: survey
            .unread
            .iter()
            .map(|unread| (unread.pid, sanitize(&unread.why).into_owned()))
            .collect(),
        processes: survey
            .processes
            .iter()
            .zip(cells)
            .map(|(process, cells)| process_view(process, cells))
            .collect(),
    };
    // Rendering into a String fails only if a Display implementation fails; all of them here are std's.
    view.render().unwrap_or_default()
}

fn process_view(process: &ProcessHeaps, cells: &[Cell]) -> ProcessView {
    let one = HeapSurvey {
        schema: super::HEAP_SCHEMA,
        processes: vec![process.clone()],
        unread: Vec::new(),
        denied: 0,
    };
    let damage = process
        .validation
        .iter()
        .flat_map(|validation| &validation.damage);
    ProcessView {
        pid: process.pid,
        name: sanitize(&process.name).into_owned(),
        text: super::text::render(&one, super::HeapDetail::All),
        damage: damage
            .map(|damage| (damage.heap, format!("{:#x}", damage.address), damage.what.clone()))
            .collect(),
        heaps: process
            .heaps
            .iter()
            .map(|heap| {
                let own: Vec<Cell> = cells
                    .iter()
                    .filter(|cell| cell.heap == heap.heap)
                    .cloned()
                    .collect();
                heap_view(process, heap, &own)
            })
            .collect(),
    }
}

fn heap_view(process: &ProcessHeaps, heap: &HeapReport, cells: &[Cell]) -> HeapView {
    let bytes = |bytes: u64| quantity::bytes(bytes as f64);
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"));
    let (drawing, left_out) = picture::svg(cells, process.window, plimsoll_lfh::UNIT as u64);
    HeapView {
        number: heap.heap,
        facts: vec![
            ("front end", heap.front_end.to_owned()),
            ("reserved", bytes(heap.reserved_bytes)),
            ("committed", bytes(heap.committed_bytes)),
            (
                "free in the back end",
                format!("{} in {} blocks", bytes(heap.free_bytes), heap.free_blocks),
            ),
            (
                "external fragmentation",
                percent(heap.external_fragmentation_percent),
            ),
            (
                "virtual address fragmentation",
                format!(
                    "{} ({} uncommitted ranges)",
                    percent(heap.virtual_fragmentation_percent),
                    heap.uncommitted_ranges
                ),
            ),
        ],
        legend: CellKind::ALL
            .iter()
            .filter_map(|kind| {
                let units: u64 = cells
                    .iter()
                    .filter(|cell| cell.kind == *kind)
                    .map(|cell| u64::from(cell.units))
                    .sum();
                let size = bytes(units * plimsoll_lfh::UNIT as u64);
                (units > 0).then(|| (kind.class(), kind.words(), size))
            })
            .collect(),
        drawing,
        left_out,
    }
}
