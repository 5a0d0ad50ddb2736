//! The layers of the crate: its rustdoc lists the modules from the lowest, and no module uses a later one.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules in the order of the rustdoc's section "Layers".
fn listed(source: &str) -> Vec<&str> {
    let section = source.lines().skip_while(|line| *line != "//! # Layers").skip(1);
    let section = section.take_while(|line| line.starts_with("//!") && !line.starts_with("//! #"));
    let rows = section.filter_map(|line| {
        line.trim_start_matches("//! ")
            .split_once(". ")
            .filter(|(number, _)| number.parse::<u32>().is_ok())
    });
    rows.flat_map(|(_, row)| row.split('`').skip(1).step_by(2))
        .collect()
}

/// A source file's lines of code, up to its tests.
fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that follow `crate::` in code: one, or each of a group.
fn used(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for part in code.split("crate::").skip(1) {
        let Some(group) = part.strip_prefix('{') else {
            found.extend(part.split(|c| !is_name(c)).next());
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.extend(group[start..at].trim().split(|c| !is_name(c)).next());
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// The files below a folder, without tests.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a source folder can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        match path.is_dir() {
            _ if ["tests", "models"].contains(&name) => {}
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn modules_use_lower_layers_alone() {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests")).join("src");
    let root = fs::read_to_string(folder.join("lib.rs")).expect("lib.rs can be read");
    let layers = listed(&root);
    assert!(layers.len() > 20, "{layers:?}");
    let layer = |name: &str| layers.iter().position(|layer| *layer == name);
    let mut wrong = Vec::new();
    for path in files(&folder) {
        let file = path
            .strip_prefix(&folder)
            .expect("it is below")
            .display()
            .to_string();
        if ["lib.rs", "design.md"].contains(&file.as_str()) {
            continue;
        }
        let module = file.split(['/', '.']).next().unwrap_or_default();
        let Some(own) = layer(module) else {
            wrong.push(format!("{module} is not listed"));
            continue;
        };
        let source = fs::read_to_string(&path).expect("a source file is text");
        for used in used(&code(&source)) {
            if layer(used).is_none_or(|used| used > own) {
                wrong.push(format!("{file} uses {used}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "against the layers in lib.rs:\n{}",
        wrong.join("\n")
    );
}

/// Over a `Memory`, a system call past it would find pages that are no longer the kernel's.
#[test]
fn one_module_changes_pages() {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests")).join("src");
    let own = folder.join("memory.rs");
    let calls = [
        "address_space",
        "Advice",
        "Mapping",
        "page_out",
        "own_page",
        "libc",
    ];
    let changes = |path: &PathBuf| {
        let code = code(&fs::read_to_string(path).expect("a source file is text"));
        calls.iter().any(|call| code.contains(call))
    };
    assert!(changes(&own));
    let others: Vec<PathBuf> = files(&folder)
        .into_iter()
        .filter(|path| *path != own && changes(path))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn used_modules_are_read_from_code() {
    let code = "use crate::{arena, record::{self, Record}};\nlet x = crate::subsegment::units(y);";
    assert_eq!(used(code), ["arena", "record", "subsegment"]);
    let rows = "//! # Layers\n//!\n//! 1. A: `a`, `b`\n//! 2. B: `c`\n//!\n//! # Next\n//! 3. C: `d`";
    assert_eq!(listed(rows), ["a", "b", "c"]);
}

/// The names in backticks after "Checked by", up to the end of the sentence.
fn checks(documentation: &str) -> Vec<String> {
    let text = documentation.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentences = text.split("Checked by ").skip(1);
    let names = sentences.flat_map(|rest| {
        let sentence = rest.split(". ").next().unwrap_or_default();
        sentence
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    names.filter(|name| name.contains('_')).collect()
}

#[test]
fn invariants_name_existing_tests() {
    let own = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests"));
    let crates = own.join("..");
    let mut tests = String::new();
    for folder in [
        "plimsoll-lfh/src",
        "plimsoll-lfh/tests",
        "plimsoll-os/src",
        "plimsoll/tests/it",
    ] {
        let mut folders = vec![crates.join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("a folder of sources can be read") {
                let path = entry.expect("an entry can be read").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    tests += &fs::read_to_string(&path).expect("a source file is text");
                }
            }
        }
    }
    let mut found = 0;
    for source in ["plimsoll-lfh/src", "plimsoll-malloc/src"]
        .map(|folder| files(&crates.join(folder)))
        .concat()
    {
        let text = fs::read_to_string(&source).expect("a source file is text");
        let lines = text.lines().filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
        });
        for name in checks(&lines.collect::<Vec<_>>().join("\n")) {
            found += 1;
            assert!(
                tests.contains(&format!("fn {name}(")),
                "{}: no test `{name}`",
                source.display()
            );
        }
    }
    assert!(found > 30, "the invariants were not found");
}
