//! Statements of a headline: a stable code, the sentence, and the values and names that the sentence has.
//!
//! - Invariant: a statement has no other values and names than the row of its code lists. Checked by [`Statement::with`] and
//!   [`Statement::naming`] in debug builds.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Deserializer, Serialize};

use crate::for_each_workload;

/// A statement of a headline. Its `Display` is the text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Form")]
pub struct Statement {
    pub code: StatementCode,
    /// One sentence, or two.
    pub text: String,
    /// The values of the text by name, with the unit at the end of the name; finite.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, f64>,
    /// The group, the subject or the trial of the text, by its role.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, String>,
}

impl Statement {
    pub fn new(code: StatementCode, text: impl Into<String>) -> Statement {
        Statement {
            code,
            text: text.into(),
            values: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// The statement with a value; without it if the value is unknown or not finite.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Option<f64>>) -> Statement {
        let name = name.into();
        debug_assert!(self.code.values().contains(&&*name), "{:?}: {name}", self.code);
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.values.insert(name, value);
        }
        self
    }

    /// The statement with the lowest and the highest of the values of a metric, as `low_<metric>` and `high_<metric>`.
    #[must_use]
    pub fn with_range(self, metric: &str, values: &[f64]) -> Statement {
        let (low, high) = (
            values.iter().copied().reduce(f64::min),
            values.iter().copied().reduce(f64::max),
        );
        self.with(format!("low_{metric}"), low)
            .with(format!("high_{metric}"), high)
    }

    /// The statement with a name in this role.
    #[must_use]
    pub fn naming(mut self, role: &str, name: impl Into<String>) -> Statement {
        debug_assert!(self.code.names().contains(&role), "{:?}: {role}", self.code);
        self.names.insert(role.to_owned(), name.into());
        self
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The forms of a statement in a document: up to version 5 of the results, a text alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Coded {
        /// Absent in the findings of those versions.
        #[serde(default)]
        code: StatementCode,
        text: String,
        #[serde(default)]
        values: BTreeMap<String, f64>,
        #[serde(default)]
        names: BTreeMap<String, String>,
    },
}

impl From<Form> for Statement {
    fn from(form: Form) -> Statement {
        match form {
            Form::Text(text) => Statement::new(StatementCode::Other, text),
            Form::Coded {
                code,
                text,
                values,
                names,
            } => Statement {
                code,
                text,
                values,
                names,
            },
        }
    }
}

/// Statements, or the text that stood in their place up to version 5 of the results: empty without a statement.
pub(super) fn statements_or_text<'de, D: Deserializer<'de>>(document: D) -> Result<Vec<Statement>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Statements {
        Text(String),
        Coded(Vec<Statement>),
    }
    Ok(match Statements::deserialize(document)? {
        Statements::Text(text) if text.is_empty() => Vec::new(),
        Statements::Text(text) => vec![Statement::new(StatementCode::Other, text)],
        Statements::Coded(statements) => statements,
    })
}

/// Declares the codes: the meaning, the code, its values, its names.
macro_rules! codes {
    ($(
        #[doc = $meaning:literal]
        $code:ident $(values $($value:literal)+)? $(names $($role:literal)+)?;
    )*) => {
        /// The kind of a statement. The JSON name of a code never changes its meaning.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum StatementCode {
            $(
                #[doc = $meaning]
                $code,
            )*
            /// A statement without a code, of an earlier version; one with the code of a later version; no statement, if the text is empty.
            #[default]
            #[serde(other)]
            Other,
        }

        impl StatementCode {
            pub const ALL: &[StatementCode] = &[$(StatementCode::$code,)* StatementCode::Other];

            pub fn meaning(self) -> &'static str {
                match self {
                    $(StatementCode::$code => $meaning.trim(),)*
                    StatementCode::Other => "A statement without a code, of an earlier version; one with the code of a later version; no statement, if the text is empty.",
                }
            }

            /// The values that its statements can have.
            pub const fn values(self) -> &'static [&'static str] {
                match self {
                    $(StatementCode::$code => &[$($($value),+)?],)*
                    StatementCode::Other => &[],
                }
            }

            /// The roles of the names that its statements can have.
            pub const fn names(self) -> &'static [&'static str] {
                match self {
                    $(StatementCode::$code => &[$($($role),+)?],)*
                    StatementCode::Other => &[],
                }
            }
        }
    };
}

