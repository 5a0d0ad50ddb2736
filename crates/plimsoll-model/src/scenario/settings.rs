//! One combination of values becomes the settings of a trial; and the settings of older recordings are read.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};

use super::assignment::Assignment;
use super::error::Invalid;
use super::keys;
use super::level::Level;
use super::model::Subject;
use super::workload_kind::WorkloadKind;
use super::workloads::{Settings, Workload};

/// Every setting of a combination, defaults included.
pub(super) fn settings(kind: WorkloadKind, values: &Assignment<'_>) -> Result<Settings, Box<Invalid>> {
    Ok(Settings {
        workload: kind.read(values)?,
        subject: values.subject("subject")?,
        limit: values.bytes("limit")?,
        swap_size: values.bytes("swap-size")?,
        swappiness: values.optional("swappiness")?,
        page_cluster: values.optional("page-cluster")?,
        zswap_pool_percent: values.optional("zswap-pool-percent")?,
        swap_dir: values.folder("swap-dir")?,
        background: values.level("background")?,
        phase_timeout: values.number("phase-timeout")?,
    })
}

/// The text of every resolved setting, by its key: several of a list that is one value.
pub(super) fn texts(
    kind: WorkloadKind,
    values: &Assignment<'_>,
) -> Result<Vec<(&'static str, Vec<String>)>, Box<Invalid>> {
    let of_trial = keys::of(kind).filter(|key| !key.whole_plan && key.name != "repeat");
    of_trial
        .filter(|key| !key.optional || values.is_given(key.name))
        .map(|key| Ok((key.name, values.texts(key)?)))
        .collect()
}

/// The settings of recordings from schema 4 on.
#[derive(Deserialize)]
#[serde(remote = "Settings")]
struct Present {
    workload: Workload,
    subject: Subject,
    limit: u64,
    swap_size: u64,
    swappiness: Option<u32>,
    page_cluster: Option<u32>,
    zswap_pool_percent: Option<u32>,
    swap_dir: std::path::PathBuf,
    #[serde(default)]
    background: Option<Level>,
    phase_timeout: f64,
}

/// Settings that every workload had in recordings up to schema 3.
const OF_ALL_UNTIL_3: [&str; 6] = ["class", "size", "request", "trim", "hold", "thp"];

impl<'de> Deserialize<'de> for Settings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut document = Map::deserialize(deserializer)?;
        if document.contains_key("size") {
            move_into_workload(&mut document);
        }
        Present::deserialize(Json::Object(document)).map_err(D::Error::custom)
    }
}

/// Converts settings of schema 3 or earlier: moves those of all workloads into the workload that has them now, and
/// drops the others.
fn move_into_workload(document: &mut Map<String, Json>) {
    let workload = document.get_mut("workload").map(Json::take);
    let (name, mut own) = match workload {
        // Compression had none of its own.
        Some(Json::String(name)) => (name, Map::new()),
        Some(Json::Object(named)) => match named.into_iter().next() {
            Some((name, Json::Object(own))) => (name, own),
            _ => return,
        },
        _ => return,
    };
    for key in OF_ALL_UNTIL_3 {
        if let Some(value) = document.remove(key) {
            own.entry(key).or_insert(value);
        }
    }
    document.insert(
        "workload".to_owned(),
        Json::Object([(name, Json::Object(own))].into_iter().collect()),
    );
}
