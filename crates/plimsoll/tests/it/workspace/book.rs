//! The book in docs/: its table of contents is one that mdbook takes, and has every chapter once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{assert_none, files, links, repository};

/// The file of a line of SUMMARY.md, where it lists one: `[Title](file.md)`, after a list's mark or without.
fn chapter(line: &str) -> Result<Option<&str>, String> {
    let entry = line.trim_start();
    let indented = line.len() - entry.len();
    if entry.is_empty() || line.starts_with("# ") || line.starts_with("---") {
        return Ok(None);
    }
    let listed = ["- ", "* "].iter().find_map(|mark| entry.strip_prefix(mark));
    if listed.is_none() && indented > 0 || !indented.is_multiple_of(2) {
        return Err(format!("`{line}` is indented, but no entry of a list"));
    }
    let link = listed
        .unwrap_or(entry)
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]("));
    match link.and_then(|(title, rest)| Some((title, rest.strip_suffix(')')?))) {
        Some((title, file)) if !title.is_empty() && file.ends_with(".md") => Ok(Some(file)),
        _ => Err(format!("`{line}` lists no chapter")),
    }
}

/// The errors of a book whose files are in `folder`.
fn faults(folder: &Path, documents: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let summary = folder.join("SUMMARY.md");
    let Some(text) = documents.get(&summary) else {
        return vec!["there is no SUMMARY.md".to_owned()];
    };
    let mut wrong = Vec::new();
    let mut listed = BTreeSet::new();
    for line in text.lines() {
        match chapter(line) {
            Err(why) => wrong.push(why),
            Ok(None) => {}
            Ok(Some(file)) => {
                let path = folder.join(file);
                if !documents.contains_key(&path) {
                    wrong.push(format!("SUMMARY.md lists {file}, which is not there"));
                }
                if !listed.insert(path) {
                    wrong.push(format!("SUMMARY.md lists {file} twice"));
                }
            }
        }
    }
    let chapters = documents
        .keys()
        .filter(|path| path.starts_with(folder) && **path != summary);
    for path in chapters {
        let name = path.strip_prefix(folder).unwrap_or(path).display();
        if !listed.contains(path) {
            wrong.push(format!("SUMMARY.md does not list {name}"));
        }
        match links::with_includes(path, documents) {
            Ok(text) if text.lines().filter(|line| !line.is_empty()).count() > 5 => {}
            Ok(_) => wrong.push(format!("{name} is empty")),
            Err(why) => wrong.push(format!("{name} {why}")),
        }
        // The book is built of this folder alone.
        let outside = links::outside(folder, path, documents).into_iter();
        wrong.extend(outside.map(|target| format!("{name}: {target} is no part of the book")));
    }
    wrong
}

/// The errors of book.toml, whose tables and keys mdbook would not take otherwise.
fn settings(text: &str) -> Vec<String> {
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![error.to_string()],
    };
    let known = [
        (
            "book",
            &["title", "description", "authors", "language", "src"][..],
        ),
        ("build", &["build-dir", "create-missing"]),
        ("output", &["html"]),
    ];
    let mut wrong = Vec::new();
    for (name, value) in &table {
        let keys = known
            .iter()
            .find(|(table, _)| table == name)
            .map(|(_, keys)| keys);
        let Some((keys, value)) = keys.zip(value.as_table()) else {
            wrong.push(format!("mdbook has no table [{name}]"));
            continue;
        };
        let unknown = value.keys().filter(|key| !keys.contains(&key.as_str()));
        wrong.extend(unknown.map(|key| format!("[{name}] has no key {key}")));
    }
    let src = table.get("book").and_then(|book| book.get("src"));
    if src.is_some_and(|src| src.as_str() != Some("src")) {
        wrong.push("the chapters are in docs/src".to_owned());
    }
    wrong
}

#[test]
fn the_summary_lists_every_chapter() {
    let root = repository();
    let documents = files(&root.join("docs"), ".md");
    let faults = faults(&root.join("docs/src"), &documents);
    assert_none(&faults, "Every chapter is listed once in docs/src/SUMMARY.md.");
    let text = std::fs::read_to_string(root.join("docs/book.toml")).expect("the book has settings");
    assert_none(&settings(&text), "See mdbook's own documentation.");
}

#[test]
fn faults_of_a_book_are_found() {
    let text = "# A\n\nb\nc\nd\ne\nf\n";
    let book = |files: &[(&str, &str)]| -> BTreeMap<PathBuf, String> {
        let files = files.iter();
        files
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect()
    };
    let fine = "# Summary\n\n[A](a.md)\n\n# Part\n\n- [B](b.md)\n  - [C](c/d.md)\n\n---\n";
    let fine = book(&[
        ("src/SUMMARY.md", fine),
        ("src/a.md", text),
        ("src/b.md", text),
        ("src/c/d.md", text),
    ]);
    assert_eq!(faults(Path::new("src"), &fine), Vec::<String>::new());

    let summary = "[A](a.md)\n- [A](a.md)\n- [No](no.md)\n- words\n - [B](b.md)\n  [B](b.md)\n- [](b.md)\n";
    let outside = format!("{text}[x](../README.md) [y](b.md) ![z](picture.svg)\n{{{{#include no.md}}}}");
    let linked = format!("{text}[x](../README.md) [y](b.md) ![z](picture.svg)\n");
    let bad = book(&[
        ("src/SUMMARY.md", summary),
        ("src/a.md", &linked),
        ("src/b.md", "# B"),
        ("src/c.md", &outside),
    ]);
    let found = faults(Path::new("src"), &bad);
    for fault in [
        "SUMMARY.md lists a.md twice",
        "SUMMARY.md lists no.md, which is not there",
        "`- words` lists no chapter",
        "` - [B](b.md)` is indented, but no entry of a list",
        "`  [B](b.md)` is indented, but no entry of a list",
        "`- [](b.md)` lists no chapter",
        "SUMMARY.md does not list b.md",
        "b.md is empty",
        "SUMMARY.md does not list c.md",
        "c.md includes src/no.md, which is not there",
        "a.md: ../README.md is no part of the book",
    ] {
        assert!(found.iter().any(|found| found == fault), "{fault}: {found:#?}");
    }
    assert_eq!(
        faults(Path::new("src"), &BTreeMap::new()),
        ["there is no SUMMARY.md"]
    );

    assert!(settings("[book]\ntitle = \"A\"\nsrc = \"src\"\n[build]\nbuild-dir = \"book\"").is_empty());
    for bad in [
        "[book\n",
        "[bok]\n",
        "[book]\ntitel = 1",
        "[book]\nsrc = \"x\"",
        "book = 1",
    ] {
        assert!(!settings(bad).is_empty(), "{bad}");
    }
}
