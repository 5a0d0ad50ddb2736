//! A parser of OpenMetrics 1.0 that rejects everything beyond the grammar and the rules of the specification.
//!
//! It also rejects timestamps, exemplars and types besides counter, gauge and info, which no document of this project has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Info,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub kind: Kind,
    pub unit: Option<String>,
    /// Without escapes.
    pub help: String,
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Family {
    /// The values of all samples, in the order of the document.
    pub fn values(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.value).collect()
    }
}

/// A line that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub line: String,
    pub rule: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.rule, self.line)
    }
}

impl std::error::Error for Violation {}

/// A family whose lines are being read.
#[derive(Default)]
struct Open {
    name: String,
    kind: Option<Kind>,
    unit: Option<String>,
    help: Option<String>,
    samples: Vec<Sample>,
}

/// The families of a document by name.
///
/// # Errors
/// The first line that breaks a rule.
pub fn parse(text: &str) -> Result<BTreeMap<String, Family>, Violation> {
    let mut families = BTreeMap::new();
    let mut sample_names = BTreeSet::new();
    let mut open: Option<Open> = None;
    let lines = text.strip_suffix("# EOF\n").ok_or(violation(
        text.lines().last().unwrap_or(""),
        "the last line is # EOF",
    ))?;
    if !lines.is_empty() && !lines.ends_with('\n') {
        return Err(violation(lines, "each line ends with a line feed"));
    }
    for line in lines.split_terminator('\n') {
        let fail = |rule| violation(line, rule);
        if let Some(descriptor) = line.strip_prefix("# ") {
            let (word, rest) = descriptor
                .split_once(' ')
                .ok_or(fail("a descriptor has a name"))?;
            let (name, value) = match rest.split_once(' ') {
                Some((name, value)) => (name, value),
                None => return Err(fail("a descriptor has a value")),
            };
            if open.as_ref().is_none_or(|open| open.name != name) {
                close(open.take(), &mut families, &mut sample_names).map_err(fail)?;
                if !is_metric_name(name) {
                    return Err(fail("a metric name has only letters, digits, _ and :"));
                }
                open = Some(Open {
                    name: name.to_owned(),
                    ..Open::default()
                });
            }
            if let Some(open) = &mut open {
                describe(open, word, value).map_err(fail)?;
            }
        } else {
            let open = open.as_mut().ok_or(fail("a sample follows its family's type"))?;
            let sample = sample(line, open).map_err(fail)?;
            if open.samples.iter().any(|other| other.labels == sample.labels) {
                return Err(fail("a family has each set of labels once"));
            }
            open.samples.push(sample);
        }
    }
    close(open, &mut families, &mut sample_names).map_err(|rule| violation("# EOF", rule))?;
    Ok(families)
}

fn violation(line: &str, rule: &'static str) -> Violation {
    Violation {
        line: line.to_owned(),
        rule,
    }
}

fn describe(open: &mut Open, word: &str, value: &str) -> Result<(), &'static str> {
    if !open.samples.is_empty() {
        return Err("descriptors precede the samples");
    }
    let twice = "a family has each descriptor once";
    match word {
        "TYPE" => {
            let kind = match value {
                "counter" => Kind::Counter,
                "gauge" => Kind::Gauge,
                "info" => Kind::Info,
                _ => return Err("the type is counter, gauge or info"),
            };
            open.kind.replace(kind).map_or(Ok(()), |_| Err(twice))
        }
        "UNIT" => {
            let stem = open.name.strip_suffix(value).filter(|_| !value.is_empty());
            if !stem.is_some_and(|stem| stem.ends_with('_')) {
                return Err("the name of a family ends with its unit");
            }
            open.unit.replace(value.to_owned()).map_or(Ok(()), |_| Err(twice))
        }
        "HELP" => {
            let (help, rest) = escaped(value)?;
            if !rest.is_empty() {
                return Err("a quotation mark is escaped");
            }
            open.help.replace(help).map_or(Ok(()), |_| Err(twice))
        }
        _ => Err("a descriptor is TYPE, UNIT or HELP"),
    }
}

