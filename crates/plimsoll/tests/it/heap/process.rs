//! A process under the heap: its commit charge, its mappings, its environment, the libraries that it opens, and its
//! children of other users.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{HEAPS, compiled, has, heap_run};

/// The program with its mode, and its output under an option of `plimsoll heap run`.
fn printed(option: &str, program: &Path, mode: &str) -> String {
    let mut command = heap_run();
    text(command.args([option, "--"]).arg(program).arg(mode))
}

fn text(command: &mut std::process::Command) -> String {
    let output = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), errors.as_ref()),
        (Some(0), ""),
        "{command:?}"
    );
    String::from_utf8(output.stdout).expect("text")
}

fn process() -> Option<PathBuf> {
    has("gcc").then(|| compiled("gcc", "process.c", "c", &[]))
}

/// A table of 16 MiB in the library counted as memory of each process, used or not: with strict accounting of memory
/// (`vm.overcommit_memory=2`), a thousand processes took 16 GiB.
#[test]
fn a_process_is_charged_for_what_it_uses() {
    let Some(program) = process() else { return };
    let bytes = |text: String| -> i64 { text.trim().parse().expect("a number") };
    let mut plain = plimsoll_testkit::command(&program);
    let alone = bytes(text(plain.arg("charge").env_remove("LD_PRELOAD")));
    assert!(alone > 0);
    for heap in HEAPS {
        let charged = bytes(printed(heap, &program, "charge"));
        assert!(
            charged < alone + (1 << 20),
            "{heap}: {charged}, and {alone} without"
        );
    }
}

/// Each large block of a hardened heap had a guard page, until the kernel had no mapping left for the process.
#[test]
fn a_hardened_process_keeps_most_of_its_mappings() {
    let Some(program) = process() else { return };
    assert_eq!(
        printed("--hardened", &program, "mappings"),
        "0 refused, most mappings left, a thread, a mapping\n"
    );
}

/// It had the default profile, in silence.
#[test]
fn a_process_without_proc_is_as_hardened_as_it_was_to_be() {
    let Some(program) = process() else { return };
    assert_eq!(printed("--hardened", &program, "profile"), "hardened\n");
    assert_eq!(printed("--front-end=lfh", &program, "profile"), "default\n");
    let root = rustix::process::geteuid().is_root();
    if plimsoll_testkit::capability("root", root, "only root mounts something over /proc") {
        assert_eq!(printed("--hardened", &program, "no-proc"), "hardened\n");
        assert_eq!(printed("--front-end=lfh", &program, "no-proc"), "default\n");
    }
}

/// The dynamic linker printed an error for each child of another user, as only root could read the library.
#[test]
fn children_of_another_user_have_the_library() {
    let Some(program) = process() else { return };
    let root = rustix::process::geteuid().is_root();
    if !plimsoll_testkit::capability("root", root, "only root becomes another user") {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let readable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path(), readable).expect("opened");
    // As an earlier release left it.
    let folder = place.path().join("plimsoll");
    fs::create_dir(&folder).expect("made");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("closed");
    let mut command = heap_run();
    command
        .arg("--")
        .arg(&program)
        .arg("as-nobody")
        .env("XDG_CACHE_HOME", place.path());
    let maps = text(&mut command);
    assert!(maps.contains("/libplimsoll_malloc.so"), "{maps}");
}

/// PHP opens its extensions so, and crashed at its start: they freed its blocks by the C library's `free`.
#[test]
fn libraries_that_bind_deeply_have_the_same_malloc() {
    if !has("gcc") {
        return;
    }
    let library = compiled("gcc", "deepbind.c", "c", &["-DLIBRARY", "-shared", "-fPIC"]);
    let folder = library.parent().expect("a folder").display().to_string();
    // The C library looks there if it knows that the program calls, and no other library.
    let path = format!("-Wl,--enable-new-dtags,-rpath,{folder}");
    let program = compiled("gcc", "deepbind.c", "c", &[&path]);
    let name = library
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let mut plain = plimsoll_testkit::command(&program);
    assert_eq!(
        text(plain.arg(name).env_remove("LD_PRELOAD")),
        "blocks came and went\n"
    );
    for heap in HEAPS {
        assert_eq!(printed(heap, &program, name), "blocks came and went\n", "{heap}");
    }
}
