//! Differences between the plan of a recording and the plan to resume it with.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scenario::{Plan, TrialPlan};

/// One difference between the recorded plan and the given one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanDifference {
    #[error("the scenario was {was}, now is {now}")]
    Scenario { was: String, now: String },
    #[error("the seed was {was}, now is {now}")]
    Seed { was: u64, now: u64 },
    #[error("trial `{0}` is no longer asked for")]
    TrialRemoved(String),
    #[error("trial `{0}` is new")]
    TrialAdded(String),
    #[error("`{key}` of trial `{trial}` was {was}, now is {now}")]
    Setting {
        trial: String,
        key: String,
        was: Value,
        now: Value,
    },
}

/// Every difference, in the order of a message.
pub(super) fn differences(recorded: &Plan, asked: &Plan) -> Vec<PlanDifference> {
    let mut differences = Vec::new();
    if recorded.scenario != asked.scenario {
        differences.push(PlanDifference::Scenario {
            was: recorded.scenario.clone(),
            now: asked.scenario.clone(),
        });
    }
    if recorded.seed != asked.seed {
        differences.push(PlanDifference::Seed {
            was: recorded.seed,
            now: asked.seed,
        });
    }
    let by_id = |plan: &Plan| -> BTreeMap<String, TrialPlan> {
        let trials = plan.trials.iter();
        trials.map(|trial| (trial.id.clone(), trial.clone())).collect()
    };
    let (recorded, asked) = (by_id(recorded), by_id(asked));
    for (id, trial) in &recorded {
        match asked.get(id) {
            None => differences.push(PlanDifference::TrialRemoved(id.clone())),
            Some(other) => differences.extend(setting_differences(trial, other)),
        }
    }
    let new = asked.keys().filter(|id| !recorded.contains_key(*id));
    differences.extend(new.cloned().map(PlanDifference::TrialAdded));
    differences
}

fn setting_differences(recorded: &TrialPlan, asked: &TrialPlan) -> Vec<PlanDifference> {
    // The workload's own settings beside those of all.
    let fields = |trial: &TrialPlan| {
        let mut settings = serde_json::to_value(&trial.settings).unwrap_or_default();
        let name = trial.settings.workload.kind().name();
        if let Some(own) = settings["workload"][name].as_object().cloned()
            && let Some(all) = settings.as_object_mut()
        {
            all.insert("workload".to_owned(), name.into());
            all.extend(own);
        }
        settings
    };
    let (before, now) = (fields(recorded), fields(asked));
    let before = before.as_object().cloned().unwrap_or_default();
    before
        .into_iter()
        .filter(|(key, value)| now.get(key.as_str()) != Some(value))
        .map(|(key, was)| PlanDifference::Setting {
            trial: recorded.id.clone(),
            now: now.get(key.as_str()).cloned().unwrap_or_default(),
            key,
            was,
        })
        .collect()
}

/// The differences as a message, short also if a changed setting differs in every trial.
pub(super) fn listed(differences: &[PlanDifference]) -> String {
    const SHOWN: usize = 4;
    let mut texts: Vec<String> = differences.iter().take(SHOWN).map(ToString::to_string).collect();
    if differences.len() > SHOWN {
        texts.push(format!("and {} more", differences.len() - SHOWN));
    }
    texts.join("; ")
}
