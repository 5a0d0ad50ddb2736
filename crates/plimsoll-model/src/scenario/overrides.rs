//! Changes of a scenario by the command line.

use toml::Spanned;
use toml::de::DeValue;

use super::allocator::Allocator;
use super::assignment::{Entry, Key};
use super::document::{self, Document, Scope};
use super::error::{Invalid, Place, Problem, ScenarioError};
use super::kind::Kind;
use super::nearest::nearest;
use super::pager::PagerOptions;
use super::source_text::Source;
use super::value::short;

/// Changes by the command line. A later `set` wins over an earlier one, one of a section over one
/// of all, and all of them over the file and its `[quick]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--quick`: apply `[quick]`, or shrink a scenario that has none.
    pub quick: bool,
    pub repeat: Option<u32>,
    /// `--set key=value`, `--set section.key=value`, `--set global.key=value`, `--set quick.key=value`.
    pub set: Vec<String>,
    pub seed: Option<u64>,
    /// `--scale`, as it was written.
    pub scale: Option<String>,
}

impl Document {
    /// Checks the keys and values of changes, without a machine.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`]: a key or section that is not known, a value that is not valid by itself.
    pub fn check_changes(&self, overrides: &Overrides) -> Result<(), ScenarioError> {
        apply(&mut self.clone(), overrides)?;
        Ok(())
    }
}

/// Entries of the command line, by scope.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// For every section, and for the whole plan.
    pub(super) all: Vec<Entry>,
    /// For the section of that index.
    pub(super) sections: Vec<(usize, Entry)>,
}

/// Puts an entry in the place of the one of the same key, or at the end.
pub(super) fn overlay(entries: &mut Vec<Entry>, entry: Entry) {
    match entries.iter_mut().find(|e| e.key.name == entry.key.name) {
        Some(old) => *old = entry,
        None => entries.push(entry),
    }
}

/// Reads the command line's changes. Those of `[global]` and `[quick]` are made in the document itself.
pub(super) fn apply(document: &mut Document, overrides: &Overrides) -> Result<Arguments, Box<Invalid>> {
    let mut arguments = Arguments::default();
    for set in &overrides.set {
        apply_one(document, &mut arguments, &Source::argument("--set", set))?;
    }
    if let Some(repeat) = overrides.repeat {
        let source = Source::argument("--repeat", &format!("repeat={repeat}"));
        apply_one(document, &mut arguments, &source)?;
        // An option of its own wins over everything, the `--set` of a section too.
        arguments.sections.retain(|(_, entry)| entry.key.name != "repeat");
    }
    if let Some(scale) = &overrides.scale {
        let source = Source::argument("--scale", &format!("scale={scale}"));
        apply_one(document, &mut arguments, &source)?;
    }
    if let Some(seed) = overrides.seed {
        let source = Source::argument("--seed", &format!("seed={seed}"));
        apply_one(document, &mut arguments, &source)?;
    }
    Ok(arguments)
}

fn apply_one(
    document: &mut Document,
    arguments: &mut Arguments,
    source: &Source,
) -> Result<(), Box<Invalid>> {
    let text = source.text();
    let whole = document::place(source, 0..text.len());
    let Some((left, right)) = text.split_once('=') else {
        return Err(whole
            .error(
                Problem::Syntax,
                "an override needs a key and a value",
                "no `=` in it",
            )
            .help("write for example --set size=1G or --set quick.size=64M"));
    };
    let (section, name) = match left.split_once('.') {
        Some((section, name)) => (Some(section), name),
        None => (None, left),
    };
    let name_start = left.len() - name.len();
    let key_place = document::place(source, name_start..left.len());
    let scope = match section {
        None | Some("global" | "quick") => Scope::Whole,
        Some(_) => Scope::Section,
    };
    let index = match section {
        Some(section) if scope == Scope::Section => Some(section_index(document, section, source)?),
        _ => None,
    };
    let key = document::known_key(name.trim(), &key_place, scope).map_err(|error| match name.trim() {
        // A class looks like an assignment of its own: `ratio=3`.
        "ratio" => error.help(format!(
            "it is a class of data: write --set 'class=\"ratio={}\"'",
            short(right)
        )),
        _ => error,
    })?;
    let offset = left.len() + 1;
    let value_place = document::place(source, offset..text.len());
    let value = argument_value(key, right, &value_place)?;
    let entry = document::entry(key, key_place, &value, offset)?;
    match (section, index) {
        (_, Some(index)) => arguments.sections.push((index, entry)),
        (Some("global"), None) => overlay(&mut document.global, entry),
        (Some("quick"), None) => overlay(document.quick.get_or_insert_default(), entry),
        _ => overlay(&mut arguments.all, entry),
    }
    Ok(())
}

