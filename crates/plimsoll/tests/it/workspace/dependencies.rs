//! Where dependencies come from, which versions they name, and which stand in the graph twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{assert_none, each, members, metadata, text};

/// Crates that the graph has in two versions or more, each because two dependencies do not agree. A new name needs a
/// reason; one whose cause is gone leaves the list.
const KNOWN_DUPLICATES: [&str; 8] = [
    "base64",
    "getrandom",
    "itertools",
    "shlex",
    "signal-hook",
    "similar",
    "syn",
    "unicode-width",
];

/// Packages that are neither of this repository nor of the registry that cargo takes by default.
fn foreign_sources(metadata: &Value) -> Vec<String> {
    let root = text(&metadata["workspace_root"]);
    let mut registries = BTreeSet::new();
    let mut wrong = Vec::new();
    for package in each(&metadata["packages"]) {
        let name = text(&package["name"]);
        match package["source"].as_str() {
            None if text(&package["manifest_path"]).starts_with(&format!("{root}/")) => {}
            None => wrong.push(format!("{name} is a path outside of the repository")),
            Some(source) if source.starts_with("registry+") => {
                registries.insert(source);
            }
            Some(source) => wrong.push(format!("{name} comes from {source}")),
        }
        // Null stands for the default registry.
        let others = each(&package["dependencies"]).iter();
        for other in others.filter(|dependency| !dependency["registry"].is_null()) {
            wrong.push(format!(
                "{name} takes {} from a registry of its own",
                other["name"]
            ));
        }
    }
    if registries.len() > 1 {
        wrong.push(format!("more than one registry: {registries:?}"));
    }
    wrong
}

/// Dependencies on any version at all. A crate of this repository is found by its path and needs none.
fn wildcards(metadata: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in each(&metadata["packages"]) {
        let dependencies = each(&package["dependencies"]).iter();
        for any in dependencies.filter(|dependency| dependency["req"] == "*" && dependency["path"].is_null())
        {
            wrong.push(format!(
                "{} takes any version of {}",
                package["name"], any["name"]
            ));
        }
    }
    wrong
}

/// Names that the graph has more than once, beside those of `known`.
fn duplicates(metadata: &Value, known: &[&str]) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in each(&metadata["packages"]) {
        let of_name = versions.entry(text(&package["name"])).or_default();
        of_name.push(text(&package["version"]));
    }
    versions.retain(|name, versions| versions.len() > 1 && !known.contains(name));
    let lines = versions.iter();
    lines
        .map(|(name, versions)| format!("{name} {}", versions.join(", ")))
        .collect()
}

#[test]
fn dependencies_come_from_the_default_registry() {
    let remedy = "Only crates of this repository and of cargo's default registry are allowed.";
    assert_none(&foreign_sources(metadata()), remedy);
}

#[test]
fn dependencies_name_their_versions() {
    assert_none(&wildcards(metadata()), "Name the version.");
}

#[test]
fn no_dependency_is_there_twice() {
    let remedy = "Agree on one version, or list the name with the reason in KNOWN_DUPLICATES.";
    assert_none(&duplicates(metadata(), &KNOWN_DUPLICATES), remedy);
}

#[test]
fn crates_of_the_workspace_stay_unpublished() {
    let published = members(metadata()).into_iter();
    let published: Vec<String> = published
        .filter(|package| package["publish"] != json!([]))
        .map(|package| package["name"].to_string())
        .collect();
    assert_none(
        &published,
        "Dependencies by path alone are for crates with `publish = false`.",
    );
}

#[test]
fn foreign_sources_wildcards_and_duplicates_are_found() {
    let package = |name: &str, version: &str, source: Value, manifest: &str, dependencies: Value| {
        json!({ "name": name, "version": version, "source": source, "manifest_path": manifest,
                "dependencies": dependencies })
    };
    let by_path = json!([{ "name": "b", "req": "*", "path": "/w/crates/b", "registry": null }]);
    let own = package("a", "0.1.0", Value::Null, "/w/crates/a/Cargo.toml", by_path);
    let registry = json!("registry+https://index.example");
    let fine = json!({ "workspace_root": "/w", "packages": [
        own, package("c", "1.0.0", registry.clone(), "/c/Cargo.toml", json!([])) ] });
    assert!(foreign_sources(&fine).is_empty() && wildcards(&fine).is_empty());
    assert!(duplicates(&fine, &[]).is_empty());

    let elsewhere = json!([{ "name": "d", "req": "*", "path": null, "registry": "https://other.example" }]);
    let bad = json!({ "workspace_root": "/w", "packages": [
        package("a", "0.1.0", Value::Null, "/w-beside/a/Cargo.toml", elsewhere),
        package("c", "1.0.0", registry, "/c/Cargo.toml", json!([])),
        package("c", "2.0.0", json!("registry+https://other.example"), "/c/Cargo.toml", json!([])),
        package("d", "1.0.0", json!("git+https://code.example/d#1"), "/d/Cargo.toml", json!([])) ] });
    assert_eq!(foreign_sources(&bad).len(), 4, "{:?}", foreign_sources(&bad));
    assert_eq!(wildcards(&bad), ["\"a\" takes any version of \"d\""]);
    assert_eq!(duplicates(&bad, &[]), ["c 1.0.0, 2.0.0"]);
    assert!(duplicates(&bad, &["c"]).is_empty());
}
