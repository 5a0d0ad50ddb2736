//! Builds the library that `plimsoll heap run` preloads. The program embeds it, so that an installation is one file.
//!
//! The library is a crate of this workspace with the profile `malloc`: it aborts on panic, so it cannot be a dependency.
//! This script calls cargo with another target folder, as the outer cargo locks its own, and without the settings of the
//! outer build: flags for sanitizers or model checkers, the wrapper of clippy. All profiles of the outer build share that
//! folder, so that tests, clippy and the release embed the same library.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LIBRARY: &str = "libplimsoll_malloc.so";

/// Inputs of the library, relative to the root of the workspace.
const SOURCES: [&str; 9] = [
    "crates/plimsoll-malloc/src",
    "crates/plimsoll-malloc/Cargo.toml",
    "crates/plimsoll-malloc/build.rs",
    "crates/plimsoll-lfh/src",
    "crates/plimsoll-lfh/Cargo.toml",
    "crates/plimsoll-os/src",
    "crates/plimsoll-os/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
];

/// Variables of the outer build that the library's build must not inherit.
const OUTER: [&str; 9] = [
    "RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_BUILD_BUILD_DIR",
    "CARGO_BUILD_TARGET",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
];

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let target = env::var("TARGET")?;
    let folder = target_folder(&out).join("embedded");
    // The outer build has usually fetched the dependencies: use the network only if the offline build fails.
    let mut built = build(&workspace, &folder, &target, true)?;
    if !built.status.success() {
        built = build(&workspace, &folder, &target, false)?;
    }
    if !built.status.success() {
        return Err(format!(
            "cannot build the library to embed:\n{}",
            String::from_utf8_lossy(&built.stderr)
        )
        .into());
    }
    let library = folder.join(&target).join("malloc").join(LIBRARY);
    let bytes = fs::read(&library).map_err(|error| format!("cannot read {}: {error}", library.display()))?;
    fs::write(out.join(LIBRARY), bytes)?;
    Ok(())
}

/// The outer build's target folder, which cargo marks with a tag, or else `out`.
fn target_folder(out: &Path) -> &Path {
    let tagged = out
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged.unwrap_or(out)
}

fn build(workspace: &Path, folder: &Path, target: &str, offline: bool) -> Result<Output, Box<dyn Error>> {
    let mut command = Command::new(env::var_os("CARGO").ok_or("cargo sets CARGO for build scripts")?);
    command
        .current_dir(workspace)
        .args([
            "build",
            "--quiet",
            "--package",
            "plimsoll-malloc",
            "--profile",
            "malloc",
        ])
        .args(["--target", target])
        .arg("--target-dir")
        .arg(folder);
    if offline {
        command.arg("--offline");
    }
    for name in OUTER {
        command.env_remove(name);
    }
    // A shared library needs a dynamic C library; musl's default is static. The variable also overrides the flags of
    // configuration files.
    let flags = if target.contains("musl") {
        "-Ctarget-feature=-crt-static"
    } else {
        ""
    };
    command.env("CARGO_ENCODED_RUSTFLAGS", flags);
    Ok(command.output()?)
}
