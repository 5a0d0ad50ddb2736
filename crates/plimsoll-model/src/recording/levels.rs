//! Bytes in each category of memory at one moment of a phase.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::categories::{CATEGORIES, COUNT, Categories};

/// Bytes by category, as a map from names to bytes in documents.
///
/// A recording of 10,000 trials has 80,000 of these, so they hold the bytes of [`CATEGORIES`] by place: a map of names takes
/// seven times the memory, and an allocation for each name. Names of other versions stay, too.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Levels {
    /// By the order of [`CATEGORIES`]; 0 if not present.
    bytes: [i64; COUNT],
    /// A bit for each present category.
    present: u16,
    /// Names that are no category of this version.
    others: BTreeMap<String, i64>,
}

const _: () = assert!(COUNT <= u16::BITS as usize);

/// Places in [`CATEGORIES`] in the order of their names.
const BY_NAME: [usize; COUNT] = by_name();

const fn by_name() -> [usize; COUNT] {
    let mut places = [0; COUNT];
    let mut sorted = 0;
    while sorted < COUNT {
        let mut at = sorted;
        while at > 0 && is_less(CATEGORIES[sorted].name, CATEGORIES[places[at - 1]].name) {
            places[at] = places[at - 1];
            at -= 1;
        }
        places[at] = sorted;
        sorted += 1;
    }
    places
}

/// Order of strings by bytes; that of the standard library is not const.
const fn is_less(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut at = 0;
    while at < left.len() && at < right.len() {
        if left[at] != right[at] {
            return left[at] < right[at];
        }
        at += 1;
    }
    left.len() < right.len()
}

fn place(name: &str) -> Option<usize> {
    CATEGORIES.iter().position(|category| category.name == name)
}

impl Levels {
    /// Bytes of the category `name`; `None` if it is not known.
    pub fn get(&self, name: &str) -> Option<i64> {
        match place(name) {
            Some(place) => self.at(place),
            None => self.others.get(name).copied(),
        }
    }

    fn at(&self, place: usize) -> Option<i64> {
        (self.present & 1 << place != 0).then_some(self.bytes[place])
    }

    pub fn insert(&mut self, name: &str, bytes: i64) {
        match place(name) {
            Some(place) => self.set(place, bytes),
            None => {
                self.others.insert(name.to_owned(), bytes);
            }
        }
    }

    fn set(&mut self, place: usize, bytes: i64) {
        self.bytes[place] = bytes;
        self.present |= 1 << place;
    }

    /// Each category with its bytes, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let known = BY_NAME
            .into_iter()
            .filter_map(|place| Some((CATEGORIES[place].name, self.at(place)?)));
        let others = self.others.iter();
        Merged {
            left: known.peekable(),
            right: others.map(|(name, bytes)| (name.as_str(), *bytes)).peekable(),
        }
    }

    /// The names of the known categories, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }
}

/// Two sorted sequences without a common name as one.
struct Merged<L: Iterator, R: Iterator> {
    left: std::iter::Peekable<L>,
    right: std::iter::Peekable<R>,
}

impl<'a, L: Iterator<Item = (&'a str, i64)>, R: Iterator<Item = (&'a str, i64)>> Iterator for Merged<L, R> {
    type Item = (&'a str, i64);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.left.peek(), self.right.peek()) {
            (Some(left), Some(right)) if right.0 < left.0 => self.right.next(),
            (Some(_), _) => self.left.next(),
            (None, _) => self.right.next(),
        }
    }
}

impl From<Categories> for Levels {
    fn from(categories: Categories) -> Levels {
        Levels {
            bytes: categories.bytes(),
            present: (1 << COUNT) - 1,
            others: BTreeMap::new(),
        }
    }
}

impl<'a> FromIterator<(&'a str, i64)> for Levels {
    fn from_iter<T: IntoIterator<Item = (&'a str, i64)>>(entries: T) -> Levels {
        let mut levels = Levels::default();
        for (name, bytes) in entries {
            levels.insert(name, bytes);
        }
        levels
    }
}

impl Serialize for Levels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Levels {
    fn deserialize<D: Deserializer<'de>>(document: D) -> Result<Levels, D::Error> {
        document.deserialize_map(LevelsVisitor)
    }
}

struct LevelsVisitor;

impl<'de> Visitor<'de> for LevelsVisitor {
    type Value = Levels;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Levels, A::Error> {
        let mut levels = Levels::default();
        while let Some(name) = map.next_key::<Name>()? {
            let bytes = map.next_value()?;
            match name {
                Name::Known(place) => levels.set(place, bytes),
                Name::Other(name) => levels.insert(&name, bytes),
            }
        }
        Ok(levels)
    }
}

/// The key of a map: allocated only if it is no category.
enum Name {
    Known(usize),
    Other(String),
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(document: D) -> Result<Name, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(place(name).map_or_else(|| Name::Other(name.to_owned()), Name::Known))
            }
        }
        document.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_name() -> impl Strategy<Value = String> {
        let known = prop::sample::select(CATEGORIES.map(|category| category.name.to_owned()).to_vec());
        prop_oneof![known, "[a-z_]{0,12}"]
    }

    proptest! {
        /// Levels were such a map: documents with names of any version look the same.
        #[test]
        fn levels_are_written_and_read_as_a_map_of_names(
            map in prop::collection::btree_map(any_name(), any::<i64>(), 0..20)
        ) {
            let text = serde_json::to_string(&map).unwrap();
            let levels: Levels = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(serde_json::to_string(&levels).unwrap(), text);
            let expected: Vec<(&str, i64)> = map.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
            prop_assert_eq!(levels.iter().collect::<Vec<_>>(), expected);
            for (name, bytes) in &map {
                prop_assert_eq!(levels.get(name), Some(*bytes));
            }
            prop_assert_eq!(levels.get("no such name"), None);
        }
    }

    #[test]
    fn the_last_of_equal_names_counts_as_in_a_map() {
        let levels: Levels = serde_json::from_str(r#"{"free":1,"x":2,"free":3,"x":4}"#).unwrap();
        assert_eq!(levels.iter().collect::<Vec<_>>(), [("free", 3), ("x", 4)]);
    }

    #[test]
    fn a_value_that_is_no_number_is_an_error() {
        for text in [r#"{"free":null}"#, r#"{"free":1.5}"#, "[]", "7"] {
            assert!(serde_json::from_str::<Levels>(text).is_err(), "{text}");
        }
    }
}
