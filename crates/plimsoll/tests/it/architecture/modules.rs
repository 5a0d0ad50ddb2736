//! The modules of a crate and their imports, read from the source: which module of a folder uses which sibling.

use std::collections::{BTreeMap, BTreeSet};

/// The import graph of a crate: the modules that each file's code names, as paths from the crate's root.
pub(super) struct Modules {
    /// The path of each file's module, with the paths that its code names.
    uses: Vec<(Vec<String>, BTreeSet<Vec<String>>)>,
    /// The paths of all modules.
    modules: BTreeSet<Vec<String>>,
    /// The module that an item named by a folder comes from, by the item's path there (`pub use child::Item`).
    exports: BTreeMap<Vec<String>, Vec<String>>,
}

impl Modules {
    /// Reads the files of a crate: path below `src`, and code without comments and tests.
    pub(super) fn of(files: &BTreeMap<String, String>) -> Modules {
        let mut read = Modules {
            uses: Vec::new(),
            modules: files.keys().map(|file| module(file)).collect(),
            exports: BTreeMap::new(),
        };
        for (file, code) in files {
            let own = module(file);
            let folder = own.clone();
            let mut named = BTreeSet::new();
            for path in paths(code) {
                named.extend(absolute(&path, &folder, &read.modules));
            }
            for path in exported(code) {
                let Some(from) = absolute(&path, &folder, &read.modules) else {
                    continue;
                };
                let mut item = own.clone();
                item.extend(from.last().cloned());
                read.exports.insert(item, from);
            }
            read.uses.push((own, named));
        }
        read
    }

    /// Groups of direct children of `folder` that reach each other, each in alphabetical order.
    pub(super) fn circles(&self, folder: &[String]) -> Vec<Vec<String>> {
        let edges = self.edges(folder);
        let reaches = |from: &String| {
            let mut seen: BTreeSet<&String> = BTreeSet::new();
            let mut open: Vec<&String> = edges.get(from).into_iter().flatten().collect();
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(edges.get(next).into_iter().flatten());
                }
            }
            seen
        };
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            edges.keys().map(|name| (name, reaches(name))).collect();
        let mut circles = BTreeSet::new();
        for (name, reach) in &reached {
            let circle: Vec<String> = reach
                .iter()
                .filter(|other| reached.get(*other).is_some_and(|back| back.contains(*name)))
                .map(|other| (*other).clone())
                .collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    /// Every folder with modules in it, the crate's root included.
    pub(super) fn folders(&self) -> BTreeSet<Vec<String>> {
        let parents = self.modules.iter().filter(|path| !path.is_empty());
        parents.map(|path| path[..path.len() - 1].to_vec()).collect()
    }

    /// The siblings that each direct child of `folder` uses.
    fn edges(&self, folder: &[String]) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (own, named) in &self.uses {
            let Some(child) = child_of(own, folder) else {
                continue;
            };
            for path in named {
                let path = self.source(path);
                match child_of(&path, folder) {
                    Some(used) if used != child && self.modules.contains(&joined(folder, used)) => {
                        edges.entry(child.clone()).or_default().insert(used.clone());
                    }
                    _ => {}
                }
            }
        }
        edges
    }

    /// The path through the folders' re-exports to the module that holds the item.
    fn source(&self, path: &[String]) -> Vec<String> {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let Some(at) = (1..=path.len())
                .find(|&at| !self.modules.contains(&path[..at]) && self.exports.contains_key(&path[..at]))
            else {
                break;
            };
            let mut through = self.exports[&path[..at]].clone();
            through.extend_from_slice(&path[at..]);
            path = through;
        }
        path
    }
}

fn joined(folder: &[String], name: &str) -> Vec<String> {
    folder.iter().cloned().chain([name.to_owned()]).collect()
}

fn child_of<'a>(path: &'a [String], folder: &[String]) -> Option<&'a String> {
    path.strip_prefix(folder)?.first()
}

/// The module of a file below `src`.
fn module(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs");
    let names = path
        .split('/')
        .filter(|name| !["mod", "lib", "main"].contains(name));
    names.map(str::to_owned).collect()
}

/// The path from the crate's root of a path as code at `own` names it; `None` for paths of other crates.
fn absolute(path: &[String], own: &[String], modules: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut found: Vec<String> = match first.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => own.to_vec(),
        child => {
            let inside = joined(own, child);
            return modules
                .contains(&inside)
                .then(|| [inside, rest.to_vec()].concat());
        }
    };
    let mut rest = path;
    while let Some((name, others)) = rest.split_first() {
        match name.as_str() {
            "crate" | "self" => {}
            "super" => {
                found.pop()?;
            }
            _ => break,
        }
        rest = others;
    }
    found.extend_from_slice(rest);
    Some(found)
}

/// The paths that code names: those of `use`, and those that begin with `crate`, `self` or `super`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = used(code, "use ");
    for start in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                expand(&code[at..], Vec::new(), &mut found);
            }
        }
    }
    found
}

/// The paths that code exports under their own names.
fn exported(code: &str) -> Vec<Vec<String>> {
    ["pub use ", "pub(crate) use ", "pub(super) use "]
        .iter()
        .flat_map(|start| used(code, start))
        .collect()
}

fn used(code: &str, start: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(start) {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with("pub") {
            expand(&code[at + start.len()..], Vec::new(), &mut found);
        }
    }
    found
}

/// Reads `a::b`, or `a::{b, c::d}`, at the start of `rest`.
fn expand(rest: &str, mut names: Vec<String>, found: &mut Vec<Vec<String>>) {
    let rest = rest.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    if !group[start..at].trim().is_empty() {
                        expand(&group[start..at], names.clone(), found);
                    }
                    start = at + 1;
                    if c == '}' {
                        return;
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
        Some(more) if end > 0 => expand(more, names, found),
        _ if !names.is_empty() => found.push(names),
        _ => {}
    }
}

fn files(files: &[(&str, &str)]) -> Modules {
    Modules::of(
        &files
            .iter()
            .map(|(file, code)| ((*file).to_owned(), (*code).to_owned()))
            .collect(),
    )
}

fn path(text: &str) -> Vec<String> {
    text.split("::")
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_circle_is_found_through_groups_parents_and_exports() {
    let modules = files(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use b::Thing;"),
        ("a.rs", "use crate::{Thing, c::x};"),
        ("b.rs", "fn f() { super::a::g(); }"),
        ("c.rs", "use std::fmt;"),
    ]);
    assert_eq!(modules.circles(&[]), [["a".to_owned(), "b".to_owned()]]);
    let inside = files(&[
        ("lib.rs", "mod outer;"),
        ("outer/mod.rs", "mod a;\nmod b;\npub use a::One;"),
        ("outer/a.rs", "use super::b::Two;"),
        ("outer/b.rs", "use super::One;"),
    ]);
    assert_eq!(inside.circles(&path("outer")), [["a".to_owned(), "b".to_owned()]]);
}

#[test]
fn modules_in_one_direction_are_no_circle() {
    let modules = files(&[
        ("lib.rs", "mod a;\nmod b;\npub use a::f;"),
        ("a.rs", "use super::b::{self, Two};\nuse plimsoll_os::a;"),
        ("b.rs", "use std::fmt::{self, Write};"),
        ("b/inner.rs", "use super::Two;\nuse crate::b::other;"),
    ]);
    assert!(
        modules
            .folders()
            .iter()
            .all(|folder| modules.circles(folder).is_empty())
    );
}
