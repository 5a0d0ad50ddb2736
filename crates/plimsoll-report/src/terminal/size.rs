//! The RAM that a program needs, on a terminal.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment};

use super::{ruled, wrap};
use crate::size::{HEADS, blocks, conditions, notes, row};
use plimsoll_model::recording::size::ProgramSize;
use plimsoll_model::sanitize::sanitize;

/// The result for a terminal of `width` columns. Lines of configuration are not broken. Ends with a line feed.
pub fn program_size(size: &ProgramSize, width: u16, colour: bool) -> String {
    let mut out = wrap(&conditions(size), width, "  ");
    let mut table = ruled(HEADS.iter().map(|head| (*head).to_owned()), colour);
    for engine in &size.engines {
        let cells = row(size, engine).into_iter().enumerate();
        table.add_row(cells.map(|(place, text)| {
            let cell = Cell::new(sanitize(&text));
            match place {
                0 => cell,
                _ => cell.set_alignment(CellAlignment::Right),
            }
        }));
    }
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{table}");
    for note in notes(size) {
        out.push_str(&wrap(&note, width, "  "));
    }
    for block in blocks(size) {
        out.push('\n');
        out.push_str(&wrap(&block.head, width, "  "));
        for line in &block.lines {
            let _ = writeln!(out, "    {}", sanitize(line));
        }
    }
    out
}
