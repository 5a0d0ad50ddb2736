use std::collections::BTreeSet;

use super::*;

fn known_to_the_system() -> BTreeSet<(i64, String)> {
    let header = std::fs::read_to_string("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").unwrap_or_default();
    let lines = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define __NR_"));
    lines
        .filter_map(|line| {
            let (name, number) = line.split_once(' ')?;
            Some((number.trim().parse().ok()?, name.to_owned()))
        })
        .collect()
}

#[test]
fn every_call_of_the_system_has_a_row() {
    let missing: Vec<_> = known_to_the_system()
        .into_iter()
        .filter(|(number, _)| kind(*number) == Kind::Unknown)
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn no_call_has_two_rows() {
    let mut seen = BTreeSet::new();
    let numbers = ROWS
        .iter()
        .map(|row| row.0)
        .chain(WITHOUT_POINTERS.iter().copied());
    for number in numbers {
        assert!(seen.insert(number), "{number}");
    }
}

#[test]
fn rows_name_six_arguments_and_each_once() {
    for (number, kind) in ROWS {
        let pointers = match kind {
            Kind::Plain(pointers) | Kind::Registered(pointers) | Kind::Masked(_, pointers) => *pointers,
            _ => &[],
        };
        let arguments: BTreeSet<_> = pointers.iter().map(|pointer| pointer.argument).collect();
        assert_eq!(arguments.len(), pointers.len(), "{number}");
        assert!(arguments.iter().all(|argument| *argument < 6), "{number}");
    }
}

#[test]
fn numbers_outside_of_the_table_are_unknown() {
    for number in [-1, i64::MIN, 511, 512, i64::MAX] {
        assert_eq!(kind(number), Kind::Unknown);
    }
}
