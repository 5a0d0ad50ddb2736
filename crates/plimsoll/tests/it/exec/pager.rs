//! The engine of the pager: the library in the program, and the program's own output.

use std::fs;
use std::time::Instant;

use super::{exec, ran, text};
use crate::heap::has;

fn on_pager() -> std::process::Command {
    let mut command = exec();
    command.args(["--engine", "pager", "--ram", "64M"]);
    command
}

#[test]
fn the_library_comes_first_and_the_variable_has_the_settings() {
    let show = "grep -c libplimsoll_exec.so /proc/self/maps; echo \"$LD_PRELOAD\"; echo \"$PLIMSOLL_EXEC\"";
    let mut command = on_pager();
    command
        .args([
            "--codec",
            "zstd",
            "--page-file",
            "/var/tmp,256M",
            "--",
            "sh",
            "-c",
            show,
        ])
        .env("LD_PRELOAD", "libm.so.6");
    let output = ran(&mut command);
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}{}", text(&output.stderr));
    assert!(lines[0].parse::<u32>().expect("a number") > 0, "{shown}");
    let (library, others) = lines[1].split_once(':').expect("two libraries");
    assert!(library.ends_with("/libplimsoll_exec.so"), "{shown}");
    assert_eq!(others, "libm.so.6");
    let settings = "1;ram=67108864;codec=zstd;page-file=/var/tmp,268435456;pool=";
    let pool = lines[2].strip_prefix(settings).expect("the settings");
    let (descriptor, file) = pool.split_once(',').expect("two numbers");
    assert!(
        descriptor.parse::<i32>().is_ok_and(|number| number > 2),
        "{shown}"
    );
    assert!(file.parse::<u64>().is_ok(), "{shown}");
}

#[test]
fn a_library_that_was_tampered_with_is_not_loaded() {
    // Where nobody but its user can write, as the target folder may not be.
    let place = tempfile::tempdir().expect("a temporary folder");
    let show = || {
        let mut command = on_pager();
        command
            .args(["--", "sh", "-c", "printf %s \"$LD_PRELOAD\""])
            .env("XDG_CACHE_HOME", place.path());
        text(&ran(&mut command).stdout)
    };
    let path = show();
    let good = fs::read(&path).expect("it is there");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, "not a library").expect("written");
    assert_eq!(show(), path);
    assert_eq!(fs::read(&path).expect("it is there"), good);
}

#[test]
fn it_becomes_the_program_with_its_name_arguments_and_end() {
    let output = ran(on_pager().args(["sh", "-c", "echo \"$0 $1 $2\"; exit 41", "-x", "a b", "--quiet"]));
    assert_eq!(
        (text(&output.stdout).as_str(), output.status.code()),
        ("-x a b --quiet\n", Some(41)),
        "{}",
        text(&output.stderr)
    );
    let output = ran(on_pager().args(["--", "sh", "-c", "kill -TERM $$"]));
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(15), "there is no process in between");
}

#[test]
fn small_programs_run_as_without_it() {
    let output = ran(on_pager().args(["--", "/bin/true"]));
    assert_eq!(
        (output.status.code(), output.stderr.len()),
        (Some(0), 0),
        "{output:?}"
    );
    if !has("python3") {
        return;
    }
    let output = ran(on_pager().args(["--", "python3", "-c", "print('x' * 3, len(bytearray(1 << 20)))"]));
    assert_eq!(
        (
            text(&output.stdout).as_str(),
            text(&output.stderr).as_str(),
            output.status.code()
        ),
        ("xxx 1048576\n", "", Some(0))
    );
}

#[test]
fn statistics_are_one_line_on_standard_error() {
    let start = Instant::now();
    let output = ran(on_pager().args(["--stats", "--", "/bin/true"]));
    let longest = start.elapsed().as_secs_f64();
    let said = text(&output.stderr);
    let line: serde_json::Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(line["pool"], "member");
    // It needs little, and gets no more.
    let granted = line["granted_bytes"].as_u64().expect("a number");
    assert!((1 << 20..16 << 20).contains(&granted), "{said}");
    let seconds = line["seconds"].as_f64().expect("a number");
    assert!(seconds > 0.0 && seconds < longest, "{said}");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

/// Twice its RAM, of data that compress well.
#[test]
fn a_program_that_needs_more_than_its_ram_completes() {
    if !has("python3") {
        return;
    }
    let script = "rows = [bytes([number % 251]) * 4096 for number in range(32768)]\n\
                  print(sum(row[4095] for row in rows))\n";
    let plain = plimsoll_testkit::command("python3").args(["-c", script]).output();
    let plain = plain.expect("python3 starts");
    assert!(plain.status.success());
    let output = ran(on_pager().args(["--", "python3", "-c", script]));
    assert_eq!(
        (text(&output.stdout), output.status.code()),
        (text(&plain.stdout), Some(0)),
        "{}",
        text(&output.stderr)
    );
}

/// The pager has a pipe for each child that may read its page file. It was at the lowest free numbers, which shells use for files
/// of their own: a child closed the file that the shell had opened with the number of the pipe. This shell writes nothing to its
/// file, and has no pipe: `page_file.c` of plimsoll-exec has one.
#[test]
fn forks_with_a_page_file_leave_low_descriptors_to_the_program() {
    if !has("bash") {
        return;
    }
    let folder = super::scratch("low-descriptors");
    fs::write(folder.join("lines"), "one\ntwo\n").expect("written");
    let script = "/bin/true; exec 3<lines 4<lines; cat <&3; (cat <&4); sleep 2; exec 3<lines; read -r line <&3; \
                  echo $line; cat <&3; exec 3<&-; while read -r -u 3 line; do echo $line; done 3< <(cat lines; sleep 1)";
    let shell = |mut command: std::process::Command| {
        let output = ran(command.args(["bash", "-c", script]).current_dir(&folder));
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let mut managed = on_pager();
    managed.args(["--quiet", "--page-file", "/var/tmp,64M", "--"]);
    let mut native = plimsoll_testkit::command("env");
    native.arg("--");
    assert_eq!(shell(managed), shell(native));
}

/// A single-threaded program gets the lowest free number for each descriptor, and relies on it: `close(0)` and `open(2)` replace the
/// standard input. The threads of the pager opened files of `/proc` for moments, at that number: a test of Python's `subprocess` found
/// one in its child.
#[test]
fn a_program_short_of_memory_gets_the_lowest_numbers_for_its_descriptors() {
    if !has("python3") {
        return;
    }
    let script = "import os, time\n\
                  rows = [bytes([number]) * (1 << 20) for number in range(48)]\n\
                  lowest = os.dup(2)\n\
                  os.close(lowest)\n\
                  others = dups = 0\n\
                  end = time.monotonic() + 4\n\
                  while time.monotonic() < end or dups < 60000:\n    \
                      sum(row[number] for row in rows for number in range(0, 1 << 20, 4096))\n    \
                      for _ in range(10000):\n        \
                          number = os.dup(2)\n        \
                          others += number != lowest\n        \
                          os.close(number)\n    \
                      dups += 10000\n\
                  assert others == 0, f'{others} of {dups}'\n";
    let limits = ["--engine", "pager", "--ram", "32M", "--"];
    let output = ran(exec().args(limits).args(["python3", "-c", script]));
    assert!(output.status.success(), "{}", text(&output.stderr));
}
