//! Programs with rights that their caller lacks: the dynamic linker does not load the library into them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{compiled, has_compiler, modes, text, under};

/// Another user than root.
const NOBODY: u32 = 65_534;

/// A folder on the disk of the build: /tmp may be mounted with nosuid.
fn build_folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// `rights.c` with set-user-ID to user nobody. None if the caller is that user, or the kernel ignores the bit.
fn of_nobody(folder: &TempDir) -> Option<PathBuf> {
    let program = compiled("rights", folder.path());
    let given = chown(&program, Some(NOBODY), None);
    let set = given.and_then(|()| fs::set_permissions(&program, Permissions::from_mode(0o4755)));
    let output = plimsoll_testkit::command(&program).output().expect("it starts");
    let shown = text(&output);
    let is_privileged = set.is_ok() && shown.starts_with("secure 1, ");
    let reason = format!("set-user-ID to user nobody: {set:?}, and the program prints {shown:?}");
    plimsoll_testkit::capability("set-user-id", is_privileged, &reason).then_some(program)
}

/// A working directory with a folder in place of the program: a search for its name passes over it.
fn working_folder(folder: &TempDir) -> PathBuf {
    let working = folder.path().join("working");
    fs::create_dir_all(working.join("rights")).expect("two folders");
    working
}

/// The lines of `executes.c` without the names of functions, each of which must be there once.
fn executed(mut command: Command) -> Vec<String> {
    let output = text(&command.output().expect("it starts"));
    let lines = output.lines().map(|line| line.split_once(": ").expect("a name"));
    let (names, ends): (Vec<_>, Vec<_>) = lines.unzip();
    assert_eq!(
        (names.len(), names.last()),
        (11, Some(&"own settings")),
        "{output}"
    );
    assert_eq!(ends.last(), Some(&"as before"), "{output}");
    ends[..10].iter().map(|end| (*end).to_owned()).collect()
}

/// Such a program got `PLIMSOLL_EXEC`, which no library reads there. With a filter of system calls, it gains no rights
/// (`no_new_privs`): the library manages it, and needs the variable.
#[test]
fn a_set_user_id_child_gets_no_settings_if_it_gains_rights() {
    if !has_compiler() {
        return;
    }
    let folder = build_folder();
    let Some(program) = of_nobody(&folder) else { return };
    let parent = compiled("executes", folder.path());
    let working = working_folder(&folder);
    let mut native = plimsoll_testkit::command(&parent);
    native.arg(&program).current_dir(&working);
    let gained = "secure 1, user 65534, library 0, LD_PRELOAD 0, PLIMSOLL_EXEC 0";
    assert_eq!(executed(native), [gained; 10]);
    for mode in modes() {
        let mut managed = under(mode, &parent);
        managed.arg(&program).current_dir(&working);
        let expected = match mode {
            "signal" => "secure 0, user 0, library 1, LD_PRELOAD 1, PLIMSOLL_EXEC 1",
            _ => gained,
        };
        assert_eq!(executed(managed), [expected; 10], "{mode}");
    }
}

/// The set-user-ID program of the parent's working directory is not the one that the child executes.
#[test]
fn a_child_that_changes_its_folder_before_a_relative_path_gets_the_settings() {
    if !has_compiler() {
        return;
    }
    let folder = build_folder();
    if of_nobody(&folder).is_none() {
        return;
    }
    let other = folder.path().join("other");
    fs::create_dir(&other).expect("a folder");
    compiled("rights", &other);
    let parent = compiled("moves", folder.path());
    for mode in modes() {
        let mut managed = under(mode, &parent);
        managed.arg(&other).current_dir(&folder);
        let output = text(&managed.output().expect("it starts"));
        let child = "secure 0, user 0, library 1, LD_PRELOAD 1, PLIMSOLL_EXEC 1";
        let expected = format!("posix_spawn: {child}\nposix_spawnp: {child}\nposix_spawnp: {child}\n");
        assert_eq!(output, expected, "{mode}");
    }
}

/// The kernel ignores both bits of a script, which needs the settings. A folder with the name counted as the program.
#[test]
fn children_that_gain_no_rights_get_the_settings() {
    if !has_compiler() {
        return;
    }
    let folder = build_folder();
    let program = compiled("rights", folder.path());
    let script = folder.path().join("script");
    plimsoll_testkit::write_script(&script, &format!("#!/bin/sh\nexec {}\n", program.display()));
    let parent = compiled("executes", folder.path());
    // Refused to other users than root.
    let _ = chown(&script, Some(NOBODY), None);
    fs::set_permissions(&script, Permissions::from_mode(0o4755)).expect("set");
    let working = working_folder(&folder);
    let same_name = working.join("rights");
    let _ = chown(&same_name, None, Some(NOBODY));
    fs::set_permissions(&same_name, Permissions::from_mode(0o2755)).expect("set");
    for mode in modes() {
        for child in [&program, &script] {
            let mut managed = under(mode, &parent);
            managed.arg(child).current_dir(&working);
            for line in executed(managed) {
                let (_, rest) = line.split_once(", library ").expect("a line of the child");
                assert_eq!(rest, "1, LD_PRELOAD 1, PLIMSOLL_EXEC 1", "{mode}: {line}");
            }
        }
    }
}

/// A script without `#!`, which `execvp` passes to the shell: it ran without the settings.
#[test]
fn a_script_that_the_c_library_passes_to_the_shell_gets_the_settings() {
    if !has_compiler() {
        return;
    }
    let folder = build_folder();
    let program = compiled("rights", folder.path());
    let script = folder.path().join("script");
    plimsoll_testkit::write_script(&script, &format!("exec {}\n", program.display()));
    let parent = compiled("executes", folder.path());
    // Refused to other users than root.
    let _ = chown(&script, Some(NOBODY), None);
    fs::set_permissions(&script, Permissions::from_mode(0o4755)).expect("set");
    for mode in modes() {
        let mut managed = under(mode, &parent);
        managed.arg(&script);
        let lines = executed(managed);
        let rests = lines.iter().filter_map(|line| line.split_once(", library "));
        let rests: Vec<_> = rests.map(|(_, rest)| rest).collect();
        // `execvp` three times, and `system`. The other functions fail.
        assert_eq!(
            rests, ["1, LD_PRELOAD 1, PLIMSOLL_EXEC 1"; 4],
            "{mode}: {lines:?}"
        );
    }
}
