//! The licences of all that a build of the program takes in.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{assert_none, cargo, each, metadata, text};

/// All compatible with "MIT OR Apache-2.0" in a binary.
const ALLOWED: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Unicode-3.0",
    "Zlib",
];

/// An SPDX expression, read from left to right.
struct Expression<'e> {
    words: Vec<&'e str>,
    next: usize,
}

impl<'e> Expression<'e> {
    /// Whether a word comes next; it is taken then.
    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_next);
        is_next
    }

    fn word(&mut self) -> Result<&'e str, String> {
        let word = self.words.get(self.next).ok_or("it ends too early")?;
        self.next += 1;
        Ok(word)
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut allowed = self.all()?;
        while self.takes("OR") {
            allowed |= self.all()?;
        }
        Ok(allowed)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut allowed = self.one()?;
        while self.takes("AND") {
            allowed &= self.one()?;
        }
        Ok(allowed)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let allowed = self.any()?;
            return if self.takes(")") {
                Ok(allowed)
            } else {
                Err("a bracket is open".to_owned())
            };
        }
        let mut licence = self.word()?.to_owned();
        if self.takes("WITH") {
            licence = format!("{licence} WITH {}", self.word()?);
        }
        if ["OR", "AND", "WITH", ")"].contains(&licence.as_str()) {
            return Err(format!("`{licence}` stands for no licence"));
        }
        Ok(ALLOWED.contains(&licence.as_str()))
    }
}

/// Whether an expression leaves a choice that is allowed. Older manifests write OR as a slash.
fn is_allowed(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ");
    let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
    let words = spaced.split_whitespace().collect();
    let mut expression = Expression { words, next: 0 };
    let allowed = expression.any()?;
    match expression.words.get(expression.next) {
        Some(word) => Err(format!("`{word}` is not expected")),
        None => Ok(allowed),
    }
}

/// The names and versions of the packages that a build takes in: all but those for tests alone.
///
/// `cargo tree` knows them; `cargo metadata` also lists packages for features that no build turns on.
fn built(tree: &str) -> BTreeSet<(&str, &str)> {
    let lines = tree.lines().filter_map(|line| line.split_once(" v"));
    lines
        .map(|(name, rest)| (name, rest.split(' ').next().unwrap_or_default()))
        .collect()
}

fn cargo_tree() -> String {
    let options = [
        "tree",
        "--workspace",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    cargo(&options, "--target")
}

/// The packages of a build whose licence is not allowed.
fn forbidden(metadata: &Value, built: &BTreeSet<(&str, &str)>) -> Vec<String> {
    let packages = each(&metadata["packages"]).iter();
    let packages =
        packages.filter(|package| built.contains(&(text(&package["name"]), text(&package["version"]))));
    let mut wrong = Vec::new();
    for package in packages {
        let (name, licence) = (&package["name"], text(&package["license"]));
        match is_allowed(licence) {
            Ok(true) => {}
            Ok(false) => wrong.push(format!("{name}: {licence} is not allowed")),
            Err(why) => wrong.push(format!("{name}: `{licence}` is no licence: {why}")),
        }
    }
    wrong
}

#[test]
fn licences_are_allowed() {
    let tree = cargo_tree();
    let built = built(&tree);
    let known = each(&metadata()["packages"]).iter();
    let known = known.filter(|package| built.contains(&(text(&package["name"]), text(&package["version"]))));
    assert!(built.len() > 50, "packages of a build");
    assert_eq!(
        known.count(),
        built.len(),
        "all of them are known to cargo metadata"
    );
    let remedy = "Take another crate, or add a licence that is compatible to ALLOWED.";
    assert_none(&forbidden(metadata(), &built), remedy);
}

#[test]
fn licences_are_read() {
    let fine = [
        "MIT",
        "GPL-3.0/MIT",
        "CC0-1.0 OR (MIT AND ISC)",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "MIT OR GPL-3.0 AND ISC",
    ];
    for expression in fine {
        assert_eq!(is_allowed(expression), Ok(true), "{expression}");
    }
    let bad = [
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "(MIT OR ISC) AND GPL-3.0",
        "GPL-2.0 WITH LLVM-exception",
        "mit",
    ];
    for expression in bad {
        assert_eq!(is_allowed(expression), Ok(false), "{expression}");
    }
    for expression in ["", "MIT OR", "(MIT", "MIT ISC", "AND", "MIT)", "MIT WITH"] {
        assert!(is_allowed(expression).is_err(), "{expression}");
    }
}

#[test]
fn forbidden_licences_are_found_but_in_tests() {
    let package =
        |name: &str, licence: Value| json!({ "name": name, "version": "1.0.0", "license": licence });
    let metadata = json!({ "packages": [
        package("own", json!("MIT")), package("deep", json!("GPL-3.0")), package("macro", Value::Null),
        package("test", json!("GPL-3.0")) ] });
    let tree = "own v1.0.0 (/w/own)\ndeep v1.0.0\nmacro v1.0.0 (proc-macro)\n\nown v1.0.0 (/w/own) (*)\ntest v2.0.0\n";
    let found = forbidden(&metadata, &built(tree));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("deep") && found[1].contains("macro"),
        "{found:?}"
    );
}
