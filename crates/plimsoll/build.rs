//! Builds the libraries that `plimsoll heap run` and `plimsoll exec` preload. The program embeds them, so that an
//! installation is one file.
//!
//! Each library is a crate of this workspace with a profile of its own: it aborts on panic, so it cannot be a dependency.
//! Each has a call of cargo of its own too: one call for both would unify the features of their dependencies, and the
//! library of the heap must not get the standard library. This script calls cargo with another target folder, as the
//! outer cargo locks its own, and without the settings of the outer build: flags for sanitizers or model checkers, the
//! wrapper of clippy. All profiles of the outer build share that folder, so that tests, clippy and the release embed the
//! same libraries.
//!
//! It also makes the release smaller, where the linker can.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

/// A library to embed.
struct Library {
    package: &'static str,
    /// Its profile in the manifest of the workspace.
    profile: &'static str,
    file: &'static str,
    /// The variable of the outer build with its SHA-256.
    hash: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        package: "plimsoll-malloc",
        profile: "malloc",
        file: "libplimsoll_malloc.so",
        hash: "MALLOC_SHA256",
    },
    Library {
        package: "plimsoll-exec",
        profile: "exec",
        file: "libplimsoll_exec.so",
        hash: "EXEC_SHA256",
    },
];

/// Inputs of the libraries, relative to the root of the workspace.
const SOURCES: [&str; 16] = [
    "crates/plimsoll-exec/src",
    "crates/plimsoll-exec/Cargo.toml",
    "crates/plimsoll-exec/build.rs",
    "crates/plimsoll-c-malloc/src",
    "crates/plimsoll-c-malloc/Cargo.toml",
    "crates/plimsoll-malloc/src",
    "crates/plimsoll-malloc/Cargo.toml",
    "crates/plimsoll-malloc/build.rs",
    "crates/plimsoll-lfh/src",
    "crates/plimsoll-lfh/Cargo.toml",
    "crates/plimsoll-pager/src",
    "crates/plimsoll-pager/Cargo.toml",
    "crates/plimsoll-os/src",
    "crates/plimsoll-os/Cargo.toml",
    "Cargo.toml",
    "Cargo.lock",
];

/// Variables of the outer build that the libraries' builds must not inherit.
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
    for library in &LIBRARIES {
        embed(library, &workspace, &folder, &target, &out)?;
    }
    fold_identical_functions(&target, &out)
}

/// Lets the linker keep one of several functions with the same code, such as those of a generic function for two types: 2% of the
/// program. LLD, Rust's linker on x86-64, can; another linker may not, so a program of one function shows it first.
fn fold_identical_functions(target: &str, out: &Path) -> Result<(), Box<dyn Error>> {
    const OPTION: &str = "-Wl,--icf=all";
    if env::var("OPT_LEVEL")? == "0" {
        return Ok(());
    }
    let source = out.join("folds.rs");
    fs::write(&source, "fn main() {}\n")?;
    let mut command = Command::new(env::var_os("RUSTC").ok_or("cargo sets RUSTC for build scripts")?);
    command.args(["--target", target, "-C", &format!("link-arg={OPTION}")]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        command
            .arg("-C")
            .arg([OsStr::new("linker="), &linker].join(OsStr::new("")));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    command.arg("-o").arg(out.join("folds")).arg(&source);
    if command.output()?.status.success() {
        println!("cargo::rustc-link-arg-bins={OPTION}");
    }
    Ok(())
}

/// The outer build's target folder, which cargo marks with a tag, or else `out`.
fn target_folder(out: &Path) -> &Path {
    let tagged = out
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    tagged.unwrap_or(out)
}

/// Builds a library in `folder` and copies it to `out`.
fn embed(
    library: &Library,
    workspace: &Path,
    folder: &Path,
    target: &str,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    // The outer build has usually fetched the dependencies: use the network only if the offline build fails.
    let mut built = build(library, workspace, folder, target, true)?;
    if !built.status.success() {
        built = build(library, workspace, folder, target, false)?;
    }
    if !built.status.success() {
        return Err(format!(
            "cannot build the library {} to embed:\n{}",
            library.file,
            String::from_utf8_lossy(&built.stderr)
        )
        .into());
    }
    let file = folder.join(target).join(library.profile).join(library.file);
    let bytes = fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    // Only names the folder of the library: all its bytes are compared at each start, which a hash at each start would make slower.
    let hash: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env={}={hash}", library.hash);
    fs::write(out.join(library.file), bytes)?;
    Ok(())
}

fn build(
    library: &Library,
    workspace: &Path,
    folder: &Path,
    target: &str,
    offline: bool,
) -> Result<Output, Box<dyn Error>> {
    let mut command = Command::new(env::var_os("CARGO").ok_or("cargo sets CARGO for build scripts")?);
    command
        .current_dir(workspace)
        .args(["build", "--quiet", "--package", library.package])
        .args(["--profile", library.profile])
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
