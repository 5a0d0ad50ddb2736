//! Parses the right side of `=` by the type of its key.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use toml::de::DeValue;

use super::assignment::Key;
use super::error::{Invalid, Place, Problem};
use super::kind::{CLASSES, INSTALLED, Kind, SUBJECTS, SYSTEM};
use super::level::{AmountError, LEVELS, LevelError};
use super::model::{ParseNameError, Subject};
use super::nearest::nearest;
use super::pager::{PagerOptions, PagerTextError};
use super::size::{SizeError, SizeExpr, UNIT_NAMES};
use super::value::{Value, quoted, short};
use super::workload_kind::WorkloadKind;

/// Reads one value (not a list) of a key.
pub(super) fn parse(key: &'static Key, raw: &DeValue<'_>, place: &Place) -> Result<Value, Box<Invalid>> {
    match (key.kind, raw) {
        (Kind::Seconds { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => {
            within(key, place, float(raw), min..=max).map(Value::Seconds)
        }
        (Kind::Seconds { min, max }, DeValue::String(text)) => {
            let seconds = duration(text).ok_or_else(|| no_time(key, place))?;
            within(key, place, Some(seconds + 0.0), min..=max).map(Value::Seconds)
        }
        (Kind::Number { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => {
            within(key, place, float(raw), min..=max).map(Value::Number)
        }
        (Kind::Flag, DeValue::Boolean(flag)) => Ok(Value::Flag(*flag)),
        (Kind::Integer { or_system: true, .. }, DeValue::String(text)) if text == SYSTEM => Ok(Value::System),
        (Kind::Integer { min, max, .. }, DeValue::Integer(number)) => {
            let number = integer(number).and_then(|number| u64::try_from(number).ok());
            within(key, place, number, min..=max).map(Value::Integer)
        }
        (Kind::Seconds { .. } | Kind::Number { .. } | Kind::Flag | Kind::Integer { .. }, _) => {
            Err(wrong_type(key, raw, place))
        }
        (Kind::Size, DeValue::Integer(number)) => match integer(number) {
            Some(number) => parse_size(key, &number.to_string(), place),
            None => Err(size_error(
                key,
                &SizeError::TooLarge("the most is 16E - 1 bytes"),
                place,
            )),
        },
        // One size is a number as well.
        (Kind::BlockSizes, DeValue::Integer(number)) => {
            parse_text(key, &integer(number).unwrap_or(0).to_string(), place)
        }
        (_, DeValue::String(text)) => parse_text(key, text, place),
        _ => Err(wrong_type(key, raw, place)),
    }
}

fn parse_text(key: &'static Key, text: &str, place: &Place) -> Result<Value, Box<Invalid>> {
    match key.kind {
        Kind::Workload => WorkloadKind::of_name(text)
            .map(Value::Workload)
            .ok_or_else(|| unknown_choice(key, text, place, &WorkloadKind::ALL.map(WorkloadKind::name))),
        Kind::Size => parse_size(key, text, place),
        Kind::Subject if text == INSTALLED => Ok(Value::Installed),
        Kind::BlockSizes => text
            .parse()
            .map(Value::BlockSizes)
            .map_err(|error: ParseNameError| {
                unknown_name(text, place, "a size of blocks", error.known, &["0-1k", "1-2k"])
            }),
        Kind::Subject => match text.parse() {
            Ok(subject) => Ok(Value::Subject(subject)),
            Err(ParseNameError { known, .. }) => Err(unknown_subject(text, place, known)),
        },
        Kind::Class => match text.parse() {
            Ok(class) => Ok(Value::Class(class)),
            Err(ParseNameError { known, .. }) => Err(unknown_class(text, place, known)),
        },
        Kind::Level => text
            .parse()
            .map(Value::Level)
            .map_err(|error: LevelError| unknown_level(key, text, place, &error)),
        Kind::Folder if text.is_empty() || text.contains('\0') => Err(place
            .error(
                Problem::BadValue,
                format!("`{}` needs the path of a folder", key.name),
                "not a path",
            )
            .help(format!(
                "leave it out for {}",
                plain(&key.everywhere(Key::default))
            ))),
        Kind::Folder => Ok(Value::Folder(PathBuf::from(text))),
        Kind::Text if text.contains('\0') => Err(place
            .error(
                Problem::BadValue,
                format!("`{}` has a NUL byte", key.name),
                "no argument of a program can have one",
            )
            .help("remove it")),
        Kind::Text => Ok(Value::Text(text.to_owned())),
        Kind::Choice(names) => match names.iter().find(|name| **name == text) {
            Some(name) => Ok(Value::Choice(name)),
            None => Err(unknown_choice(key, text, place, names)),
        },
        // The caller has dealt with numbers and flags.
        Kind::Seconds { .. } | Kind::Number { .. } | Kind::Flag | Kind::Integer { .. } => Err(place.error(
            Problem::WrongType,
            format!("`{}` needs {}", key.name, key.kind),
            "this is text",
        )),
    }
}

fn unknown_level(key: &Key, text: &str, place: &Place, error: &LevelError) -> Box<Invalid> {
    match error {
        LevelError::Unknown(_) => unknown_name(
            text,
            place,
            "a level of memory",
            "used=SIZE, available=SIZE, bytes=SIZE",
            LEVELS,
        ),
        LevelError::Amount { source, .. } => {
            let problem = match source {
                AmountError::MoreThanWhole
                | AmountError::Size(SizeError::Negative | SizeError::Zero | SizeError::TooLarge(_)) => {
                    Problem::OutOfRange
                }
                _ => Problem::BadValue,
            };
            place
                .error(
                    problem,
                    format!("`{}` needs a level of memory", key.name),
                    source.to_string(),
                )
                .help("write used=80%, available=2G or bytes=512M")
        }
    }
}

fn unknown_choice(key: &Key, text: &str, place: &Place, names: &[&str]) -> Box<Invalid> {
    let what = format!("a value of `{}`", key.name);
    unknown_name(text, place, &what, &names.join(", "), names)
}

fn unknown_name(given: &str, place: &Place, what: &str, known: &str, offers: &[&str]) -> Box<Invalid> {
    let label = match nearest(given, offers.iter().copied()) {
        Some(offer) => format!("did you mean `{offer}`?"),
        None => "not known".to_owned(),
    };
    place
        .error(
            Problem::BadValue,
            format!("`{}` is not {what}", short(given)),
            label,
        )
        .help(format!("known are: {known}"))
}

fn unknown_subject(text: &str, place: &Place, known: &str) -> Box<Invalid> {
    let invalid = |label: String| {
        let message = format!("`{}` is not a subject", short(text));
        let error = place.error(Problem::BadValue, message, label);
        error.help(format!("known are: {known}"))
    };
    match PagerOptions::of_text(text) {
        // A codec has near names; an option has a value of its own.
        Some(Err(error)) if !matches!(error, PagerTextError::Codec(_)) => invalid(error.to_string()),
        None if text.split(',').all(|item| item.trim().parse::<Subject>().is_ok()) => {
            invalid(format!("a list needs brackets: `[{}]`", short(text)))
        }
        _ => unknown_name(text, place, "a subject", known, SUBJECTS),
    }
}

fn unknown_class(text: &str, place: &Place, known: &str) -> Box<Invalid> {
    match text.split_once('=') {
        Some(("ratio", ratio)) if ratio.parse::<f64>().is_ok() => place
            .error(
                Problem::OutOfRange,
                format!("a ratio of {} cannot be made", short(ratio)),
                "must be 1 to 100",
            )
            .help("ratio=1 does not compress at all, ratio=100 is the most; write for example ratio=2.5"),
        Some(("ratio", _)) => place
            .error(
                Problem::BadValue,
                format!("`{}` has no number for its ratio", short(text)),
                "a number must follow `ratio=`",
            )
            .help("write for example ratio=2.5"),
        _ => unknown_name(text, place, "a class", known, CLASSES),
    }
}

fn parse_size(key: &'static Key, text: &str, place: &Place) -> Result<Value, Box<Invalid>> {
    let size = text.parse().map_err(|error| size_error(key, &error, place))?;
    if let SizeExpr::Share { thousandths, of } = size {
        // More than all of RAM is a question of safety for `size` and nonsense for these.
        if key.at_most_whole.contains(&of) && thousandths > 100_000 {
            return Err(place
                .error(
                    Problem::OutOfRange,
                    format!("`{}` cannot be more than 100% of {of}", key.name),
                    "at most 100%",
                )
                .help(format!("the default is {}", plain(&key.everywhere(Key::default)))));
        }
    }
    Ok(Value::Size(size))
}

fn size_error(key: &Key, error: &SizeError, place: &Place) -> Box<Invalid> {
    let problem = match error {
        SizeError::Negative | SizeError::Zero | SizeError::TooLarge(_) => Problem::OutOfRange,
        _ => Problem::BadValue,
    };
    let (label, help) = match error {
        SizeError::UnknownUnit(unit) => {
            let label = match nearest(unit, UNIT_NAMES.iter().copied()) {
                Some(offer) => format!("did you mean the unit `{offer}`?"),
                None => "no such unit".to_owned(),
            };
            (
                label,
                "units are K, M, G, T (1024), the same as KiB, MiB, GiB, TiB, and KB, MB, GB, TB (1000)",
            )
        }
        SizeError::UnknownBase(base) => {
            let label = match nearest(base, ["ram", "size", "limit"]) {
                Some(offer) => format!("did you mean `{offer}`?"),
                None => "neither ram, size nor limit".to_owned(),
            };
            (label, "write 25% (of RAM), 120% size or 50% limit")
        }
        error => (
            error.to_string(),
            "write 1G, 512M, 64KiB, a number of bytes, 25% (of RAM), 120% size or 50% limit",
        ),
    };
    place
        .error(problem, format!("`{}` needs a size", key.name), label)
        .help(help)
}

/// Checks a number against the bounds of its key; `None` is a number too large for its type.
fn within<T: PartialOrd>(
    key: &Key,
    place: &Place,
    number: Option<T>,
    bounds: RangeInclusive<T>,
) -> Result<T, Box<Invalid>> {
    number
        .filter(|number| bounds.contains(number))
        .ok_or_else(|| out_of_range(key, place))
}

fn no_time(key: &Key, place: &Place) -> Box<Invalid> {
    place
        .error(
            Problem::BadValue,
            format!("`{}` needs {}", key.name, key.kind),
            "not a time",
        )
        .help("write a number of seconds, or \"500ms\", \"2s\", \"5min\", \"1h\"")
}

/// A whole number or one with decimals.
fn float(raw: &DeValue<'_>) -> Option<f64> {
    let number: f64 = match raw {
        DeValue::Integer(number) => integer(number)? as f64,
        DeValue::Float(number) => number.as_str().parse().ok()?,
        _ => return None,
    };
    // Adding zero turns -0.0 into 0.0, which is written alike.
    Some(number + 0.0)
}

/// `20us`, `500ms`, `2s`, `5min`, `1h` or a plain number, in seconds.
fn duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.trim().parse().ok()?;
    match unit {
        "" | "s" => Some(number),
        "us" => Some(number / 1e6),
        "ms" => Some(number / 1000.0),
        "min" => Some(number * 60.0),
        "h" => Some(number * 3600.0),
        _ => None,
    }
}

fn integer(number: &toml::de::DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

fn out_of_range(key: &Key, place: &Place) -> Box<Invalid> {
    place
        .error(
            Problem::OutOfRange,
            format!("`{}` is out of range", key.name),
            format!("must be {}", plain(&key.kind.to_string())),
        )
        .help(format!(
            "{}; the default is {}",
            plain(&key.everywhere(|key| key.meaning.to_owned())),
            plain(&key.everywhere(Key::default))
        ))
}

pub(super) fn wrong_type(key: &Key, raw: &DeValue<'_>, place: &Place) -> Box<Invalid> {
    let found = type_name(raw);
    place
        .error(
            Problem::WrongType,
            format!(
                "`{}` needs {}, not {found}",
                key.name,
                plain(&key.kind.to_string())
            ),
            format!("this is {found}"),
        )
        .help(format!("for example: {} = {}", key.name, example(key)))
}

/// A line that would be right, as help.
fn example(key: &Key) -> String {
    let text = match key.kind {
        Kind::Workload => "\"compression\"",
        Kind::Subject => "\"zram:lz4\"",
        Kind::Class => "\"runs20\"",
        Kind::Size => "\"512M\"",
        Kind::BlockSizes => "\"0-1k\"",
        Kind::Choice(names) => return quoted(names.first().copied().unwrap_or_default()),
        Kind::Flag => "true",
        Kind::Seconds { .. } => "2.5",
        Kind::Number { .. } => "1",
        Kind::Integer { .. } => "10",
        Kind::Level => "\"used=80%\"",
        Kind::Folder => "\"/var/tmp\"",
        Kind::Text if key.list => "[\"my-program\", \"--option\", \"10\"]",
        Kind::Text => "\"some text\"",
    };
    text.to_owned()
}

/// Text of the key table without Markdown.
fn plain(words: &str) -> String {
    words.replace('`', "")
}

/// The TOML type of a value, in words.
pub(super) fn type_name(raw: &DeValue<'_>) -> &'static str {
    match raw {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with decimals",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