fn close(
    open: Option<Open>,
    families: &mut BTreeMap<String, Family>,
    sample_names: &mut BTreeSet<String>,
) -> Result<(), &'static str> {
    let Some(open) = open else {
        return Ok(());
    };
    let kind = open.kind.ok_or("a family has a type")?;
    if kind == Kind::Info && open.unit.is_some() {
        return Err("text has no unit");
    }
    if open.samples.is_empty() {
        return Err("a family has samples");
    }
    // Names that the family reserves: none may be another family's.
    let reserved = match kind {
        Kind::Counter => vec!["_total", "_created", ""],
        Kind::Info => vec!["_info", ""],
        Kind::Gauge => vec![""],
    };
    for ending in reserved {
        if !sample_names.insert(format!("{}{ending}", open.name)) {
            return Err("no two families share a name");
        }
    }
    let family = Family {
        kind,
        unit: open.unit,
        help: open.help.unwrap_or_default(),
        samples: open.samples,
    };
    families.insert(open.name, family);
    Ok(())
}

fn sample(line: &str, open: &Open) -> Result<Sample, &'static str> {
    let end = line.find(['{', ' ']).ok_or("a sample has a value")?;
    let (name, rest) = line.split_at(end);
    let kind = open.kind.ok_or("a sample follows its family's type")?;
    let ending = match kind {
        Kind::Counter => "_total",
        Kind::Gauge => "",
        Kind::Info => "_info",
    };
    if name.strip_suffix(ending) != Some(&open.name) {
        return Err("a sample has its family's name, with the ending of the type");
    }
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let number = rest.strip_prefix(' ').ok_or("one space precedes the value")?;
    if !is_number(number) {
        return Err("the value is a number");
    }
    let value: f64 = number.parse().map_err(|_| "the value is a number")?;
    match kind {
        Kind::Counter if value.is_nan() || value < 0.0 => Err("a counter is not negative"),
        Kind::Info if value != 1.0 => Err("the value of text is 1"),
        _ => Ok(Sample { labels, value }),
    }
}

/// The labels behind an opening brace, and the rest behind the closing one.
fn labels(mut rest: &str) -> Result<(BTreeMap<String, String>, &str), &'static str> {
    let mut labels = BTreeMap::new();
    if let Some(rest) = rest.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label has a value")?;
        if !is_label_name(name) {
            return Err("a label's name has only letters, digits and _, and no __ at its start");
        }
        let (value, after) = escaped(after)?;
        let after = after
            .strip_prefix('"')
            .ok_or("a value ends with a quotation mark")?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a sample has each label once");
        }
        match (after.strip_prefix(','), after.strip_prefix('}')) {
            (Some(more), _) => rest = more,
            (_, Some(end)) => return Ok((labels, end)),
            _ => return Err("a comma or a brace follows a label"),
        }
    }
}

/// Escaped text up to a quotation mark or the end, without the escapes; and the rest.
fn escaped(text: &str) -> Result<(String, &str), &'static str> {
    let mut plain = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((plain, &text[at..])),
            '\\' => plain.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, '"')) => '"',
                Some((_, '\\')) => '\\',
                _ => return Err("an escape is of a line feed, a quotation mark or a backslash"),
            }),
            // Legal by the grammar; a terminal might act on it.
            c if c.is_control() => return Err("text has no control characters"),
            c => plain.push(c),
        }
    }
    Ok((plain, ""))
}

fn is_metric_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    bytes.next().is_some_and(starts) && bytes.all(|byte| starts(byte) || byte.is_ascii_digit())
}

fn is_label_name(name: &str) -> bool {
    is_metric_name(name) && !name.contains(':') && !name.starts_with("__")
}

