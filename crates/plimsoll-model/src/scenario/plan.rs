//! A scenario resolved for a machine.

use serde::{Deserialize, Serialize};

use super::model::Order;
use super::workloads::Settings;

/// A scenario resolved for one machine: every value final, every trial listed in the order it will run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the scenario ("compression").
    pub scenario: String,
    pub title: String,
    /// Several lines, Markdown.
    pub description: String,
    /// Seed of the fill streams and of the order of the trials.
    pub seed: u64,
    /// Whether `--quick` shrank the scenario.
    pub quick: bool,
    pub order: Order,
    /// Seconds after which the run is stopped. Absent in recordings of versions without such a limit; see
    /// [`Plan::time_limit`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<f64>,
    /// The sections with their resolved keys, in the order of the file, for [`Plan::to_toml`].
    #[serde(default)]
    pub sections: Vec<SectionPlan>,
    /// The trials, in the order in which they run.
    pub trials: Vec<TrialPlan>,
    /// Subjects of the command line, and trials with a pager, that sections left out, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
}

impl Plan {
    /// The plan of a recording without trials.
    pub fn without_trials(scenario: &str, title: String) -> Plan {
        Plan {
            scenario: scenario.to_owned(),
            title,
            description: String::new(),
            seed: 0,
            quick: false,
            time_limit: None,
            order: Order::Fixed,
            sections: Vec::new(),
            trials: Vec::new(),
            omitted: Vec::new(),
        }
    }

    /// The levels that the runner holds during trials, each once, as text; empty without one.
    pub fn backgrounds(&self) -> String {
        let mut levels: Vec<String> = Vec::new();
        for level in self.trials.iter().filter_map(|trial| trial.settings.background) {
            let level = level.to_string();
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        levels.join(", ")
    }
}

/// A section of a plan, as it is written to a scenario file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPlan {
    pub name: String,
    /// Keys with their values as text: one, or several where the key is swept. Sizes are in bytes, except those
    /// that follow a swept key (`120% size`); a default that follows one is left out.
    pub keys: Vec<(String, Vec<String>)>,
}

/// One combination of a sweep, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    /// Stable name, unique in the plan and equal between runs of the same file: resume keys on it.
    /// `<section>/<subject>/<class>[/<swept key>=<value>...]#<repeat>`, e.g. `zram/zram:lz4/random#2`; without the
    /// class where the work fills its memory with none.
    pub id: String,
    /// Name of the section of the file.
    pub section: String,
    /// Repeat, from 1.
    pub repeat: u32,
    /// The swept keys and their values, as text, in the order of the file; the report groups by them.
    pub params: Vec<(String, String)>,
    pub settings: Settings,
}