/// Declares all codes. One after the other, the modules of the workloads add their own in braces.
macro_rules! all_codes {
    ({$($own:tt)*} [$($codes:tt)*] $workload:ident $($next:ident)*) => {
        crate::scenario::workloads::$workload::statements! { all_codes [$($codes)* $($own)*] $($next)* }
    };
    ({$($own:tt)*} [$($codes:tt)*]) => {
        codes! {
            /// No trial ended: the run has no result.
            RunWithoutTrials;
            /// The run has no trustworthy metric.
            RunWithoutResult;
            /// The number of the groups that have no bullet: they are in the tables.
            RunMoreGroups values "groups";

            /// The run disturbed other processes: the worst p99 wake-up latency outside of its cgroup is above 50 ms.
            NeighbourDisturbed values "neighbour_p99_s";
            /// The run did not disturb other processes.
            NeighbourUndisturbed values "neighbour_p99_s";

            /// Trust: the run was interrupted before a trial ended.
            TrustNoTrial;
            /// Trust: the run was interrupted; the trials ended before.
            TrustInterrupted values "trials";
            /// Trust: a capability was missing.
            TrustIncomplete;
            /// Trust: trials failed. The trial is the first of them.
            TrustFailed values "failed_trials" "trials" names "trial";
            /// Trust: no trial failed, and some are untrustworthy. The confounders, separated by commas, spoil them.
            TrustUntrustworthy values "untrustworthy_trials" "trials" names "confounders";
            /// Trust: all trials completed, and every byte was verified.
            TrustBytesVerified values "trials";
            /// Trust: all trials completed, and the exit codes of the programs were verified.
            TrustExitCodesVerified values "trials";
            /// Trust: all trials completed, and data and counts were verified.
            TrustDataVerified values "trials";
            /// Trust: no trial failed, and some could not be verified.
            TrustUnverified values "unverified_trials" "trials";
            /// Trust: some metrics of these trials, which are ok, are untrustworthy. The confounders, separated by commas, spoil them.
            TrustMetricsSpoiled values "trials" names "confounders";

            $($codes)* $($own)*

            /// The target, the duration and the samples of `plimsoll watch`.
            WatchTarget values "duration_s" "samples" "samples_per_s" names "target";
            /// `plimsoll watch` took no samples.
            WatchWithoutSamples names "target";
            /// The peak of the resident memory of the target.
            WatchResident values "target_resident_bytes";
            /// The minimum of the memory available on the machine.
            WatchAvailable values "mem_available_bytes" "mem_total_bytes";
            /// The memory available on the machine is unknown.
            WatchAvailableUnknown;
            /// The peak of the swap of the target.
            WatchSwap values "target_swap_bytes";
            /// The peak charge of the cgroup of the target.
            WatchCharge values "cgroup_usage_bytes";
            /// The time in which tasks of the machine stalled on memory.
            WatchStalled values "stalled_s";
            /// No task stalled on memory.
            WatchNotStalled;
            /// Trust: the recording was interrupted.
            WatchInterrupted;

            /// The median working set of a sized service, and its peak.
            ServiceNeeds values "p50_bytes" "peak_bytes";
            /// The service needs at most this: the cap reached its floor before pressure appeared.
            ServiceFloor values "p50_bytes";
            /// The service needs at most this: the kernel could reclaim no more before pressure appeared.
            ServiceUnreclaimable values "p50_bytes";
            /// No working set: the service waits for memory without a lower cap.
            ServiceWaits values "waiting_percent";
            /// No working set: the memory of the service sank without pressure to the end.
            ServiceWithoutPressure values "last_bytes" "duration_s";
            /// There are no samples of the service.
            ServiceWithoutSamples;
            /// The percentiles of the working set over time.
            ServicePercentiles values "p90_bytes" "p99_bytes" "max_bytes";
            /// The time until the working set was found; the pressure and the refaults since then.
            ServiceSettled values "settled_s" "pressure_percent" "refaults_per_s" "target_percent";
            /// The anonymous memory, in RAM and in swap.
            ServiceAnonymous values "anonymous_bytes";
            /// The settings for a system that limits memory.
            ServiceAdvice values "soft_bytes" "hard_bytes" names "system";
            /// The service needs more memory than its limits leave; a higher pressure target accepts that.
            ServiceNeedsMore;
            /// More time finds the working set.
            ServiceNeedsTime;
            /// Trust: the sizing ended early; `warnings` has the cause.
            ServiceStopped;
            /// Trust: the sizing was interrupted.
            ServiceInterrupted;

            /// `plimsoll hold` kept this available to other programs.
            HoldAvailable values "available_bytes" "duration_s";
            /// `plimsoll hold` held this.
            HoldHeld values "held_bytes" "duration_s";
            /// The mean time in which some task waited for memory, and its goal.
            HoldSomePressure values "mean_percent" "goal_percent" "duration_s";
            /// The mean time in which all tasks waited for memory, and its goal.
            HoldFullPressure values "mean_percent" "goal_percent" "duration_s";
            /// The level was never reached.
            HoldNotReached values "duration_s";
            /// The recording has no settings of the hold.
            HoldWithoutSettings;
            /// A detail of the hold, which `hold` has as a value.
            HoldFact names "fact";
            /// Trust: the hold ended early; `warnings` has the cause.
            HoldStopped;
            /// Trust: the hold was interrupted.
            HoldInterrupted;
            /// Trust: the level was not reached within the duration.
            HoldTooShort;
            /// Trust: the hold failed.
            HoldFailed;
        }
    };
}

