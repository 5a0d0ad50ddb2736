//! The part of the HTML report: the sentences and the table of engines in the section of the program's runs, and the marks
//! of its curve.

use super::words::{HEADS, TITLE, conditions, notes, row};
use crate::drawing::table::{Cell, Column, Table};
use crate::workloads::section::Section;
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::size::{EngineSize, ProgramSize};

/// Puts the result at the front of the section of the program's runs.
pub(crate) fn complete(section: &mut Section, size: &ProgramSize) {
    let sentences = std::iter::once(format!("{}.", conditions(size))).chain(notes(size));
    section.details.splice(0..0, sentences);
    section.tables.insert(0, engines(size));
}

/// The RAM that the program needs on each engine, as places on the axis of the limit.
pub(crate) fn marks(size: &ProgramSize) -> Vec<(f64, String)> {
    let mark = |engine: &EngineSize| {
        let needed = engine.recommended_bytes? as f64;
        Some((needed, format!("{} needs {}", engine.engine, bytes(needed))))
    };
    size.engines.iter().filter_map(mark).collect()
}

fn engines(size: &ProgramSize) -> Table<'static> {
    let numbers = |engine: &EngineSize| {
        [
            engine.recommended_bytes,
            engine.recommended_bytes,
            engine.knee_bytes,
            engine.knee_low_bytes,
            engine.swap_bytes,
            Some(u64::from(engine.repeats)),
        ]
    };
    let rows = size.engines.iter().map(|engine| {
        let [name, others @ ..] = row(size, engine);
        let numbers = others.into_iter().zip(numbers(engine));
        let numbers = numbers.map(|(text, value)| match value {
            Some(value) => Cell::number(value as f64, text),
            None => Cell::missing(),
        });
        std::iter::once(Cell::text(name)).chain(numbers).collect()
    });
    let columns = HEADS.iter().enumerate();
    Table {
        id: "engines",
        title: TITLE,
        columns: columns
            .map(|(place, head)| Column::new(*head, place > 0))
            .collect(),
        rows: rows.collect(),
    }
}
