//! Warnings of a recording: a stable code for programs and a text for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A warning, in the results of a run or about the parts of a recording. Its `Display` is the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Form")]
pub struct Warning {
    pub code: WarningCode,
    pub text: String,
}

/// The kind of a warning. The JSON name of a code never changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum WarningCode {
    /// The recording has no file of samples.
    SamplesMissing,
    /// The samples are those of an unfinished recording.
    SamplesUnfinished,
    /// As [`WarningCode::SamplesUnfinished`], and the last batch is incomplete.
    SamplesTorn,
    /// The last event is incomplete.
    EventTorn,
    /// The last trial is incomplete.
    TrialTorn,
    /// The recording has no results.
    ResultsMissing,
    /// Another process still writes the recording.
    StillRecording,
    /// A capability is missing, and some phases did not run.
    CapabilityMissing,
    /// Trials ran on another subject than the scenario's.
    SubjectReplaced,
    /// A section left out a subject of the command line, as its work cannot run on that.
    SubjectOmitted,
    /// A killed run left changes on the machine.
    KilledRun,
    /// The disk may become full before the end of the run.
    LittleRoom,
    /// The machine has no calibration.
    CalibrationFailed,
    /// A trial has no `neighbour_*` metrics.
    NeighbourFailed,
    /// The OOM killer ended a worker although swap was free.
    EarlyKill,
    /// A worker made fewer visits than were due, even at the lowest load.
    Overload,
    /// A change of the machine stays, as another program changed it since.
    ChangeLeft,
    /// A change of the machine was not undone.
    UndoFailed,
    /// The run stopped early.
    Stopped,
    /// The watched target is in a fault storm.
    FaultStorm,
    /// The samples include only some processes of the watched target.
    ProcessesOmitted,
    /// The cgroup of the process that is sized has other programs too.
    SharedCgroup,
    /// A warning without a code, of an earlier version; or with the code of a later one.
    #[default]
    #[serde(other)]
    Other,
}

impl WarningCode {
    pub const ALL: [WarningCode; 23] = [
        WarningCode::SamplesMissing,
        WarningCode::SamplesUnfinished,
        WarningCode::SamplesTorn,
        WarningCode::EventTorn,
        WarningCode::TrialTorn,
        WarningCode::ResultsMissing,
        WarningCode::StillRecording,
        WarningCode::CapabilityMissing,
        WarningCode::SubjectReplaced,
        WarningCode::SubjectOmitted,
        WarningCode::KilledRun,
        WarningCode::LittleRoom,
        WarningCode::CalibrationFailed,
        WarningCode::NeighbourFailed,
        WarningCode::EarlyKill,
        WarningCode::Overload,
        WarningCode::ChangeLeft,
        WarningCode::UndoFailed,
        WarningCode::Stopped,
        WarningCode::FaultStorm,
        WarningCode::ProcessesOmitted,
        WarningCode::SharedCgroup,
        WarningCode::Other,
    ];
}

impl Warning {
    pub fn new(code: WarningCode, text: impl Into<String>) -> Warning {
        Warning {
            code,
            text: text.into(),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The forms of a warning in a document: up to version 3 of the results, a text alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Coded { code: WarningCode, text: String },
}

impl From<Form> for Warning {
    fn from(form: Form) -> Warning {
        match form {
            Form::Text(text) => Warning::new(WarningCode::Other, text),
            Form::Coded { code, text } => Warning { code, text },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Warning {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_warning_of_an_earlier_version_is_a_text() {
        assert_eq!(read(r#""a text""#), Warning::new(WarningCode::Other, "a text"));
    }

    #[test]
    fn the_code_of_a_later_version_reads_as_other() {
        let later = read(r#"{"code":"moon-phase","text":"full"}"#);
        assert_eq!(later, Warning::new(WarningCode::Other, "full"));
    }

    #[test]
    fn every_code_reads_back() {
        for code in WarningCode::ALL {
            let warning = Warning::new(code, "a text");
            assert_eq!(read(&serde_json::to_string(&warning).unwrap()), warning);
        }
    }
}
