//! The keys of a scenario file: a row each, from which parsing, defaults, errors, `plimsoll show`, help and the
//! reference page come. A workload's own rows stand in its file, those of every workload in [`common`].

pub(super) mod common;

use std::fmt;

use super::assignment::Assignment;
use super::error::Invalid;
use super::size::Base;
use super::value::{self, Value};
use super::workloads::WorkloadKind;

/// A key of a scenario file, of one workload or of all.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// Another name, where the literature has one.
    pub alias: Option<&'static str>,
    /// What its values are.
    pub kind: Kind,
    /// What it means, in words.
    pub meaning: &'static str,
    /// Whether a list of values is allowed, which makes a sweep.
    pub sweep: bool,
    /// True for keys of the whole plan, which cannot stand in a section.
    pub whole_plan: bool,
    /// What holds where the key is not given.
    pub(super) preset: Preset,
    /// True for a size that no file gives: it follows from other keys, and shares can be taken of it.
    pub(super) derived: bool,
    /// Of what a share may be 100% at most.
    pub(super) at_most_whole: &'static [Base],
    /// What becomes of the value at last; whether it is the command line's is the last argument.
    pub(super) adjust: Option<Adjust>,
}

/// The value of a key from the other keys; none where it exceeds what can be counted.
pub(super) type Computed = fn(&Assignment<'_>) -> Result<Option<Value>, Box<Invalid>>;
type Adjust = fn(&Assignment<'_>, Value, bool) -> Result<Value, Box<Invalid>>;

/// What holds where a key is not given.
#[derive(Debug, Clone, Copy)]
pub(super) enum Preset {
    /// This value, as a file would have it.
    Text(&'static str),
    /// What the system has.
    System,
    /// In words, and computed.
    Of(&'static str, Computed),
}

/// What the values of a key are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// The name of a workload.
    Workload,
    /// A [`super::Subject`].
    Subject,
    /// A [`super::FillClass`].
    Class,
    /// A [`super::SizeExpr`].
    Size,
    /// Seconds between two bounds, both allowed.
    Seconds {
        /// Fewest.
        min: f64,
        /// Most.
        max: f64,
    },
    /// A number between two bounds, both allowed.
    Number {
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
    /// A [`super::BlockSizes`].
    BlockSizes,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// True or false.
    Flag,
    /// A whole number between two bounds, both allowed.
    Integer {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// Whether `"system"` is allowed: leave it as the system has it.
        or_system: bool,
    },
    /// A folder.
    Folder,
}

/// Subjects to offer when one is not known.
pub(super) const SUBJECTS: &[&str] = &[
    "zram",
    "zram:lzo-rle",
    "zram:lzo",
    "zram:lz4",
    "zram:zstd",
    "zswap",
    "zswap:lzo",
    "zswap:lz4",
    "zswap:zstd",
    "swapfile",
    "none",
    INSTALLED,
    "plimsoll:lfh",
    "plimsoll:standard",
    "glibc",
    "jemalloc",
    "tcmalloc",
    "tcmalloc-minimal",
    "mimalloc",
];
/// Classes to offer when one is not known.
pub(super) const CLASSES: &[&str] = &["random", "runs20", "constant", "ratio=2.5", "file=PATH"];

/// The word that stands for every allocator of the machine.
pub(super) const INSTALLED: &str = "installed";

/// The word that leaves a setting as the system has it.
pub(super) const SYSTEM: &str = "system";

/// A row.
pub(super) const fn key(name: &'static str, kind: Kind, preset: Preset, meaning: &'static str) -> Key {
    Key {
        name,
        alias: None,
        kind,
        meaning,
        sweep: true,
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

pub(super) const fn integer(min: u64, max: u64, or_system: bool) -> Kind {
    Kind::Integer { min, max, or_system }
}

impl Key {
    /// With a second name.
    pub(super) const fn alias(self, name: &'static str) -> Key {
        Key {
            alias: Some(name),
            ..self
        }
    }

    /// Taking one value alone.
    pub(super) const fn single(self) -> Key {
        Key { sweep: false, ..self }
    }

    /// Of the whole plan.
    pub(super) const fn whole_plan(self) -> Key {
        Key {
            sweep: false,
            whole_plan: true,
            ..self
        }
    }

    /// With shares of these of 100% at most.
    pub(super) const fn at_most_whole(self, of: &'static [Base]) -> Key {
        Key {
            at_most_whole: of,
            ..self
        }
    }

    /// With a value that is changed at last.
    pub(super) const fn adjusted(self, adjust: Adjust) -> Key {
        Key {
            adjust: Some(adjust),
            ..self
        }
    }

    /// A key of this name. Those of several workloads differ in what they mean there and by default, not in their values.
    pub(super) fn find(name: &str) -> Option<&'static Key> {
        let shared = common::FIRST.iter().chain(common::LAST);
        shared
            .chain(all())
            .find(|key| key.name == name || key.alias == Some(name))
    }

    /// Whether this workload knows the key.
    pub fn is_of(&self, kind: WorkloadKind) -> bool {
        of(kind).any(|key| key.name == self.name)
    }

    /// The workloads that know the key.
    pub(super) fn workloads(&self) -> impl Iterator<Item = WorkloadKind> {
        WorkloadKind::ALL.into_iter().filter(|kind| self.is_of(*kind))
    }

    /// The value where the key is not given, where that is the same everywhere.
    pub(super) fn preset_value(&self) -> Option<Value> {
        match self.preset {
            Preset::Text(text) => value::of_text(self.kind, text),
            Preset::System => Some(Value::System),
            Preset::Of(..) => None,
        }
    }

    /// What is true of the key in each workload, in words: where its workload is not known yet.
    pub(super) fn everywhere(&self, words: fn(&Key) -> String) -> String {
        let general = words(self);
        let mut others: Vec<(String, Vec<&str>)> = Vec::new();
        for kind in WorkloadKind::ALL {
            let Some(text) = row(kind, self.name).map(words).filter(|text| *text != general) else {
                continue;
            };
            match others.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(kind.name()),
                None => others.push((text, vec![kind.name()])),
            }
        }
        let others = others
            .into_iter()
            .map(|(text, names)| format!("; of `{}` {text}", names.join("`, `")));
        general + &others.collect::<String>()
    }

    /// What holds where the key is not given, in words.
    pub fn default(&self) -> String {
        match self.preset {
            Preset::Text(text) => format!("`{text}`"),
            Preset::System => format!("`\"{SYSTEM}\"`"),
            Preset::Of(words, _) => words.to_owned(),
        }
    }
}

/// The keys of a workload, those that it shares with all others first and last.
pub fn of(kind: WorkloadKind) -> impl Iterator<Item = &'static Key> {
    rows(kind).filter(|key| !key.derived)
}

/// The row of a workload's key, or of a size that follows from its keys.
pub(super) fn row(kind: WorkloadKind, name: &str) -> Option<&'static Key> {
    rows(kind).find(|key| key.name == name)
}

/// A workload's own row of a name stands in the place of the shared one.
fn rows(kind: WorkloadKind) -> impl Iterator<Item = &'static Key> {
    let own = kind.own_keys();
    let shared = move |shared: &'static [Key]| {
        let own_row = move |key: &'static Key| own.iter().find(|row| row.name == key.name).unwrap_or(key);
        shared.iter().map(own_row)
    };
    let is_shared = |key: &Key| {
        common::FIRST
            .iter()
            .chain(common::LAST)
            .any(|row| row.name == key.name)
    };
    shared(common::FIRST)
        .chain(own.iter().filter(move |key| !is_shared(key)))
        .chain(shared(common::LAST))
}

