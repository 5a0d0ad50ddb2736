//! `plimsoll heap run`: the start of a program, and its obstacles.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use plimsoll::heap::{Obstacle, Program, ProgramError};

use super::{compiled, has, heap_run, library, scratch};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ran(command: &mut Command) -> Output {
    command.output().expect("plimsoll starts")
}

#[test]
fn the_library_is_loaded_before_all_others_and_told_what_to_be() {
    let show = "grep -c libplimsoll_malloc.so /proc/self/maps; echo \"$LD_PRELOAD\"; env | grep ^PLIMSOLL_HEAP | sort";
    let output = ran(heap_run().args(["--", "sh", "-c", show]));
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].parse::<u32>().expect("a number") > 0, "{shown}");
    assert_eq!(
        lines[1..],
        [
            library().to_str().expect("text"),
            "PLIMSOLL_HEAP_FRONT_END=lfh",
            "PLIMSOLL_HEAP_PROFILE=default"
        ]
    );
    let mut command = heap_run();
    let libm = "libm.so.6";
    command
        .args(["--front-end", "standard", "--hardened", "sh", "-c", show])
        .env("LD_PRELOAD", libm);
    let shown = text(&ran(&mut command).stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[1..],
        [
            format!("{}:{libm}", library().display()).as_str(),
            "PLIMSOLL_HEAP_FRONT_END=standard",
            "PLIMSOLL_HEAP_PROFILE=hardened"
        ]
    );
}

#[test]
fn it_becomes_the_program_with_its_name_arguments_and_end() {
    let output = ran(heap_run().args(["sh", "-c", "echo \"$0 $1 $2\"; exit 41", "-x", "a b", "--quiet"]));
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("-x a b --quiet\n", Some(41))
    );
    let output = ran(heap_run().args(["--", "sh", "-c", "kill -TERM $$"]));
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(15), "there is no process in between");
}

#[test]
fn a_program_that_cannot_be_started_is_told_as_a_shell_does() {
    let folder = scratch("not-started");
    let plain = folder.join("plain");
    fs::write(&plain, "text").expect("written");
    let cases = [
        ("no-such-program-anywhere", 127, ErrorKind::NotFound),
        ("/no/such/program", 127, ErrorKind::NotFound),
        (plain.to_str().expect("text"), 126, ErrorKind::PermissionDenied),
        (folder.to_str().expect("text"), 126, ErrorKind::PermissionDenied),
    ];
    for (program, code, kind) in cases {
        let output = ran(heap_run().args(["--", program]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(program), "{said}");
        let found = Program::find(std::ffi::OsStr::new(program), None);
        assert!(
            matches!(&found, Err(ProgramError::NotStarted { source, .. }) if source.kind() == kind),
            "{program}: {found:?}"
        );
    }
    assert_eq!(ran(&mut heap_run()).status.code(), Some(1));
}

/// The obstacle to preloading the library into a program.
fn obstacle(program: &Path) -> Obstacle {
    match Program::find(program.as_os_str(), None) {
        Err(ProgramError::NotPreloadable { why, .. }) => why,
        other => panic!("{}: {other:?}", program.display()),
    }
}

#[test]
fn a_program_that_would_not_load_the_library_is_not_started() {
    if !has("gcc") {
        return;
    }
    let fixed = compiled("gcc", "malloc.c", "c", &["-static"]);
    let folder = scratch("not-preloadable");
    let script = folder.join("script");
    fs::write(&script, format!("#! {} -x\n", fixed.display())).expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("made a program");
    for program in [&fixed, &script] {
        let output = ran(heap_run().arg("--").arg(program));
        let said = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout).as_str()),
            (Some(4), ""),
            "{said}"
        );
        assert_eq!(obstacle(program), Obstacle::Static(fixed.clone()));
    }
    let own = compiled("gcc", "own_malloc.c", "c", &["-rdynamic"]);
    let output = ran(heap_run().arg("--").arg(&own));
    assert_eq!((output.status.code(), output.stdout.len()), (Some(4), 0));
    assert_eq!(obstacle(&own), Obstacle::OwnMalloc(own.clone()));
    let mut bytes = fs::read("/proc/self/exe").expect("this program can be read");
    bytes[18] = 8; // MIPS
    bytes.truncate(1 << 16);
    let other = folder.join("other");
    fs::write(&other, bytes).expect("written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("made a program");
    let output = ran(heap_run().arg("--").arg(&other));
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(obstacle(&other), Obstacle::OtherMachine(other.clone()));
}

/// Runs as user nobody, without a home: root alone can become that.
fn as_nobody(command: &mut Command) -> &mut Command {
    command
        .uid(super::NOBODY)
        .gid(super::NOBODY)
        .env_remove("HOME")
        .env_remove("XDG_CACHE_HOME")
}

#[test]
fn nobody_without_a_home_has_it_in_the_temporary_folder() {
    let root = rustix::process::geteuid().is_root();
    if !plimsoll_testkit::capability("root", root, "only root becomes another user") {
        return;
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let open =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("opened");
    open(place.path(), 0o755);
    let temporary = place.path().join("tmp");
    let unpacked = temporary.join(format!("plimsoll-{}", super::NOBODY));
    fs::create_dir(&temporary).expect("made");
    open(&temporary, 0o1777);
    // User nobody may lack access to the folder of the program.
    let plimsoll = place.path().join("plimsoll");
    plimsoll_testkit::copy_program(env!("CARGO_BIN_EXE_plimsoll"), &plimsoll);
    let mut command = plimsoll_testkit::command(&plimsoll);
    command.args(["heap", "run", "--", "sh", "-c", "printf %s \"$LD_PRELOAD\""]);
    let output = ran(as_nobody(&mut command).env("TMPDIR", &temporary).current_dir("/"));
    let path = text(&output.stdout);
    assert!(
        path.starts_with(unpacked.to_str().expect("text")),
        "{path} {}",
        text(&output.stderr)
    );

    // A folder that others can write to is not trusted, and there is no other one.
    fs::remove_dir_all(&unpacked).expect("removed");
    fs::create_dir(&unpacked).expect("made");
    open(&unpacked, 0o777);
    let mut command = plimsoll_testkit::command(&plimsoll);
    command.args(["heap", "run", "--", "true"]);
    let output = ran(as_nobody(&mut command).env("TMPDIR", &temporary).current_dir("/"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("XDG_CACHE_HOME") && said.contains(unpacked.to_str().expect("text")),
        "{said}"
    );

    // A program of another user with the set-user-ID bit.
    let borrowed = place.path().join("borrowed");
    plimsoll_testkit::copy_program("/bin/true", &borrowed);
    open(&borrowed, 0o4755);
    let mut command = plimsoll_testkit::command(&plimsoll);
    command.args(["heap", "run", "--"]).arg(&borrowed);
    let output = ran(as_nobody(&mut command).env("TMPDIR", &temporary).current_dir("/"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("set-user-ID"), "{said}");
}

#[test]
fn a_library_that_was_tampered_with_is_not_loaded() {
    // Where nobody but its user can write, as the target folder may not be.
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().canonicalize().expect("it is there");
    let show = || {
        let mut command = heap_run();
        command
            .args(["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""])
            .env("XDG_CACHE_HOME", &folder);
        text(&ran(&mut command).stdout)
    };
    let path = show();
    let good = fs::read(&path).expect("it is there");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("opened");
    fs::write(&path, "not a library").expect("written");
    assert_eq!(show(), path);
    assert_eq!(fs::read(&path).expect("it is there"), good);
    assert!(path.starts_with(folder.to_str().expect("text")), "{path}");
}
