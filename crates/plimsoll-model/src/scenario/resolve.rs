//! A document becomes a plan: layers merged, sweeps expanded, sizes resolved, trials named and ordered.

use std::collections::{HashMap, HashSet};

use super::assignment::{Assignment, Entry, Key};
use super::choice::Choice;
use super::document::{Document, MAX_TRIALS, Section};
use super::error::{Invalid, Place, Problem, ScenarioError};
use super::keys;
use super::model::{Machine, Order, Subject};
use super::order::shuffle;
use super::overrides::{Arguments, Overrides, apply, overlay};
use super::plan::{Plan, SectionPlan, TrialPlan};
use super::scale::Scale;
use super::settings::{settings, texts};
use super::speed::SpeedHints;
use super::subjects::{self, check_subjects, name_allocators};
use super::value::Value;
use super::workload_kind::WorkloadKind;
use super::workloads::Settings;

/// Limits of `--quick` for a scenario without `[quick]`: largest size, rest, and seconds in all.
const QUICK_SIZE: u64 = 256 << 20;
const QUICK_SMALLEST: u64 = 16 << 20;
const QUICK_HOLD: f64 = 0.5;
const QUICK_SECONDS: f64 = 60.0;

impl Document {
    /// Makes the plan of this scenario for a machine, with the changes of the command line.
    ///
    /// # Errors
    /// [`ScenarioError::Invalid`]: a change that is not valid, sizes made from each other, more than 10 000
    /// trials, values of a sweep that come to the same.
    pub fn resolve(&self, machine: &Machine, overrides: &Overrides) -> Result<Plan, ScenarioError> {
        let mut document = self.clone();
        let arguments = apply(&mut document, overrides)?;
        let mut layers = Layers {
            document: &document,
            arguments: &arguments,
            quick: overrides.quick,
            shrunk: false,
        };
        if !overrides.quick || document.quick.is_some() {
            return Ok(layers.plan(machine, Scale::ONE)?);
        }
        layers.shrunk = true;
        let plan = layers.plan(machine, Scale::ONE)?;
        Ok(layers.plan(machine, quick_scale(&plan))?)
    }
}

/// How much smaller a plan must be to take about a minute.
fn quick_scale(plan: &Plan) -> Scale {
    let largest = plan.trials.iter().map(|t| t.settings.size()).max().unwrap_or(1);
    let hints = SpeedHints::default();
    let rest: f64 = plan.trials.iter().map(|t| hints.rest_seconds(&t.settings)).sum();
    let work = plan.estimate(&hints).seconds - rest;
    let share = ((QUICK_SECONDS - rest).max(0.0) / work).min(1.0);
    // A float holds any size closely enough here: the result is a target, not a measure.
    let target = (largest as f64 * share) as u64;
    let target = target.clamp(QUICK_SMALLEST, QUICK_SIZE).min(largest);
    Scale::new(target, largest)
}

/// The layers that a plan is made from, lowest first: global, section, quick, arguments.
struct Layers<'d> {
    document: &'d Document,
    arguments: &'d Arguments,
    quick: bool,
    /// Quick without a `[quick]` of the scenario's own.
    shrunk: bool,
}

struct Merged<'d> {
    section: &'d Section,
    /// In the order of the file, without the keys of the whole plan.
    entries: Vec<Entry>,
    repeat: u32,
    kind: WorkloadKind,
    /// The subjects of the command line for all sections that this work cannot run on, as text.
    omitted: Vec<String>,
}

/// A key that the work of its section, or of all sections, does not know.
fn not_of(entry: &Entry, kinds: &[WorkloadKind]) -> Box<Invalid> {
    let mut names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    names.dedup();
    let known: Vec<&str> = entry.key.workloads().map(WorkloadKind::name).collect();
    let message = format!(
        "`{}` does nothing for the work `{}`",
        entry.key.name,
        names.join("`, `")
    );
    entry
        .place
        .error(Problem::Misplaced, message, "not one of its keys")
        .help(format!("it is a key of: {}", known.join(", ")))
}

