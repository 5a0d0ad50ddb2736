//! How an examination is shown, and that the book has every check.

use std::fs;
use std::path::Path;

use plimsoll::doctor::{Cause, Examination, State, examine_machine, render};

use super::{all_work, as_nobody, modern_host, plain_container};

#[test]
fn text_keeps_to_its_width_and_shows_state_without_colour() {
    let container = plain_container();
    let examination = as_nobody(|| examine_machine(&container.tree(), &all_work()));
    for width in [40, 60, 80, 120] {
        let text = render(&examination, width, false);
        assert!(!text.contains('\u{1b}'), "no escapes without colour");
        let commands: Vec<&str> = examination
            .checks
            .iter()
            .flat_map(|check| check.enable.lines())
            .collect();
        for line in text.lines() {
            let command = commands.iter().any(|command| line.ends_with(command));
            let one_word = line.split_whitespace().count() == 1;
            assert!(
                line.chars().count() <= width || command || one_word,
                "wider than {width}: {line}"
            );
        }
        for check in &examination.checks {
            let words = format!(
                "{} {:<9}  {}",
                check.state.symbol(),
                check.state.word(),
                check.title
            );
            assert!(text.contains(&words), "{words} at {width}");
            let missing = check.enable.lines().find(|command| !text.contains(command));
            assert!(
                check.state == State::Available || missing.is_none(),
                "{}: {missing:?}",
                check.id
            );
        }
    }
    let plain = render(&examination, 80, false);
    let coloured = render(&examination, 80, true);
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(
        anstream_stripped(&coloured),
        plain,
        "colour changes nothing but colour"
    );
}

fn anstream_stripped(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn an_examination_is_a_document() {
    let examination = modern_host().examine();
    let json = serde_json::to_string(&examination).expect("it is plain data");
    assert_eq!(
        serde_json::from_str::<Examination>(&json).expect("it reads back"),
        examination
    );
    let mut ids: Vec<&str> = examination.checks.iter().map(|check| check.id.as_str()).collect();
    assert!(
        examination.checks.is_sorted_by_key(|check| check.group),
        "groups stand together, in order"
    );
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), examination.checks.len(), "ids are unique");
}

/// The first column of the table with this head in the chapter on doctor.
fn documented(head: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/doctor.md");
    let chapter = fs::read_to_string(path).expect("the chapter is there");
    let rows = chapter.lines().skip_while(|line| *line != head).skip(2);
    rows.take_while(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_check_is_in_the_book() {
    let examination = modern_host().examine();
    let ids: Vec<&str> = examination.checks.iter().map(|check| check.id.as_str()).collect();
    assert_eq!(documented("| id | looks at |"), ids);
}

#[test]
fn every_cause_is_in_the_book() {
    let codes = Cause::ALL.map(|code| serde_json::to_value(code).expect("a name"));
    assert_eq!(documented("| `code` | meaning |"), codes);
}
