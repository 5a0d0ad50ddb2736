//! A scenario file, read and checked, with the place of everything kept for errors that come later.

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::assignment::{Entry, Key};
use super::error::{Invalid, Place, Problem, ScenarioError};
use super::keys;
use super::kind::Kind;
use super::nearest::nearest;
use super::parse_value;
use super::source_text::Source;
use super::value::{Value, short};
use super::workload_kind::WorkloadKind;

/// The tables that are not sections.
const RESERVED: &[&str] = &["scenario", "global", "quick"];
const SCENARIO_KEYS: &[&str] = &["name", "title", "description"];
/// Longest name of a scenario or section, in bytes: names become parts of file names.
const MAX_NAME: usize = 64;

/// Most trials of a plan: more is a slip of the hand, not an experiment.
pub(super) const MAX_TRIALS: u64 = 10_000;

/// A scenario file whose every key and value is valid by itself.
#[derive(Debug, Clone)]
pub struct Document {
    pub(super) name: String,
    pub(super) name_place: Place,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) global: Vec<Entry>,
    /// Never empty: a file without sections has one of the scenario's name.
    pub(super) sections: Vec<Section>,
    pub(super) quick: Option<Vec<Entry>>,
}

/// A named section, in the order of the file.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) entries: Vec<Entry>,
}

