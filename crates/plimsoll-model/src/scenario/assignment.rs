//! A row of the table of keys, and one combination of a section's values: every key with its final value.
//!
//! The two refer to each other, since a default is a function of the other values.

mod errors;

use std::cell::RefCell;
use std::path::PathBuf;

use super::block_sizes::BlockSizes;
use super::choice::Choice;
use super::error::{Invalid, Place};
use super::kind::{Kind, SYSTEM};
use super::level::Level;
use super::model::{FillClass, Machine, Subject};
use super::scale::Scale;
use super::size::{Base, SizeExpr};
use super::value::{self, Value};
use super::workload_kind::WorkloadKind;

/// Sizes are rounded up to whole pages of this many bytes.
pub(super) const PAGE: u64 = 4096;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;

/// A key of a scenario file, of one workload or of all.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// Another name, from the literature.
    pub alias: Option<&'static str>,
    pub kind: Kind,
    pub meaning: &'static str,
    /// Whether a list of values is allowed, which makes a sweep.
    pub sweep: bool,
    /// Whether a list of values is one value: every trial takes all of them.
    pub list: bool,
    /// The key beside which a list of this one is one value instead of a sweep.
    pub(super) list_beside: Option<&'static str>,
    /// True for a key that a scenario need not have: without it there is no value to show.
    pub(super) optional: bool,
    /// True for keys of the whole plan, which a section cannot have.
    pub whole_plan: bool,
    pub(super) preset: Preset,
    /// True for a size that follows from other keys: no file sets it, and it can be the base of shares.
    pub(super) derived: bool,
    /// Bases of which a share is at most 100%.
    pub(super) at_most_whole: &'static [Base],
    /// Computes the final value; the last argument is true for a value of the command line.
    pub(super) adjust: Option<Adjust>,
}

/// The value of a key from the other keys; none if it overflows.
pub(super) type Computed = fn(&Assignment<'_>) -> Result<Option<Value>, Box<Invalid>>;
type Adjust = fn(&Assignment<'_>, Value, bool) -> Result<Value, Box<Invalid>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Preset {
    /// This value, as text of a file.
    Text(&'static str),
    /// The system's setting, unchanged.
    System,
    /// A description, and the function that computes it.
    Of(&'static str, Computed),
}

pub(super) const fn key(name: &'static str, kind: Kind, preset: Preset, meaning: &'static str) -> Key {
    Key {
        name,
        alias: None,
        kind,
        meaning,
        sweep: true,
        list: false,
        list_beside: None,
        optional: false,
        whole_plan: false,
        preset,
        derived: false,
        at_most_whole: &[],
        adjust: None,
    }
}

/// A size that follows from other keys.
pub(super) const fn derived(name: &'static str, words: &'static str, computed: Computed) -> Key {
    Key {
        derived: true,
        ..key(name, Kind::Size, Preset::Of(words, computed), "")
    }
}

impl Key {
    pub(super) const fn alias(self, name: &'static str) -> Key {
        Key {
            alias: Some(name),
            ..self
        }
    }

    /// Forbids a list of values.
    pub(super) const fn single(self) -> Key {
        Key { sweep: false, ..self }
    }

    /// Makes a list of values one value.
    pub(super) const fn list(self) -> Key {
        Key {
            sweep: false,
            list: true,
            ..self
        }
    }

    /// Makes a list of values one value in sections that have the key `name`.
    pub(super) const fn list_beside(self, name: &'static str) -> Key {
        Key {
            list_beside: Some(name),
            ..self
        }
    }

    /// Leaves it without a value where no file has it.
    pub(super) const fn optional(self) -> Key {
        Key {
            optional: true,
            ..self
        }
    }

    /// Makes it a key of the whole plan.
    pub(super) const fn whole_plan(self) -> Key {
        Key {
            sweep: false,
            whole_plan: true,
            ..self
        }
    }

    /// Limits shares of these bases to 100%.
    pub(super) const fn at_most_whole(self, of: &'static [Base]) -> Key {
        Key {
            at_most_whole: of,
            ..self
        }
    }

    /// Sets a function that computes the final value.
    pub(super) const fn adjusted(self, adjust: Adjust) -> Key {
        Key {
            adjust: Some(adjust),
            ..self
        }
    }

    /// The value where the key is not given, where that is the same everywhere.
    pub(super) fn preset_value(&self) -> Option<Value> {
        match self.preset {
            Preset::Text(text) => value::of_text(self.kind, text),
            Preset::System => Some(Value::System),
            Preset::Of(..) => None,
        }
    }

    pub fn default(&self) -> String {
        match self.preset {
            Preset::Text(text) => format!("`{text}`"),
            Preset::System => format!("`\"{SYSTEM}\"`"),
            Preset::Of(words, _) => words.to_owned(),
        }
    }
}

/// A key with its values: one, or several where it is swept.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: &'static Key,
    pub(super) place: Place,
    /// Never empty.
    pub(super) values: Vec<(Value, Place)>,
    /// Whether each trial takes all of the values.
    pub(super) together: bool,
}

impl Entry {
    /// Of how many a trial takes one.
    pub(super) fn choices(&self) -> usize {
        if self.together { 1 } else { self.values.len() }
    }
}

/// Bytes rounded up to whole pages, at least one; none if that overflows.
fn whole_pages(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(PAGE)
}

/// One combination of a section's values.
pub(super) struct Assignment<'a> {
    machine: &'a Machine,
    pub(super) scale: Scale,
    kind: WorkloadKind,
    keys: &'a [&'static Key],
    entries: &'a [Entry],
    /// Index of the value taken, for each entry.
    pick: &'a [usize],
    /// Place of the section, for errors of values without a place.
    section: &'a Place,
    /// The sizes under evaluation, each referred to by the previous one.
    chain: RefCell<Vec<&'static str>>,
    /// Every key that was read, for the error of a value that follows from them.
    reads: RefCell<Vec<&'static str>>,
}

