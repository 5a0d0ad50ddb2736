//! The file of a pool: 2 MiB of 64-bit words in the order of the machine's bytes, of which holes take no memory.
//!
//! | words | content |
//! |---|---|
//! | 0-7 | header: [`Header`] |
//! | 8 | head of the table, see `versioned` |
//! | 9-11 | the last look at the members' processes, see `looks`; older programs ignore them |
//! | 12-15 | zero |
//! | 16-2047 | 127 rows of 16 words, each written by its member alone, see `row` |
//! | 2048-262143 | buffers of the table, two for each row, of 1024 words, see `table` |

use std::ops::Range;

/// Members that a pool has at most.
pub const MOST_MEMBERS: usize = 127;

pub(crate) const HEADER_WORDS: usize = 8;
/// Place of the head.
pub(crate) const HEAD: usize = 8;
/// Words of the last look, and their first place.
pub(crate) const LOOK_WORDS: usize = 3;
const FIRST_LOOK: usize = 9;
pub(crate) const ROW_WORDS: usize = 16;
const FIRST_ROW: usize = 16;
pub(crate) const TABLE_WORDS: usize = 1024;
const FIRST_BUFFER: usize = FIRST_ROW + MOST_MEMBERS * ROW_WORDS;
/// Words of the file.
pub(crate) const WORDS: usize = FIRST_BUFFER + 2 * MOST_MEMBERS * TABLE_WORDS;
/// Bytes of the file.
pub const FILE_BYTES: u64 = WORDS as u64 * 8;

const _: () = assert!(FIRST_BUFFER == 2048 && WORDS == 1 << 18);

/// Bytes of the unit in which grants are counted, whatever the size of the machine's pages.
pub const PAGE: u64 = 4096;

/// The most pages that a pool or a member has: their number fits 40 bits beside that of a grant. 2^39 pages are 2 PiB; sums of
/// 127 of them do not overflow.
pub(crate) const MOST_PAGES: u64 = 1 << 39;

pub(crate) fn row(number: usize) -> Range<usize> {
    let start = FIRST_ROW + number * ROW_WORDS;
    start..start + ROW_WORDS
}

/// The words of the last look.
pub(crate) fn last_look() -> Range<usize> {
    FIRST_LOOK..FIRST_LOOK + LOOK_WORDS
}

pub(crate) fn buffers() -> Range<usize> {
    FIRST_BUFFER..WORDS
}

/// The bytes of the file that hold the two buffers of a row.
pub(crate) fn buffer_bytes(row: usize) -> Range<u64> {
    let start = (FIRST_BUFFER + 2 * row * TABLE_WORDS) as u64 * 8;
    start..start + 2 * TABLE_WORDS as u64 * 8
}

/// The bytes of the file that every pool uses: up to the end of the first buffer.
pub(crate) const FIRST_BYTES: u64 = (FIRST_BUFFER + TABLE_WORDS) as u64 * 8;

const MAGIC: u64 = u64::from_be_bytes(*b"PlimPool");
/// Version of the file's format.
pub(crate) const FORMAT: u32 = 1;

/// The machine, its boot and the namespaces in which numbers and starts of processes are those of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) boot: u64,
    pub(crate) pid_namespace: u64,
    pub(crate) time_namespace: u64,
}

/// The first words of the file. They never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The budget.
    pub(crate) total_pages: u64,
    pub(crate) user: u32,
    pub(crate) place: Place,
}

/// A header that is not that of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    NoPool,
    Format(u32),
    Damaged,
}

impl Header {
    pub(crate) fn words(&self) -> [u64; HEADER_WORDS] {
        let mut words = [
            MAGIC,
            u64::from(FORMAT) << 32 | MOST_MEMBERS as u64,
            self.total_pages,
            u64::from(self.user),
            self.place.boot,
            self.place.pid_namespace,
            self.place.time_namespace,
            0,
        ];
        words[7] = checksum(&words[..7]);
        words
    }

    pub(crate) fn of_words(words: &[u64; HEADER_WORDS]) -> Result<Header, HeaderFault> {
        if words[0] != MAGIC {
            return Err(HeaderFault::NoPool);
        }
        let format = (words[1] >> 32) as u32;
        if format != FORMAT {
            return Err(HeaderFault::Format(format));
        }
        let header = Header {
            total_pages: words[2],
            user: words[3] as u32,
            place: Place {
                boot: words[4],
                pid_namespace: words[5],
                time_namespace: words[6],
            },
        };
        let is_valid = header.words() == *words && (1..=MOST_PAGES).contains(&header.total_pages);
        is_valid.then_some(header).ok_or(HeaderFault::Damaged)
    }
}

/// A sum that changes with any of the words and their order. It finds damage, not forgery: only the user can write to the
/// file.
pub(crate) fn checksum(words: &[u64]) -> u64 {
    let start = 0x9E37_79B9_7F4A_7C15_u64;
    words.iter().fold(start, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 29
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        total_pages: 1000,
        user: 65534,
        place: Place {
            boot: 1,
            pid_namespace: 2,
            time_namespace: 3,
        },
    };

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(Header::of_words(&HEADER.words()), Ok(HEADER));
    }

    /// The words of format 1 are in the files of users: a change of one is a new format.
    #[test]
    fn the_format_stays() {
        let words = HEADER.words();
        assert_eq!(words[0], 0x506C_696D_506F_6F6C);
        assert_eq!(words[1..7], [1 << 32 | 127, 1000, 65534, 1, 2, 3]);
        assert_eq!(words[7], 0xAA91_D858_595A_D429);
    }

    #[test]
    fn a_changed_bit_of_a_header_is_found() {
        for word in 0..HEADER_WORDS {
            for bit in 0..64 {
                let mut words = HEADER.words();
                words[word] ^= 1 << bit;
                assert!(Header::of_words(&words).is_err(), "word {word}, bit {bit}");
            }
        }
        for total_pages in [0, MOST_PAGES + 1, u64::MAX] {
            let words = Header {
                total_pages,
                ..HEADER
            }
            .words();
            assert_eq!(Header::of_words(&words), Err(HeaderFault::Damaged));
        }
    }

    #[test]
    fn rows_and_buffers_do_not_overlap() {
        assert_eq!(row(0).start, HEAD + 8);
        assert!(last_look().start > HEAD && last_look().end <= row(0).start);
        assert_eq!(row(MOST_MEMBERS - 1).end, buffers().start);
        assert_eq!(buffer_bytes(0).start, buffers().start as u64 * 8);
        assert_eq!(buffer_bytes(MOST_MEMBERS - 1).end, FILE_BYTES);
        assert_eq!(FIRST_BYTES, buffer_bytes(0).start + TABLE_WORDS as u64 * 8);
    }
}
