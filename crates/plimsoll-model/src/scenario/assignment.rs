//! One combination of a section's values, and the sizes that come of it.

use super::document::Entry;
use super::error::{Invalid, Place, Problem};
use super::heap::{BlockSizes, Heap, HeapLoad};
use super::keys::{Id, Key};
use super::model::Machine;
use super::size::{Base, SizeExpr};
use super::value::Value;
use super::workloads::WorkloadKind;

/// Sizes are rounded up to whole pages of this many bytes.
const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// S of the original.
const CONSUMER_SIZE: u64 = 100 * MIB;
/// N of the original.
pub(super) const CONSUMERS: u64 = 25;
/// Largest load, where none is given.
pub(super) const MAX_LOAD: f64 = 3.0;

/// Bytes that the original's aggressive test allocates, and that its fragmentation test uses.
const AGGRESSIVE_VOLUME: u64 = 50 * MIB;
const FRAGMENTATION_VOLUME: u64 = 70 * MIB;
/// Bytes of a block of the aggressive test.
const AGGRESSIVE_BLOCK: u32 = 32;
/// What an allocator may take for each thread, besides four times its blocks, before its worker is ended.
const HEAP_OF_THREAD: u64 = 4 * MIB;

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

    /// Smaller again, by `factor`, which is at most 1.
    pub(super) fn and(self, factor: f64) -> Self {
        const PARTS: u64 = 1 << 20;
        Scale {
            numerator: (self.numerator as f64 * factor * PARTS as f64) as u64,
            denominator: self.denominator.saturating_mul(PARTS),
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

    /// The kind of work.
    pub(super) fn kind(&self) -> WorkloadKind {
        match self.value(Id::Workload) {
            Some((Value::Workload(kind), _)) => *kind,
            _ => WorkloadKind::Compression,
        }
    }

    /// A whole number, or what holds where it is not given.
    pub(super) fn integer(&self, id: Id, default: u64) -> u64 {
        match self.value(id) {
            Some((Value::Integer(number), _)) => *number,
            _ => default,
        }
    }

    /// A number, or what holds where it is not given.
    pub(super) fn number(&self, id: Id, default: f64) -> f64 {
        match self.value(id) {
            Some((Value::Number(number) | Value::Seconds(number), _)) => *number,
            _ => default,
        }
    }

    /// The load on malloc, with its volume in bytes.
    pub(super) fn heap(&self, volume: u64) -> Heap {
        let load = self.heap_load();
        // The ranges of the keys keep them below 2^32.
        let count = |id, default| self.integer(id, default).try_into().unwrap_or(u32::MAX);
        Heap {
            load,
            threads: count(Id::Threads, 1),
            blocks: count(Id::Blocks, 10_000),
            sizes: match self.value(Id::BlockSize) {
                Some((Value::BlockSizes(sizes), _)) => *sizes,
                _ if load == HeapLoad::Aggressive => BlockSizes::one(AGGRESSIVE_BLOCK),
                _ => BlockSizes::UP_TO_1K,
            },
            volume,
            duration: self.number(Id::Duration, 2.0),
        }
    }

    fn heap_load(&self) -> HeapLoad {
        match self.value(Id::HeapLoad) {
            Some((Value::Choice(name), _)) => HeapLoad::of_name(name).unwrap_or(HeapLoad::Replacement),
            _ => HeapLoad::Replacement,
        }
    }

    /// The defaults, as the table of keys says them in words; `None` where one exceeds 2^64 - 1.
    fn default_bytes(&self, id: Id, chain: &mut Vec<Id>) -> Result<Option<u64>, Box<Invalid>> {
        let available = self.machine.available.min(self.ram());
        match (id, self.kind()) {
            (Id::ConsumerSize, _) => return Ok(Some(self.scale.of(CONSUMER_SIZE))),
            (Id::Size, WorkloadKind::Thrash) => {
                let each = self.follow(Id::ConsumerSize, chain)?;
                return Ok(each.checked_mul(self.integer(Id::Consumers, CONSUMERS)));
            }
            (Id::Size, WorkloadKind::Loadline) => {
                let limit = self.follow(Id::Limit, chain)?;
                // A float holds any size closely enough here: the load is a number with a few digits.
                return Ok(Some((limit as f64 * self.number(Id::MaxLoad, MAX_LOAD)) as u64));
            }
            (Id::Volume, _) => {
                let volume = match self.heap_load() {
                    HeapLoad::Fragmentation => FRAGMENTATION_VOLUME,
                    _ => AGGRESSIVE_VOLUME,
                };
                return Ok(Some(self.scale.of(volume)));
            }
            (Id::Size, WorkloadKind::Heap) => {
                let volume = self.follow(Id::Volume, chain)?;
                return Ok(Some(self.heap(volume).live().max(MIB)));
            }
            (Id::Size, _) => {
                let tenth = available / 10 / MIB * MIB;
                return Ok(Some(self.scale.of(tenth.clamp(MIB, GIB))));
            }
            (Id::Limit, WorkloadKind::Loadline) => {
                let share = (available / 50 / MIB * MIB).clamp(64 * MIB, 256 * MIB);
                return Ok(Some(self.scale.of(share)));
            }
            _ => {}
        }
        let size = self.follow(Id::Size, chain)?;
        Ok(match (id, self.kind()) {
            (Id::Request, _) => Some((size / 4).min(GIB)),
            (Id::Limit, WorkloadKind::Thrash) => Some(size / 5 * 2),
            (Id::Limit, WorkloadKind::Contention) => size.checked_mul(2),
            (Id::Limit, WorkloadKind::Heap) => {
                let threads = self.integer(Id::Threads, 1);
                let wanted = size
                    .checked_mul(4)
                    .and_then(|b| b.checked_add(64 * MIB + threads * HEAP_OF_THREAD));
                wanted.map(|wanted| wanted.min((available / 2).max(size.saturating_add(64 * MIB))))
            }
            (Id::Limit, _) => size.checked_add(size / 8).and_then(|b| b.checked_add(64 * MIB)),
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
