//! The RAM that a program needs, as Markdown.

use std::fmt::Write;

use super::{inline, push_code};
use crate::size::{HEADS, TITLE, blocks, conditions, notes, row};
use plimsoll_model::recording::size::ProgramSize;

/// Adds the result to a document.
pub(super) fn push(text: &mut String, size: &ProgramSize) {
    // Writing to a String cannot fail.
    let _ = write!(text, "## {TITLE}\n\n{}\n\n", inline(&conditions(size)));
    let _ = writeln!(text, "| {} |", HEADS.join(" | "));
    let _ = writeln!(text, "|---{}|", "|---:".repeat(HEADS.len() - 1));
    for engine in &size.engines {
        let cells = row(size, engine).map(|cell| inline(&cell));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
    for note in notes(size) {
        let _ = writeln!(text, "- {}", inline(&note));
    }
    text.push('\n');
    for block in blocks(size) {
        push_code(text, &inline(&block.head), &block.lines);
    }
}
