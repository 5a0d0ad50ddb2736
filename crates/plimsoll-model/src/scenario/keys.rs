//! The keys of a scenario file: a row each, from which parsing, defaults, errors, `plimsoll show`, help and the
//! reference page come. The rows of one workload are in its file, those of every workload in [`super::shared_keys`].

use super::assignment::Key;
use super::shared_keys::{FIRST, LAST};
use super::workload_kind::WorkloadKind;

impl Key {
    /// A key of this name. Keys of several workloads differ in meaning and default, not in the type of their values.
    pub(super) fn find(name: &str) -> Option<&'static Key> {
        let shared = FIRST.iter().chain(LAST);
        shared
            .chain(all())
            .find(|key| key.name == name || key.alias == Some(name))
    }

    pub fn is_of(&self, kind: WorkloadKind) -> bool {
        of(kind).any(|key| key.name == self.name)
    }

    pub(super) fn workloads(&self) -> impl Iterator<Item = WorkloadKind> {
        WorkloadKind::ALL.into_iter().filter(|kind| self.is_of(*kind))
    }

    /// The type of its value, in words.
    fn type_words(&self) -> String {
        match self.list {
            true => format!("a list, each {}", self.kind),
            false => self.kind.to_string(),
        }
    }

    /// A text about the key for each workload, for mistakes made before the workload is known.
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
            .map(|(text, names)| format!("; for `{}`: {text}", names.join("`, `")));
        general + &others.collect::<String>()
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

/// The rows of a workload. Its own row of a name replaces the shared one.
pub(super) fn rows(kind: WorkloadKind) -> impl Iterator<Item = &'static Key> {
    let own = kind.own_keys();
    let shared = move |shared: &'static [Key]| {
        let own_row = move |key: &'static Key| own.iter().find(|row| row.name == key.name).unwrap_or(key);
        shared.iter().map(own_row)
    };
    let is_shared = |key: &Key| FIRST.iter().chain(LAST).any(|row| row.name == key.name);
    shared(FIRST)
        .chain(own.iter().filter(move |key| !is_shared(key)))
        .chain(shared(LAST))
}

/// Every row, workload after workload, between those that all workloads share: a row for each different one.
pub fn all() -> impl Iterator<Item = &'static Key> {
    let own = WorkloadKind::ALL.into_iter().flat_map(|kind| kind.own_keys());
    FIRST.iter().chain(own.filter(|key| !key.derived)).chain(LAST)
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

/// A row of the documentation: a key, and the workloads that it applies to; none if it applies to all.
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

/// The table of keys in Markdown, for the reference.
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
            key.type_words(),
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
            key.type_words(),
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