/// Every row, workload after workload, between those that all workloads share: a row for each different one.
pub fn all() -> impl Iterator<Item = &'static Key> {
    let own = WorkloadKind::ALL.into_iter().flat_map(|kind| kind.own_keys());
    common::FIRST
        .iter()
        .chain(own.filter(|key| !key.derived))
        .chain(common::LAST)
}

/// The names of all keys, each once.
pub(super) fn names() -> Vec<&'static str> {
    let mut names = Vec::new();
    for key in all() {
        if !names.contains(&key.name) {
            names.push(key.name);
        }
    }
    names
}

impl fmt::Display for Kind {
    /// The type in words, as errors and the reference page say it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choices = |f: &mut fmt::Formatter<'_>, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            f.write_str(&names.join(", "))
        };
        match *self {
            Kind::Workload => choices(f, &WorkloadKind::ALL.map(WorkloadKind::name)),
            Kind::Subject => f.write_str("a subject"),
            Kind::Class => f.write_str("a class"),
            Kind::Size => f.write_str("a size"),
            Kind::Seconds { min, max } => write!(f, "seconds, {min} to {max}"),
            Kind::Number { min, max } => write!(f, "a number, {min} to {max}"),
            Kind::Choice(names) => choices(f, names),
            Kind::Flag => f.write_str("`true` or `false`"),
            Kind::Integer { min, max, or_system } => {
                write!(f, "a whole number, {min} to ")?;
                match max {
                    u64::MAX => f.write_str("2^64 - 1")?,
                    max => write!(f, "{max}")?,
                }
                f.write_str(if or_system { ", or `\"system\"`" } else { "" })
            }
            Kind::BlockSizes => f.write_str("bytes, or a range of them"),
            Kind::Folder => f.write_str("a folder"),
        }
    }
}

