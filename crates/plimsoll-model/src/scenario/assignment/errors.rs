//! The errors of a combination of values, each at the place of the value that causes it.

use super::{Assignment, Key};
use crate::scenario::error::{Invalid, Place, Problem};
use crate::scenario::size::SizeExpr;
use crate::scenario::value::Value;

impl<'a> Assignment<'a> {
    /// The error for a key that a section must have.
    pub(in crate::scenario) fn missing(&self, name: &str, help: &str) -> Box<Invalid> {
        let message = format!("the work `{}` needs the key `{name}`", self.kind.name());
        self.section
            .error(Problem::Missing, message, "in this section")
            .help(help)
    }

    /// The error for a mismatch between the table of keys and its reader.
    pub(super) fn broken(&self, name: &str) -> Box<Invalid> {
        let message = format!("`{name}` is no key of `{}`, or of another type", self.kind.name());
        self.section.error(Problem::WrongType, message, "in this section")
    }

    /// The error of a size that is too large, at the given value that it follows from.
    pub(super) fn overflow(&self, key: &Key) -> Box<Invalid> {
        let name = key.name;
        if let Some((_, place)) = self.given(name) {
            let message = format!("`{name}` would be more than 16E - 1 bytes");
            return place
                .error(Problem::OutOfRange, message, "too large")
                .help("no machine has that much; write for example 1G or 25%");
        }
        let help = format!(
            "`{name}` is not given: its default is {}",
            key.default().replace('`', "")
        );
        let error = match self.largest_read() {
            Some((cause, place)) => {
                let message =
                    format!("`{cause}` is too large: `{name}` would be more than 16E - 1 bytes by it");
                place.error(Problem::OutOfRange, message, "too large")
            }
            None => {
                let message = format!("`{name}` would be more than 16E - 1 bytes");
                self.section.error(Problem::OutOfRange, message, "too large")
            }
        };
        error.help(help)
    }

    /// Of the given keys that were read, the one with the largest size or, without a size, the largest number.
    fn largest_read(&self) -> Option<(&'static str, &'a Place)> {
        let reads = self.reads.borrow();
        let given = reads.iter().filter_map(|name| Some((*name, self.given(name)?)));
        let ranked = given.filter_map(|(name, (value, place))| {
            let rank = match value {
                Value::Size(SizeExpr::Bytes(bytes)) => (true, *bytes),
                Value::Size(SizeExpr::Share { thousandths, .. }) => (
                    true,
                    SizeExpr::share(*thousandths, self.ram()).unwrap_or(u64::MAX),
                ),
                Value::Integer(number) => (false, *number),
                _ => return None,
            };
            Some((rank, name, place))
        });
        let (_, name, place) = ranked.max_by_key(|(rank, ..)| *rank)?;
        Some((name, place))
    }

    /// `chain` ends with the key that it came back to.
    pub(super) fn cycle(&self, chain: &[&'static str]) -> Box<Invalid> {
        let last = chain.last().copied().unwrap_or("size");
        let start = chain.iter().position(|name| *name == last).unwrap_or(0);
        let ring = &chain[start..];
        let message = format!("sizes are made from each other: {}", ring.join(" -> "));
        let mut error: Option<Box<Invalid>> = None;
        let mut help = String::from("give one of them without the other, for example size = \"1G\"");
        for name in &ring[1..] {
            match (self.given(name), error.take()) {
                (None, earlier) => {
                    help = format!(
                        "`{name}` is not given, and its default is {}: give it in bytes or as a share of RAM",
                        self.row(name)
                            .map_or_else(String::new, Key::default)
                            .replace('`', "")
                    );
                    error = earlier;
                }
                (Some((_, place)), None) => {
                    let label = format!("`{name}` is made from this");
                    error = Some(place.error(Problem::Cycle, message.clone(), label));
                }
                (Some((_, place)), Some(earlier)) => {
                    error = Some(earlier.and(place, format!("`{name}` is made from this")));
                }
            }
        }
        error
            .unwrap_or_else(|| self.section.error(Problem::Cycle, message, "in this section"))
            .help(help)
    }
}