impl Layers<'_> {
    /// `[global]`, then `middle`, then quick and the command line.
    fn merge(&self, middle: &[Entry], section: Option<usize>) -> Vec<Entry> {
        let mut entries = self.document.global.clone();
        let quick = self.document.quick.as_deref().filter(|_| self.quick);
        for entry in middle.iter().chain(quick.unwrap_or_default()) {
            overlay(&mut entries, entry.clone());
        }
        for entry in &self.arguments.all {
            overlay(&mut entries, entry.clone());
        }
        for (index, entry) in &self.arguments.sections {
            if Some(*index) == section {
                overlay(&mut entries, entry.clone());
            }
        }
        entries
    }

    fn kind(&self, index: usize) -> WorkloadKind {
        kind_of(&self.merge(&self.document.sections[index].entries, Some(index)))
    }

    /// Takes the pagers out of a subject that the command line gives for all sections, if the work cannot run on them and
    /// another section's can. Returns them as text.
    fn omit_pagers(&self, entries: &mut [Entry], kind: WorkloadKind, index: usize) -> Vec<String> {
        let is_subject = |entry: &Entry| entry.key.name == "subject";
        let is_for_all = self.arguments.all.iter().any(is_subject)
            && !self
                .arguments
                .sections
                .iter()
                .any(|(section, entry)| *section == index && is_subject(entry));
        let others = || (0..self.document.sections.len()).any(|other| self.kind(other).tests_pagers());
        if kind.tests_pagers() || !is_for_all || !others() {
            return Vec::new();
        }
        subjects::take_pagers(entries)
    }

    fn merged_section(&self, machine: &Machine, index: usize) -> Result<Merged<'_>, Box<Invalid>> {
        let section = &self.document.sections[index];
        let mut entries = self.merge(&section.entries, Some(index));
        let kind = kind_of(&entries);
        if let Some(stranger) = section.entries.iter().find(|entry| !entry.key.is_of(kind)) {
            return Err(not_of(stranger, &[kind]));
        }
        if self.shrunk {
            shrink(&mut entries, kind, &section.place);
        }
        entries.retain(|entry| !entry.key.whole_plan && entry.key.is_of(kind));
        let omitted = self.omit_pagers(&mut entries, kind, index);
        if kind.tests_allocators() {
            name_allocators(&mut entries, machine, &section.place);
        }
        check_subjects(&entries, kind)?;
        join_lists(&mut entries, kind);
        // The key's range keeps it far below 2^32.
        let repeat = u32::try_from(whole_number(&entries, "repeat")).unwrap_or(u32::MAX);
        Ok(Merged {
            section,
            entries,
            repeat,
            kind,
            omitted,
        })
    }

    /// Rejects keys for all sections that no section's workload has.
    fn check_known(&self, sections: &[Merged<'_>]) -> Result<(), Box<Invalid>> {
        let kinds: Vec<WorkloadKind> = sections.iter().map(|section| section.kind).collect();
        let known = |entry: &&Entry| kinds.iter().any(|kind| entry.key.is_of(*kind));
        let quick = self.document.quick.iter().flatten();
        let everywhere = self
            .document
            .global
            .iter()
            .chain(quick)
            .chain(&self.arguments.all);
        if let Some(stranger) = everywhere.into_iter().find(|entry| !known(entry)) {
            return Err(not_of(stranger, &kinds));
        }
        for (index, entry) in &self.arguments.sections {
            if !entry.key.is_of(kinds[*index]) {
                return Err(not_of(entry, &kinds[*index..=*index]));
            }
        }
        Ok(())
    }

    fn plan(&self, machine: &Machine, scale: Scale) -> Result<Plan, Box<Invalid>> {
        let whole = self.merge(&[], None);
        let seed = whole_number(&whole, "seed");
        let order = match single(&whole, "order") {
            Some(Value::Choice(name)) => Order::of_name(name).unwrap_or(Order::Random),
            _ => Order::Random,
        };
        let mut merged: Vec<Merged<'_>> = (0..self.document.sections.len())
            .map(|index| self.merged_section(machine, index))
            .collect::<Result<_, _>>()?;
        self.check_known(&merged)?;
        let omitted = merged.iter().filter_map(|section| {
            let (name, is_left_out) = (&section.section.name, section.is_left_out());
            subjects::omission(name, section.kind, &section.omitted, is_left_out)
        });
        let mut omitted: Vec<String> = omitted.collect();
        merged.retain(|section| !section.is_left_out());
        check_count(self.document, &merged)?;
        let mut sections = Vec::new();
        let mut combinations = Vec::new();
        for section in &merged {
            let mut expanded = section.expand(machine, scale)?;
            omitted.append(&mut section.omit_unfit(&mut expanded));
            sections.push(section.resolved(&expanded));
            combinations.extend(expanded.into_iter().map(|combination| (section, combination)));
        }
        let mut plan = Plan {
            scenario: self.document.name.clone(),
            title: self.document.title.clone(),
            description: self.document.description.clone(),
            seed,
            quick: self.quick,
            order,
            time_limit: match single(&whole, "time-limit") {
                Some(Value::Seconds(seconds)) => Some(*seconds),
                _ => None,
            },
            sections,
            trials: ordered_trials(&combinations, order, seed),
            omitted,
        };
        plan.time_limit = Some(plan.time_limit());
        Ok(plan)
    }
}