impl<'a> Assignment<'a> {
    /// The values that `pick` takes of `entries`. A key `scale` of theirs makes `scale` smaller still.
    pub(super) fn new(
        machine: &'a Machine,
        scale: Scale,
        (kind, keys): (WorkloadKind, &'a [&'static Key]),
        (entries, pick): (&'a [Entry], &'a [usize]),
        section: &'a Place,
    ) -> Assignment<'a> {
        let mut assignment = Assignment {
            machine,
            scale: if kind.shrinks() { scale } else { Scale::ONE },
            kind,
            keys,
            entries,
            pick,
            section,
            chain: RefCell::default(),
            reads: RefCell::default(),
        };
        if let Some((Value::Number(factor), _)) = assignment.given("scale") {
            assignment.scale = scale.and(*factor);
        }
        assignment
    }

    /// The value of a key and its place, if the file or the command line has it.
    pub(super) fn given(&self, name: &str) -> Option<(&'a Value, &'a Place)> {
        let position = self.entries.iter().position(|entry| entry.key.name == name)?;
        let (value, place) = &self.entries[position].values[self.pick[position]];
        Some((value, place))
    }

    /// The values of a key that this combination takes, with their places; none where it is not given.
    pub(super) fn taken(&self, name: &str) -> &'a [(Value, Place)] {
        let Some(position) = self.entries.iter().position(|entry| entry.key.name == name) else {
            return &[];
        };
        let (values, pick) = (&self.entries[position].values, self.pick[position]);
        match self.entries[position].together {
            true => values,
            false => &values[pick..=pick],
        }
    }

    pub(super) fn is_given(&self, name: &str) -> bool {
        self.given(name).is_some()
    }

    /// The final value of a key: as given or by default, sizes in bytes; of several sizes the largest.
    pub(super) fn value(&self, name: &str) -> Result<Value, Box<Invalid>> {
        let key = self.key(name)?;
        self.reads.borrow_mut().push(key.name);
        let given = self.given(name);
        let value = match (given, key.kind) {
            (_, Kind::Size) => Value::bytes(self.follow(key)?),
            (Some((value, _)), _) => value.clone(),
            (None, _) => self.preset(key)?.ok_or_else(|| self.overflow(key))?,
        };
        let by_argument = given.is_some_and(|(_, place)| place.source.is_argument());
        match key.adjust {
            Some(adjust) => adjust(self, value, by_argument),
            None => Ok(value),
        }
    }

    /// Bytes of a key that is a size, in whole pages.
    pub(super) fn bytes(&self, name: &str) -> Result<u64, Box<Invalid>> {
        match self.key(name)?.adjust {
            None => self.follow(self.key(name)?),
            Some(_) => self.typed(name, |value| value.as_bytes()),
        }
    }

    pub(super) fn integer(&self, name: &str) -> Result<u64, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })
    }

    /// Bytes of each given value of a key that is a size, in whole pages, with their places.
    pub(super) fn all_bytes(&self, name: &str) -> Result<Vec<(u64, &'a Place)>, Box<Invalid>> {
        let key = self.key(name)?;
        let taken = self.taken(name).iter();
        taken
            .map(|(value, place)| {
                let bytes = self.size(value, place)?.and_then(whole_pages);
                Ok((bytes.ok_or_else(|| self.overflow(key))?, place))
            })
            .collect()
    }

    /// The text of each given value of a key, or of its default.
    pub(super) fn texts(&self, key: &'static Key) -> Result<Vec<String>, Box<Invalid>> {
        match (self.taken(key.name), key.kind) {
            ([] | [_], _) => Ok(vec![self.value(key.name)?.to_string()]),
            (_, Kind::Size) => {
                let all = self.all_bytes(key.name)?;
                Ok(all
                    .iter()
                    .map(|(bytes, _)| Value::bytes(*bytes).to_string())
                    .collect())
            }
            (several, _) => Ok(several.iter().map(|(value, _)| value.to_string()).collect()),
        }
    }

    /// A whole number whose range is below 2^32.
    pub(super) fn count(&self, name: &str) -> Result<u32, Box<Invalid>> {
        Ok(u32::try_from(self.integer(name)?).unwrap_or(u32::MAX))
    }

    /// A whole number; none for `"system"`.
    pub(super) fn optional(&self, name: &str) -> Result<Option<u32>, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Integer(number) => Some(u32::try_from(*number).ok()),
            Value::System => Some(None),
            _ => None,
        })
    }

    /// A number, or seconds.
    pub(super) fn number(&self, name: &str) -> Result<f64, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Number(number) | Value::Seconds(number) => Some(*number),
            _ => None,
        })
    }

    pub(super) fn choice<T: Choice>(&self, name: &str) -> Result<T, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Choice(name) => T::of_name(name),
            _ => None,
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    pub(super) fn class(&self, name: &str) -> Result<FillClass, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Class(class) => Some(class.clone()),
            _ => None,
        })
    }

    pub(super) fn subject(&self, name: &str) -> Result<Subject, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Subject(subject) => Some(subject.clone()),
            _ => None,
        })
    }

    pub(super) fn block_sizes(&self, name: &str) -> Result<BlockSizes, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::BlockSizes(sizes) => Some(*sizes),
            _ => None,
        })
    }

    /// A level of memory; `None` without one.
    pub(super) fn level(&self, name: &str) -> Result<Option<Level>, Box<Invalid>> {
        if !self.is_given(name) {
            return Ok(None);
        }
        self.typed(name, |value| match value {
            Value::Level(level) => Some(Some(*level)),
            _ => None,
        })
    }

    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, Box<Invalid>> {
        self.typed(name, |value| match value {
            Value::Folder(path) => Some(path.clone()),
            _ => None,
        })
    }

    /// The texts of a key, in the order of the file; none where it is not given.
    pub(super) fn words(&self, name: &str) -> Vec<(String, &'a Place)> {
        let text = |(value, place): &'a (Value, Place)| match value {
            Value::Text(text) => Some((text.clone(), place)),
            _ => None,
        };
        self.taken(name).iter().filter_map(text).collect()
    }

    fn typed<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, Box<Invalid>> {
        let value = self.value(name)?;
        // A mismatch between row and reader is a defect: `every_workload_resolves_by_default` finds it.
        read(&value).ok_or_else(|| self.broken(name))
    }

    /// The row of a key of this workload.
    fn key(&self, name: &str) -> Result<&'static Key, Box<Invalid>> {
        self.row(name).ok_or_else(|| self.broken(name))
    }

    fn row(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().copied().find(|key| key.name == name)
    }

    /// Evaluates a size, rounded up to whole pages.
    fn follow(&self, key: &'static Key) -> Result<u64, Box<Invalid>> {
        if self.chain.borrow().contains(&key.name) {
            let mut chain = self.chain.borrow().clone();
            chain.push(key.name);
            return Err(self.cycle(&chain));
        }
        self.chain.borrow_mut().push(key.name);
        self.reads.borrow_mut().push(key.name);
        let bytes = self.largest(key);
        self.chain.borrow_mut().pop();
        bytes?.and_then(whole_pages).ok_or_else(|| self.overflow(key))
    }

    /// Bytes of a size as it is given or by default, of several the largest; none if one overflows.
    fn largest(&self, key: &'static Key) -> Result<Option<u64>, Box<Invalid>> {
        let taken = self.taken(key.name);
        if taken.is_empty() {
            let preset = self.preset(key)?;
            return Ok(preset.as_ref().and_then(Value::as_bytes));
        }
        taken
            .iter()
            .try_fold(Some(0), |largest: Option<u64>, (value, place)| {
                let bytes = self.size(value, place)?;
                Ok(largest.zip(bytes).map(|(largest, bytes)| largest.max(bytes)))
            })
    }

    /// Bytes of a given size; none if it overflows.
    fn size(&self, value: &Value, place: &Place) -> Result<Option<u64>, Box<Invalid>> {
        match value {
            Value::Size(SizeExpr::Bytes(bytes)) => Ok(Some(self.scaled(*bytes, place))),
            Value::Size(SizeExpr::Share { thousandths, of }) => match of {
                Base::Ram => Ok(self.scaled(self.ram(), place)),
                Base::Size => self.bytes("size"),
                Base::Limit => self.bytes("limit"),
            }
            .map(|base| SizeExpr::share(*thousandths, base)),
            // The table of keys says that it is a size.
            _ => Ok(None),
        }
    }

    /// The default; none if it overflows.
    fn preset(&self, key: &'static Key) -> Result<Option<Value>, Box<Invalid>> {
        match key.preset {
            Preset::System => Ok(Some(Value::System)),
            Preset::Of(_, computed) => computed(self),
            Preset::Text(text) => match value::of_text(key.kind, text) {
                Some(Value::Size(SizeExpr::Bytes(bytes))) => Ok(Some(Value::bytes(self.scale.of(bytes)))),
                Some(value) => Ok(Some(value)),
                None => Err(self.broken(key.name)),
            },
        }
    }

    /// Available memory, at most the limit of this process's cgroup.
    pub(super) fn available(&self) -> u64 {
        self.machine.available.min(self.ram())
    }

    /// Base of a plain percentage: RAM, at most the limit of this process's cgroup.
    fn ram(&self) -> u64 {
        let limit = self.machine.cgroup_limit.unwrap_or(u64::MAX);
        self.machine.ram.min(limit)
    }

    /// Sizes of the command line are final: `--quick` does not shrink them.
    fn scaled(&self, bytes: u64, place: &Place) -> u64 {
        if place.source.is_argument() {
            bytes
        } else {
            self.scale.of(bytes)
        }
    }
}
