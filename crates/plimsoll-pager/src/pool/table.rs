//! The table of a pool: an entry for each member, with the pages that it was granted.
//!
//! A version of the table is valid or refused as a whole; [`Table::check`] is the executable form of these invariants:
//! - the sum of `charged` over all entries is at most the total of the pool;
//! - `given` <= `charged` in each entry;
//! - `minimum` <= `maximum` <= total, and the sum of the minima is at most the total;
//! - no process has two entries.
//!
//! Checked by `a_changed_bit_of_a_table_is_found` and `tables_that_break_an_invariant_are_refused`.

use super::balance::History;
use super::identity::Identity;
use super::layout::{MOST_MEMBERS, MOST_PAGES, TABLE_WORDS, checksum};

/// Bits of a word for pages; those above are for the number of a grant, or for a priority.
pub(crate) const PAGE_BITS: u32 = 40;
/// The number of a grant counts modulo 2^24.
pub(crate) const NUMBER_MASK: u32 = (1 << (u64::BITS - PAGE_BITS)) - 1;

const ENTRY_WORDS: usize = 8;
const FIRST_ENTRY: usize = 8;
const _: () = assert!(FIRST_ENTRY + MOST_MEMBERS * ENTRY_WORDS == TABLE_WORDS);
/// Place of the sum over the other words.
const CHECKSUM: usize = 7;

/// The share of one member. All sizes are in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// Number of the grant: it counts the changes of `given`.
    pub(crate) number: u32,
    /// The grant: the pages that the member may have resident once it has acknowledged it.
    pub(crate) given: u64,
    /// An upper bound of the pages that the member has resident. No other member gets them.
    pub(crate) charged: u64,
    pub(crate) minimum: u64,
    pub(crate) maximum: u64,
    /// 0 to 7.
    pub(crate) priority: u8,
    /// The member from which it was forked, while that is one: it may share pages with it.
    pub(crate) parent: Option<Identity>,
    pub(crate) history: History,
}

/// A version of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Whether the pool takes no members any more, as its file is about to be removed.
    pub(crate) is_closed: bool,
    /// Time of the last balancing in milliseconds of `CLOCK_MONOTONIC`, which wraps.
    pub(crate) balanced_at: u32,
    /// Times that the pool was balanced.
    pub(crate) rounds: u64,
    pub(crate) entries: [Option<Entry>; MOST_MEMBERS],
}

/// An inconsistency of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names of the fields describe them")]
pub enum Damage {
    /// The head names no buffer.
    #[error("the head names no buffer of the table")]
    Head,
    /// The checksum of the table is not that of its words.
    #[error("the checksum of the table is not that of its words")]
    Checksum,
    /// A word has a value that is never written.
    #[error("entry {row} has an invalid word")]
    Word { row: usize },
    /// A process has two entries.
    #[error("the process of entry {row} has another entry, too")]
    Twice {
        /// The row of the second entry.
        row: usize,
    },
    /// A member was given more than it is charged for.
    #[error("entry {row} has a grant above its charge")]
    Grant { row: usize },
    /// A minimum is above the maximum, or a maximum above the total.
    #[error("entry {row} has limits out of order")]
    Limits { row: usize },
    /// Members are charged for more than there is.
    #[error("members are charged for {charged} pages of {total}")]
    Total {
        /// Sum of the charges in pages.
        charged: u64,
        /// The total in pages.
        total: u64,
    },
    /// The minima cannot be met together.
    #[error("the minima of the members are {minima} pages of {total}")]
    Minima {
        /// Sum of the minima in pages.
        minima: u64,
        /// The total in pages.
        total: u64,
    },
    /// An entry and its row are those of different processes.
    #[error("the process of entry {row} does not have the row")]
    Row { row: usize },
    /// A member acknowledged more than it is charged for.
    #[error("the member of row {row} acknowledged more than it is charged for")]
    Acknowledged { row: usize },
}

