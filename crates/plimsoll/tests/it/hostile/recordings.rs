//! Recordings with a hostile value in any place, and with damaged bytes.

use std::fs;
use std::path::Path;

use plimsoll_model::recording::model::file;
use serde_json::Value;

use super::{Seed, all_commands, copy_of, mutate, rounds};

const SOURCES: [(&str, &str); 5] = [
    ("recording-1", "finished"),
    ("recording-3", "finished"),
    ("recording-3", "killed"),
    ("recording-3", "thrash"),
    ("recording-4", "loadline"),
];

/// Changes a document of JSON, or one line of a file of lines.
fn change(path: &Path, seed: &mut Seed, same_type: bool) {
    let Ok(text) = fs::read_to_string(path) else {
        return;
    };
    let is_lines = path.extension().is_some_and(|ending| ending == "jsonl");
    let mut documents: Vec<Value> = match is_lines {
        true => text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect(),
        false => serde_json::from_str(&text).into_iter().collect(),
    };
    if documents.is_empty() {
        return;
    }
    let place = seed.below(documents.len());
    mutate(&mut documents[place], seed, same_type);
    let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
    fs::write(path, texts.join("\n") + "\n").expect("written");
}

/// Damages bytes: turned, cut, doubled.
fn damage(path: &Path, seed: &mut Seed) {
    let Ok(mut content) = fs::read(path) else { return };
    let at = seed.below(content.len());
    match seed.below(3) {
        0 if !content.is_empty() => content[at] ^= 1 << seed.below(8),
        1 => content.truncate(at),
        _ => {
            let rest = content[at..].to_vec();
            content.extend(rest);
        }
    }
    fs::write(path, content).expect("written");
}

fn round(number: u64, change: impl Fn(&Path, &mut Seed)) -> u64 {
    let mut seed = Seed::of(number);
    let (format, name) = SOURCES[seed.below(SOURCES.len())];
    let (_parent, folder) = copy_of(format, name);
    let names = [
        file::MANIFEST,
        file::TRIALS,
        file::EVENTS,
        file::RESULTS,
        file::SAMPLES,
        file::SAMPLES_LIVE,
    ];
    let documents = if seed.below(4) == 0 {
        &names[..]
    } else {
        &names[..4]
    };
    for _ in 0..=seed.below(3) {
        change(&folder.join(documents[seed.below(documents.len())]), &mut seed);
    }
    all_commands(&folder)
}

#[test]
fn a_recording_with_a_hostile_value_is_shown_or_refused() {
    let commands: u64 = rounds(6)
        .map(|number| round(number, |path, seed| change(path, seed, number % 4 != 3)))
        .sum();
    eprintln!(
        "{} recordings with hostile values, {commands} commands",
        rounds(6).count()
    );
}

#[test]
fn a_recording_with_damaged_bytes_is_shown_or_refused() {
    let commands: u64 = rounds(3).map(|number| round(1 << 32 | number, damage)).sum();
    eprintln!(
        "{} recordings with damaged bytes, {commands} commands",
        rounds(3).count()
    );
}
