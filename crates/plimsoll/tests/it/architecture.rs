//! ARCHITECTURE.md against the source: its tables and invariants are read and compared, so they cannot drift.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use modules::Modules;
use shipped::code;

mod modules;
mod shipped;

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

/// The rows of the table of crates: name in the first column, names in backticks in the last.
fn crate_table() -> BTreeMap<String, Vec<String>> {
    let text = architecture();
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| crate |"));
    assert!(lines.next().is_some(), "ARCHITECTURE.md has no table of crates");
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

#[test]
fn crates_depend_as_written() {
    let allowed = crate_table();
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
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(
            lints.and_then(toml::Value::as_bool),
            Some(true),
            "{name} has the lints of the workspace"
        );
        for dependency in dependencies(&manifest).filter(|dependency| crates.contains(*dependency)) {
            assert!(
                name == "plimsoll" || allowed[name].contains(dependency),
                "{name} depends on {dependency}, which ARCHITECTURE.md does not allow"
            );
        }
    }
}

/// The names of a manifest's dependencies, those of some targets included, those of tests apart.
fn dependencies(manifest: &toml::Table) -> impl Iterator<Item = &String> {
    let targets = manifest.get("target").and_then(|targets| targets.as_table());
    let targets = targets
        .into_iter()
        .flatten()
        .filter_map(|(_, target)| target.as_table());
    let tables = targets.chain([manifest]).flat_map(|table| {
        ["dependencies", "build-dependencies"].map(|kind| table.get(kind).and_then(|table| table.as_table()))
    });
    tables.flatten().flat_map(|table| table.keys())
}

#[test]
fn dependencies_of_a_target_are_seen() {
    let manifest =
        "[dependencies]\na = 1\n[target.'cfg(loom)'.build-dependencies]\nb = 1\n[dev-dependencies]\nc = 1\n";
    let manifest = manifest.parse().expect("TOML");
    assert_eq!(
        dependencies(&manifest).collect::<BTreeSet<_>>(),
        BTreeSet::from([&"a".into(), &"b".into()])
    );
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

/// The sources of every crate, by crate: path below `src`, and code.
fn crates() -> &'static BTreeMap<String, BTreeMap<String, String>> {
    static CRATES: OnceLock<BTreeMap<String, BTreeMap<String, String>>> = OnceLock::new();
    CRATES.get_or_init(|| {
        let read = |name: String| {
            let sources = sources(&repository().join("crates").join(&name).join("src"));
            let modules = sources.iter().filter(|(file, _)| !file.ends_with("tests.rs"));
            let code = modules.map(|(file, source)| (file.clone(), code(source)));
            (name, code.collect())
        };
        crate_table().into_keys().map(read).collect()
    })
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    let mut circles = Vec::new();
    for (name, files) in crates() {
        let modules = Modules::of(files);
        for folder in modules.folders() {
            for circle in modules.circles(&folder) {
                circles.push(format!("{name} {}: {}", folder.join("::"), circle.join(", ")));
            }
        }
    }
    assert!(circles.is_empty(), "modules in a circle:\n{}", circles.join("\n"));
}

/// The files of a crate whose code holds one of `words`.
fn files_with(name: &str, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (file, code) in &crates()[name] {
        let held = words.iter().filter(|word| code.contains(**word));
        found.extend(held.map(|word| format!("{name}/src/{file} has `{word}`")));
    }
    found
}

/// Names of the kernel's files, and of the crates that call the kernel.
const SYSTEM_ACCESS: [&str; 7] = [
    "(\"/proc",
    "(\"/sys",
    "(\"/dev",
    "rustix::mm",
    "rustix::process",
    "plimsoll_os::",
    "libc::",
];

#[test]
fn models_and_reports_read_no_system() {
    let found = [
        files_with("plimsoll-model", &SYSTEM_ACCESS),
        files_with("plimsoll-report", &SYSTEM_ACCESS),
    ]
    .concat();
    assert_eq!(found, Vec::<String>::new());
    assert!(
        !files_with("plimsoll-sample", &SYSTEM_ACCESS).is_empty(),
        "the words are those that code has"
    );
}

#[test]
fn only_the_command_prints() {
    let words = ["println!", "print!(", "eprint!(", "dbg!("];
    let libraries = crate_table().into_keys().filter(|name| {
        !["plimsoll", "plimsoll-heap-load", "plimsoll-testkit", "xtask"].contains(&name.as_str())
    });
    let found: Vec<String> = libraries.flat_map(|name| files_with(&name, &words)).collect();
    assert_eq!(found, Vec::<String>::new());
}

/// "Checked by `name`" stands beside the struct or module that an invariant is of.
#[test]
fn every_checked_invariant_names_a_test() {
    let mut all = String::new();
    let mut named = Vec::new();
    for name in crate_table().keys() {
        let folder = repository().join("crates").join(name);
        for (file, source) in sources(&folder) {
            let comments: Vec<&str> = source
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("//"))
                .map(|line| line.trim_start_matches(['/', '!', ' ']))
                .collect();
            for checked in comments.join(" ").split("Checked by ").skip(1) {
                let sentence = checked.split(". ").next().unwrap_or_default();
                named.extend(
                    in_backticks(sentence)
                        .into_iter()
                        .map(|test| (format!("{name}/{file}"), test)),
                );
            }
            all.push_str(&source);
        }
    }
    assert!(
        named.len() > 30,
        "only {} invariants name their test",
        named.len()
    );
    for (file, test) in named {
        let name = test.rsplit("::").next().unwrap_or(&test);
        assert!(
            all.contains(&format!("fn {name}(")),
            "{file}: there is no test `{test}`"
        );
    }
}

/// The crates whose subject is memory and system calls: their modules allow unsafe code one by one.
const UNSAFE_CRATES: [&str; 5] = [
    "plimsoll-os",
    "plimsoll-lfh",
    "plimsoll-malloc",
    "plimsoll-heap-load",
    "plimsoll-testkit",
];

#[test]
fn unsafe_stands_where_it_is_allowed() {
    let mut reasons = 0;
    for name in crate_table().keys() {
        let folder = repository().join("crates").join(name).join("src");
        for (file, source) in sources(&folder) {
            // Tests of a module may have unsafe code for themselves.
            let code = code(&source);
            let joined: String = code.split_whitespace().collect();
            let bare = joined.contains("[allow(unsafe_code)]");
            let reasoned = joined.contains("[allow(unsafe_code,reason=\"");
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
            let place = format!("{name}/src/{file}");
            assert_eq!(
                has_unsafe,
                bare || reasoned,
                "{place}: unsafe code, and its allowance by module"
            );
            assert!(
                !bare || UNSAFE_CRATES.contains(&name.as_str()),
                "{place}: the allowance of unsafe code has no reason"
            );
            reasons += usize::from(reasoned);
        }
    }
    assert!(reasons > 20, "only {reasons} modules with a reason were seen");
}
