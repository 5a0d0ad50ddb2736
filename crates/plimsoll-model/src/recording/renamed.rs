//! Names of metrics and findings in recordings of schema 3 and earlier, and the names that replace them.
//!
//! Invariant: a document in memory has no old name, whichever version wrote its file: the reader, the follower and a
//! resumed run share these functions through [`super::model`]. Checked by `names_of_schema_3_become_those_of_schema_4`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Words of names: the old one and its replacement. A word ends at `_`.
const RENAMED: [(&str, &str); 2] = [("bystander", "neighbour"), ("heartbeat", "wakeup")];

fn current(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let renamed = RENAMED.iter().find(|(old, _)| *old == word);
        renamed.map_or(word, |(_, new)| new)
    });
    words.collect::<Vec<_>>().join("_")
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
