//! The parser of keyed lines against a simple one: any order, missing and unknown lines, garbage.

use std::collections::BTreeMap;

use plimsoll_proc::RepeatedLines;
use plimsoll_proc::fields::{KeyedLines, value_of};
use proptest::prelude::*;

/// Keys, the slot that each feeds, and its scale. Two feed one slot.
const KEYS: [(&str, usize, i64); 6] = [
    ("MemTotal", 0, 1024),
    ("Active(anon)", 1, 1024),
    ("Active", 2, 1024),
    ("pswpin", 3, 1),
    ("pgsteal_kswapd", 4, 1),
    ("pgsteal_direct", 4, 1),
];

/// The result of a simple parser for `text`: a split at line ends, and a sum a slot.
fn simple(text: &[u8]) -> BTreeMap<usize, i64> {
    let mut values = BTreeMap::new();
    for line in text.split(|&byte| byte == b'\n') {
        let Some((slot, value)) = KEYS.iter().find_map(|(key, slot, scale)| {
            let value = i64::try_from(value_in_line(line, key)?).ok()?;
            Some((*slot, value.checked_mul(*scale)?))
        }) else {
            continue;
        };
        let sum = values.entry(slot).or_insert(0_i64);
        *sum = sum.saturating_add(value);
    }
    values
}

/// The number of a line `key value` or `key: value`, by the library's own handling of text.
fn value_in_line(line: &[u8], key: &str) -> Option<u64> {
    let rest = line.strip_prefix(key.as_bytes())?;
    if !matches!(rest.first(), Some(b' ' | b':')) {
        return None;
    }
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let start = rest.iter().position(|&byte| byte != b' ')?;
    let rest = &rest[start..];
    let end = rest.iter().position(|byte| b" \t".contains(byte));
    let word = std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]).ok()?;
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    word.parse::<i64>().ok().map(i64::unsigned_abs)
}

/// Some lines of a file in any order, between unknown and broken lines.
fn file() -> impl Strategy<Value = Vec<u8>> {
    let names: Vec<&'static str> = KEYS.iter().map(|(key, ..)| *key).collect();
    let key = prop_oneof![
        6 => prop::sample::select(names),
        1 => Just("nr_new_thing"), 1 => Just("Activ"), 1 => Just("pswpin_zero"), 1 => Just("")
    ];
    let separator = prop_oneof![
        4 => Just(" "), 4 => Just(":       "), 1 => Just(": "), 1 => Just(":"), 1 => Just(""), 1 => Just("::"), 1 => Just("\t")
    ];
    let number = prop_oneof![
        8 => any::<u32>().prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => Just(i64::MAX.to_string()),
        1 => Just("-1".to_owned()), 1 => Just("+1".to_owned()), 1 => Just("12x".to_owned()),
        1 => Just("99999999999999999999999".to_owned()), 1 => Just(String::new()),
    ];
    let ending = prop_oneof![4 => Just(" kB\n"), 4 => Just("\n"), 1 => Just("\n\n"), 1 => Just(" "), 1 => Just("\t9\n")];
    let line = (key, separator, number, ending).prop_map(|(k, s, n, e)| format!("{k}{s}{n}{e}").into_bytes());
    let garbage = prop::collection::vec(any::<u8>(), 0..12);
    prop::collection::vec(prop_oneof![9 => line, 1 => garbage], 0..60).prop_map(|lines| lines.concat())
}

fn keyed_lines() -> KeyedLines<16> {
    let mut lines = KeyedLines::new();
    for (key, slot, scale) in KEYS {
        lines.insert(key, slot, scale);
    }
    lines
}

/// Sums by slot.
fn sums(parse: impl FnOnce(&mut dyn FnMut(usize, i64))) -> BTreeMap<usize, i64> {
    let mut found = BTreeMap::new();
    parse(&mut |slot, value| {
        let sum = found.entry(slot).or_insert(0_i64);
        *sum = sum.saturating_add(value);
    });
    found
}

/// The text with other numbers: each run of digits is replaced by one of `numbers`.
fn with_numbers(text: &[u8], numbers: &[u32]) -> Vec<u8> {
    let mut numbers = numbers.iter().cycle();
    let mut other = Vec::new();
    for run in text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        match run[0].is_ascii_digit() {
            true => other.extend(numbers.next().map_or(String::new(), u32::to_string).bytes()),
            false => other.extend(run),
        }
    }
    other
}

proptest! {
    /// As the kernel writes them: the same lines, with other numbers each time.
    #[test]
    fn later_texts_of_the_same_lines_have_the_same_values(
        text in file(),
        numbers in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..20), 1..4),
    ) {
        let mut lines = RepeatedLines::<16>::new(keyed_lines());
        prop_assert_eq!(sums(|found| lines.parse(&text, found)), simple(&text));
        for numbers in numbers {
            let text = with_numbers(&text, &numbers);
            prop_assert_eq!(sums(|found| lines.parse(&text, found)), simple(&text));
        }
    }

    #[test]
    fn keyed_lines_are_parsed_as_a_simple_parser_does(text in file()) {
        let lines = keyed_lines();
        let found = sums(|found| lines.parse(&text, found));
        prop_assert_eq!(found, simple(&text));
    }

    #[test]
    fn one_value_is_that_of_the_first_line_that_has_it(text in file()) {
        for (key, ..) in KEYS {
            let first = text.split(|&byte| byte == b'\n').find_map(|line| value_in_line(line, key));
            prop_assert_eq!(value_of(&text, key), first, "{}", key);
        }
    }
}

#[test]
#[should_panic(expected = "more keys")]
fn half_of_the_places_stay_empty_so_that_a_search_ends() {
    let mut lines = KeyedLines::<4>::new();
    for key in ["a", "b", "c"] {
        lines.insert(key, 0, 1);
    }
}

#[test]
fn a_line_out_of_its_place_is_found_and_learned() {
    let mut lines = RepeatedLines::<16>::new(keyed_lines());
    let first: &[u8] = b"other 1\nMemTotal: 2 kB\nActive: 3 kB\npswpin 4\n";
    let texts: [&[u8]; 5] = [
        first,
        b"other 1\nnew 9\nMemTotal: 20 kB\nActive: 30 kB\npswpin 40\n",
        b"MemTotal: 200 kB\nActive(anon): 5 kB\nActive: 300 kB\npswpin 400\n",
        b"MemTotal: 200 kB\n",
        b"",
    ];
    for text in texts.into_iter().chain([first]) {
        for _ in 0..2 {
            assert_eq!(sums(|found| lines.parse(text, found)), simple(text));
        }
    }
}
