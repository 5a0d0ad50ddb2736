//! One combination of a section's values, and the sizes that come of it.

use super::document::Entry;
use super::error::{Invalid, Place, Problem};
use super::keys::{Id, Key};
use super::model::Machine;
use super::size::{Base, SizeExpr};
use super::value::Value;

/// Sizes are rounded up to whole pages of this many bytes.
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// How much smaller sizes are than written: `--quick` for a scenario that does not say what quick is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    numerator: u64,
    denominator: u64,
}

impl Scale {
    /// As written.
    pub(super) const ONE: Scale = Scale {
        numerator: 1,
        denominator: 1,
    };

    /// Smaller by `target / from`, which is at most 1; `from` is not 0.
    pub(super) fn new(target: u64, from: u64) -> Self {
        Scale {
            numerator: target,
            denominator: from,
        }
    }

    fn of(self, bytes: u64) -> u64 {
        let scaled = u128::from(bytes) * u128::from(self.numerator) / u128::from(self.denominator);
        u64::try_from(scaled).unwrap_or(bytes)
    }
}

/// One combination of a section's values.
pub(super) struct Assignment<'a> {
    pub(super) machine: &'a Machine,
    pub(super) scale: Scale,
    pub(super) entries: &'a [Entry],
    /// Index of the value taken, for each entry.
    pub(super) pick: &'a [usize],
    /// Where the section stands, for errors of values that stand nowhere.
    pub(super) section: &'a Place,
}

impl<'a> Assignment<'a> {
    /// The value of a key and its place, where it is given.
    pub(super) fn value(&self, id: Id) -> Option<(&'a Value, &'a Place)> {
        let position = self.entries.iter().position(|entry| entry.key.id == id)?;
        let (value, place) = &self.entries[position].values[self.pick[position]];
        Some((value, place))
    }

    /// Bytes of a key that is a size, in whole pages.
    pub(super) fn bytes(&self, id: Id) -> Result<u64, Box<Invalid>> {
        self.follow(id, &mut Vec::new())
    }

    /// Evaluates a size; `chain` holds the keys that are being made from it.
    fn follow(&self, id: Id, chain: &mut Vec<Id>) -> Result<u64, Box<Invalid>> {
        chain.push(id);
        if chain[..chain.len() - 1].contains(&id) {
            return Err(self.cycle(chain));
        }
        let bytes = match self.value(id) {
            Some((Value::Size(SizeExpr::Bytes(bytes)), place)) => Some(self.scaled(*bytes, place)),
            Some((Value::Size(SizeExpr::Share { thousandths, of }), place)) => {
                let base = match of {
                    Base::Ram => self.scaled(self.ram(), place),
                    Base::Size => self.follow(Id::Size, chain)?,
                    Base::Limit => self.follow(Id::Limit, chain)?,
                };
                SizeExpr::share(*thousandths, base)
            }
            _ => self.default_bytes(id, chain)?,
        };
        chain.pop();
        bytes
            .and_then(|bytes| bytes.max(1).checked_next_multiple_of(PAGE))
            .ok_or_else(|| self.overflow(id))
    }

    /// The defaults, as the table of keys says them in words; `None` where one exceeds 2^64 - 1.
    fn default_bytes(&self, id: Id, chain: &mut Vec<Id>) -> Result<Option<u64>, Box<Invalid>> {
        if id == Id::Size {
            let tenth = self.machine.available.min(self.ram()) / 10 / MIB * MIB;
            return Ok(Some(self.scale.of(tenth.clamp(MIB, GIB))));
        }
        let size = self.follow(Id::Size, chain)?;
        Ok(match id {
            Id::Request => Some((size / 4).min(GIB)),
            Id::Limit => size.checked_add(size / 8).and_then(|b| b.checked_add(64 * MIB)),
            // Only the swap size is left among the sizes.
            _ => size.checked_add(size / 10).and_then(|b| b.checked_add(16 * MIB)),
        })
    }

    /// The memory that a plain percentage is taken of.
    fn ram(&self) -> u64 {
        let limit = self.machine.cgroup_limit.unwrap_or(u64::MAX);
        self.machine.ram.min(limit)
    }

    /// What the command line says is meant as it is written.
    fn scaled(&self, bytes: u64, place: &Place) -> u64 {
        if place.source.is_argument() {
            bytes
        } else {
            self.scale.of(bytes)
        }
    }

    fn overflow(&self, id: Id) -> Box<Invalid> {
        let given = self.value(id).or_else(|| self.value(Id::Size));
        let place = given.map_or(self.section, |(_, place)| place);
        let name = Key::of(id).name;
        let message = format!("`{name}` would be more than 16E - 1 bytes");
        let error = place.error(Problem::OutOfRange, message, "too large");
        match self.value(id) {
            Some(_) => error.help("no machine has that much; write for example 1G or 25%"),
            None => error.help(format!(
                "`{name}` is not given: its default is {}",
                Key::of(id).default.replace('`', "")
            )),
        }
    }

    /// `chain` ends with the key that it came back to.
    fn cycle(&self, chain: &[Id]) -> Box<Invalid> {
        let last = chain.last().copied().unwrap_or(Id::Size);
        let start = chain.iter().position(|id| *id == last).unwrap_or(0);
        let ring = &chain[start..];
        let names: Vec<&str> = ring.iter().map(|id| Key::of(*id).name).collect();
        let message = format!("sizes are made from each other: {}", names.join(" -> "));
        let mut error: Option<Box<Invalid>> = None;
        let mut help = String::from("give one of them without the other, for example size = \"1G\"");
        for id in &ring[1..] {
            let name = Key::of(*id).name;
            match (self.value(*id), error.take()) {
                (None, earlier) => {
                    help = format!(
                        "`{name}` is not given, and its default is {}: give it in bytes or as a share of RAM",
                        Key::of(*id).default.replace('`', "")
                    );
                    error = earlier;
                }
                (Some((_, place)), None) => {
                    let label = format!("`{name}` is made from this");
                    error = Some(place.error(Problem::Cycle, message.clone(), label));
                }
                (Some((_, place)), Some(earlier)) => {
                    error = Some(earlier.and(place, format!("`{name}` is made from this")));
                }
            }
        }
        error
            .unwrap_or_else(|| self.section.error(Problem::Cycle, message, "in this section"))
            .help(help)
    }
}
