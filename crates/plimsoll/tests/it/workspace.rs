//! The workspace as a whole: its dependencies, and the links of its documents.
//!
//! Each check is a function from text to findings. A test holds the workspace against it, and another one a made-up
//! input that it must find fault with.

mod book;
mod dependencies;
mod licences;
mod links;
mod unused;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;

/// The platforms that the program is built for.
const PLATFORMS: [&str; 3] = [
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
];

/// The root of the repository, taken at run time, so that a built test can be pointed at another checkout.
fn repository() -> PathBuf {
    let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests");
    let root = PathBuf::from(crate_folder).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// `cargo metadata` of the workspace, dependencies included, for all of [`PLATFORMS`].
fn metadata() -> &'static Value {
    static METADATA: OnceLock<Value> = OnceLock::new();
    METADATA.get_or_init(|| {
        let text = cargo(&["metadata", "--format-version", "1"], "--filter-platform");
        serde_json::from_str(&text).expect("cargo metadata prints JSON")
    })
}

/// The output of cargo for the workspace, as Cargo.lock has it, for each of [`PLATFORMS`] by the option `platform`.
fn cargo(arguments: &[&str], platform: &str) -> String {
    let run = |network: &[&str]| {
        let mut command =
            plimsoll_testkit::command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(arguments).arg("--locked").args(network);
        command.args(PLATFORMS.iter().flat_map(|name| [platform, name]));
        command.current_dir(repository()).output().expect("cargo starts")
    };
    // The build of this test has fetched the packages, for its own platform at least.
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {errors}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// The elements of a JSON array; none where there is no array.
fn each(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A JSON string; empty where there is none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The packages of the workspace itself.
fn members(metadata: &Value) -> Vec<&Value> {
    let members = each(&metadata["workspace_members"]);
    let packages = each(&metadata["packages"]).iter();
    packages
        .filter(|package| members.contains(&package["id"]))
        .collect()
}

/// Every file below `folder` whose name ends in `ending`, with its text. Hidden folders and those that hold no
/// sources are left out.
fn files(folder: &Path, ending: &str) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder can be read") {
            let path = entry.expect("a folder's entry can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let generated = ["target", "node_modules", "plimsoll-runs"].contains(&&*name);
                if !generated && !name.starts_with('.') && !path.ends_with("docs/book") {
                    folders.push(path);
                }
            } else if name.ends_with(ending) {
                let text = fs::read_to_string(&path).expect("the file is text");
                found.insert(path, text);
            }
        }
    }
    found
}

/// Fails with the findings of a check, one a line.
#[track_caller]
fn assert_none(findings: &[String], remedy: &str) {
    assert!(findings.is_empty(), "{}\n{remedy}", findings.join("\n"));
}

#[test]
fn the_workspace_is_seen() {
    assert!(members(metadata()).len() >= 5, "the crates of the workspace");
    assert!(each(&metadata()["packages"]).len() > 50, "their dependencies");
    let root = repository();
    let documents = files(&root, ".md");
    assert!(documents.contains_key(&root.join("README.md")));
    assert!(documents.contains_key(&root.join("docs/src/SUMMARY.md")));
    assert!(files(&root.join("crates"), ".rs").len() > 100, "the sources");
}
