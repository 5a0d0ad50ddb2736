//! Links of the documents, in Markdown and in the HTML within: their files and headings are there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{assert_none, files, repository};

/// The lines of a document that are no code, with their numbers.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => found.push((number + 1, line.to_owned())),
            _ => {}
        }
    }
    found
}

/// A line without its code in backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The text between each `open` and the next of `close`.
fn between<'t>(text: &'t str, open: &'t str, close: &'t [char]) -> impl Iterator<Item = &'t str> {
    let rests = text.split(open).skip(1);
    rests.filter_map(move |rest| rest.split(close).next())
}

/// The targets of a document's links and pictures, with the numbers of their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(&line);
        let inline = between(&line, "](", &[')', ' ']);
        let attributes = [" src=\"", " srcset=\"", " href=\""];
        let html = attributes
            .into_iter()
            .flat_map(|open| between(&line, open, &['"', ' ']));
        let definition = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target.trim());
        let all = inline.chain(html).chain(definition);
        found.extend(all.map(|target| (number, target.trim_matches(['<', '>']).to_owned())));
    }
    found
}

/// References `[text][name]` that have no definition `[name]: target`.
fn undefined(text: &str) -> Vec<(usize, String)> {
    let lines = prose(text);
    let defined = |name: &str| {
        lines
            .iter()
            .any(|(_, line)| line.starts_with(&format!("[{name}]: ")))
    };
    let mut found = Vec::new();
    for (number, line) in &lines {
        let line = without_code(line);
        let names = between(&line, "][", &[']']).filter(|name| !name.is_empty() && !defined(name));
        found.extend(names.map(|name| (*number, name.to_owned())));
    }
    found
}

/// The names by which a document's headings are linked to, as browsers of repositories and of the book make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, line) in prose(text) {
        found.extend(between(&line, " id=\"", &['"']).map(str::to_owned));
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        // Of a link its text is kept.
        let mut plain = String::new();
        for (at, part) in heading.trim().split("](").enumerate() {
            let part = if at == 0 {
                part
            } else {
                part.split_once(')').map_or("", |(_, rest)| rest)
            };
            plain += part;
        }
        let kept = plain
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.collect::<String>().to_lowercase().replace(' ', "-");
        let times = seen.entry(name.clone()).or_default();
        found.insert(match *times {
            0 => name,
            again => format!("{name}-{again}"),
        });
        *times += 1;
    }
    found
}

/// A path without `.` and `..`.
fn resolved(path: &Path) -> PathBuf {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            Component::CurDir => {}
            part => found.push(part),
        }
    }
    found
}

/// The text of a document with the files of its `{{#include FILE}}` lines.
pub(super) fn with_includes(path: &Path, documents: &BTreeMap<PathBuf, String>) -> Result<String, String> {
    let mut found = String::new();
    for line in documents[path].lines() {
        match line
            .trim()
            .strip_prefix("{{#include ")
            .and_then(|rest| rest.strip_suffix("}}"))
        {
            Some(file) => {
                let file = resolved(&path.parent().unwrap_or(Path::new("")).join(file.trim()));
                let text = documents.get(&file);
                found += text.ok_or(format!("includes {}, which is not there", file.display()))?;
            }
            None => found += line,
        }
        found.push('\n');
    }
    Ok(found)
}

/// Targets of a document in `folder` that are outside of it.
pub(super) fn outside(folder: &Path, path: &Path, documents: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let text = with_includes(path, documents).unwrap_or_default();
    let targets = targets(&text).into_iter().map(|(_, target)| target);
    let leaves = |target: &String| {
        let file = target.split('#').next().unwrap_or_default();
        let file = resolved(&path.parent().unwrap_or(Path::new("")).join(file));
        !target.contains("://") && !target.starts_with('#') && !file.starts_with(folder)
    };
    targets.filter(leaves).collect()
}

/// Links that lead nowhere. `exists` tells of the files that are no documents.
fn broken(documents: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in documents.keys() {
        let name = path.display();
        let text = match with_includes(path, documents) {
            Ok(text) => text,
            Err(why) => {
                wrong.push(format!("{name} {why}"));
                continue;
            }
        };
        for (line, reference) in undefined(&text) {
            wrong.push(format!("{name}:{line}: [{reference}] is defined nowhere"));
        }
        for (line, target) in targets(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let file = match file {
                "" => path.clone(),
                file => resolved(&path.parent().unwrap_or(Path::new("")).join(file)),
            };
            if target.is_empty()
                || target.starts_with('/')
                || !(documents.contains_key(&file) || exists(&file))
            {
                wrong.push(format!("{name}:{line}: there is no `{target}`"));
            } else if !anchor.is_empty() {
                let linked = documents
                    .contains_key(&file)
                    .then(|| with_includes(&file, documents));
                let headings = linked.and_then(Result::ok).map(|text| anchors(&text));
                if !headings.is_some_and(|headings| headings.contains(anchor)) {
                    wrong.push(format!("{name}:{line}: there is no heading for `{target}`"));
                }
            }
        }
    }
    wrong
}

#[test]
fn links_of_documents_lead_somewhere() {
    let documents = files(&repository(), ".md");
    let links: usize = documents.values().map(|text| targets(text).len()).sum();
    assert!(links > 50, "the documents link, {links} links were found");
    assert_none(
        &broken(&documents, Path::exists),
        "Links are relative, to files and headings that are there.",
    );
}

#[test]
fn broken_links_are_found() {
    let documents = |pairs: &[(&str, &str)]| -> BTreeMap<PathBuf, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect()
    };
    let exists = |path: &Path| path == Path::new("docs/a.svg");
    let fine = documents(&[
        (
            "README.md",
            "# A `b`, [c](docs/d.md)\n![p](docs/a.svg) [d](docs/d.md#two-words--more-1) [e](#a-b-c)",
        ),
        (
            "docs/d.md",
            "## Two words / more\n## Two words / more\n```sh\n[no](no.md)\n```\n`[no](no.md)` [u](https://x.example/y)\n\
             <img src=\"a.svg\"> <source srcset=\"a.svg 2x\">\n[r][s]\n\n[s]: ../README.md\n",
        ),
        ("docs/src/e.md", "{{#include ../d.md}}\n"),
    ]);
    // The included text's links are relative to the chapter that takes it in.
    assert_eq!(
        broken(&fine, exists),
        [
            "docs/src/e.md:7: there is no `a.svg`",
            "docs/src/e.md:7: there is no `a.svg`",
            "docs/src/e.md:10: there is no `../README.md`",
        ]
    );

    let bad = documents(&[
        (
            "README.md",
            "[a](no.md) [b](docs/d.md#no) [c](#no) [d](/docs/d.md) [e][f] [g](docs/a.svg#no) []()",
        ),
        (
            "docs/d.md",
            "# D\n```\n# no\n```\n<img alt=\"x\" src=\"no.svg\">\n\n[r]: no.md",
        ),
        ("docs/e.md", "{{#include no.md}}"),
    ]);
    let found = broken(&bad, exists);
    assert_eq!(found.len(), 10, "{found:#?}");
}