/// A row of the documentation: a key, and the workloads of which it is true; none where it is true of all.
struct Documented {
    key: &'static Key,
    of: Vec<WorkloadKind>,
}

/// The rows of the documentation: keys that several workloads have alike stand once.
fn documented() -> Vec<Documented> {
    let alike = |a: &Key, b: &Key| a.name == b.name && a.default() == b.default() && a.meaning == b.meaning;
    let mut rows: Vec<Documented> = Vec::new();
    for key in all() {
        if rows.iter().any(|row| alike(row.key, key)) {
            continue;
        }
        let kinds = WorkloadKind::ALL.into_iter();
        let of: Vec<WorkloadKind> = kinds
            .filter(|kind| row(*kind, key.name).is_some_and(|row| alike(row, key)))
            .collect();
        rows.push(Documented {
            key,
            of: if of.len() == WorkloadKind::ALL.len() {
                Vec::new()
            } else {
                of
            },
        });
    }
    rows
}

impl Documented {
    fn workloads(&self) -> String {
        let names: Vec<&str> = self.of.iter().map(|kind| kind.name()).collect();
        names.join(", ")
    }
}

/// The table of keys in Markdown, as it stands in the reference page.
pub fn keys_markdown() -> String {
    let mut page =
        String::from("| key | of | type | default | sweep | meaning |\n|---|---|---|---|---|---|\n");
    for row in documented() {
        let key = row.key;
        let sweep = if key.sweep { "yes" } else { "no" };
        let of = if row.of.is_empty() {
            "all".to_owned()
        } else {
            row.workloads()
        };
        let alias = key.alias.map_or(String::new(), |alias| format!(", `{alias}`"));
        page += &format!(
            "| `{}`{alias} | {of} | {} | {} | {sweep} | {} |\n",
            key.name,
            key.kind,
            key.default(),
            key.meaning
        );
    }
    page
}

/// The table of keys for a terminal.
pub fn keys_help() -> String {
    let mut text = String::new();
    for row in documented() {
        let key = row.key;
        let sweep = if key.sweep { "; a list is a sweep" } else { "" };
        let alias = key.alias.map_or(String::new(), |alias| format!(", {alias}"));
        let of = match row.of.as_slice() {
            [] => String::new(),
            _ => format!("; of {}", row.workloads()),
        };
        let plain = format!(
            "  {:<20}{}\n{:22}{}; default {}{sweep}{of}\n",
            format!("{}{alias}", key.name),
            key.meaning,
            "",
            key.kind,
            key.default()
        );
        text += &plain.replace('`', "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_type_whichever_workload_has_the_key() {
        for key in all() {
            let Some(first) = Key::find(key.name) else {
                panic!("{} is not found", key.name)
            };
            assert_eq!(
                (key.kind, key.alias, key.sweep),
                (first.kind, first.alias, first.sweep),
                "{}",
                key.name
            );
            assert_eq!(key.at_most_whole, first.at_most_whole, "{}", key.name);
        }
    }

    #[test]
    fn a_workload_has_each_key_once() {
        for kind in WorkloadKind::ALL {
            let mut names: Vec<&str> = rows(kind).map(|key| key.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{kind:?}");
        }
    }
}
