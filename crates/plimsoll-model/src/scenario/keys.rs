//! The keys of a scenario file: a row each, from which parsing, defaults, errors, `plimsoll show`, help and the
//! reference page come. The rows of one workload are in its file, those of every workload in [`super::shared_keys`].

use super::assignment::Key;
use super::kind::Kind;
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

/// The keys that are alike in every workload.
fn common() -> impl Iterator<Item = &'static Key> {
    let alike = |a: &Key, b: &Key| a.default() == b.default() && a.meaning == b.meaning;
    let in_all = move |key: &&Key| {
        let mut kinds = WorkloadKind::ALL.into_iter();
        kinds.all(|kind| row(kind, key.name).is_some_and(|row| alike(row, key)))
    };
    FIRST.iter().chain(LAST).filter(in_all)
}

/// The keys of a workload that are not [`common`].
fn own(kind: WorkloadKind) -> impl Iterator<Item = &'static Key> {
    of(kind).filter(|key| common().all(|shared| shared.name != key.name))
}

impl Key {
    /// Its names, the one of the literature last.
    fn names(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.name), self.alias].into_iter().flatten()
    }
}

/// The table in Markdown of the keys of a workload alone; of those of every workload for `None`.
pub fn keys_markdown(kind: Option<WorkloadKind>) -> String {
    kind.map_or_else(|| table(common()), |kind| table(own(kind)))
}

fn table(keys: impl Iterator<Item = &'static Key>) -> String {
    let mut table = String::from("| key | type | default | sweep | meaning |\n|---|---|---|---|---|\n");
    for key in keys {
        let names: Vec<String> = key.names().map(|name| format!("`{name}`")).collect();
        let words = match key.kind {
            // Not the names: a new workload does not change the chapter.
            Kind::Workload => "a [workload](#keys)".to_owned(),
            _ => key.type_words(),
        };
        table += &format!(
            "| {} | {} | {} | {} | {} |\n",
            names.join(", "),
            words,
            key.default(),
            if key.sweep { "yes" } else { "no" },
            key.meaning
        );
    }
    table
}

/// The keys of a workload for a terminal: its own, then those of every workload.
pub fn keys_help(kind: WorkloadKind) -> String {
    let mut text = String::new();
    for key in own(kind).chain(common()) {
        let sweep = if key.sweep { "; a list is a sweep" } else { "" };
        let plain = format!(
            "  {:<20}{}\n{:22}{}; default {}{sweep}\n",
            key.names().collect::<Vec<_>>().join(", "),
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
    fn the_documentation_has_each_key_of_a_workload_once() {
        for kind in WorkloadKind::ALL {
            let mut shown: Vec<&str> = own(kind).chain(common()).map(|key| key.name).collect();
            let mut known: Vec<&str> = of(kind).map(|key| key.name).collect();
            shown.sort_unstable();
            known.sort_unstable();
            assert_eq!(shown, known, "{kind:?}");
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