macro_rules! of_workloads {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        all_codes! { {} [] $($module)* }
    };
}

for_each_workload!(of_workloads);

impl fmt::Display for StatementCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The table of the codes in Markdown, as `docs/recording-format.md` holds it.
pub fn statements_markdown() -> String {
    let listed = |names: &[&str]| {
        let names = names.iter().map(|name| format!("`{name}`"));
        names.collect::<Vec<_>>().join(", ")
    };
    let mut table = String::from("| code | meaning | values | names |\n|---|---|---|---|\n");
    for code in StatementCode::ALL {
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| `{code}` | {} | {} | {} |",
            code.meaning(),
            listed(code.values()),
            listed(code.names())
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Statement {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_statement_of_an_earlier_version_is_a_text() {
        assert_eq!(
            read(r#""a text""#),
            Statement::new(StatementCode::Other, "a text")
        );
        assert_eq!(
            read(r#"{"text":"a text"}"#),
            Statement::new(StatementCode::Other, "a text")
        );
    }

    #[test]
    fn the_code_of_a_later_version_reads_as_other() {
        let later = read(r#"{"code":"moon-phase","text":"full","values":{"phase_ratio":1.0}}"#);
        assert_eq!(
            (later.code, later.values["phase_ratio"]),
            (StatementCode::Other, 1.0)
        );
    }

    #[test]
    fn every_code_reads_back_with_its_values_and_names() {
        for &code in StatementCode::ALL {
            let mut statement = Statement::new(code, "a text");
            for name in code.values() {
                statement = statement.with(*name, 1.5);
            }
            for role in code.names() {
                statement = statement.naming(role, "zram");
            }
            assert_eq!(
                read(&serde_json::to_string(&statement).unwrap()),
                statement,
                "{code}"
            );
        }
    }

    #[test]
    fn values_are_known_and_finite() {
        let statement = Statement::new(StatementCode::WscapFree, "");
        let statement = statement.with("load", f64::INFINITY).with("load", None::<f64>);
        assert_eq!(
            serde_json::to_string(&statement).unwrap(),
            r#"{"code":"wscap-free","text":""}"#
        );
        let range = Statement::new(StatementCode::CompressionTrimSpeed, "");
        let range = range.with_range("trim_gb_per_s", &[2.0, 1.0, 1.5]);
        assert_eq!(
            range.values.into_iter().collect::<Vec<_>>(),
            [
                ("high_trim_gb_per_s".to_owned(), 2.0),
                ("low_trim_gb_per_s".to_owned(), 1.0)
            ]
        );
    }
}
