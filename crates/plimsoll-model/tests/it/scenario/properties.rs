//! Properties of every scenario, useful or not.

use std::collections::HashSet;

use plimsoll_model::scenario::{
    AllocatorSet, Base, Document, Machine, Overrides, SizeError, SizeExpr, Source, builtin, size_text,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{parse, rendered, resolve, sets};

/// A key of a generated file with its values as TOML.
type Line = (&'static str, Vec<&'static str>);

/// A generated file: `[global]`, then sections.
#[derive(Debug, Clone)]
struct File {
    global: Vec<Line>,
    sections: Vec<Vec<Line>>,
}

const SECTIONS: [&str; 3] = ["first", "second", "third"];

/// Keys with values of which any subset is a valid sweep, for all values of the others.
const POOL: &[(&str, &[&str])] = &[
    (
        "size",
        &["\"256M\"", "\"300M\"", "\"1G\"", "\"25%\"", "1234567890"],
    ),
    (
        "request",
        &["\"16M\"", "\"50MB\"", "\"10% size\"", "\"3% limit\""],
    ),
    (
        "limit",
        &["\"120% size\"", "\"2G\"", "\"150% size\"", "\"50% ram\""],
    ),
    ("swap-size", &["\"3G\"", "\"210% size\""]),
    (
        "subject",
        &[
            "\"zram\"",
            "\"zram:lz4\"",
            "\"zswap:lzo\"",
            "\"swapfile\"",
            "\"none\"",
            "\"pager:lz4,trim=per-fault\"",
        ],
    ),
    (
        "class",
        &[
            "\"random\"",
            "\"runs20\"",
            "\"ratio=2.5\"",
            "\"file=/a b/\\\"c\\\"\"",
        ],
    ),
    ("hold", &["0", "0.1", "\"1.5s\"", "3"]),
    ("swappiness", &["0", "60", "\"system\""]),
    ("thp", &["\"never\"", "\"always\""]),
    ("trim", &["\"cgroup\"", "\"worker\""]),
];

fn line(index: usize) -> impl Strategy<Value = Line> {
    let (key, values) = POOL[index];
    let most = values.len().min(3);
    (subsequence(values.to_vec(), 1..=most), any::<bool>()).prop_map(move |(mut values, reversed)| {
        if reversed {
            values.reverse();
        }
        (key, values)
    })
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    subsequence((0..POOL.len()).collect::<Vec<_>>(), 0..=4)
        .prop_shuffle()
        .prop_flat_map(|keys| keys.into_iter().map(line).collect::<Vec<_>>())
}

fn file() -> impl Strategy<Value = File> {
    (lines(), vec(lines(), 0..=SECTIONS.len())).prop_map(|(global, sections)| File { global, sections })
}

impl File {
    fn text(&self) -> String {
        let mut text = String::from("[scenario]\nname = \"generated\"\n[global]\nrepeat = 2\n");
        let line = |(key, values): &Line| match values.as_slice() {
            [single] => format!("{key} = {single}\n"),
            several => format!("{key} = [{}]\n", several.join(", ")),
        };
        text.extend(self.global.iter().map(line));
        for (name, section) in SECTIONS.iter().zip(&self.sections) {
            text += &format!("[{name}]\n");
            text.extend(section.iter().map(line));
        }
        text
    }

    /// The number of trials, counted without the code that is tested.
    fn trials(&self) -> usize {
        let product = |section: &[Line]| -> usize {
            let inherited = self
                .global
                .iter()
                .filter(|(key, _)| !section.iter().any(|(own, _)| own == key));
            section
                .iter()
                .chain(inherited)
                .map(|(_, values)| values.len())
                .product()
        };
        let alone = [Vec::new()];
        let sections = if self.sections.is_empty() {
            &alone[..]
        } else {
            &self.sections
        };
        sections.iter().map(|section| 2 * product(section)).sum()
    }
}

fn set(lines: &mut Vec<Line>, line: Line) {
    match lines.iter_mut().find(|(key, _)| *key == line.0) {
        Some(old) => *old = line,
        None => lines.push(line),
    }
}

fn machines() -> impl Strategy<Value = Machine> {
    (
        1u64 << 24..1 << 46,
        0u64..1 << 46,
        proptest::option::of(1u64 << 22..1 << 46),
    )
        .prop_map(|(ram, available, cgroup_limit)| Machine {
            ram,
            available,
            cgroup_limit,
            cpus: 2,
            allocators: AllocatorSet::default(),
        })
}

/// Reads, resolves, shows and resolves again; every error is rendered. Nothing may panic on the way.
fn exercise(text: &str, overrides: &Overrides) {
    let plan = match resolve(text, overrides) {
        Ok(plan) => plan,
        Err(error) => {
            assert!(!rendered(&error).is_empty());
            return;
        }
    };
    let shown = plan.to_toml();
    let again = Overrides {
        quick: overrides.quick,
        ..Overrides::default()
    };
    match resolve(&shown, &again) {
        Ok(same) => assert_eq!(same, plan, "{shown}"),
        Err(error) => panic!("{}\n{shown}", rendered(&error)),
    }
}

/// A change of a text, as a slip of the hand or a fuzzer would make it.
#[derive(Debug, Clone)]
enum Mutation {
    Remove { at: usize, chars: usize },
    Insert { at: usize, text: String },
    Repeat { at: usize, chars: usize, to: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let tokens = select(vec![
        "\"",
        "[",
        "]",
        "=",
        "\n",
        "#",
        "0",
        "-",
        "9999999999",
        "%",
        " size",
        " limit",
        "nan",
        "\"\"\"",
        "{",
        ".",
        ",",
        "1e",
        "é",
        "\u{0}",
        "\r",
        "size = ",
        "[quick]",
        "seed = 1\n",
        "\\",
    ]);
    let at = 0usize..3000;
    prop_oneof![
        (at.clone(), 1usize..40).prop_map(|(at, chars)| Mutation::Remove { at, chars }),
        (at.clone(), tokens).prop_map(|(at, text)| Mutation::Insert {
            at,
            text: text.to_owned()
        }),
        (at.clone(), 1usize..60, at).prop_map(|(at, chars, to)| Mutation::Repeat { at, chars, to }),
    ]
}

fn mutated(text: &str, mutations: &[Mutation]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for mutation in mutations {
        let length = chars.len().max(1);
        match mutation {
            Mutation::Remove { at, chars: count } => {
                let at = (at % length).min(chars.len());
                let end = (at + count).min(chars.len());
                chars.drain(at..end);
            }
            Mutation::Insert { at, text } => {
                let at = (at % length).min(chars.len());
                chars.splice(at..at, text.chars());
            }
            Mutation::Repeat { at, chars: count, to } => {
                let at = (at % length).min(chars.len());
                let end = (at + count).min(chars.len());
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = (to % length).min(chars.len());
                chars.splice(to..to, copy);
            }
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #[test]
    fn a_size_reads_back(bytes in prop_oneof![1u64.., (1u64..1 << 20).prop_map(|n| n << 30)]) {
        prop_assert_eq!(size_text(bytes).parse(), Ok(SizeExpr::Bytes(bytes)));
        prop_assert_eq!(bytes.to_string().parse(), Ok(SizeExpr::Bytes(bytes)));
    }

    #[test]
    fn a_share_reads_back(thousandths in 1..=SizeExpr::MAX_THOUSANDTHS, of in select(vec![Base::Ram, Base::Size, Base::Limit])) {
        let share = SizeExpr::Share { thousandths, of };
        prop_assert_eq!(share.to_string().parse(), Ok(share));
    }

    #[test]
    fn units_multiply(whole in 0u32..100_000, tenths in 0u32..10, unit in select(vec![
        ("K", 1u64 << 10), ("kib", 1 << 10), ("KB", 1_000), (" M", 1 << 20), ("MiB", 1 << 20), ("mb", 1_000_000),
        ("g", 1 << 30), ("GB", 1_000_000_000), ("T", 1 << 40), ("TB", 1_000_000_000_000),
    ])) {
        let text = format!("{whole}.{tenths}{}", unit.0);
        let expected = (u64::from(whole) * 10 + u64::from(tenths)) * unit.1 / 10;
        match text.parse::<SizeExpr>() {
            Ok(SizeExpr::Bytes(bytes)) => prop_assert_eq!(bytes, expected),
            other => prop_assert_eq!((other, expected), (Err(SizeError::Zero), 0)),
        }
    }

    #[test]
    fn no_text_makes_a_size_panic(text in prop_oneof![".*", "[0-9.]{0,30} ?[kKmMgGtTiIbB%]{0,3}( of)?( size| limit| ram)?"]) {
        if let Ok(size) = text.parse::<SizeExpr>() {
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn no_text_makes_a_scenario_panic(text in prop_oneof![
        ".*",
        "(\\[(scenario|global|quick|a|b\\.c)\\]\n|(name|size|class|limit|hold|repeat|seed)( = |\\.)(\"[0-9]{1,3}[GM%]\"|\"[a-z0-9=.]{0,9}\"|[0-9-]{1,4}|\\[[0-9, \"]{0,9}\\]|nan|true)\n){0,9}",
    ], quick: bool) {
        exercise(&text, &Overrides { quick, ..Overrides::default() });
        exercise(&format!("[scenario]\nname = \"x\"\n{text}"), &Overrides { quick, ..Overrides::default() });
    }

    #[test]
    fn no_argument_makes_a_scenario_panic(
        argument in prop_oneof![".*", "(quick\\.|global\\.|ram\\.)?(size|class|hold|seed|subject)=.*", "[a-z.]{0,6}=\\[[a-z0-9,\" =]{0,12}\\]"],
        quick: bool,
    ) {
        exercise(builtin()[1].text, &Overrides { quick, ..sets(&[&argument]) });
    }

    #[test]
    fn no_slip_of_the_hand_makes_a_scenario_panic(
        which in 0..builtin().len(),
        mutations in vec(mutation(), 1..6),
        quick: bool,
    ) {
        exercise(&mutated(builtin()[which].text, &mutations), &Overrides { quick, ..Overrides::default() });
    }

    #[test]
    fn a_sweep_has_a_trial_for_every_combination(file in file()) {
        match resolve(&file.text(), &Overrides::default()) {
            Ok(plan) => {
                // A pager does not take every value of a key.
                match plan.omitted.is_empty() {
                    true => prop_assert_eq!(plan.trials.len(), file.trials()),
                    false => prop_assert!(plan.trials.len() < file.trials()),
                }
                let ids: HashSet<&str> = plan.trials.iter().map(|trial| trial.id.as_str()).collect();
                prop_assert_eq!(ids.len(), plan.trials.len());
                let again = resolve(&file.text(), &Overrides::default()).unwrap();
                prop_assert_eq!(again, plan);
            }
            // The only thing that can be wrong with these files is that they are too large.
            Err(error) => prop_assert!(file.trials() > 10_000, "{}\n{}", rendered(&error), file.text()),
        }
    }

    #[test]
    fn a_shown_plan_is_the_same_plan(file in file(), machine in machines(), quick: bool) {
        let overrides = Overrides { quick, ..Overrides::default() };
        // On small machines shares and absolute sizes may fall together, which is an error and no plan.
        if let Ok(plan) = parse(&file.text()).unwrap().resolve(&machine, &overrides) {
            let shown = plan.to_toml();
            let again = Document::parse(&Source::new("shown", shown.as_str())).unwrap().resolve(&machine, &overrides);
            prop_assert_eq!(again.unwrap(), plan, "{}", shown);
        }
    }

    #[test]
    fn set_is_the_same_as_an_edit(
        file in file(),
        line in (0..POOL.len()).prop_flat_map(line),
        section in 0usize..4,
    ) {
        let mut edited = file.clone();
        let value = match line.1.as_slice() {
            [single] => (*single).to_owned(),
            several => format!("[{}]", several.join(", ")),
        };
        let argument = match section.checked_sub(1) {
            Some(index) if index < file.sections.len() => {
                set(&mut edited.sections[index], line.clone());
                format!("{}.{}={value}", SECTIONS[index], line.0)
            }
            _ => {
                set(&mut edited.global, line.clone());
                format!("global.{}={value}", line.0)
            }
        };
        let by_set = resolve(&file.text(), &sets(&[&argument]));
        let by_edit = resolve(&edited.text(), &Overrides::default());
        match (by_set, by_edit) {
            (Ok(by_set), Ok(by_edit)) => prop_assert_eq!(by_set, by_edit, "{}\n{}", argument, file.text()),
            (Err(_), Err(_)) => prop_assert!(edited.trials() > 10_000),
            (by_set, by_edit) => prop_assert!(false, "{argument}: {by_set:?} {by_edit:?}"),
        }
    }
}

#[test]
fn sizes_that_are_none() {
    let error = |text: &str| text.parse::<SizeExpr>().unwrap_err();
    assert_eq!(error("-5M"), SizeError::Negative);
    assert_eq!(error("0"), SizeError::Zero);
    assert_eq!(error("0.0001K"), SizeError::Zero);
    assert_eq!(error("0%"), SizeError::Zero);
    assert!(matches!(error("16E"), SizeError::TooLarge(_)));
    assert!(matches!(
        error("99999999999999999999999999999999999999999"),
        SizeError::TooLarge(_)
    ));
    assert!(matches!(error("100000.001%"), SizeError::TooLarge(_)));
    assert!(matches!(error("1.5"), SizeError::TooPrecise(_)));
    assert!(matches!(error("1.0001%"), SizeError::TooPrecise(_)));
    for text in [
        "", " ", "G", ".", "1.", ".5G", "1.2.3G", "- 1", "+1", "0x10", "1_000", "1e3", "∞",
    ] {
        assert!(
            matches!(error(text), SizeError::NotASize | SizeError::UnknownUnit(_)),
            "{text}: {:?}",
            error(text)
        );
    }
    assert_eq!(
        "99T".parse(),
        Ok(SizeExpr::Bytes(99 << 40)),
        "whether it is safe is another question"
    );
}
