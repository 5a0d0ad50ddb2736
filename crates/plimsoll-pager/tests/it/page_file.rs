//! Page files on real file systems.
#![allow(unsafe_code)]

mod creation;
mod disk;
mod forks;
pub(crate) mod limits;
mod secrecy;
mod signals;

use std::fs::File;
use std::path::{Path, PathBuf};

use plimsoll_pager::page_file::{
    BLOCK_BYTES, Batch, BlockBuffer, PageFile, PageFileOptions, ReadError, SLOT_BYTES, Segment, Slot, Slots,
    WriteFailure, Writer,
};
use tempfile::TempDir;

/// A new folder on the disk that the project is on, or with other temporary files if this user may not write there.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR"))
        .or_else(|_| TempDir::new())
        .unwrap()
}

fn create(folder: &Path, bytes: u64) -> (PageFile, Writer) {
    PageFile::create(folder, bytes, PageFileOptions::default()).unwrap()
}

/// All means, and their replacements.
fn all_options() -> Vec<PageFileOptions> {
    let mut all = Vec::new();
    for number in 0..8 {
        let mut options = PageFileOptions::default();
        options.ring = number & 1 == 0;
        options.direct = number & 2 == 0;
        options.nameless = number & 4 == 0;
        all.push(options);
    }
    all
}

/// A segment that consists of a marker and the seed.
fn segment(seed: u64) -> Box<Segment> {
    let mut bytes = vec![0; SLOT_BYTES];
    for (number, chunk) in bytes.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        chunk[..16].copy_from_slice(MARKER);
        chunk[16..24].copy_from_slice(&seed.to_le_bytes());
        chunk[24..].copy_from_slice(&number.to_le_bytes());
    }
    bytes.try_into().unwrap()
}

/// Text that the file must not hold.
const MARKER: &[u8; 16] = b"plimsoll marker!";

fn write(writer: &mut Writer, segments: &[&Segment]) -> Result<Slots, WriteFailure> {
    let batch: Batch = writer.start(segments).expect("the write starts");
    let completed = writer.complete(true).expect("a write is in flight");
    assert_eq!(completed.batch, batch);
    completed.outcome
}

fn read(file: &PageFile, slot: Slot) -> Result<Box<Segment>, ReadError> {
    let mut bytes = Vec::new();
    let mut buffer = Box::new(BlockBuffer::new());
    for offset in (0..SLOT_BYTES).step_by(BLOCK_BYTES) {
        file.read_block(slot.block_at(offset).unwrap(), &mut buffer)?;
        bytes.extend_from_slice(&buffer.0);
    }
    Ok(bytes.try_into().unwrap())
}

/// The open files of this process in `folder`, through `/proc`: as a user with the same rights can open them.
pub(crate) fn open_files(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .filter(|entry| std::fs::read_link(entry).is_ok_and(|target| target.starts_with(&folder)))
        .filter(|entry| entry.metadata().is_ok_and(|found| found.is_file()))
        .collect()
}

/// The page file in `folder`, opened a second time.
pub(crate) fn reopen(folder: &Path) -> File {
    let files = open_files(folder);
    assert_eq!(files.len(), 1, "{files:?}");
    File::options().read(true).write(true).open(&files[0]).unwrap()
}

pub(crate) fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}
