//! Parts of headlines.

use crate::analysis::Group;
use plimsoll_model::quantity::significant;
use plimsoll_model::recording::{Statement, StatementCode};

/// Words of a finding at most: a reader takes in a sentence of that length at a glance.
pub(crate) const MOST_WORDS: usize = 20;
/// Groups with a bullet of their own.
const MOST_BULLETS: usize = 6;

/// The result of a workload: one sentence, and the details in sentences of their own.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) finding: Statement,
    pub(crate) bullets: Vec<Statement>,
}

impl Told {
    pub(crate) fn of(finding: Statement) -> Told {
        Told {
            finding,
            bullets: Vec::new(),
        }
    }

    /// The first statement is the finding; `None` without any.
    pub(crate) fn of_statements(statements: Vec<Statement>) -> Option<Told> {
        let mut statements = statements.into_iter();
        Some(Told {
            finding: statements.next()?,
            bullets: statements.collect(),
        })
    }
}

/// Whether the text is short enough for a finding.
pub(crate) fn is_brief(text: &str) -> bool {
    text.split_whitespace().count() <= MOST_WORDS
}

/// The first of the statements that is short enough for a finding, or the beginning of the last.
pub(crate) fn brief(mut candidates: Vec<Statement>) -> Statement {
    if let Some(place) = candidates.iter().position(|one| is_brief(&one.text)) {
        return candidates.swap_remove(place);
    }
    let mut last = candidates.pop().unwrap_or_default();
    let kept: Vec<&str> = last.text.split_whitespace().take(MOST_WORDS).collect();
    last.text = format!("{}\u{2026}", kept.join(" "));
    last
}

/// As [`brief`], of texts with the same code.
pub(crate) fn brief_text<const N: usize>(code: StatementCode, candidates: [String; N]) -> Statement {
    brief(candidates.map(|text| Statement::new(code, text)).into())
}

/// The bullets of the groups; of many groups the first ones, and the number of the others.
pub(crate) fn bullets_of_groups(all: Vec<Statement>) -> Vec<Statement> {
    let more = all.len().saturating_sub(MOST_BULLETS);
    let mut bullets = all;
    match more {
        // A line about one more group is as long as the group's own.
        0 | 1 => {}
        more => {
            bullets.truncate(MOST_BULLETS);
            let text = format!("{more} more groups are in the tables.");
            bullets.push(Statement::new(StatementCode::RunMoreGroups, text).with("groups", more as f64));
        }
    }
    bullets
}

/// The statement with the medians of these metrics, as far as the group has them.
pub(crate) fn with_medians(statement: Statement, group: &Group, metrics: &[&str]) -> Statement {
    let with = |statement: Statement, metric: &&str| statement.with(*metric, group.median(metric));
    metrics.iter().fold(statement, with)
}

/// `low to high`, or one value if both look the same.
pub(crate) fn range(values: &[f64]) -> Option<String> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let (low, high) = (significant(low), significant(high));
    Some(if low == high {
        low
    } else {
        format!("{low} to {high}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_the_longest_that_is_brief_enough() {
        let words = |count: usize| vec!["word"; count].join(" ");
        let code = StatementCode::WscapRange;
        let found = brief_text(code, [words(21), words(20), words(2)]);
        assert_eq!((found.code, found.text), (code, words(20)));
        let cut = brief_text(code, [words(30)]);
        assert_eq!(cut.text.split_whitespace().count(), MOST_WORDS);
        assert!(cut.text.ends_with('\u{2026}'), "{cut}");
    }

    #[test]
    fn many_groups_have_one_bullet_for_those_that_are_left_out() {
        let group = |index: usize| Statement::new(StatementCode::WscapGroup, index.to_string());
        let bullets = |count: usize| bullets_of_groups((0..count).map(group).collect());
        assert_eq!((bullets(7).len(), bullets(8).len(), bullets(90).len()), (7, 7, 7));
        assert_eq!(bullets(7)[6].code, StatementCode::WscapGroup);
        let others = &bullets(90)[6];
        assert_eq!(
            (others.code, others.values["groups"]),
            (StatementCode::RunMoreGroups, 84.0)
        );
    }
}