impl Document {
    /// Reads the text of a scenario.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`] with the place and the nearest valid key or value.
    pub fn parse(source: &Source) -> Result<Document, ScenarioError> {
        Ok(parse(source)?)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The workloads of the sections, each once.
    pub fn workloads(&self) -> Vec<WorkloadKind> {
        let of = |entries: &[Entry]| {
            let values = entries.iter().filter(|entry| entry.key.name == "workload");
            values
                .flat_map(|entry| &entry.values)
                .find_map(|(value, _)| match value {
                    Value::Workload(kind) => Some(*kind),
                    _ => None,
                })
        };
        let global = of(&self.global).unwrap_or_default();
        let mut kinds = Vec::new();
        for section in &self.sections {
            let kind = of(&section.entries).unwrap_or(global);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The names of the sections, in the order of the file.
    pub fn sections(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str())
    }
}

fn parse(source: &Source) -> Result<Document, Box<Invalid>> {
    let root = DeTable::parse(source.text()).map_err(|error| syntax_error(source, &error))?;
    let mut scenario = None;
    let mut global = Vec::new();
    let mut quick = None;
    let mut sections = Vec::new();
    for (name, value) in in_file_order(root.get_ref()) {
        let place = place(source, name.span());
        let table = match value.get_ref() {
            DeValue::Table(table) => table,
            other => return Err(not_a_table(name.get_ref(), other, &place)),
        };
        match name.get_ref().as_ref() {
            "scenario" => scenario = Some((place, table)),
            "global" => global = entries(source, table, Scope::Whole)?,
            "quick" => quick = Some(entries(source, table, Scope::Whole)?),
            name => {
                check_section_name(name, &place)?;
                sections.push(Section {
                    name: name.to_owned(),
                    place,
                    entries: entries(source, table, Scope::Section)?,
                });
            }
        }
    }
    let head = Head::read(source, scenario)?;
    if sections.is_empty() {
        check_section_name(&head.name, &head.place)?;
        sections.push(Section {
            name: head.name.clone(),
            place: head.place.clone(),
            entries: Vec::new(),
        });
    }
    Ok(Document {
        title: head.title.unwrap_or_else(|| head.name.clone()),
        name: head.name,
        name_place: head.place,
        description: head.description.unwrap_or_default(),
        global,
        sections,
        quick,
    })
}

struct Head {
    name: String,
    place: Place,
    title: Option<String>,
    description: Option<String>,
}

impl Head {
    fn read(source: &Source, table: Option<(Place, &DeTable<'_>)>) -> Result<Head, Box<Invalid>> {
        const HELP: &str = "begin the file with\n[scenario]\nname = \"my-scenario\"";
        let start = place(source, 0..0);
        let (place_of_table, table) = table.ok_or_else(|| {
            start
                .error(
                    Problem::Missing,
                    "the scenario has no [scenario] table",
                    "nothing names the scenario",
                )
                .help(HELP)
        })?;
        let mut texts: [Option<(String, Place)>; 3] = Default::default();
        for (key, value) in in_file_order(table) {
            let key_place = place(source, key.span());
            let Some(slot) = SCENARIO_KEYS.iter().position(|known| known == key.get_ref()) else {
                return Err(unknown_scenario_key(key.get_ref(), &key_place));
            };
            let value_place = place(source, value.span());
            match value.get_ref() {
                DeValue::String(text) => texts[slot] = Some((text.clone().into_owned(), value_place)),
                other => {
                    let found = parse_value::type_name(other);
                    let message = format!("`{}` needs text, not {found}", key.get_ref());
                    let label = format!("this is {found}");
                    return Err(value_place.error(Problem::WrongType, message, label));
                }
            }
        }
        let [name, title, description] = texts;
        let (name, name_place) = name.ok_or_else(|| {
            let message = "the scenario has no name";
            place_of_table
                .error(Problem::Missing, message, "`name` is missing here")
                .help(HELP)
        })?;
        check_name(&name, &name_place)?;
        Ok(Head {
            name,
            place: name_place,
            title: title.map(|(text, _)| text),
            description: description.map(|(text, _)| text),
        })
    }
}

fn unknown_scenario_key(key: &str, place: &Place) -> Box<Invalid> {
    let message = format!("`{}` is not a key of [scenario]", short(key));
    if Key::find(key).is_some() {
        return place
            .error(Problem::Misplaced, message, "cannot stand here")
            .help("put it into [global] or into a section");
    }
    let label = match nearest(key, SCENARIO_KEYS.iter().copied()) {
        Some(offer) => format!("did you mean `{offer}`?"),
        None => "not known".to_owned(),
    };
    place
        .error(Problem::UnknownKey, message, label)
        .help(format!("[scenario] has: {}", SCENARIO_KEYS.join(", ")))
}

/// Position of a table, which decides its valid keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// `[global]`, `[quick]`: every key.
    Whole,
    /// A section: no keys of the whole plan.
    Section,
}

fn entries(source: &Source, table: &DeTable<'_>, scope: Scope) -> Result<Vec<Entry>, Box<Invalid>> {
    in_file_order(table)
        .into_iter()
        .map(|(name, value)| {
            let key_place = place(source, name.span());
            let key = known_key(name.get_ref(), &key_place, scope)?;
            entry(key, key_place, value, 0)
        })
        .collect()
}

/// The key of a name, where it may stand.
pub(super) fn known_key(name: &str, place: &Place, scope: Scope) -> Result<&'static Key, Box<Invalid>> {
    let Some(key) = Key::find(name) else {
        let label = match nearest(name, keys::names()) {
            Some(offer) => format!("did you mean `{offer}`?"),
            None => "not known".to_owned(),
        };
        let message = format!("`{}` is not a key of a scenario", short(name));
        return Err(place
            .error(Problem::UnknownKey, message, label)
            .help(format!("known are: {}", keys::names().join(", "))));
    };
    if key.whole_plan && scope == Scope::Section {
        let message = format!("`{name}` holds for the whole plan and cannot stand in a section");
        return Err(place
            .error(Problem::Misplaced, message, "cannot stand here")
            .help("put it into [global]"));
    }
    Ok(key)
}

/// Reads the value or the list of values of a key. `offset` is where the parsed text starts in the source.
pub(super) fn entry(
    key: &'static Key,
    key_place: Place,
    value: &Spanned<DeValue<'_>>,
    offset: usize,
) -> Result<Entry, Box<Invalid>> {
    let source = &key_place.source;
    let at = |span: Range<usize>| place(source, span.start + offset..span.end + offset);
    let list = match value.get_ref() {
        DeValue::Array(list) => list,
        raw => {
            let place = at(value.span());
            return Ok(Entry {
                key,
                values: vec![(parse_value::parse(key, raw, &place)?, place)],
                place: key_place,
                together: key.list,
            });
        }
    };
    let whole = at(value.span());
    if !key.sweep && !key.list {
        let message = format!("`{}` takes one value, not a list", key.name);
        let mut swept = keys::names();
        swept.retain(|name| Key::find(name).is_some_and(|key| key.sweep));
        return Err(whole.error(Problem::BadList, message, "a list").help(format!(
            "a list sweeps a key; it can be given for: {}",
            swept.join(", ")
        )));
    }
    if list.is_empty() {
        let message = format!("the list of `{}` is empty", key.name);
        return Err(whole
            .error(Problem::BadList, message, "no value to run with")
            .help("give at least one value, or leave the key out for its default"));
    }
    if list.len() as u64 > MAX_TRIALS {
        let message = format!("`{}` has more values than a plan may have trials", key.name);
        return Err(whole
            .error(Problem::TooManyTrials, message, format!("{} values", list.len()))
            .help(format!("the most is {MAX_TRIALS} trials")));
    }
    let mut values: Vec<(Value, Place)> = Vec::new();
    let mut seen: HashMap<String, Place> = HashMap::new();
    for item in list.iter() {
        let place = at(item.span());
        let value = parse_value::parse(key, item.get_ref(), &place)?;
        let text = value.to_string();
        // The words of a command line may repeat.
        if let Some(first) = seen.get(&text).filter(|_| key.kind != Kind::Text) {
            let message = format!("`{}` has the value {} twice", key.name, short(&text));
            return Err(place
                .error(Problem::Duplicate, message, "again here")
                .and(first, "first here")
                .help("remove one of them; `repeat` runs a combination more than once"));
        }
        seen.insert(text, place.clone());
        values.push((value, place));
    }
    Ok(Entry {
        key,
        place: key_place,
        values,
        together: key.list,
    })
}

/// A name that can be part of a trial's id and of a file's name.
fn check_name(name: &str, place: &Place) -> Result<(), Box<Invalid>> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= MAX_NAME && name.chars().all(valid) {
        return Ok(());
    }
    let message = format!("`{}` cannot be a name", short(name));
    Err(place.error(Problem::BadName, message, "not a name").help(format!(
        "names have 1 to {MAX_NAME} letters, digits, - and _, and begin with a letter or digit"
    )))
}

