//! Builds the library that `plimsoll heap run` preloads, which the program carries with it: one file is all there is to
//! install.
//!
//! The library is a crate of this workspace with a profile of its own (`malloc`: it aborts on panic, so it cannot be a
//! dependency). Cargo is called for it with a target folder of its own, as the outer one's is locked meanwhile, and
//! without what the outer build was told to do differently: flags for sanitizers or model checkers, wrappers of clippy.
//! That folder is shared by all profiles of the outer build, so that tests, clippy and the release take one library.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const LIBRARY: &str = "libplimsoll_malloc.so";

/// What the library is made of, from the workspace's root.
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

/// Variables of the outer build that do not hold for the library.
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
    // What is needed has been fetched for the outer build, as a rule: the network is asked only where it has not.
    let mut built = build(&workspace, &folder, &target, true)?;
    if !built.status.success() {
        built = build(&workspace, &folder, &target, false)?;
    }
    if !built.status.success() {
        return Err(format!(
            "the library that the program carries could not be built:\n{}",
            String::from_utf8_lossy(&built.stderr)
        )
        .into());
    }
    let library = folder.join(&target).join("malloc").join(LIBRARY);
    let bytes = fs::read(&library).map_err(|error| format!("cannot read {}: {error}", library.display()))?;
    fs::write(out.join(LIBRARY), bytes)?;
    Ok(())
}

/// The outer build's target folder, which cargo marks with a tag; where there is none, the folder of this build script.
fn target_folder(out: &Path) -> &Path {
    let tagged = out
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged.unwrap_or(out)
}

/// Calls cargo for the library.
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
    // A shared library needs a dynamic C library; musl's is static unless told. Being set, it also stands before the
    // flags of configuration files.
    let flags = if target.contains("musl") {
        "-Ctarget-feature=-crt-static"
    } else {
        ""
    };
    command.env("CARGO_ENCODED_RUSTFLAGS", flags);
    Ok(command.output()?)
}