/// Repeat by repeat, so that drift of the machine hits all combinations alike.
fn ordered_trials(combinations: &[(&Merged<'_>, Combination)], order: Order, seed: u64) -> Vec<TrialPlan> {
    let repeats = combinations.iter().map(|(s, _)| s.repeat).max().unwrap_or(0);
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        let mut round: Vec<TrialPlan> = combinations
            .iter()
            .filter(|(section, _)| repeat <= section.repeat)
            .map(|(section, combination)| combination.trial(&section.section.name, repeat))
            .collect();
        if order == Order::Random {
            shuffle(&mut round, seed, repeat);
        }
        trials.append(&mut round);
    }
    trials
}

fn kind_of(entries: &[Entry]) -> WorkloadKind {
    match single(entries, "workload") {
        Some(Value::Workload(kind)) => *kind,
        _ => WorkloadKind::default(),
    }
}

/// The value of a key that takes one.
fn single<'e>(entries: &'e [Entry], name: &str) -> Option<&'e Value> {
    let entry = entries.iter().find(|entry| entry.key.name == name)?;
    entry.values.first().map(|(value, _)| value)
}

/// A whole number of the plan or of a section, which no other key has a part in.
fn whole_number(entries: &[Entry], name: &str) -> u64 {
    let preset = || Key::find(name).and_then(Key::preset_value);
    match single(entries, name).cloned().or_else(preset) {
        Some(Value::Integer(number)) => number,
        // Every such key has a number by default.
        _ => 1,
    }
}

/// One repeat and short rests, unless the command line has others.
fn shrink(entries: &mut Vec<Entry>, kind: WorkloadKind, place: &Place) {
    let from_arguments = |entries: &[Entry], name| {
        let entry = entries.iter().find(|entry: &&Entry| entry.key.name == name);
        entry.is_some_and(|entry| entry.place.source.is_argument())
    };
    let short_rest = matches!(single(entries, "hold"), Some(Value::Seconds(s)) if *s <= QUICK_HOLD);
    let shrunk = [
        ("repeat", Value::Integer(1), false),
        ("hold", Value::Seconds(QUICK_HOLD), short_rest),
    ];
    for (name, value, enough) in shrunk {
        let Some(key) = keys::row(kind, name) else {
            continue;
        };
        if !enough && !from_arguments(entries, name) {
            overlay(
                entries,
                Entry {
                    key,
                    place: place.clone(),
                    values: vec![(value, place.clone())],
                    together: false,
                },
            );
        }
    }
}

/// Marks the lists that are one value in this section.
fn join_lists(entries: &mut [Entry], kind: WorkloadKind) {
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.name).collect();
    for entry in entries {
        let beside = keys::row(kind, entry.key.name).and_then(|row| row.list_beside);
        entry.together |= beside.is_some_and(|name| names.contains(&name));
    }
}

