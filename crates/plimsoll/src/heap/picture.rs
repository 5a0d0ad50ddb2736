//! The map of a heap: an SVG with one coloured cell per unit.

use std::fmt::Write;

use super::model::{Cell, CellKind};

/// Units in a row: 2 MiB.
const ROW: u32 = 128;
/// Side of a cell in pixels.
const CELL: u32 = 7;
/// Width of the addresses on the left.
const MARGIN: u32 = 100;
/// Maximum of rows; a note counts the others.
const MOST_ROWS: usize = 2048;

/// The map as SVG, and the number of rows left out. `cells` are sorted by their first unit; the window starts at
/// address `window`.
pub(super) fn svg(cells: &[Cell], window: u64, unit: u64) -> (String, usize) {
    let pieces: Vec<Piece<'_>> = cells.iter().flat_map(pieces_of).collect();
    let mut rows: Vec<u32> = pieces.iter().map(|piece| piece.row).collect();
    rows.dedup();
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    rows.truncate(MOST_ROWS);
    let (width, height) = (MARGIN + ROW * CELL, rows.len() as u32 * (CELL + 1) + 4);
    let mut text = format!(
        "<svg class=\"units\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"units of the heap by their content\">"
    );
    let mut pieces = pieces.into_iter().peekable();
    for (at, row) in rows.iter().enumerate() {
        let y = at as u32 * (CELL + 1) + 2;
        if at == 0 || at % 8 == 0 || rows[at - 1] + 1 != *row {
            let address = window + u64::from(*row) * u64::from(ROW) * unit;
            let _ = write!(text, "<text x=\"0\" y=\"{}\">{address:x}</text>", y + CELL);
        }
        while let Some(piece) = pieces.next_if(|piece| piece.row == *row) {
            draw(&mut text, &piece, y);
        }
    }
    text.push_str("</svg>");
    (text, left_out)
}

/// The part of a cell in one row.
struct Piece<'c> {
    row: u32,
    /// First unit, within the row.
    start: u32,
    units: u32,
    cell: &'c Cell,
}

/// The parts of a cell, row by row.
fn pieces_of(cell: &Cell) -> impl Iterator<Item = Piece<'_>> {
    let end = cell.first + cell.units;
    (cell.first / ROW..end.div_ceil(ROW)).map(move |row| {
        let begin = cell.first.max(row * ROW);
        Piece {
            row,
            start: begin - row * ROW,
            units: end.min((row + 1) * ROW) - begin,
            cell,
        }
    })
}

fn draw(text: &mut String, piece: &Piece<'_>, y: u32) {
    let cell = piece.cell;
    let (x, width) = (MARGIN + piece.start * CELL, piece.units * CELL - 1);
    let _ = write!(
        text,
        "<g class=\"{}\"><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL}\"/>",
        cell.kind.class(),
        cell.words()
    );
    if cell.kind == CellKind::Subsegment {
        let empty = f64::from(CELL) * (1.0 - cell.used.clamp(0.0, 1.0));
        let _ = write!(
            text,
            "<rect class=\"empty\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{empty:.1}\"/>"
        );
    }
    text.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(first: u32, units: u32, kind: CellKind, used: f64) -> Cell {
        Cell {
            first,
            units,
            heap: 1,
            kind,
            block_bytes: 48,
            used,
        }
    }

    #[test]
    fn a_cell_is_cut_at_the_ends_of_rows() {
        let cell = cell(120, 300, CellKind::Large, 1.0);
        let pieces: Vec<_> = pieces_of(&cell)
            .map(|piece| (piece.row, piece.start, piece.units))
            .collect();
        assert_eq!(pieces, [(0, 120, 8), (1, 0, 128), (2, 0, 128), (3, 0, 36)]);
        let (drawing, left_out) = svg(&[cell], 0x10_0000, 16 << 10);
        assert_eq!((drawing.matches("<rect").count(), left_out), (4, 0));
    }

    #[test]
    fn a_subsegment_is_filled_by_its_share_of_blocks_in_use() {
        let drawn = |used| svg(&[cell(128 + 2, 4, CellKind::Subsegment, used)], 0, 16 << 10).0;
        let at = "x=\"114\" y=\"2\" width=\"27\"";
        for (used, empty) in [(0.0, "7.0"), (0.5, "3.5"), (1.0, "0.0")] {
            let drawing = drawn(used);
            let cell = format!(
                "<g class=\"subsegment\"><title>units 130 to 133: blocks of 48 bytes, {:.0} % in use</title>\
                                <rect {at} height=\"7\"/><rect class=\"empty\" {at} height=\"{empty}\"/></g>",
                used * 100.0
            );
            assert!(drawing.contains(&cell), "{cell} in {drawing}");
        }
        assert!(drawn(0.5).contains(">200000</text>"), "the row's address");
        for kind in CellKind::ALL {
            let (drawing, _) = svg(&[cell(0, 1, kind, 0.5)], 0, 16 << 10);
            assert!(
                drawing.contains(&format!("<g class=\"{}\">", kind.class())),
                "{drawing}"
            );
            assert_eq!(
                drawing.contains("empty"),
                kind == CellKind::Subsegment,
                "{drawing}"
            );
        }
    }

    #[test]
    fn rows_beyond_the_maximum_are_counted() {
        let most = MOST_ROWS as u32;
        let every_other = |rows: u32| -> Vec<Cell> {
            (0..rows)
                .map(|row| cell(2 * row * ROW, 1, CellKind::Dirty, 0.0))
                .collect()
        };
        for (rows, left_out) in [(most, 0), (most + 3, 3)] {
            let (drawing, left) = svg(&every_other(rows), 0, 16 << 10);
            assert_eq!((drawing.matches("<rect").count(), left), (MOST_ROWS, left_out));
            assert!(drawing.contains(&format!("height=\"{}\" role", most * (CELL + 1) + 4)));
        }
    }
}
