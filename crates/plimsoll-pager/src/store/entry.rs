//! An entry: a header of 12 bytes and a body, a page or several pages of one quad compressed, or a page as it is.
//!
//! | byte | field |
//! |---|---|
//! | 0-3 | bits 0-13 length of the body, 14-16 codec, 17-20 present, 21-24 live, 25-31 zero |
//! | 4-7 | checksum |
//! | 8-11 | number of the quad |
//! | 12- | body, then zeros to a multiple of 8 |
//!
//! *Present* has a bit for each page of the quad that the body holds, in the order of the bits; *live* those of them that
//! are still in use: [`LIVE_MASK`] bits alone change after the entry was written. The checksum covers all but them.
//!
//! Invariant: a change of any bit of a header or body is reported when the entry is read, or leaves its pages as they
//! were. Checked by `a_flipped_bit_never_yields_a_wrong_page`.

use xxhash_rust::xxh3::xxh3_64;

use super::units::{LONGEST_BODY, PAGE, QUAD, QUAD_BYTES, UNIT};

/// Bytes of a header.
pub(super) const HEADER: usize = 12;

/// Most bytes of an entry, whole units.
pub(super) const LONGEST: usize = (HEADER + QUAD * LONGEST_BODY).next_multiple_of(UNIT);

/// Most bytes of the entry of one page, without the zeros at its end.
pub(super) const LONGEST_PAGE: usize = HEADER + PAGE;

const LENGTH_BITS: u32 = 14;
const CODEC_SHIFT: u32 = LENGTH_BITS;
const PRESENT_SHIFT: u32 = CODEC_SHIFT + 3;
const LIVE_SHIFT: u32 = PRESENT_SHIFT + 4;

/// The live bits of an entry's first word.
pub(super) const LIVE_MASK: u64 = 0b1111 << LIVE_SHIFT;

const _: () = assert!(QUAD * LONGEST_BODY < 1 << LENGTH_BITS && PAGE < 1 << LENGTH_BITS);

/// The live bits of some pages, in an entry's first word.
pub(super) const fn live_bits(pages: u8) -> u64 {
    (pages as u64) << LIVE_SHIFT
}

/// The pages whose live bits an entry's first word has.
pub(super) const fn live_pages(first_word: u64) -> u8 {
    ((first_word & LIVE_MASK) >> LIVE_SHIFT) as u8
}

/// How the body holds its pages. 0 is none: zeroed memory is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Codec {
    /// One page, an LZ4 block.
    Lz4 = 1,
    /// One to four pages, a Zstandard frame.
    Zstd = 2,
    /// One page as it is.
    Raw = 3,
    /// One page, the word of 8 bytes that fills it.
    Same = 4,
}

impl Codec {
    fn of(number: u32) -> Option<Codec> {
        Some(match number {
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            3 => Codec::Raw,
            4 => Codec::Same,
            _ => return None,
        })
    }

    /// Whether a body of that length can hold so many pages.
    fn allows(self, length: usize, pages: usize) -> bool {
        match self {
            Codec::Lz4 => pages == 1 && (1..=LONGEST_BODY).contains(&length),
            Codec::Zstd => (1..=LONGEST_BODY * pages).contains(&length),
            Codec::Raw => pages == 1 && length == PAGE,
            Codec::Same => pages == 1 && length == size_of::<u64>(),
        }
    }
}

/// The fields of a header, except the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the body.
    pub(super) length: usize,
    pub(super) codec: Codec,
    /// The pages of the quad in the body, a bit each.
    pub(super) present: u8,
    /// The pages in use, a bit each.
    pub(super) live: u8,
    pub(super) quad: u32,
}

/// The share of an entry that its pages in use have of the bytes in use of its segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) units: u32,
    /// Pages in the body.
    pub(super) pages: u32,
}

impl Weight {
    /// Units in use while those pages are.
    pub(super) const fn of(self, live: u8) -> u32 {
        (self.units * live.count_ones()).div_ceil(self.pages)
    }
}

/// Why bytes are no intact entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The place is outside of the store.
    #[error("the place is outside of the store")]
    Place,
    /// The header has values that no entry has.
    #[error("the entry's header has values that no entry has")]
    Header,
    /// The entry is that of another page.
    #[error("the entry is that of another page")]
    Owner,
    /// The page was freed before.
    #[error("the page was freed before")]
    Freed,
    /// Bytes of the entry have changed.
    #[error("the entry's checksum does not match its bytes")]
    Checksum,
    /// The checksum matches, but the codec does not yield a page.
    #[error("the entry does not decompress to a page")]
    Body,
}

impl Header {
    /// A value to be replaced.
    pub(super) const NONE: Header = Header {
        length: 0,
        codec: Codec::Raw,
        present: 0,
        live: 0,
        quad: 0,
    };

