//! Tests over a file that fails by order, in memory. Tests over real files are in `tests/it`.

mod errors;
pub(crate) mod faulty;
mod model;
mod nonces;
mod space;
mod speed;
mod threads;

use std::path::Path;
use std::sync::Arc;

use faulty::Faulty;

use super::queue::{Plain, Queue};
use super::*;

/// A page file of so many MiB on `file`, which writes when it is asked to.
pub(crate) fn page_file(file: &Arc<Faulty>, mebibytes: u32) -> (PageFile, Writer) {
    let backing = Arc::clone(file);
    PageFile::on(backing, mebibytes, Path::new("/faulty"), |backing, _| {
        Ok(Box::new(Plain::new(backing)?) as Box<dyn Queue>)
    })
    .unwrap()
}

/// A segment whose bytes follow from `seed`, and differ between seeds everywhere.
fn segment(seed: u64) -> Box<Segment> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = vec![0; SLOT_BYTES];
    for word in bytes.as_chunks_mut::<8>().0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *word = state.to_le_bytes();
    }
    bytes.try_into().unwrap()
}

/// Writes segments and waits for them.
fn write(writer: &mut Writer, segments: &[&Segment]) -> Result<Slots, WriteFailure> {
    let batch = writer.start(segments).expect("the write starts");
    let completed = writer.complete(true).expect("a write is in flight");
    assert_eq!(completed.batch, batch);
    completed.outcome
}

/// Reads a whole slot.
fn read(file: &PageFile, slot: Slot) -> Result<Box<Segment>, ReadError> {
    let mut bytes = Vec::new();
    let mut buffer = Box::new(BlockBuffer::new());
    for offset in (0..SLOT_BYTES).step_by(BLOCK_BYTES) {
        file.read_block(slot.block_at(offset).unwrap(), &mut buffer)?;
        bytes.extend_from_slice(&buffer.0);
    }
    Ok(bytes.try_into().unwrap())
}
