//! The names of a page: its number in the arena, and the place of its copy in the store or the page file.

use super::units::{SEGMENT_UNITS, UNIT};

/// A page of the arena, by its number from the arena's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageIndex(u32);

impl PageIndex {
    /// The page of that number.
    pub const fn new(number: u32) -> PageIndex {
        PageIndex(number)
    }

    /// The page's number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The number of the quad (four pages, 16 KiB, aligned) that a page is in.
pub(super) const fn quad_of(page: PageIndex) -> u32 {
    page.number() >> 2
}

/// The bit of a page among the four of its quad.
pub(super) const fn bit_of(page: PageIndex) -> u8 {
    1 << (page.number() & 3)
}

/// The page of a quad that `bit` stands for.
pub(super) const fn page_of(quad: u32, bit: u8) -> PageIndex {
    PageIndex::new(quad << 2 | bit.trailing_zeros())
}

const IN_FILE: u64 = 1 << 40;
const SAME_FILLED: u64 = 1 << 39;
const UNIT_BITS: u32 = SEGMENT_UNITS.trailing_zeros();
const SEGMENT_BITS: u32 = 39 - UNIT_BITS;

/// Segments that a place can name, in RAM as in the page file: 4 TiB of them.
pub(super) const MOST_SEGMENTS: u32 = 1 << SEGMENT_BITS;

/// Where the copy of a page is. 41 bits.
///
/// | bit | same-filled page | entry of a segment |
/// |---|---|---|
/// | 40 | 0 | 1 in the page file, 0 in RAM |
/// | 39 | 1 | 0 |
/// | 13-38 | 0 in 32-38 | number of the segment, or of its slot in the page file |
/// | 0-12 | 0-31: the word that fills the page | offset in the segment, in units of 8 bytes |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    SameFilled(u32),
    InMemory(Spot),
    InFile(Spot),
}

/// An entry, by its segment and the unit at which it begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    pub(super) segment: u32,
    pub(super) unit: u32,
}

impl Spot {
    /// The offset of the entry in the segment.
    pub(super) const fn offset(self) -> usize {
        self.unit as usize * UNIT
    }
}

impl Place {
    /// Bits of a place.
    pub const BITS: u32 = 41;

    pub(super) const fn same_filled(word: u32) -> Place {
        Place(SAME_FILLED | word as u64)
    }

    /// The numbers must be below [`MOST_SEGMENTS`] and [`SEGMENT_UNITS`].
    pub(super) const fn in_memory(spot: Spot) -> Place {
        debug_assert!(spot.segment < MOST_SEGMENTS && spot.unit < SEGMENT_UNITS);
        Place((spot.segment as u64) << UNIT_BITS | spot.unit as u64)
    }

    /// The same, for a slot of the page file.
    pub(super) const fn in_file(spot: Spot) -> Place {
        Place(Place::in_memory(spot).0 | IN_FILE)
    }

    pub(super) const fn kind(self) -> PlaceKind {
        if self.0 & SAME_FILLED != 0 {
            return PlaceKind::SameFilled(self.0 as u32);
        }
        let spot = Spot {
            segment: (self.0 >> UNIT_BITS) as u32 & (MOST_SEGMENTS - 1),
            unit: self.0 as u32 & (SEGMENT_UNITS - 1),
        };
        if self.0 & IN_FILE != 0 {
            PlaceKind::InFile(spot)
        } else {
            PlaceKind::InMemory(spot)
        }
    }

    /// The 41 bits, for the page's word.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The place of these bits, as [`Place::bits`] gave them; none if no place has them.
    pub const fn of_bits(bits: u64) -> Option<Place> {
        let has_place = match bits & SAME_FILLED {
            0 => bits < 1 << Place::BITS,
            _ => bits & !SAME_FILLED <= u32::MAX as u64,
        };
        if has_place { Some(Place(bits)) } else { None }
    }

    /// Whether all of the page is in the place itself, which then holds no bytes of the store.
    pub const fn is_same_filled(self) -> bool {
        self.0 & SAME_FILLED != 0
    }

    /// The slot of the page file; none if the copy is in RAM.
    pub const fn slot(self) -> Option<u32> {
        match self.kind() {
            PlaceKind::InFile(spot) => Some(spot.segment),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_is_its_bits(segment in 0..MOST_SEGMENTS, unit in 0..SEGMENT_UNITS, word: u32) {
            let spot = Spot { segment, unit };
            let places = [
                (Place::in_memory(spot), PlaceKind::InMemory(spot), None),
                (Place::in_file(spot), PlaceKind::InFile(spot), Some(segment)),
                (Place::same_filled(word), PlaceKind::SameFilled(word), None),
            ];
            for (place, kind, slot) in places {
                prop_assert!(place.bits() < 1 << Place::BITS);
                prop_assert_eq!(Place::of_bits(place.bits()), Some(place));
                prop_assert_eq!((place.kind(), place.slot()), (kind, slot));
            }
        }

        #[test]
        fn bits_that_no_place_has_are_refused(bits: u64) {
            match Place::of_bits(bits) {
                Some(place) => prop_assert_eq!(place.bits(), bits),
                None => prop_assert!(bits >= SAME_FILLED),
            }
        }
    }

    #[test]
    fn a_page_is_its_quad_and_bit() {
        for number in [0, 1, 5, 1023, u32::MAX] {
            let page = PageIndex::new(number);
            assert_eq!(page_of(quad_of(page), bit_of(page)), page);
        }
    }
}