    /// The fields in an entry's first two words.
    ///
    /// # Errors
    /// [`Flaw::Header`] for fields that no entry has.
    pub(super) fn read(first_word: u64, second_word: u64) -> Result<Header, Flaw> {
        let fields = first_word as u32;
        let header = Header {
            length: (fields & ((1 << LENGTH_BITS) - 1)) as usize,
            codec: Codec::of(fields >> CODEC_SHIFT & 0b111).ok_or(Flaw::Header)?,
            present: (fields >> PRESENT_SHIFT & 0b1111) as u8,
            live: live_pages(first_word),
            quad: second_word as u32,
        };
        let is_entry = fields >> (LIVE_SHIFT + 4) == 0
            && header.live & !header.present == 0
            && header.present != 0
            && header.codec.allows(header.length, header.pages());
        if is_entry { Ok(header) } else { Err(Flaw::Header) }
    }

    /// Pages in the body.
    pub(super) fn pages(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// Bytes of the entry, whole units.
    pub(super) fn bytes(&self) -> usize {
        (HEADER + self.length).next_multiple_of(UNIT)
    }

    /// The share of the pages in use.
    pub(super) fn weight(&self) -> Weight {
        Weight {
            units: self.units(),
            pages: self.present.count_ones(),
        }
    }

    pub(super) fn units(&self) -> u32 {
        (self.bytes() / UNIT) as u32
    }

    /// Bytes that the body decompresses to.
    pub(super) fn plain_bytes(&self) -> usize {
        self.pages() * PAGE
    }

    /// The position of a page among those that the body decompresses to; none if it is not present.
    pub(super) fn position(&self, bit: u8) -> Option<usize> {
        (self.present & bit != 0).then(|| (self.present & (bit - 1)).count_ones() as usize)
    }

    fn fields(&self) -> u32 {
        self.length as u32
            | (self.codec as u32) << CODEC_SHIFT
            | u32::from(self.present) << PRESENT_SHIFT
            | u32::from(self.live) << LIVE_SHIFT
    }

    fn checksum(&self, body: &[u8]) -> u32 {
        let covered = u64::from(self.fields()) & !LIVE_MASK | u64::from(self.quad) << 32;
        // Multiplication by an odd number and a shift lose nothing: other fields or another hash make another value,
        // of which half is kept.
        let mixed = (xxh3_64(body) ^ covered).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    }

    /// Writes the header before the body in `entry`, and zeros behind it.
    pub(super) fn seal(&self, entry: &mut [u8; LONGEST]) {
        let end = HEADER + self.length;
        entry[end..self.bytes()].fill(0);
        let checksum = self.checksum(&entry[HEADER..end]);
        entry[..4].copy_from_slice(&self.fields().to_le_bytes());
        entry[4..8].copy_from_slice(&checksum.to_le_bytes());
        entry[8..12].copy_from_slice(&self.quad.to_le_bytes());
    }

    /// Reads the header of the entry at the start of `bytes`, and checks the entry.
    ///
    /// # Errors
    /// [`Flaw::Header`] for fields that no entry has, [`Flaw::Checksum`] for changed bytes.
    pub(super) fn check(bytes: &[u8]) -> Result<Header, Flaw> {
        let (Some(first), Some(second)) = (word(bytes, 0), word(bytes, 1)) else {
            return Err(Flaw::Header);
        };
        let header = Header::read(first, second)?;
        let body = bytes.get(HEADER..HEADER + header.length).ok_or(Flaw::Header)?;
        if header.checksum(body) != (first >> 32) as u32 {
            return Err(Flaw::Checksum);
        }
        Ok(header)
    }
}

/// The word of eight bytes at number `index` of an entry. Entries are little-endian, in RAM too: a page file may be read
/// by words or by bytes.
fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * UNIT..(index + 1) * UNIT)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

const _: () = assert!(QUAD_BYTES / PAGE == 4, "a quad's pages have four bits");

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            length: 100,
            codec: Codec::Zstd,
            present: 0b1011,
            live: 0b1010,
            quad: 0xfeed_beef,
        }
    }

    #[test]
    fn a_sealed_header_is_read_back() {
        let mut entry = [0xaa; LONGEST];
        header().seal(&mut entry);
        assert_eq!(Header::check(&entry), Ok(header()));
        assert_eq!(header().bytes() % UNIT, 0);
        assert_eq!(
            entry[HEADER + 100..header().bytes()],
            [0; 0][..],
            "100 + 12 needs no zeros"
        );
    }

    #[test]
    fn live_bits_alone_may_change() {
        let mut sealed = [0x3c; LONGEST];
        header().seal(&mut sealed);
        for bit in 0..(HEADER + 100) * 8 {
            let mut entry = sealed;
            entry[bit / 8] ^= 1 << (bit % 8);
            let read = Header::check(&entry);
            let is_live_of_present = live_pages(1 << bit.min(63)) & header().present != 0;
            assert_eq!(read.is_ok(), is_live_of_present && bit < 32, "bit {bit}");
        }
    }

    #[test]
    fn positions_count_the_pages_present_before() {
        let positions = [1, 2, 4, 8].map(|bit| header().position(bit));
        assert_eq!(positions, [Some(0), Some(1), None, Some(2)]);
    }

    #[test]
    fn zeros_are_no_entry() {
        assert_eq!(Header::check(&[0; 64]), Err(Flaw::Header));
        assert_eq!(Header::check(&[]), Err(Flaw::Header));
    }
}
