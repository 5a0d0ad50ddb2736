//! The samples as comma-separated values, a sample a line.

use std::io::{self, Write};

use super::columns;
use crate::csv::field;
use plimsoll_model::recording::Recording;

/// Writes the samples as RFC 4180 has it, lines ended by LF: a header of the columns' names with `t_ns` first, then a
/// line a sample, by time. Unknown values are empty.
///
/// # Errors
/// Those of `output`.
pub fn csv(recording: &Recording, output: &mut impl Write) -> io::Result<()> {
    let samples = &recording.samples;
    let columns = columns(samples);
    write!(output, "t_ns")?;
    for column in &columns {
        write!(output, ",{}", field(column.name))?;
    }
    writeln!(output)?;
    for (index, t_ns) in samples.t_ns().iter().enumerate() {
        write!(output, "{t_ns}")?;
        for column in &columns {
            match column.values.and_then(|values| values.get(index)) {
                Some(value) => write!(output, ",{value}")?,
                None => output.write_all(b",")?,
            }
        }
        writeln!(output)?;
    }
    Ok(())
}
