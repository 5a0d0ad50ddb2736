//! Programs in C over the libraries of this crate.

use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};

use plimsoll_pager_c::interface;
use plimsoll_pager_c::layout::{Options, Statistics};

/// A library to link with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Library {
    Shared,
    Static,
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the libraries that cargo built beside this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its file");
    test.parent().expect("it is in a folder").to_owned()
}

fn has_compiler() -> bool {
    let found = plimsoll_testkit::command("cc").arg("--version").output().is_ok();
    plimsoll_testkit::capability("cc", found, "a C compiler is needed")
}

/// The output of a program in C that succeeds.
fn output_of(source: &str, library: Library) -> String {
    output_with(source, library, &[])
}

fn output_with(source: &str, library: Library, arguments: &[&Path]) -> String {
    let folder = tempfile::tempdir().expect("a folder for the program");
    let program = folder.path().join("program");
    let libraries = libraries();
    let mut compiler = plimsoll_testkit::command("cc");
    compiler
        .args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg("-I")
        .arg(crate_folder().join("include"))
        .arg(crate_folder().join(source))
        .arg("-o")
        .arg(&program);
    match library {
        Library::Shared => compiler
            .arg("-L")
            .arg(&libraries)
            .arg("-lplimsoll_pager_c")
            .arg(format!("-Wl,-rpath,{}", libraries.display())),
        Library::Static => compiler
            .arg(libraries.join("libplimsoll_pager_c.a"))
            .args(["-lm", "-ldl"]),
    };
    let built = compiler.output().expect("the compiler starts");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let output = plimsoll_testkit::command(&program)
        .args(arguments)
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{source} {library:?}: {:?}\n{text}{errors}",
        output.status
    );
    text
}

#[test]
fn the_example_sorts_more_than_its_budget() {
    if !has_compiler() {
        return;
    }
    for library in [Library::Shared, Library::Static] {
        let text = output_of("examples/sort.c", library);
        assert!(text.contains("196608 records sorted"), "{text}");
    }
}

#[test]
fn every_call_has_its_results_and_codes_and_leaves_nothing_behind() {
    if has_compiler() {
        let text = output_of("tests/c/calls.c", Library::Shared);
        assert!(text.ends_with("all calls\n"), "{text}");
    }
}

#[test]
fn every_option_and_policy_has_its_effect_and_its_refusals() {
    if has_compiler() {
        // A page file needs a disk, and a pool a folder that no other user can write to.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = tempfile::tempdir_in(target).expect("a folder on a disk");
        let text = output_with("tests/c/options.c", Library::Shared, &[folder.path()]);
        assert!(text.ends_with("all options\n"), "{text}");
        let left = std::fs::read_dir(folder.path()).expect("the folder").count();
        assert_eq!(
            left, 0,
            "the page file has no name, and the program removed the pool"
        );
    }
}

#[test]
fn the_structures_are_those_of_the_header() {
    if !has_compiler() {
        return;
    }
    let expected = [
        size_of::<Options>(),
        offset_of!(Options, codec),
        offset_of!(Options, page_file),
        offset_of!(Options, ageing_ms),
        size_of::<Statistics>(),
        offset_of!(Statistics, compressed_pages),
        offset_of!(Statistics, direct_reclaims),
        offset_of!(Statistics, heat_chunks),
        offset_of!(Options, thrash_control),
        offset_of!(Statistics, kept_trials),
    ];
    let expected = expected.map(|number| number.to_string()).join(" ");
    assert_eq!(output_of("tests/c/layout.c", Library::Shared).trim(), expected);
}

/// The header declares each function of the library, and no other.
#[test]
fn the_header_declares_every_function() {
    let header =
        std::fs::read_to_string(crate_folder().join("include/plimsoll_pager.h")).expect("the header");
    let source = std::fs::read_to_string(crate_folder().join("src/interface.rs")).expect("the source");
    let names = |text: &str, before: &str| {
        let mut names: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with(' ') && line.contains(before))
            .filter_map(|line| {
                let start = line.find("plimsoll_pager_")?;
                let end = line[start..].find('(')?;
                line.starts_with(|c: char| c.is_ascii_lowercase())
                    .then(|| line[start..start + end].to_owned())
            })
            .collect();
        names.sort();
        names
    };
    let defined = names(&source, "extern \"C\" fn ");
    assert_eq!(names(&header, "plimsoll_pager_"), defined);
    assert_eq!(defined.len(), 18);
    // The symbols are in this program as well.
    assert!(!interface::plimsoll_pager_error().is_null());
}

/// The book shows the example as it is.
#[test]
fn the_book_has_the_example() {
    let book = crate_folder().join("../../docs/src/embed-pager.md");
    let book = std::fs::read_to_string(book).expect("the chapter");
    let example = std::fs::read_to_string(crate_folder().join("examples/sort.c")).expect("the example");
    assert!(book.contains(&format!("```c\n{example}```\n")));
}
