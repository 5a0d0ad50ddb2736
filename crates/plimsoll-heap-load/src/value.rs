//! Parameters and results by name, and their JSON.

use std::fmt::Write as _;

/// A value of a parameter or a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Count(u64),
    /// A measured number; one that is not finite becomes `null`.
    Real(f64),
    Text(String),
    /// Several groups of values, in their order.
    Groups(Vec<Values>),
}

/// Metrics in their order; a name ends with its unit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Values(pub Vec<(String, Value)>);

impl Values {
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(have, _)| have == name);
        found.map(|(_, value)| value)
    }

    pub(crate) fn count(&mut self, name: &str, value: impl TryInto<u64>) {
        let value = value.try_into().unwrap_or(u64::MAX);
        self.0.push((name.to_owned(), Value::Count(value)));
    }

    pub(crate) fn real(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), Value::Real(value)));
    }

    pub(crate) fn text(&mut self, name: &str, value: impl ToString) {
        self.0.push((name.to_owned(), Value::Text(value.to_string())));
    }

    pub(crate) fn groups(&mut self, name: &str, value: Vec<Values>) {
        self.0.push((name.to_owned(), Value::Groups(value)));
    }

    fn json(&self, out: &mut String) {
        out.push('{');
        for (at, (name, value)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            quote(name, out);
            out.push(':');
            value.json(out);
        }
        out.push('}');
    }
}

impl Value {
    fn json(&self, out: &mut String) {
        match self {
            Value::Count(count) => write!(out, "{count}").expect("writing to a string"),
            Value::Real(real) if real.is_finite() => write!(out, "{real:.4}").expect("writing to a string"),
            Value::Real(_) => out.push_str("null"),
            Value::Text(text) => quote(text, out),
            Value::Groups(groups) => {
                out.push('[');
                for (at, group) in groups.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    group.json(out);
                }
                out.push(']');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// One line of JSON: the load, the allocator it ran on, its parameters, its values.
pub fn to_json(load: &str, allocator: &str, parameters: &Values, values: &Values) -> String {
    let mut out = String::from("{\"load\":");
    quote(load, &mut out);
    out.push_str(",\"allocator\":");
    quote(allocator, &mut out);
    out.push_str(",\"parameters\":");
    parameters.json(&mut out);
    out.push_str(",\"values\":");
    values.json(&mut out);
    out.push('}');
    out
}
