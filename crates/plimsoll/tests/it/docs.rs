//! The commands in the documentation: they parse, and those marked `sh run` run.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use clap::CommandFactory;
use plimsoll::manual;

/// A command line that a document shows.
#[derive(Debug, PartialEq)]
struct Shown {
    /// Where.
    document: String,
    /// Whether the block is marked to be run.
    run: bool,
    /// The arguments after `plimsoll`.
    arguments: Vec<String>,
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and the chapters of the book, by path from the root.
fn documents() -> Vec<(String, String)> {
    let root = repository();
    let chapters = fs::read_dir(root.join("docs/src")).expect("docs/src is there");
    let mut paths: Vec<String> = chapters
        .map(|entry| {
            format!(
                "docs/src/{}",
                entry.expect("an entry").file_name().to_string_lossy()
            )
        })
        .filter(|path| path.ends_with(".md"))
        .collect();
    paths.extend(
        ["README.md".to_owned()]
            .into_iter()
            .filter(|path| root.join(path).exists()),
    );
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(root.join(&path)).expect("a document is text");
            (path, text)
        })
        .collect()
}

/// The lines of `sh` blocks that call plimsoll, as itself, through sudo, or through cargo.
fn commands(document: &str, text: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut block: Option<bool> = None;
    for line in text.lines() {
        match (block, line.trim_end()) {
            (None, "```sh") => block = Some(false),
            (None, "```sh run") => block = Some(true),
            (Some(_), "```") => block = None,
            (Some(run), line) => {
                let line = line.strip_prefix("sudo ").unwrap_or(line);
                let cargo = line.strip_prefix("cargo run --release -- ");
                if let Some(arguments) = cargo.or_else(|| line.strip_prefix("plimsoll ")) {
                    found.push(Shown {
                        document: document.to_owned(),
                        run,
                        arguments: words(arguments),
                    });
                }
            }
            _ => {}
        }
    }
    found
}

/// Splits as a shell does, as far as the documents need it: spaces, single quotes, a remark at the end.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for c in line.split(" #").next().unwrap_or_default().chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn plimsoll() -> Command {
    let mut command = Command::from_std(plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll")));
    command.env("NO_COLOR", "1");
    command
}

#[test]
fn commands_are_found_in_documents() {
    let text = "```sh\nsudo plimsoll run x --set 'a=[1, 2]'  # why\nls\n```\n```console\n$ plimsoll no\n```\n\
                ```sh run\nplimsoll list\n```\nplimsoll no";
    let found = commands("d", text);
    let shown: Vec<(bool, Vec<&str>)> = found
        .iter()
        .map(|c| (c.run, c.arguments.iter().map(String::as_str).collect()))
        .collect();
    assert_eq!(
        shown,
        [
            (false, vec!["run", "x", "--set", "a=[1, 2]"]),
            (true, vec!["list"])
        ]
    );
}

/// With `--help` at the end clap still refuses an unknown command or flag that stands before it.
#[test]
fn shown_commands_parse() {
    plimsoll()
        .args(["run", "compression", "--no-such-flag", "--help"])
        .assert()
        .failure();
    let mut seen = 0;
    for (path, text) in documents() {
        for shown in commands(&path, &text) {
            seen += 1;
            // What follows `--` is another program's.
            let own = shown.arguments.iter().take_while(|word| *word != "--");
            let result = plimsoll()
                .args(own)
                .arg("--help")
                .output()
                .expect("plimsoll starts");
            assert!(
                result.status.success(),
                "{}: plimsoll {}\n{}",
                shown.document,
                shown.arguments.join(" "),
                String::from_utf8_lossy(&result.stderr)
            );
        }
    }
    assert!(seen > 10, "the documents show commands, {seen} were found");
}

#[test]
fn examples_of_man_pages_parse() {
    let mut root = plimsoll::cli::Cli::command();
    root.build();
    for command in manual::commands(&root) {
        let page = manual::name(command);
        for example in manual::page(&page).examples {
            let arguments = words(example.command.strip_prefix("plimsoll ").expect("a command"));
            let own: Vec<&String> = arguments.iter().take_while(|word| *word != "--").collect();
            let mut path = page.split('-').skip(1).zip(&own);
            assert!(path.all(|(name, word)| name == *word), "{page}: {own:?}");
            let result = plimsoll()
                .args(own)
                .arg("--help")
                .output()
                .expect("plimsoll starts");
            let errors = String::from_utf8_lossy(&result.stderr).into_owned();
            assert!(result.status.success(), "{page}: {}\n{errors}", example.command);
        }
    }
}

/// The lines `args: [...]` of the Kubernetes manifests.
#[test]
fn commands_of_manifests_parse() {
    let folder = repository().join("packaging/kubernetes");
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("the manifests") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a manifest is text");
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("args: ["));
        for arguments in lines {
            seen += 1;
            let arguments = arguments.trim_end_matches(']').split(", ");
            let result = plimsoll()
                .args(arguments)
                .arg("--help")
                .output()
                .expect("plimsoll starts");
            let errors = String::from_utf8_lossy(&result.stderr).into_owned();
            assert!(result.status.success(), "{}: {errors}", path.display());
        }
    }
    assert_eq!(seen, 2, "each manifest has its arguments");
}

