//! Recommendations as blocks of text, which every format shows alike.

use plimsoll_model::recording::model::Results;
use plimsoll_model::recording::{ConfigurationFile, Recommendation};

/// A block of a report.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown<'a> {
    pub(crate) text: &'a str,
    pub(crate) premises: &'a [String],
    /// Without those that another block has.
    pub(crate) commands: &'a [String],
    pub(crate) persistent: Option<&'a ConfigurationFile>,
}

/// The blocks of a run: the recommendations, then the reasons for those withheld.
pub(crate) fn shown(results: &Results) -> Vec<Shown<'_>> {
    let all = &results.recommendations;
    let recommended = all.iter().enumerate().map(|(place, one)| {
        // Applied alike, the last one shows how.
        let again = all[place + 1..].iter().any(|later| applied_alike(one, later));
        Shown {
            text: &one.text,
            premises: &one.premises,
            commands: if again { &[] } else { &one.commands },
            persistent: one.persistent.as_ref().filter(|_| !again),
        }
    });
    let withheld = results.withheld.iter().map(|one| Shown {
        text: &one.text,
        premises: &[],
        commands: &[],
        persistent: None,
    });
    recommended.chain(withheld).collect()
}

fn applied_alike(one: &Recommendation, other: &Recommendation) -> bool {
    one.commands == other.commands && one.persistent == other.persistent
}
