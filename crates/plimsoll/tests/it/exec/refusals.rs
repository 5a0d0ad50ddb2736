//! Programs and machines that the pager cannot serve: each is named before the program starts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_testkit::{capability, copy_program, refuse_userfaultfd, status_of_fork, write_script};

use super::programs::Place;
use super::{
    PLIMSOLL, assert_engine, built, built_by_go, built_by_musl, document, exec, give_capability, ran,
    scratch, text,
};
use crate::heap::{NOBODY, has};

/// `plimsoll exec` on the pager.
fn on_pager() -> Command {
    let mut command = exec();
    command.args(["--engine", "pager", "--ram", "64M"]);
    command
}

/// Checks that the program is refused with 4 and the code of this reason.
fn assert_refused(program: &Path, reason: &str) {
    let output = ran(on_pager().args(["--json", "--"]).arg(program));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(4), ""),
        "{said}"
    );
    assert_engine(&document(&said, "refused"), "pager", None, reason);
    assert!(said.contains("--allow-unmanaged"), "{said}");
}

/// Checks that the program runs if the user allows it to run without a limit, for this reason.
fn assert_allowed(program: &Path, reason: &str) {
    let options = ["--allow-unmanaged", "--json", "--"];
    let output = ran(on_pager().args(options).arg(program));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "ran\n"),
        "{said}"
    );
    assert_engine(&document(&said, "engine"), "none", None, reason);
    // Without `--json`, one line for people.
    let output = ran(on_pager().args(["--allow-unmanaged", "--"]).arg(program));
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), said.lines().count()),
        (Some(0), 1),
        "{said}"
    );
}

#[test]
fn static_programs_are_refused_with_their_scripts() {
    if !has("gcc") {
        return;
    }
    for flag in ["-static", "-static-pie"] {
        let Some(program) = built(&[flag]) else { continue };
        assert_refused(&program, "static");
        assert_allowed(&program, "static");
        let script = scratch(&format!("script{flag}")).join("script");
        write_script(&script, &format!("#! {} -x\n", program.display()));
        assert_refused(&script, "static");
        assert_allowed(&script, "static");
    }
}

/// The Go compiler is not among the programs that CI requires: the test above builds static programs in C.
#[test]
fn programs_of_go_are_refused_as_static() {
    let Some(program) = built_by_go() else { return };
    assert_refused(&program, "static");
    assert_allowed(&program, "static");
    // As a child, it runs without a limit.
    let script = format!("{}; echo $?", program.display());
    let output = ran(on_pager().args(["--", "sh", "-c", &script]));
    assert_eq!(text(&output.stdout), "ran\n0\n", "{}", text(&output.stderr));
}

/// Runs the command line of plimsoll with a limit on addresses, in which no pager fits.
fn with_few_addresses(line: &str) -> std::process::Output {
    with_addresses(20_000_000, line)
}

/// The same with so many KiB of addresses.
fn with_addresses(kib: u64, line: &str) -> std::process::Output {
    let script = format!("ulimit -v {kib}; exec {PLIMSOLL} {line}");
    ran(plimsoll_testkit::command("sh").args(["-c", &script]))
}

#[test]
fn an_unmanaged_program_gets_no_variable_of_the_pager() {
    let output = with_few_addresses("-q exec --engine pager --ram 64M --allow-unmanaged -- env");
    let shown = text(&output.stdout);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    assert!(
        !shown.contains("PLIMSOLL_EXEC") && !shown.contains("LD_PRELOAD"),
        "{shown}"
    );
}

#[test]
fn a_limit_on_addresses_is_a_missing_resource() {
    let output = with_few_addresses("exec --engine pager --ram 64M --json -- true");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_engine(&document(&said, "refused"), "pager", None, "address-space");
}

/// The check once counted the arena alone: between its size and the need of the library, the program ended with 125.
#[test]
fn the_limit_on_addresses_that_is_demanded_is_enough() {
    for ram in [64 << 20, 16_u64 << 30] {
        let enough = (544 << 20) + 2 * (ram >> 10);
        let line = format!("-q exec --engine pager --ram {ram} -- true");
        for (kib, code) in [(enough, 0), (enough - 4, 3)] {
            let output = with_addresses(kib, &line);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{ram}, {kib} KiB: {said}");
        }
    }
}

#[test]
fn programs_of_another_c_library_are_refused() {
    if !has("gcc") {
        return;
    }
    let linker = "/lib/ld-musl-x86_64.so.1";
    let program = built(&[&format!("-Wl,--dynamic-linker={linker}")]).expect("the linker takes any name");
    assert_refused(&program, "other-libc");
    // The message names the linker.
    let output = ran(on_pager().arg("--").arg(&program));
    assert!(text(&output.stderr).contains(linker), "{}", text(&output.stderr));
}

#[test]
fn programs_that_musls_compiler_builds_are_refused() {
    if !has("musl-gcc") {
        return;
    }
    let kinds: [(&[&str], &str); 2] = [(&[], "other-libc"), (&["-static"], "static")];
    for (flags, reason) in kinds {
        let program = built_by_musl(flags);
        assert_refused(&program, reason);
        assert_allowed(&program, reason);
    }
}

/// A copy of this program with other bytes.
fn patched(name: &str, patches: &[(usize, u8)]) -> PathBuf {
    let mut bytes = fs::read("/proc/self/exe").expect("this program can be read");
    for (at, byte) in patches {
        bytes[*at] = *byte;
    }
    bytes.truncate(1 << 16);
    let folder = scratch(name);
    fs::write(folder.join("bytes"), bytes).expect("written");
    copy_program(folder.join("bytes"), folder.join("program"));
    folder.join("program")
}

