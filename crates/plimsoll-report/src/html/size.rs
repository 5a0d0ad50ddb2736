//! The RAM that a program needs, in the section of its runs: sentences and the table of engines.

use crate::drawing::table::{Cell, Column, Table};
use crate::size::{HEADS, TITLE, conditions, notes, row};
use crate::workloads::section::Section;
use plimsoll_model::recording::size::{EngineSize, ProgramSize};

/// Puts the result at the front of the section of the program's runs.
pub(super) fn complete(section: &mut Section, size: &ProgramSize) {
    let sentences = std::iter::once(format!("{}.", conditions(size))).chain(notes(size));
    section.details.splice(0..0, sentences);
    section.tables.insert(0, engines(size));
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