fn check_section_name(name: &str, place: &Place) -> Result<(), Box<Invalid>> {
    check_name(name, place)?;
    let lower = name.to_ascii_lowercase();
    let mistyped = RESERVED
        .iter()
        .find(|reserved| strsim::osa_distance(&lower, reserved) <= 1);
    match mistyped {
        None => Ok(()),
        Some(reserved) => Err(place
            .error(
                Problem::UnknownSection,
                format!("a section cannot be named `{name}`"),
                format!("did you mean `{reserved}`?"),
            )
            .help(format!(
                "name it so that it cannot be taken for a mistyped [{reserved}]"
            ))),
    }
}

fn not_a_table(name: &str, value: &DeValue<'_>, place: &Place) -> Box<Invalid> {
    if Key::find(name).is_some() {
        return place
            .error(
                Problem::Misplaced,
                format!("`{name}` stands outside of any table"),
                "cannot stand here",
            )
            .help("put it into [global] or into a section");
    }
    let found = parse_value::type_name(value);
    place
        .error(
            Problem::WrongType,
            format!("`{}` should be a table, not {found}", short(name)),
            format!("this is {found}"),
        )
        .help("a section begins with its name in single brackets: [name]")
}

fn syntax_error(source: &Source, error: &toml::de::Error) -> Box<Invalid> {
    // At the end of the text there is nothing to point at: the last character stands for it.
    let end = source.text().len();
    let span = error.span().unwrap_or(end..end);
    let span = span.start.min(end)..span.end.min(end);
    place(source, span)
        .error(Problem::Syntax, "the scenario is not valid TOML", error.message())
        .help(
            "text stands in quotes, as in size = \"1G\", and each key once in its table; see https://toml.io",
        )
}

pub(super) fn place(source: &Source, span: Range<usize>) -> Place {
    Place {
        source: source.clone(),
        span,
    }
}

/// The pairs of a table in the order of the file: the TOML crate sorts them by name.
fn in_file_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    pairs
}