fn section_index(document: &Document, name: &str, source: &Source) -> Result<usize, Box<Invalid>> {
    if let Some(index) = document.sections().position(|section| section == name) {
        return Ok(index);
    }
    let known: Vec<&str> = document.sections().chain(["global", "quick"]).collect();
    let label = match nearest(name, known.iter().copied()) {
        Some(offer) => format!("did you mean `{offer}`?"),
        None => "not a section of it".to_owned(),
    };
    let message = format!(
        "the scenario `{}` has no section `{}`",
        document.name,
        short(name)
    );
    Err(document::place(source, 0..name.len())
        .error(Problem::UnknownSection, message, label)
        .help(format!("it has: {}", known.join(", "))))
}

/// The value of an argument: TOML where it is TOML, else text, so that a shell needs no second pair of quotes.
/// `[random, runs20]` is a list of texts. Spans count from the start of `text`.
fn argument_value<'t>(key: &Key, text: &'t str, place: &Place) -> Result<Spanned<DeValue<'t>>, Box<Invalid>> {
    if text.trim().is_empty() {
        return Err(place
            .error(
                Problem::Syntax,
                "an override needs a value",
                "nothing after the `=`",
            )
            .help("write for example --set size=1G"));
    }
    let list = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    match (DeValue::parse(text), list) {
        (Ok(value), _) if !matches!(value.get_ref(), DeValue::Datetime(_)) => Ok(value),
        (Err(_), Some(items)) if !items.trim().is_empty() => {
            let mut start = text.find('[').map_or(0, |bracket| bracket + 1);
            let mut list = toml::de::DeArray::new();
            for item in items_of(key, items) {
                list.push(scalar(item, start));
                start += item.len() + 1;
            }
            Ok(Spanned::new(0..text.len(), DeValue::Array(list)))
        }
        _ => Ok(scalar(text, 0)),
    }
}

/// The items of a bare list. A comma before an option of a pager or the profile of a heap is a part of its subject.
fn items_of<'t>(key: &Key, items: &'t str) -> Vec<&'t str> {
    let mut found: Vec<&str> = Vec::new();
    let mut rest = Some(items);
    let mut start = 0;
    while let Some(text) = rest {
        let (item, after) = text
            .split_once(',')
            .map_or((text, None), |(item, after)| (item, Some(after)));
        let end = start + item.len();
        match found.last_mut() {
            Some(last) if key.kind == Kind::Subject && continues(last, item) => {
                *last = &items[start - last.len() - 1..end];
            }
            _ => found.push(item),
        }
        (rest, start) = (after, end + 1);
    }
    found
}

fn continues(subject: &str, item: &str) -> bool {
    PagerOptions::continues(subject, item) || Allocator::continues(subject, item)
}

/// One value: a TOML scalar or bare text.
fn scalar(text: &str, start: usize) -> Spanned<DeValue<'_>> {
    let trimmed = text.trim();
    let start = start + (text.len() - text.trim_start().len());
    let span = start..start + trimmed.len();
    match DeValue::parse(trimmed).map(Spanned::into_inner) {
        Ok(value @ (DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_))) => {
            Spanned::new(span, value)
        }
        _ => Spanned::new(span, DeValue::String(trimmed.into())),
    }
}