impl Entry {
    fn words(&self) -> [u64; ENTRY_WORDS] {
        [
            self.identity.word(),
            u64::from(self.number) << PAGE_BITS | self.given,
            u64::from(self.priority) << PAGE_BITS | self.charged,
            self.minimum,
            self.maximum,
            self.parent.map_or(0, Identity::word),
            self.history.loss,
            self.history.word(),
        ]
    }

    /// None if a word is never written so.
    fn of_words(words: &[u64]) -> Option<Entry> {
        let pages = |word: u64| word & ((1 << PAGE_BITS) - 1);
        let parent = match words[5] {
            0 => None,
            word => Some(Identity::from_word(word)?),
        };
        let entry = Entry {
            identity: Identity::from_word(words[0])?,
            number: (words[1] >> PAGE_BITS) as u32,
            given: pages(words[1]),
            charged: pages(words[2]),
            minimum: words[3],
            maximum: words[4],
            priority: u8::try_from(words[2] >> PAGE_BITS)
                .ok()
                .filter(|priority| *priority <= super::balance::HIGHEST_PRIORITY)?,
            parent,
            history: History::of_words(words[6], words[7])?,
        };
        let sizes = [entry.given, entry.charged, entry.minimum, entry.maximum];
        sizes.iter().all(|pages| *pages <= MOST_PAGES).then_some(entry)
    }
}

impl Table {
    /// A pool without members.
    pub(crate) fn empty() -> Table {
        Table {
            is_closed: false,
            balanced_at: 0,
            rounds: 0,
            entries: [None; MOST_MEMBERS],
        }
    }

    pub(crate) fn words(&self) -> [u64; TABLE_WORDS] {
        let mut words = [0; TABLE_WORDS];
        words[0] = u64::from(self.is_closed);
        words[1] = u64::from(self.balanced_at);
        words[2] = self.rounds;
        let places = words[FIRST_ENTRY..].chunks_exact_mut(ENTRY_WORDS);
        for (place, entry) in places.zip(&self.entries) {
            if let Some(entry) = entry {
                place.copy_from_slice(&entry.words());
            }
        }
        words[CHECKSUM] = sum(&words);
        words
    }

    /// Reads a version and checks it.
    pub(crate) fn of_words(words: &[u64; TABLE_WORDS], total: u64) -> Result<Table, Damage> {
        if words[CHECKSUM] != sum(words) {
            return Err(Damage::Checksum);
        }
        let mut table = Table::empty();
        table.is_closed = words[0] != 0;
        table.balanced_at = words[1] as u32;
        table.rounds = words[2];
        for (row, place) in words[FIRST_ENTRY..].chunks_exact(ENTRY_WORDS).enumerate() {
            if place.iter().any(|word| *word != 0) {
                table.entries[row] = Some(Entry::of_words(place).ok_or(Damage::Word { row })?);
            }
        }
        table.check(total)?;
        Ok(table)
    }

    /// Checks the invariants of this module.
    pub(crate) fn check(&self, total: u64) -> Result<(), Damage> {
        let mut seen = Vec::with_capacity(MOST_MEMBERS);
        for (row, entry) in self.members() {
            seen.push((entry.identity, row));
            if entry.given > entry.charged {
                return Err(Damage::Grant { row });
            }
            if entry.minimum > entry.maximum || entry.maximum > total {
                return Err(Damage::Limits { row });
            }
        }
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Damage::Twice { row: pair[1].1 });
        }
        let charged = self.charged();
        if charged > total {
            return Err(Damage::Total { charged, total });
        }
        let minima = self.minima();
        if minima > total {
            return Err(Damage::Minima { minima, total });
        }
        Ok(())
    }

    /// The entries with their rows.
    pub(crate) fn members(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(row, entry)| Some((row, entry.as_ref()?)))
    }

    /// The row and the entry of a process.
    #[cfg(not(loom))]
    pub(crate) fn of(&self, identity: Identity) -> Option<(usize, &Entry)> {
        self.members().find(|(_, entry)| entry.identity == identity)
    }

    /// Sum of the charges. Pages fit 39 bits and members 7, so that no sum overflows.
    pub(crate) fn charged(&self) -> u64 {
        self.members().map(|(_, entry)| entry.charged).sum()
    }

    /// Sum of the minima.
    pub(crate) fn minima(&self) -> u64 {
        self.members().map(|(_, entry)| entry.minimum).sum()
    }
}