/// `realnumber` of the grammar.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    if ["nan", "inf", "infinity"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word))
    {
        return true;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = match mantissa.split_once('.') {
        Some((whole, "")) => digits(whole),
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(mantissa),
    };
    whole && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_the_specification_is_read() {
        let document = parse(
            "# TYPE acme_http_router_request_seconds gauge\n\
             # UNIT acme_http_router_request_seconds seconds\n\
             # HELP acme_http_router_request_seconds Latency of \\\"all\\\" requests \\\\ n.\n\
             acme_http_router_request_seconds{path=\"/api/v1\",method=\"GET\"} 9036.32\n\
             acme_http_router_request_seconds{path=\"a\\\"b\\\\c\\nd\",method=\"GET\"} -1e-3\n\
             # TYPE foo counter\n\
             foo_total 17\n\
             # TYPE build info\n\
             build_info{} 1\n\
             # EOF\n",
        )
        .unwrap();
        let seconds = &document["acme_http_router_request_seconds"];
        assert_eq!(
            (seconds.kind, seconds.unit.as_deref()),
            (Kind::Gauge, Some("seconds"))
        );
        assert_eq!(seconds.help, "Latency of \"all\" requests \\ n.");
        assert_eq!(seconds.samples[1].labels["path"], "a\"b\\c\nd");
        assert_eq!(seconds.values(), [9036.32, -0.001]);
        assert_eq!(document["foo"].values(), [17.0]);
        assert_eq!(parse("# EOF\n").unwrap().len(), 0);
    }

    #[test]
    fn each_rule_has_a_document_that_breaks_it() {
        for text in [
            "",
            "# EOF",
            "# TYPE a gauge\na 1\n",
            "# TYPE a gauge\na 1\n# EOF\nb 2\n",
            "# TYPE a gauge\na 1\n# EOF\n# EOF\n",
            "a 1\n# EOF\n",
            "# TYPE a gauge\n# EOF\n",
            "# TYPE a gauge\n\na 1\n# EOF\n",
            "# TYPE a gauge\na 1\r\n# EOF\n",
            "# TYPE a gauge\na  1\n# EOF\n",
            "# TYPE a gauge\na 1 1600000000\n# EOF\n",
            "# TYPE a gauge\na one\n# EOF\n",
            "# TYPE a gauge\na 0x1\n# EOF\n",
            "# TYPE a gauge\na .\n# EOF\n",
            "# TYPE a gauge\na 1\na 2\n# EOF\n",
            "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na{x=\"1\"} 2\n# EOF\n",
            "# TYPE a gauge\na 1\n# HELP a late\n# EOF\n",
            "# TYPE a gauge\n# TYPE a gauge\na 1\n# EOF\n",
            "# TYPE a histogram\na 1\n# EOF\n",
            "# HELP a help\na 1\n# EOF\n",
            "# TYPE a gauge\n# HELP a a \"word\"\na 1\n# EOF\n",
            "# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n",
            "# TYPE abytes gauge\n# UNIT abytes bytes\nabytes 1\n# EOF\n",
            "# TYPE a-b gauge\na-b 1\n# EOF\n",
            "# TYPE a counter\na 1\n# EOF\n",
            "# TYPE a counter\na_total -1\n# EOF\n",
            "# TYPE a_total gauge\na_total 1\n# TYPE a counter\na_total 1\n# EOF\n",
            "# TYPE a info\na_info{x=\"y\"} 2\n# EOF\n",
            "# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n# EOF\n",
            "# TYPE a gauge\na{x=\"1\",} 1\n# EOF\n",
            "# TYPE a gauge\na{__x=\"1\"} 1\n# EOF\n",
            "# TYPE a gauge\na{x=\"\\t\"} 1\n# EOF\n",
            "# TYPE a gauge\na{x=\"\n\"} 1\n# EOF\n",
            "# TYPE a gauge\na{x=\"\"\"} 1\n# EOF\n",
            "# COMMENT a b\n# EOF\n",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
