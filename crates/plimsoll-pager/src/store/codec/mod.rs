//! The codecs of entries: each over prepared state, none allocates.
//!
//! Premise of all of them: a body may hold any bytes. Decompression writes only into the buffer that it is given, and
//! reports a body that does not fill it exactly.

mod few_matches;
mod lz4;
mod same;
mod zstd;

pub(super) use lz4::Lz4State;
pub(super) use same::{fill, filling_word};
pub(super) use zstd::{Compressor, Decompressor};

pub(super) use lz4::decompress as decompress_lz4;
