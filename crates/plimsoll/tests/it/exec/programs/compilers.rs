//! Compilers write the same code.

use std::path::Path;

use plimsoll_testkit::capability;

use super::super::text;
use super::{Case, as_without_a_limit, installed};

#[test]
fn a_compiler_writes_the_same_object() {
    if !installed(&["g++"]) {
        return;
    }
    let case = Case {
        name: "g++",
        arguments: &["g++", "-std=c++17", "-c", "-o", "regex.o", "regex.cc"],
        sources: &["regex.cc"],
        after: "sha256sum regex.o",
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [128, 64]);
    assert!(output.ends_with("regex.o\n"), "{output}");
}

/// A compiler with threads and an allocator of its own (jemalloc).
#[test]
fn rustc_writes_the_same_object() {
    let found = plimsoll_testkit::command("rustc")
        .args(["--print", "sysroot"])
        .output();
    let root = found
        .as_ref()
        .map(|found| text(&found.stdout))
        .unwrap_or_default();
    let rustc = Path::new(root.trim()).join("bin/rustc");
    if !capability(
        "rustc",
        rustc.is_file(),
        "`rustc --print sysroot` names no folder with bin/rustc",
    ) {
        return;
    }
    let case = Case {
        name: "rustc",
        arguments: &[
            rustc.to_str().expect("text"),
            "--edition=2024",
            "--crate-type=lib",
            "--emit=obj",
            "-Copt-level=2",
            "-o",
            "kinds.o",
            "kinds.rs",
        ],
        sources: &["kinds.rs"],
        after: "sha256sum kinds.o",
        keeps_user: true,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [128, 64]);
    assert!(output.ends_with("kinds.o\n"), "{output}");
}
