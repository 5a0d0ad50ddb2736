//! Names of metrics and findings in recordings of schema 3 and earlier, and the names that replace them. The one field
//! that schema 5 renamed, `values` of a phase, has its old name `figures` as an alias.
//!
//! Invariant: a document in memory has no old name, whichever version wrote its file: the reader, the follower and a
//! resumed run share these functions through [`super::model`]. Checked by `names_of_schema_3_become_those_of_schema_4` and
//! `names_of_schema_4_become_those_of_schema_5`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Parts of names, of whole words between `_`: the old one and its replacement.
const RENAMED: [(&str, &str); 3] = [
    ("bystander", "neighbour"),
    ("heartbeat", "wakeup"),
    ("give_back", "release"),
];

fn current(name: &str) -> String {
    let name = RENAMED.iter().fold(format!("_{name}_"), |name, (old, new)| {
        name.replace(&format!("_{old}_"), &format!("_{new}_"))
    });
    name[1..name.len() - 1].to_owned()
}

pub(super) fn name<'de, D: Deserializer<'de>>(document: D) -> Result<String, D::Error> {
    String::deserialize(document).map(|name| current(&name))
}

pub(super) fn map<'de, D, V>(document: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    let read = BTreeMap::<String, V>::deserialize(document)?;
    Ok(read
        .into_iter()
        .map(|(name, value)| (current(&name), value))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::current;

    #[test]
    fn whole_words_are_renamed_wherever_they_stand() {
        assert_eq!(current("bystander_p99_s"), "neighbour_p99_s");
        assert_eq!(current("load_heartbeat_p99_s"), "load_wakeup_p99_s");
        assert_eq!(
            current("dontneed_give_back_per_page_s"),
            "dontneed_release_per_page_s"
        );
        for kept in ["heartbeats_s", "forgive_back_s", "release_s", ""] {
            assert_eq!(current(kept), kept);
        }
    }
}
