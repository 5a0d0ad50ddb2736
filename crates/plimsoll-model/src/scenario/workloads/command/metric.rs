//! The number that a program prints.

use regex::bytes::Regex;

/// Bytes of a compiled pattern: more than any pattern for a number needs.
const MOST_COMPILED: usize = 1 << 20;

/// A regular expression with one group, whose text is a number.
#[derive(Debug, Clone)]
pub struct MetricPattern(Regex);

/// Why a text is no pattern of a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    #[error("cannot read `metric` as a regular expression: {0}")]
    Syntax(String),
    #[error("`metric` has {0} groups, not one")]
    Groups(usize),
}

impl MetricPattern {
    /// # Errors
    /// [`MetricError`]: it is no regular expression, or has no group or several.
    pub fn new(text: &str) -> Result<MetricPattern, MetricError> {
        let pattern = regex::bytes::RegexBuilder::new(text)
            .size_limit(MOST_COMPILED)
            .build()
            .map_err(|error| MetricError::Syntax(last_line(&error.to_string())))?;
        // The whole match is a group too.
        match pattern.captures_len() - 1 {
            1 => Ok(MetricPattern(pattern)),
            groups => Err(MetricError::Groups(groups)),
        }
    }

    /// The number of the last match in a line.
    pub fn find(&self, line: &[u8]) -> Option<f64> {
        let last = self.0.captures_iter(line).last()?;
        let text = std::str::from_utf8(last.get(1)?.as_bytes()).ok()?;
        text.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// The cause, of a message that also draws the pattern.
fn last_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, line: &str) -> Option<f64> {
        MetricPattern::new(pattern).unwrap().find(line.as_bytes())
    }

    #[test]
    fn the_group_of_the_last_match_is_the_number() {
        assert_eq!(found("ops/s: ([0-9.]+)", "ops/s: 12.5"), Some(12.5));
        assert_eq!(found("([0-9]+) ops", "1 ops, 22 ops"), Some(22.0));
        assert_eq!(found(r"(-?[\d.]+e[\d+-]+)", "t=1.5e-3 s"), Some(0.0015));
        assert_eq!(found("ops/s: ([0-9.]+)", "no such line"), None);
        assert_eq!(found("ops/s: (.*)", "ops/s: many"), None);
        assert_eq!(found("ops/s: (.*)", "ops/s: inf"), None);
    }

    #[test]
    fn bytes_that_are_no_text_do_not_hide_a_number() {
        let pattern = MetricPattern::new("n=([0-9]+)").unwrap();
        assert_eq!(pattern.find(b"\xff\xfe n=7 \x80"), Some(7.0));
    }

    #[test]
    fn a_pattern_needs_one_group() {
        assert_eq!(MetricPattern::new("ops").unwrap_err(), MetricError::Groups(0));
        assert_eq!(MetricPattern::new("(a)(b)").unwrap_err(), MetricError::Groups(2));
        assert!(matches!(
            MetricPattern::new("(").unwrap_err(),
            MetricError::Syntax(_)
        ));
        let huge = MetricPattern::new("(a{1000}{1000})");
        assert!(matches!(huge.unwrap_err(), MetricError::Syntax(_)));
    }
}
