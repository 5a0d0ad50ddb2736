//! Names in charts: short ones that differ where the full ones differ.

use std::collections::BTreeSet;

/// The first letters of a text, with an ellipsis where there are more.
pub(crate) fn cut(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars()
        .take(letters.saturating_sub(1))
        .chain(['\u{2026}'])
        .collect()
}

/// The names with at most so many letters each if possible. Different names stay different: words that all of them share go
/// first, then the middle of those that are still too long, and nothing more where that would make two alike.
pub(crate) fn shortened(names: &[&str], letters: usize) -> Vec<String> {
    let long = |name: &String| name.chars().count() > letters;
    let full: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    if !full.iter().any(long) {
        return full;
    }
    let distinct = without_shared_words(names);
    let cut: Vec<String> = distinct
        .iter()
        .map(|name| without_middle(name, letters))
        .collect();
    let different = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len();
    match different(&cut) == different(&full) {
        true => cut,
        false => distinct,
    }
}

/// The names without the words that stand in all of them, as far as each keeps a word.
fn without_shared_words(names: &[&str]) -> Vec<String> {
    let words = |name: &str| -> Vec<String> { name.split(' ').map(str::to_owned).collect() };
    let all: Vec<Vec<String>> = names.iter().map(|name| words(name)).collect();
    let different: BTreeSet<&[String]> = all.iter().map(Vec::as_slice).collect();
    let shared = |word: &String| different.iter().all(|name| name.contains(word));
    let kept: Vec<String> = all
        .iter()
        .map(|name| {
            let own: Vec<&str> = name
                .iter()
                .filter(|word| !shared(word))
                .map(String::as_str)
                .collect();
            own.join(" ")
        })
        .collect();
    let still_different = kept.iter().collect::<BTreeSet<_>>().len() == different.len();
    match different.len() > 1 && still_different && kept.iter().all(|name| !name.is_empty()) {
        true => kept,
        false => names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// The beginning and the end of a text.
fn without_middle(text: &str, letters: usize) -> String {
    let count = text.chars().count();
    if count <= letters || letters < 3 {
        return text.to_owned();
    }
    let head = (letters - 1).div_ceil(2);
    let tail = letters - 1 - head;
    let start = text.chars().take(head);
    start
        .chain(['\u{2026}'])
        .chain(text.chars().skip(count - tail))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(cut("grün", 4), "grün");
        assert_eq!(cut("größer", 4), "grö\u{2026}");
    }

    #[test]
    fn names_that_differ_at_the_end_stay_different() {
        let names = [
            "zram:lz4 class=ratio=2.5 size=268435456 pattern=uniform",
            "zram:lz4 class=ratio=2.5 size=268435456 pattern=hot-cold",
        ];
        assert_eq!(shortened(&names, 24), ["pattern=uniform", "pattern=hot-cold"]);
        assert_eq!(shortened(&["short", "names"], 24), ["short", "names"]);
        let long = format!("{}a", "x".repeat(40));
        let other = format!("{}b", "x".repeat(40));
        let cut = shortened(&[&long, &other], 24);
        assert_ne!(cut[0], cut[1]);
        assert!(cut.iter().all(|name| name.chars().count() <= 24), "{cut:?}");
    }

    proptest! {
        #[test]
        fn different_names_stay_different(
            names in prop::collection::btree_set("[ab ]{0,12}", 1..6),
            letters in 1usize..8,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let short: BTreeSet<String> = shortened(&names, letters).into_iter().collect();
            prop_assert_eq!(short.len(), names.len(), "{:?}", short);
        }
    }
}