fn check_count(document: &Document, merged: &[Merged<'_>]) -> Result<(), Box<Invalid>> {
    let mut total: u64 = 0;
    for section in merged {
        let combinations = section
            .entries
            .iter()
            .fold(1u64, |count, entry| count.saturating_mul(entry.choices() as u64));
        total = total.saturating_add(combinations.saturating_mul(u64::from(section.repeat)));
        if total > MAX_TRIALS {
            let place = match section.section.entries.is_empty() {
                true => &document.name_place,
                false => &section.section.place,
            };
            let swept: Vec<String> = section
                .entries
                .iter()
                .filter(|entry| entry.choices() > 1)
                .map(|entry| format!("{} {}", entry.values.len(), entry.key.name))
                .collect();
            let message = format!("the scenario has more than {MAX_TRIALS} trials");
            let label = format!("up to here there are {total}");
            return Err(place.error(Problem::TooManyTrials, message, label).help(format!(
                "this section has {} x {} repeats: shorten a list, or split the scenario",
                swept.join(" x "),
                section.repeat
            )));
        }
    }
    Ok(())
}

/// One combination of a sweep, resolved.
struct Combination {
    /// Index of the value taken, for each entry.
    pick: Vec<usize>,
    settings: Settings,
    /// The text of every resolved setting, by its key: several of a list that is one value.
    texts: Vec<(&'static str, Vec<String>)>,
    params: Vec<(String, String)>,
}

impl Combination {
    /// The text of a setting as it came out.
    fn text(&self, name: &str) -> Option<&str> {
        self.texts(name)?.first().map(String::as_str)
    }

    /// The texts of a setting that is a list.
    fn texts(&self, name: &str) -> Option<&[String]> {
        let (_, texts) = self.texts.iter().find(|(key, _)| *key == name)?;
        Some(texts)
    }

    fn trial(&self, section: &str, repeat: u32) -> TrialPlan {
        TrialPlan {
            id: format!("{}#{repeat}", self.id(section)),
            section: section.to_owned(),
            repeat,
            params: self.params.clone(),
            settings: self.settings.clone(),
        }
    }

    /// The name of the combination, without the repeat.
    fn id(&self, section: &str) -> String {
        let mut id = format!("{section}/{}", self.settings.subject);
        if let Some(class) = self.settings.class() {
            id += &format!("/{class}");
        }
        for (key, value) in &self.params {
            if key != "subject" && key != "class" {
                id += &format!("/{key}={value}");
            }
        }
        id
    }
}

impl Merged<'_> {
    /// Whether the command line leaves it no subject.
    fn is_left_out(&self) -> bool {
        self.entries.iter().any(|entry| entry.values.is_empty())
    }

    /// The cartesian product of the swept keys, the last one changing fastest.
    fn expand(&self, machine: &Machine, scale: Scale) -> Result<Vec<Combination>, Box<Invalid>> {
        let mut combinations = Vec::new();
        let mut seen = HashMap::new();
        let mut pick = vec![0; self.entries.len()];
        loop {
            let combination = self.combination(machine, scale, &pick)?;
            let id = combination.id(&self.section.name);
            if let Some(earlier) = seen.insert(id, pick.clone()) {
                return Err(self.same_twice(&combination, &earlier));
            }
            combinations.push(combination);
            let next = (0..pick.len())
                .rev()
                .find(|&i| pick[i] + 1 < self.entries[i].choices());
            let Some(next) = next else { return Ok(combinations) };
            pick[next] += 1;
            pick[next + 1..].fill(0);
        }
    }

    /// Takes out the combinations of a pager with a value that it does not take, of a sweep in which it takes another one.
    /// Returns them as text, except those that a built-in scenario documents.
    fn omit_unfit(&self, combinations: &mut Vec<Combination>) -> Vec<String> {
        let fit = |combination: &&Combination| combination.settings.unfit_for_its_pager().is_none();
        let fit: HashSet<Subject> = combinations
            .iter()
            .filter(fit)
            .map(|combination| combination.settings.subject.clone())
            .collect();
        let mut omitted = Vec::new();
        combinations.retain(|combination| {
            let subject = &combination.settings.subject;
            let unfit = combination.settings.unfit_for_its_pager();
            let Some((key, value)) = unfit.filter(|_| fit.contains(subject)) else {
                return true;
            };
            let text = subjects::unfit_omission(&self.section.name, subject, key, value);
            if !self.is_built_in(&["subject", key]) && !omitted.contains(&text) {
                omitted.push(text);
            }
            false
        });
        omitted
    }

    /// Whether the values of these keys are those of a built-in scenario.
    fn is_built_in(&self, keys: &[&str]) -> bool {
        let mut entries = self.entries.iter().filter(|entry| keys.contains(&entry.key.name));
        entries.all(|entry| entry.place.source.is_built_in())
    }

    fn combination(
        &self,
        machine: &Machine,
        scale: Scale,
        pick: &[usize],
    ) -> Result<Combination, Box<Invalid>> {
        let keys: Vec<&Key> = keys::rows(self.kind).collect();
        let values = Assignment::new(
            machine,
            scale,
            (self.kind, &keys),
            (&self.entries, pick),
            &self.section.place,
        );
        let mut combination = Combination {
            pick: pick.to_vec(),
            settings: settings(self.kind, &values)?,
            texts: texts(self.kind, &values)?,
            params: Vec::new(),
        };
        let swept = self
            .entries
            .iter()
            .zip(pick)
            .filter(|(entry, _)| entry.choices() > 1);
        combination.params = swept
            .map(|(entry, &index)| {
                let given = || entry.values[index].0.to_string();
                let text = combination.text(entry.key.name).map_or_else(given, str::to_owned);
                (entry.key.name.to_owned(), text)
            })
            .collect();
        Ok(combination)
    }

    /// Two values that were written differently and come to the same.
    fn same_twice(&self, combination: &Combination, earlier: &[usize]) -> Box<Invalid> {
        let differing = (0..earlier.len()).find(|&i| earlier[i] != combination.pick[i]);
        // Two picks of one expansion always differ somewhere; without that there is no entry to point at.
        let Some(index) = differing else {
            return self
                .section
                .place
                .error(Problem::Duplicate, "a trial stands twice", "in here");
        };
        let entry = &self.entries[index];
        let (_, first) = &entry.values[earlier[index]];
        let (_, second) = &entry.values[combination.pick[index]];
        let name = entry.key.name;
        let same = combination.text(name).unwrap_or_default();
        second
            .error(
                Problem::Duplicate,
                format!("two values of `{name}` come to the same trial"),
                format!("comes to {same} here"),
            )
            .and(first, "and so does this")
            .help(match name {
                "subject" => "with `memory = \"file\"` no page goes to swap, and the subject is `none`; give one subject",
                _ => "sizes count in whole pages of 4K, and a `request` is at most `size`; remove one of them",
            })
    }

    /// The section as it is shown: sizes in bytes wherever they are the same in all combinations.
    fn resolved(&self, combinations: &[Combination]) -> SectionPlan {
        let mut keys = Vec::new();
        for (position, entry) in self.entries.iter().enumerate() {
            let (name, count) = (entry.key.name, entry.values.len());
            let agreed = match entry.together {
                true => agreed_list(combinations, name, count),
                false => agreed_texts(combinations, name, count, |c| c.pick[position]),
            };
            let texts = entry.values.iter().zip(agreed);
            let texts = texts.map(|((value, _), agreed)| agreed.unwrap_or_else(|| value.to_string()));
            keys.push((entry.key.name.to_owned(), texts.collect()));
        }
        let has = |name: &str| self.entries.iter().any(|entry| entry.key.name == name);
        // A limit beside a size would be the one of a list.
        let missing = keys::of(self.kind)
            .filter(|key| !key.whole_plan && !key.optional && !key.list_beside.is_some_and(has))
            .filter(|key| !has(key.name));
        for key in missing {
            let text = match key.name {
                "repeat" => Some(self.repeat.to_string()),
                name => agreed_texts(combinations, name, 1, |_| 0).pop().flatten(),
            };
            if let Some(text) = text {
                keys.push((key.name.to_owned(), vec![text]));
            }
        }
        SectionPlan {
            name: self.section.name.clone(),
            keys,
        }
    }
}

/// The texts of a list that is one value, where they are the same in all combinations.
fn agreed_list(combinations: &[Combination], name: &str, count: usize) -> Vec<Option<String>> {
    let mut lists = combinations.iter().map(|combination| combination.texts(name));
    let first = lists.next().flatten();
    match first.filter(|first| lists.all(|list| list == Some(*first))) {
        Some(agreed) => agreed.iter().cloned().map(Some).collect(),
        None => vec![None; count],
    }
}

/// For each of `count` values of a key, the text that it came to in all combinations which took it; `None` where
/// that differs from one to another.
fn agreed_texts(
    combinations: &[Combination],
    name: &str,
    count: usize,
    taken: impl Fn(&Combination) -> usize,
) -> Vec<Option<String>> {
    let mut agreed: Vec<Option<&str>> = vec![None; count];
    let mut seen = vec![false; count];
    for combination in combinations {
        let index = taken(combination);
        let text = combination.text(name);
        if !seen[index] {
            seen[index] = true;
            agreed[index] = text;
        } else if agreed[index] != text {
            agreed[index] = None;
        }
    }
    agreed.into_iter().map(|text| text.map(str::to_owned)).collect()
}