fn sum(words: &[u64; TABLE_WORDS]) -> u64 {
    let parts = [&words[..CHECKSUM], &words[CHECKSUM + 1..]];
    checksum(&parts.map(checksum))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A member with this share, which may have any number of pages up to `total`.
    pub(crate) fn entry(pid: u32, given: u64, charged: u64, total: u64) -> Entry {
        Entry {
            identity: Identity::new(pid, 100).expect("it is a process"),
            number: 1,
            given,
            charged,
            minimum: 0,
            maximum: total,
            priority: 4,
            parent: None,
            history: History::new(total),
        }
    }

    fn table() -> Table {
        let mut table = Table::empty();
        table.balanced_at = u32::MAX;
        table.rounds = 77;
        table.entries[0] = Some(entry(10, 40, 50, 100));
        table.entries[MOST_MEMBERS - 1] = Some(Entry {
            number: NUMBER_MASK,
            minimum: 10,
            maximum: 60,
            priority: 7,
            parent: Identity::new(10, 100),
            ..entry(11, 50, 50, 100)
        });
        table
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        assert_eq!(Table::of_words(&table().words(), 100), Ok(table()));
        assert_eq!(Table::of_words(&Table::empty().words(), 1), Ok(Table::empty()));
    }

    #[test]
    fn a_changed_bit_of_a_table_is_found() {
        for word in 0..TABLE_WORDS {
            for bit in [0, 1, 31, 32, 63] {
                let mut words = table().words();
                words[word] ^= 1 << bit;
                assert_eq!(
                    Table::of_words(&words, 100),
                    Err(Damage::Checksum),
                    "{word} {bit}"
                );
            }
        }
        assert_eq!(Table::of_words(&[0; TABLE_WORDS], 100), Err(Damage::Checksum));
    }

    /// A writer of another kind may compute the checksum; its words are refused all the same.
    #[test]
    fn tables_that_break_an_invariant_are_refused() {
        let refusal = |change: &dyn Fn(&mut Table)| {
            let mut changed = table();
            change(&mut changed);
            Table::of_words(&changed.words(), 100)
        };
        let first =
            |change: fn(&mut Entry)| move |table: &mut Table| table.entries[0].iter_mut().for_each(change);
        assert_eq!(
            refusal(&first(|entry| entry.given = 51)),
            Err(Damage::Grant { row: 0 })
        );
        let over = Damage::Total {
            charged: 101,
            total: 100,
        };
        assert_eq!(refusal(&first(|entry| entry.charged = 51)), Err(over));
        assert_eq!(
            refusal(&first(|entry| entry.maximum = 101)),
            Err(Damage::Limits { row: 0 })
        );
        let minima = first(|entry| {
            entry.minimum = 91;
            entry.maximum = 91;
        });
        let minima = refusal(&minima);
        assert_eq!(
            minima,
            Err(Damage::Minima {
                minima: 101,
                total: 100
            })
        );
        let copy = |table: &mut Table| {
            table.entries[5] = table.entries[0].map(|entry| Entry {
                charged: 0,
                given: 0,
                ..entry
            })
        };
        assert_eq!(refusal(&copy), Err(Damage::Twice { row: 5 }));
        assert_eq!(
            refusal(&first(|entry| entry.priority = 8)),
            Err(Damage::Word { row: 0 })
        );
    }

    #[test]
    fn words_of_any_value_are_refused_or_valid() {
        let mut state = 1_u64;
        for round in 0..2000 {
            let mut words = table().words();
            for _ in 0..=round % 7 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                words[(state >> 33) as usize % TABLE_WORDS] = state.rotate_left(round % 64);
            }
            words[CHECKSUM] = sum(&words);
            if let Ok(table) = Table::of_words(&words, 100) {
                assert_eq!(table.check(100), Ok(()));
            }
        }
    }
}
