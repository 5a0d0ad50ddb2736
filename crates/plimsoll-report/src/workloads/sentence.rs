//! Parts of headlines.

use plimsoll_model::quantity::significant;

/// Words of a finding at most: a reader takes in a sentence of that length at a glance.
pub(crate) const MOST_WORDS: usize = 20;
/// Groups with a bullet of their own.
const MOST_BULLETS: usize = 6;

/// The result of a workload: one sentence, and the details in sentences of their own.
pub(crate) struct Told {
    pub(crate) finding: String,
    pub(crate) bullets: Vec<String>,
}

impl Told {
    pub(crate) fn of(finding: String) -> Told {
        Told {
            finding,
            bullets: Vec::new(),
        }
    }
}

/// The first of the sentences that is short enough for a finding, or the beginning of the last.
pub(crate) fn brief(candidates: &[String]) -> String {
    let words = |text: &String| text.split_whitespace().count();
    if let Some(brief) = candidates.iter().find(|text| words(text) <= MOST_WORDS) {
        return brief.clone();
    }
    let last = candidates.last().map_or("", String::as_str);
    let kept: Vec<&str> = last.split_whitespace().take(MOST_WORDS).collect();
    format!("{}\u{2026}", kept.join(" "))
}

/// The bullets of the groups; of many groups the first ones, and the number of the others.
pub(crate) fn bullets_of_groups(all: Vec<String>) -> Vec<String> {
    let more = all.len().saturating_sub(MOST_BULLETS);
    let mut bullets = all;
    match more {
        // A line about one more group is as long as the group's own.
        0 | 1 => {}
        more => {
            bullets.truncate(MOST_BULLETS);
            bullets.push(format!("{more} more groups are in the tables."));
        }
    }
    bullets
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
        assert_eq!(brief(&[words(21), words(20), words(2)]), words(20));
        let cut = brief(&[words(30)]);
        assert_eq!(cut.split_whitespace().count(), MOST_WORDS);
        assert!(cut.ends_with('\u{2026}'), "{cut}");
    }

    #[test]
    fn many_groups_have_one_bullet_for_those_that_are_left_out() {
        let bullets = |count: usize| bullets_of_groups((0..count).map(|index| index.to_string()).collect());
        assert_eq!((bullets(7).len(), bullets(8).len(), bullets(90).len()), (7, 7, 7));
        assert!(bullets(90)[6].starts_with("84 "), "{:?}", bullets(90));
    }
}