#[test]
fn commands_marked_to_run_do() {
    let mut seen = 0;
    for (path, text) in documents() {
        for shown in commands(&path, &text).into_iter().filter(|shown| shown.run) {
            seen += 1;
            let folder = tempfile::tempdir().expect("a temporary folder");
            let result = plimsoll()
                .args(&shown.arguments)
                .current_dir(&folder)
                .output()
                .expect("plimsoll starts");
            let words = shown.arguments.join(" ");
            let errors = String::from_utf8_lossy(&result.stderr).into_owned();
            assert!(result.status.success(), "{path}: plimsoll {words}\n{errors}");
            assert!(!result.stdout.is_empty(), "{path}: plimsoll {words} says nothing");
        }
    }
    assert!(seen > 3, "the documents mark commands to run, {seen} were found");
}

/// The example that a test runs in a cgroup that would kill it.
#[test]
fn readme_shows_the_program_that_completes() {
    use crate::exec::programs::killed::{RAM_OPTION, SCRIPT};
    let readme = fs::read_to_string(repository().join("README.md")).expect("there is a README");
    let line = format!("\nplimsoll exec --ram {RAM_OPTION} -- python3 -c '{SCRIPT}'\n");
    assert!(readme.contains(&line), "{line}");
}

/// Files that README.md links to or shows.
#[test]
fn the_readme_links_to_files_that_exist() {
    let readme = fs::read_to_string(repository().join("README.md")).expect("there is a README");
    let targets: Vec<&str> = ["](", "src=\"", "srcset=\""]
        .iter()
        .flat_map(|start| readme.split(start).skip(1))
        .filter_map(|rest| rest.split([')', '"']).next())
        .filter(|target| !target.contains("://"))
        .collect();
    assert!(targets.len() > 4, "{targets:?}");
    for target in targets {
        assert!(repository().join(target).exists(), "README.md links to {target}");
    }
}

/// The environment variables that the crates' sources name in quotes.
fn variables(folder: &std::path::Path, found: &mut std::collections::BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            variables(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let named = text.split('"').filter(|word| {
                let prefixed = word.starts_with("PLIMSOLL_") || word.starts_with("XDG_");
                let of_tests = ["PLIMSOLL_TEST_", "PLIMSOLL_LFH_", "PLIMSOLL_REQUIRE"];
                prefixed
                    && !of_tests.iter().any(|prefix| word.starts_with(prefix))
                    && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            });
            found.extend(named.map(str::to_owned));
        }
    }
}

#[test]
fn environment_variables_are_in_the_help_and_the_book() {
    let mut named = std::collections::BTreeSet::new();
    for name in [
        "plimsoll",
        "plimsoll-lab",
        "plimsoll-monitor",
        "plimsoll-lfh",
        "plimsoll-malloc",
    ] {
        variables(&repository().join("crates").join(name).join("src"), &mut named);
    }
    assert!(
        named.contains("PLIMSOLL_STATE_DIR") && named.len() > 3,
        "{named:?}"
    );
    let book = fs::read_to_string(repository().join("docs/src/environment.md")).expect("the chapter");
    let help = plimsoll().arg("--help").output().expect("plimsoll starts");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for name in named {
        assert!(
            book.contains(&format!("`{name}`")),
            "the book does not name {name}"
        );
        // The help names the variables of the heap as a group.
        let listed = help.contains(&name) || name.starts_with("PLIMSOLL_HEAP_");
        assert!(listed, "the help does not name {name}");
    }
}

/// The states of a page, drawn in the book as in the module that has them.
#[test]
fn the_book_draws_the_transitions_of_the_page_table() {
    let text = |path: &str| std::fs::read_to_string(repository().join(path)).expect("the file is there");
    let module = text("crates/plimsoll-pager/src/page/mod.rs");
    let lines = module.lines().skip_while(|line| *line != "//! ```text").skip(1);
    let drawn: Vec<&str> = lines
        .take_while(|line| *line != "//! ```")
        .map(|line| line.strip_prefix("//! ").unwrap_or_default())
        .collect();
    assert!(drawn.len() > 8, "{drawn:?}");
    assert!(text("docs/src/pager.md").contains(&drawn.join("\n")));
}

/// The drop-in that the chapter on the guard shows is the one that the VM with systemd tests.
#[test]
fn the_drop_in_of_the_book_is_tested() {
    let shown_in = |path: &str, begin: &str, end: &str| {
        let text = fs::read_to_string(repository().join(path)).expect("it is text");
        let mut blocks = text.split(begin).skip(1);
        let drop_in = blocks.find_map(|block| {
            let (lines, _) = block.split_once(end)?;
            lines
                .starts_with("[Service]\nExecStart=\n")
                .then(|| lines.to_owned())
        });
        drop_in.unwrap_or_else(|| panic!("{path} has a drop-in"))
    };
    assert_eq!(
        shown_in("docs/src/guard.md", "```ini\n", "```"),
        shown_in("vm/guest/systemd.sh", "<<'END'\n", "END\n")
    );
}
