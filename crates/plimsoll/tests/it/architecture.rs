//! ARCHITECTURE.md against the source: its tables and invariants are read and compared, so they cannot drift.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of this crate, taken at run time, so that a built test can be pointed at another checkout.
fn crate_folder() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests"))
}

fn repository() -> PathBuf {
    crate_folder().join("../..")
}

fn architecture() -> String {
    fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is at the root")
}

/// The rows of the table whose head begins with `| head |`: name in the first column, names in backticks in the last.
fn table(head: &str) -> BTreeMap<String, Vec<String>> {
    let text = architecture();
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with(&format!("| {head} |")));
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no table of {head}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let name = in_backticks(cells[0])
            .pop()
            .expect("the first column holds a name");
        (name, in_backticks(cells[cells.len() - 1]))
    })
    .collect()
}

fn in_backticks(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every Rust file below a folder, by its path there.
fn sources(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a source folder can be read") {
            let path = entry.expect("a folder's entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(folder)
                    .expect("it is below")
                    .display()
                    .to_string();
                found.insert(name, fs::read_to_string(&path).expect("a source file is text"));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {}", folder.display());
    found
}

/// The source without comments of whole lines and without what follows `#[cfg(test)]`.
fn code(source: &str) -> String {
    let ends = ["#[cfg(test)]", "#[cfg(all(test, not(loom)))]"];
    let lines = source.lines().take_while(|line| !ends.contains(&line.trim()));
    lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The room of a source file: the first folder, or the file itself where it stands alone.
fn room_of(file: &str) -> Option<String> {
    let first = file.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

/// The paths that follow `prefix` in Rust code, one or two names long, groups in braces taken apart.
fn paths_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
            continue;
        }
        expand(&code[at + prefix.len()..], &mut Vec::new(), &mut found);
    }
    found
}

/// Reads `a::b`, or `{a::b, c}`, at the start of `rest`, and adds up to two names of each path.
fn expand(rest: &str, names: &mut Vec<String>, found: &mut BTreeSet<String>) {
    let rest = rest.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        let mut depth = 0;
        let mut start = 0;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    if !group[start..at].trim().is_empty() {
                        expand(&group[start..at], &mut names.clone(), found);
                    }
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    if end > 0 {
        names.push(rest[..end].to_owned());
    }
    match rest[end..].strip_prefix("::") {
        Some(more) if names.len() < 2 && end > 0 => expand(more, names, found),
        _ if !names.is_empty() => {
            found.insert(names.join("::"));
        }
        _ => {}
    }
}

/// What a room uses of others, as `room` or `room::item`.
fn uses_of(file: &str, source: &str) -> BTreeSet<String> {
    let code = code(source);
    let mut found = paths_after(&code, "crate::");
    // `super` leads out of the room where there are as many of them as the file is deep.
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let way_out = format!("use {}", "super::".repeat(module.split('/').count()));
    found.extend(
        code.lines()
            .filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix(&way_out))
            .flat_map(|rest| paths_after(&format!("crate::{rest}"), "crate::")),
    );
    found
}

#[test]
fn paths_are_read_from_code() {
    let code = "use crate::{exit::Exit, run, sample::{col, Row}};\nlet x = crate::report::html::page();\n$crate::no::no";
    let expected = ["exit::Exit", "run", "sample::col", "sample::Row", "report::html"];
    assert_eq!(
        paths_after(code, "crate::"),
        expected.into_iter().map(str::to_owned).collect()
    );
    let multi_line = "use crate::scenario::{\n    model::Plan,\n    Source,\n};";
    let expected = ["scenario::model", "scenario::Source"];
    assert_eq!(
        paths_after(multi_line, "crate::"),
        expected.into_iter().map(str::to_owned).collect()
    );
    let out = uses_of(
        "recording/host/mod.rs",
        "use super::model::Host;\nuse super::super::sample::Row;\n",
    );
    assert_eq!(out, BTreeSet::from(["sample::Row".to_owned()]));
    assert!(
        uses_of(
            "run/mod.rs",
            "/// See crate::report.\n#[cfg(test)]\nuse crate::doctor::x;"
        )
        .is_empty()
    );
}

#[test]
fn crates_depend_as_written() {
    let allowed = table("crate");
    let folder = repository().join("crates");
    let crates: BTreeSet<String> = fs::read_dir(&folder)
        .expect("crates/ can be read")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(
        crates,
        allowed.keys().cloned().collect(),
        "ARCHITECTURE.md lists the crates that exist"
    );
    for name in &crates {
        let manifest =
            fs::read_to_string(folder.join(name).join("Cargo.toml")).expect("a crate has a manifest");
        let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
        assert_eq!(
            manifest["package"]["name"].as_str(),
            Some(name.as_str()),
            "folder name = crate name"
        );
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let dependencies = manifest
                .get(kind)
                .and_then(|table| table.as_table())
                .into_iter()
                .flatten();
            for (dependency, _) in dependencies.filter(|(dependency, _)| crates.contains(*dependency)) {
                assert!(
                    allowed[name].contains(dependency),
                    "{name} depends on {dependency}, which ARCHITECTURE.md does not allow"
                );
            }
        }
    }
}

#[test]
fn the_os_crate_cannot_allocate() {
    let sources = sources(&repository().join("crates/plimsoll-os/src"));
    assert!(sources["lib.rs"].contains("#![no_std]"));
    for (file, source) in &sources {
        for name in ["extern crate std", "extern crate alloc"] {
            assert!(
                !code(source).contains(name),
                "plimsoll-os/src/{file} has `{name}`"
            );
        }
    }
}