#[test]
fn programs_of_another_machine_are_refused() {
    const CLASS: usize = 4;
    const MACHINE: usize = 18;
    assert_refused(&patched("mips", &[(MACHINE, 8)]), "other-machine");
    assert_refused(&patched("elf32", &[(CLASS, 1), (MACHINE, 3)]), "other-machine");
}

#[test]
fn set_user_id_programs_are_refused() {
    let root = rustix::process::geteuid().is_root();
    if !capability("root", root, "only root makes a program of another user") {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let open =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("opened");
    open(place.path(), 0o755);
    let cache = place.path().join("cache");
    fs::create_dir(&cache).expect("made");
    std::os::unix::fs::chown(&cache, Some(NOBODY), Some(NOBODY)).expect("given");
    // User nobody may lack access to the folder of the program.
    let plimsoll = place.path().join("plimsoll");
    copy_program(PLIMSOLL, &plimsoll);
    let borrowed = place.path().join("borrowed");
    copy_program("/bin/true", &borrowed);
    for mode in [0o4755, 0o2755] {
        open(&borrowed, mode);
        let mut command = plimsoll_testkit::command(&plimsoll);
        command
            .args(["exec", "--engine", "pager", "--ram", "64M", "--json", "--"])
            .arg(&borrowed)
            .env("XDG_CACHE_HOME", &cache)
            .current_dir("/")
            .uid(NOBODY)
            .gid(NOBODY);
        let output = ran(&mut command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert_engine(&document(&said, "refused"), "pager", None, "privileged");
    }
    // For its owner it is a program like any other: no refusal, or one that is about the machine.
    let options = ["--allow-unmanaged", "--json", "--"];
    let output = ran(on_pager().args(options).arg(&borrowed));
    let chosen = document(&text(&output.stderr), "engine");
    assert_ne!(chosen["reason"], "privileged", "{chosen:#}");
}

/// Root has all capabilities: for root, it is a program like any other.
#[test]
fn programs_with_file_capabilities_are_refused_unless_the_caller_is_root() {
    let place = Place::new();
    let program = place.work().join("capable");
    copy_program("/bin/true", &program);
    if !give_capability(&program) {
        return;
    }
    let mut command = place.native(place.plimsoll().to_str().expect("text"));
    command.args(["exec", "--engine", "pager", "--ram", "64M", "--json", "--"]);
    let output = ran(command.arg(&program));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert_engine(&document(&said, "refused"), "pager", None, "privileged");
    let options = ["--allow-unmanaged", "--json", "--"];
    let output = ran(on_pager().args(options).arg(&program));
    let chosen = document(&text(&output.stderr), "engine");
    assert_ne!(chosen["reason"], "privileged", "{chosen:#}");
}

#[test]
fn a_kernel_that_refuses_userfaultfd_is_named_with_the_remedy() {
    let status = status_of_fork(|| {
        refuse_userfaultfd(libc::EPERM, true);
        let refused = |options: &[&str]| ran(on_pager().args(options).args(["--", "echo", "ran"]));
        let output = refused(&["--json"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        assert_engine(&document(&said, "refused"), "pager", None, "seccomp");
        // The message names the setting that allows it.
        assert!(said.contains("--security-opt"), "{said}");
        let output = refused(&["--allow-unmanaged"]);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(0), "ran\n")
        );
    });
    assert_eq!(status, 0);
}

/// A kernel that does not know the flag `UFFD_USER_MODE_ONLY` returns EINVAL.
#[test]
fn a_kernel_that_does_not_know_the_flag_of_userfaultfd_is_too_old() {
    let status = status_of_fork(|| {
        refuse_userfaultfd(libc::EINVAL, true);
        let output = ran(on_pager().args(["--json", "--", "echo", "ran"]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(output.stdout.is_empty(), "{said}");
        assert_engine(&document(&said, "refused"), "pager", None, "old-kernel");
    });
    assert_eq!(status, 0);
}

#[test]
fn a_page_file_that_cannot_be_made_is_named() {
    let output = ran(on_pager().args(["--page-file", "/proc,64M", "--json", "--", "true"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let refused = document(&said, "refused");
    assert_engine(&refused, "pager", None, "page-file");
    // The message names the folder.
    let message = refused["text"].as_str();
    assert!(message.is_some_and(|text| text.contains("/proc")), "{refused:#}");
}

/// Runs `exec` where `/var/tmp` is in RAM, with these options. None if that cannot be set up.
fn ran_without_a_disk(options: &str) -> Option<std::process::Output> {
    let script = format!(
        "mount -t tmpfs none /var/tmp || exit 99; exec \"$0\" exec --engine pager --ram 64M {options} -- echo ran"
    );
    let mut command = plimsoll_testkit::command("unshare");
    command.args(["--mount", "sh", "-c", &script, PLIMSOLL]);
    let output = ran(&mut command);
    let is_mounted = output.status.code() != Some(99);
    capability("mount", is_mounted, "cannot mount a tmpfs").then_some(output)
}

#[test]
fn the_page_file_of_the_default_is_left_out_with_a_warning_where_it_cannot_be_made() {
    for (options, warnings) in [("", 1), ("--quiet", 0), ("--page-file none", 0)] {
        let Some(output) = ran_without_a_disk(options) else {
            return;
        };
        let said = text(&output.stderr);
        let result = (output.status.code(), text(&output.stdout));
        assert_eq!(result, (Some(0), "ran\n".to_owned()), "{options}: {said}");
        assert_eq!(said.lines().count(), warnings, "{options}: {said}");
        assert_eq!(said.matches("/var/tmp").count(), warnings, "{options}: {said}");
    }
    let output = ran_without_a_disk("--page-file /var/tmp").expect("mounted before");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
