//! Dependencies that no source file of their crate names: each is compiled for nothing.

use std::path::Path;

use serde_json::{Value, json};

use super::{assert_none, each, files, members, metadata, text};

/// The dependencies of a crate.
#[derive(Debug, PartialEq)]
struct Dependency {
    /// The name in the manifest.
    package: String,
    /// The name in Rust code.
    name: String,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// Used by the crate itself.
    Normal,
    /// Used by tests, examples and benchmarks.
    Dev,
    /// Used by the build script.
    Build,
}

/// The dependencies that the manifest of a package lists.
fn listed(metadata: &Value, package: &Value) -> Vec<Dependency> {
    let nodes = each(&metadata["resolve"]["nodes"]);
    let node = nodes.iter().find(|node| node["id"] == package["id"]);
    let resolved = node.map(|node| each(&node["deps"])).unwrap_or_default();
    let name_of = |dependency: &Value| {
        if let Some(name) = dependency["rename"].as_str() {
            return name.replace('-', "_");
        }
        // A library may have another name than its package.
        let package_of = |id: &Value| each(&metadata["packages"]).iter().find(|p| p["id"] == *id);
        let library = resolved
            .iter()
            .find(|edge| package_of(&edge["pkg"]).is_some_and(|p| p["name"] == dependency["name"]))
            .map(|edge| text(&edge["name"]));
        // What a configuration of another build needs is not resolved here: `loom`.
        library.map_or_else(|| text(&dependency["name"]).replace('-', "_"), str::to_owned)
    };
    let dependencies = each(&package["dependencies"]).iter();
    dependencies
        .map(|dependency| Dependency {
            package: text(&dependency["name"]).to_owned(),
            name: name_of(dependency),
            kind: match text(&dependency["kind"]) {
                "dev" => Kind::Dev,
                "build" => Kind::Build,
                _ => Kind::Normal,
            },
        })
        .collect()
}

/// Whether a file may use dependencies of a kind, by its path in the crate's folder.
fn may_use(kind: &Kind, file: &Path) -> bool {
    let is_test = file.ends_with("tests.rs") || file.iter().any(|part| part == "tests");
    match kind {
        Kind::Normal => file.starts_with("src") && !is_test,
        Kind::Dev => !file.ends_with("build.rs"),
        Kind::Build => file == Path::new("build.rs"),
    }
}

/// The source without comments of whole lines and, for a normal dependency, without the tests at its end.
fn code(source: &str, kind: &Kind) -> String {
    let lines = source
        .lines()
        .take_while(|line| *kind != Kind::Normal || !line.trim().starts_with("#[cfg(test)]"));
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// Whether code names a crate: `name::`, `use name;`, `use name as`, or `extern crate name`.
fn names(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return false;
        }
        // `a::name::b` is a module of `a`, `::name::b` the crate.
        let inner = before
            .strip_suffix("::")
            .is_some_and(|rest| rest.ends_with(is_word));
        let declared = ["use ", "extern crate "]
            .iter()
            .any(|word| before.ends_with(word));
        !inner && (after.starts_with("::") || declared)
    })
}

/// The dependencies that no file of the crate names. Files are by their paths in the crate's folder.
fn unused<'d>(dependencies: &'d [Dependency], sources: &[(&Path, &str)]) -> Vec<&'d Dependency> {
    let is_unused = |dependency: &&Dependency| {
        !sources.iter().any(|(file, source)| {
            may_use(&dependency.kind, file) && names(&code(source, &dependency.kind), &dependency.name)
        })
    };
    dependencies.iter().filter(is_unused).collect()
}

#[test]
fn every_dependency_is_named_by_its_crate() {
    let mut wrong = Vec::new();
    for package in members(metadata()) {
        let manifest = Path::new(text(&package["manifest_path"]));
        let folder = manifest.parent().expect("a manifest is in a folder");
        let sources = files(folder, ".rs");
        let sources: Vec<(&Path, &str)> = sources
            .iter()
            .map(|(path, source)| (path.strip_prefix(folder).expect("below"), source.as_str()))
            .collect();
        for dependency in unused(&listed(metadata(), package), &sources) {
            wrong.push(format!("{} does not name {dependency:?}", package["name"]));
        }
    }
    let remedy = "Remove them from Cargo.toml; a normal dependency that only tests name is a dev-dependency.";
    assert_none(&wrong, remedy);
}

#[test]
fn unused_dependencies_are_found() {
    let package = json!({ "id": "own", "name": "own", "dependencies": [
        { "name": "event2", "kind": null, "rename": null },
        { "name": "far-off", "kind": null, "rename": "near" },
        { "name": "model-checker", "kind": null, "rename": null, "target": "cfg(loom)" },
        { "name": "only-tested", "kind": null, "rename": null },
        { "name": "never", "kind": "dev", "rename": null },
        { "name": "tester", "kind": "dev", "rename": null },
        { "name": "builder", "kind": "build", "rename": null },
    ] });
    let metadata = json!({
        "packages": [{ "id": "e", "name": "event2" }],
        "resolve": { "nodes": [{ "id": "own", "deps": [{ "name": "event", "pkg": "e" }] }] },
    });
    let listed = listed(&metadata, &package);
    let known: Vec<&str> = listed.iter().map(|dependency| dependency.name.as_str()).collect();
    assert_eq!(
        known,
        [
            "event",
            "near",
            "model_checker",
            "only_tested",
            "never",
            "tester",
            "builder"
        ]
    );
    let sources = [
        (
            Path::new("src/lib.rs"),
            "use event::Counter;\nuse near as far;\n// never::used()\n#[cfg(test)]\nuse only_tested::x;",
        ),
        (
            Path::new("src/a/tests.rs"),
            "use only_tested::y;\nuse crate::never::z;",
        ),
        (
            Path::new("tests/it/main.rs"),
            "let x = tester::run(\"never\", never);",
        ),
        (Path::new("build.rs"), "fn main() { model_checker::no() }"),
    ];
    let found = unused(&listed, &sources);
    let found: Vec<&str> = found.iter().map(|dependency| dependency.name.as_str()).collect();
    assert_eq!(found, ["model_checker", "only_tested", "never", "builder"]);
}