#[test]
fn the_table_has_every_room() {
    let rooms: BTreeSet<String> = sources(&crate_folder().join("src"))
        .keys()
        .filter_map(|file| room_of(file))
        .collect();
    assert_eq!(
        rooms,
        table("room").keys().cloned().collect(),
        "rooms in the source, and in ARCHITECTURE.md"
    );
}

#[test]
fn rooms_use_what_is_written() {
    let allowed = table("room");
    let mut wrong = Vec::new();
    for (file, source) in sources(&crate_folder().join("src")) {
        let Some(room) = room_of(&file) else { continue };
        let allowed = allowed.get(&room).cloned().unwrap_or_default();
        for used in uses_of(&file, &source) {
            let (used_room, _) = used.split_once("::").unwrap_or((&used, ""));
            let fine = used_room == room || allowed.iter().any(|name| *name == used_room || *name == used);
            if !fine {
                wrong.push(format!("{file} uses crate::{used}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the table of rooms in ARCHITECTURE.md:\n{}",
        wrong.join("\n")
    );
}

/// No room reaches itself through others; rows such as `recording::model` are nouns, which everyone may use.
#[test]
fn the_table_of_rooms_has_no_circle() {
    let table = table("room");
    let mut settled: BTreeSet<&str> = BTreeSet::new();
    loop {
        let ready: Vec<&str> = table
            .iter()
            .filter(|(room, _)| !settled.contains(room.as_str()))
            .filter(|(_, uses)| {
                uses.iter()
                    .all(|used| used.contains("::") || settled.contains(used.as_str()))
            })
            .map(|(room, _)| room.as_str())
            .collect();
        if ready.is_empty() {
            break;
        }
        settled.extend(ready);
    }
    let circle: Vec<&String> = table
        .keys()
        .filter(|room| !settled.contains(room.as_str()))
        .collect();
    assert!(circle.is_empty(), "in a circle: {circle:?}");
}

/// The files of `rooms` whose code holds one of `words`.
fn files_with(rooms: impl Fn(&str) -> bool, words: &[&str]) -> Vec<String> {
    let sources = sources(&crate_folder().join("src"));
    let of_rooms = sources
        .iter()
        .filter(|(file, _)| room_of(file).is_some_and(|room| rooms(&room)));
    of_rooms
        .flat_map(|(file, source)| {
            let code = code(source);
            let found = words.iter().filter(move |word| code.contains(**word));
            found
                .map(move |word| format!("{file} has `{word}`"))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Words that show that code reads the machine.
const READING: [&str; 6] = [
    "\"/proc",
    "\"/sys",
    "\"/dev",
    "rustix::",
    "plimsoll_os::",
    "libc::",
];

#[test]
fn scenarios_read_no_system() {
    assert_eq!(
        files_with(|room| room == "scenario", &READING),
        Vec::<String>::new()
    );
}

#[test]
fn analysis_and_report_read_no_system() {
    assert_eq!(
        files_with(|room| ["analysis", "report"].contains(&room), &READING),
        Vec::<String>::new()
    );
}

#[test]
fn only_the_face_prints() {
    let words = ["println!", "print!(", "eprint!(", "dbg!("];
    let found = files_with(|room| !["command", "progress"].contains(&room), &words);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn every_invariant_names_its_test_or_says_that_it_has_none() {
    let tests: String = sources(&repository().join("crates")).into_values().collect();
    let text = architecture();
    let mut invariants = 0;
    for invariant in text.split("- Invariant:").skip(1) {
        let invariant = invariant.split("\n\n").next().unwrap_or_default();
        invariants += 1;
        match invariant.split_once("Checked by") {
            Some((_, names)) => {
                let names = in_backticks(names);
                assert!(!names.is_empty(), "no test is named:{invariant}");
                for name in names {
                    assert!(
                        tests.contains(&format!("fn {name}(")),
                        "there is no test `{name}`:{invariant}"
                    );
                }
            }
            None => assert!(
                invariant.contains("Kept by review"),
                "neither checked nor kept by review:{invariant}"
            ),
        }
    }
    assert!(invariants > 10, "the invariants were not found");
}

#[test]
fn unsafe_stands_where_it_is_allowed() {
    let listed: BTreeSet<String> = table("module").into_keys().collect();
    let mut found = BTreeSet::new();
    for name in table("crate").keys() {
        let folder = repository().join("crates").join(name).join("src");
        for (file, source) in sources(&folder) {
            // Tests of a module may have unsafe code for themselves.
            let code = code(&source);
            let allowed = code.contains("[allow(unsafe_code)]");
            let code = code.replace("unsafe_code", "");
            // Attributes too: what they say of a symbol, a section or a function's body is not checked either.
            let words = [
                "unsafe {",
                "unsafe fn",
                "unsafe impl",
                "unsafe extern",
                "#[unsafe(",
            ];
            let has_unsafe = words.iter().any(|word| code.contains(word));
            assert_eq!(
                has_unsafe, allowed,
                "{name}/src/{file}: unsafe code, and its allowance by module"
            );
            if allowed && name == "plimsoll" {
                found.insert(file);
            }
        }
    }
    assert_eq!(
        found, listed,
        "modules with unsafe code, and ARCHITECTURE.md's table of them"
    );
}
