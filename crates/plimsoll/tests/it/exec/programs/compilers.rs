//! Compilers write the same code.

use std::path::{Path, PathBuf};

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

/// A program of Rust's toolchain. One in `PATH` may be a proxy, which selects a toolchain by the caller's settings.
fn of_toolchain(name: &str) -> Option<PathBuf> {
    let found = plimsoll_testkit::command("rustc")
        .args(["--print", "sysroot"])
        .output();
    let root = found
        .as_ref()
        .map(|found| text(&found.stdout))
        .unwrap_or_default();
    let program = Path::new(root.trim()).join("bin").join(name);
    let reason = format!("`rustc --print sysroot` names no folder with bin/{name}");
    capability(name, program.is_file(), &reason).then_some(program)
}

/// A compiler with threads and an allocator of its own (jemalloc).
#[test]
fn rustc_writes_the_same_object() {
    let Some(rustc) = of_toolchain("rustc") else {
        return;
    };
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

/// cargo, its compilers one after another, the build script that it runs, and the linker share the budget. The package has no
/// dependencies. Most of the memory is that of the compiler of `kinds.rs`.
#[test]
fn cargo_builds_the_same_program() {
    let (Some(cargo), Some(rustc)) = (of_toolchain("cargo"), of_toolchain("rustc")) else {
        return;
    };
    if !installed(&["cc"]) {
        return;
    }
    let case = Case {
        name: "cargo",
        arguments: &[
            cargo.to_str().expect("text"),
            "build",
            "--release",
            "--offline",
            "--quiet",
            "--manifest-path",
            "package/Cargo.toml",
        ],
        variables: &[
            ("RUSTC", rustc.to_str().expect("text")),
            ("RUSTC_WRAPPER", ""),
            ("CARGO_HOME", "home"),
            ("CARGO_TARGET_DIR", "target"),
            ("CARGO_INCREMENTAL", "0"),
        ],
        sources: &[
            "kinds.rs",
            "package/Cargo.toml",
            "package/build.rs",
            "package/src/lib.rs",
            "package/src/main.rs",
            "package/src/ports.rs",
        ],
        before: "mv kinds.rs package/src",
        after: "sha256sum target/release/fleet; target/release/fleet",
        keeps_user: true,
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [128, 64]);
    assert!(output.contains("\n400 ports, "), "{output}");
}
