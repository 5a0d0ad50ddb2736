//! The sizes of the store.

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// The bytes of a page.
pub type Page = [u8; PAGE];

/// Pages of a quad: the group of neighbours that one entry can hold.
pub const QUAD: usize = 4;

/// Bytes of a quad.
pub const QUAD_BYTES: usize = QUAD * PAGE;

/// Bytes of a segment.
pub const SEGMENT: usize = 64 << 10;

/// Bytes of a block of the page file, which is read whole.
pub const BLOCK: usize = 16 << 10;

/// Entries begin and end at multiples of it, so that they are copied by atomic words.
pub(super) const UNIT: usize = 8;

pub(super) const SEGMENT_UNITS: u32 = (SEGMENT / UNIT) as u32;

pub(super) const SEGMENT_PAGES: u32 = (SEGMENT / PAGE) as u32;

/// A page that does not compress to fewer bytes is kept as it is: a longer body would save little and cost a
/// decompression.
pub(super) const LONGEST_BODY: usize = 3 << 10;
