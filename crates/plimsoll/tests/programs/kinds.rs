//! A library with some work for a compiler: sorted, counted and shown collections of many types.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::{self, Display, Formatter};

macro_rules! kinds {
    ($($name:ident)*) => {$(
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            number: u64,
            text: String,
            parts: Vec<u32>,
        }

        impl Display for $name {
            fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
                write!(formatter, "{} {:?} {:?}", self.number, self.text, self.parts)
            }
        }

        impl $name {
            pub fn sorted(mut kinds: Vec<$name>) -> Vec<$name> {
                kinds.sort();
                kinds.dedup_by_key(|kind| kind.number % 7);
                kinds
            }

            pub fn counted(kinds: &[$name]) -> BTreeMap<String, usize> {
                let mut counts: HashMap<&$name, usize> = HashMap::new();
                kinds.iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
                counts.into_iter().map(|(kind, count)| (kind.to_string(), count)).collect()
            }

            pub fn queued(kinds: &[$name]) -> VecDeque<String> {
                let long = |kind: &&$name| kind.text.len() > kind.parts.iter().sum::<u32>() as usize;
                kinds.iter().filter(long).map(|kind| format!("{kind:#?}")).collect()
            }
        }
    )*};
}

kinds! {
    Anchor Ballast Beacon Berth Bilge Boom Bow Bridge Bulkhead Buoy Cabin Cable Capstan Cargo Chart Cleat Compass Crew
    Davit Deck Draft Fathom Fender Flag Galley Halyard Hatch Hawser Helm Hold Hull Jetty Keel Knot Ladder League
}
