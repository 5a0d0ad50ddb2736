//! Programs under the library, in both modes, against the same programs without it.

mod debuggers;
mod kernel_interfaces;
mod rights;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use plimsoll_pager::pool::Pool;
use tempfile::TempDir;

/// The library, which cargo builds beside these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    let library = test.with_file_name("libplimsoll_exec.so");
    assert!(library.is_file(), "{} is missing", library.display());
    library
}

/// Compiles a program of these tests.
fn compiled(name: &str, folder: &Path) -> PathBuf {
    compiled_with(name, folder, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Compiles a program of these tests with further options of the compiler. Returns the errors if that fails.
fn compiled_with(name: &str, folder: &Path, options: &[&str]) -> Result<PathBuf, String> {
    let program = folder.join(name);
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let output = plimsoll_testkit::command("gcc")
        .args(["-O1", "-w", "-pthread", &source, "-o"])
        .arg(&program)
        .args(options)
        .output()
        .expect("the compiler starts");
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn has_compiler() -> bool {
    let works = plimsoll_testkit::command("gcc").arg("--version").output().is_ok();
    plimsoll_testkit::capability("gcc", works, "there is no such program")
}

/// The modes that this system allows.
fn modes() -> Vec<&'static str> {
    let is_privileged = plimsoll_os::open_userfaultfd(plimsoll_os::UffdMode::Full).is_ok();
    match plimsoll_testkit::capability("uffd-kernel", is_privileged, "no userfaultfd for system calls") {
        true => vec!["thread", "signal"],
        false => vec!["signal"],
    }
}

/// The program under the library with a budget of 16 MiB.
fn under(mode: &str, program: &Path) -> Command {
    let mut command = plimsoll_testkit::command(program);
    command
        .env("LD_PRELOAD", library())
        .env("PLIMSOLL_EXEC", format!("1;ram={};faults={mode}", 16 << 20));
    command
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {error}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn calls_on_the_address_space_do_as_the_kernel_does() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("mappings", folder.path());
    let native = text(&plimsoll_testkit::command(&program).output().expect("it starts"));
    for mode in modes() {
        let output = under(mode, &program).output().expect("it starts");
        assert_eq!(text(&output), native, "{mode}");
        // The first mapping is the arena's.
        let place = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(place.starts_with("0x10"), "{place}");
    }
}

#[test]
fn threads_keep_their_memory_in_a_budget_of_a_third() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("stress", folder.path());
    for mode in modes() {
        let output = under(mode, &program).arg("3000").output().expect("it starts");
        assert_eq!(text(&output), "0 mistakes\n", "{mode}");
    }
}

/// `munmap` and `MADV_DONTNEED` returned EINVAL for pages that the call of another thread had pinned.
#[test]
fn memory_that_a_call_of_another_thread_uses_can_be_given_up() {
    does_as_without_the_library("pinned");
}

/// A signal that came while memory was pinned ran its handler, and the call waited for ever.
#[test]
fn a_signal_at_any_time_interrupts_a_call_that_waits() {
    does_as_without_the_library("interrupted");
}

/// The library's descriptors took numbers of a program with few of them, or found none: the program ended with code 125. Its
/// statistics were lost, as those of programs that close standard error at their end (`sort`).
#[test]
fn a_program_has_all_descriptors_of_its_limit_and_statistics_after_it_closed_them() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("descriptors", folder.path());
    for limit in [5, 20, 1000] {
        let command = format!("ulimit -S -n {limit}; exec {}", program.display());
        let shell = |mut command: Command, script: &str| {
            let output = command.args(["-c", script]).output().expect("it starts");
            (
                text(&output),
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )
        };
        let (native, _) = shell(plimsoll_testkit::command("/bin/sh"), &command);
        for mode in modes() {
            let mut managed = under(mode, Path::new("/bin/sh"));
            managed.env(
                "PLIMSOLL_EXEC",
                format!("1;ram={};faults={mode};stats=2", 16 << 20),
            );
            let (output, errors) = shell(managed, &command);
            // A usual limit has room for both.
            if limit < 800 {
                assert_eq!(output, native, "{mode}");
            }
            assert!(
                errors.starts_with("{\"version\":1,") && errors.lines().count() == 1,
                "{mode} {errors}"
            );
        }
    }
}

/// A process whose first thread called `pthread_exit` stayed for ever, with the library's threads alone.
#[test]
fn a_process_ends_with_the_last_thread_of_the_program() {
    does_as_without_the_library("first_thread");
}

/// Without the library's thread, freed memory stayed until the next calls of malloc.
#[test]
fn free_memory_of_an_idle_program_leaves_ram() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("idle", folder.path());
    for mode in modes() {
        let output = under(mode, &program)
            .env("PLIMSOLL_EXEC", format!("1;ram={};faults={mode}", 64 << 20))
            .output()
            .expect("it starts");
        assert_eq!(text(&output), "parent: returned\nchild: returned\n", "{mode}");
    }
}

/// While all fits, the kernel serves the program's memory: each first use of a page was a fault of the pager.
#[test]
fn memory_that_fits_has_no_faults_of_the_pager() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("committed", folder.path());
    for mode in modes() {
        let run = |arguments: &[&str]| {
            // So large that the heap's tables would fit, which it may read alone.
            let settings = format!("1;ram={};faults={mode};stats=2", 1 << 30);
            let mut command = under(mode, &program);
            let command = command.args(arguments).env("PLIMSOLL_EXEC", settings);
            let output = command.output().expect("it starts");
            text(&output);
            let line = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(value(&line, "zero_faults") < 50, "{mode}: {line}");
            value(&line, "native_pages") / 256
        };
        let (kept, unmapped) = (run(&[]), run(&["unmap"]));
        assert!((34..80).contains(&kept), "{mode}: {kept} MiB");
        // But for parts of chunks.
        assert!(unmapped + 18 <= kept, "{mode}: {unmapped} of {kept} MiB");
    }
}

/// In a pool, as `plimsoll exec` starts programs, a process has 4 MiB at first. A block larger than what it used stayed managed: each
/// page of sort(1)'s lines was a fault of the pager.
#[test]
fn memory_that_fits_into_a_pool_has_few_faults_of_the_pager() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    for (name, most_mib) in [("block", 2), ("committed", 4)] {
        let program = compiled(name, folder.path());
        for mode in modes() {
            // A machine that is busy for 20 ms makes a wish for a larger share vain, and the next pauses.
            let faults: Vec<u64> = (0..5).map(|_| faults_in_a_pool(mode, &program)).collect();
            let least = faults.iter().min().expect("five runs");
            assert!(*least < most_mib * 256, "{name} {mode}: {faults:?}");
        }
    }
}

/// The pages that the pager restored for a program that is alone in a pool of 1 GiB.
fn faults_in_a_pool(mode: &str, program: &Path) -> u64 {
    let pool = Pool::in_memory(1 << 30).expect("a pool");
    let file = File::from(pool.descriptor().try_clone_to_owned().expect("a descriptor"));
    let number = file.metadata().expect("it is open").ino();
    let settings = format!("1;ram={};faults={mode};pool=0,{number};stats=2", 1 << 30);
    let mut command = under(mode, program);
    let command = command.stdin(file).env("PLIMSOLL_EXEC", settings);
    let output = command.output().expect("it starts");
    text(&output);
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(line.contains("\"pool\":\"member\""), "{mode}: {line}");
    assert_eq!(
        value(&line, "trimmed_pages") + value(&line, "forced_frames"),
        0,
        "{mode}: {line}"
    );
    value(&line, "faults") + value(&line, "stream_pages")
}

#[test]
fn transfers_do_as_without_the_library() {
    does_as_without_the_library("transfers");
}

/// Each `pread` and `pwrite` of a database was trapped: SQLite took 1.45 times as long with memory enough for all.
#[test]
fn transfers_by_functions_of_the_c_library_are_not_trapped() {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled("transfers", folder.path());
    let trapped = |way: &str| {
        let settings = format!("1;ram={};faults=signal;stats=2", 16 << 20);
        let mut command = under("signal", &program);
        let command = command.arg(way).env("PLIMSOLL_EXEC", settings);
        let output = command.output().expect("it starts");
        text(&output);
        value(&String::from_utf8_lossy(&output.stderr), "trapped_calls")
    };
    let (functions, direct) = (trapped("functions"), trapped("direct"));
    assert!(functions < 100, "{functions}");
    // Their buffer is in the arena.
    assert!(direct >= 5000, "{direct}");
}

/// A value in the line of counters.
fn value(line: &str, name: &str) -> u64 {
    let (_, rest) = line
        .split_once(&format!("\"{name}\":"))
        .expect("a value of this name");
    let digits = rest.split(|digit: char| !digit.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("a number")
}

/// Runs a program in each mode, which must print the same as without the library.
fn does_as_without_the_library(name: &str) {
    if !has_compiler() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let program = compiled(name, folder.path());
    let native = text(&plimsoll_testkit::command(&program).output().expect("it starts"));
    for mode in modes() {
        let output = under(mode, &program).output().expect("it starts");
        assert_eq!(text(&output), native, "{mode}");
    }
}

/// Waits for descriptors, signals, times and threads, and structures that the kernel fills in.
#[test]
fn calls_with_structures_of_the_program_do_as_the_kernel_does() {
    does_as_without_the_library("waits");
}

/// Children of `clone` that have a copy of the memory were killed by SIGSEGV: they did not have the arena.
#[test]
fn children_of_each_call_have_the_memory_of_their_parent() {
    does_as_without_the_library("children");
}

/// `rustc` waited for its linker for ever: in the forked child, threads of the pager allocated from the program's jemalloc, whose locks
/// the fork held until the pager had started.
#[test]
fn a_program_with_an_allocator_of_its_own_forks() {
    does_as_without_the_library("own_malloc");
}

/// Where signals serve the faults, a thread or a coroutine on a stack of the program's memory was killed as soon as a page of that was
/// absent.
#[test]
fn stacks_and_handlers_of_the_program_do_as_without_the_library() {
    does_as_without_the_library("stacks");
}

#[test]
fn forked_children_change_their_user() {
    does_as_without_the_library("users");
}

/// The output of `page_file.c` and its counters under the library, after the words of a shell.
fn with_a_page_file(mode: &str, shell: &str) -> (String, String) {
    let place = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder on a disk");
    let program = compiled("page_file", place.path());
    let file = place.path().display();
    let settings = format!(
        "1;ram={};faults={mode};page-file={file},{};stats=2",
        16 << 20,
        256 << 20
    );
    let mut command = under(mode, Path::new("/bin/sh"));
    let script = format!("{shell} exec {}", program.display());
    command.args(["-c", &script]).env("PLIMSOLL_EXEC", settings);
    let output = command.output().expect("it starts");
    (
        text(&output),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Each executed process created its page file at its start: it wrote a block, read it back, and allocated 16 MiB of disk
/// space.
#[test]
fn a_process_creates_its_page_file_on_first_use() {
    if !has_compiler() {
        return;
    }
    for mode in modes() {
        let (output, counters) = with_a_page_file(mode, "");
        let lines = [
            "start: high, empty",
            "child: high, empty",
            "mistakes: 0",
            "child after use: high, written",
            "parent after it: high, empty",
            "mistakes: 0",
            "parent after use: high, written",
            "other descriptors: 0",
            "pipes: 1, low numbers: 0",
            "mistakes: 0",
            "low numbers of the late child: 0",
            "",
        ];
        assert_eq!(output, lines.join("\n"), "{mode}: {counters}");
        assert!(value(&counters, "page_file_pages") > 0, "{mode}: {counters}");
        assert_eq!(value(&counters, "page_file_errno"), 0, "{mode}: {counters}");
    }
}

/// `plimsoll exec` has tested the folder, but the disk may be full on first use. Here, no file may have a MiB by then. A
/// process that created its file at its start ended with code 125.
#[test]
fn a_process_that_cannot_create_its_page_file_keeps_its_data_and_counts_the_error() {
    const EFBIG: u64 = 27;
    if !has_compiler() {
        return;
    }
    for mode in modes() {
        let (output, counters) = with_a_page_file(mode, "ulimit -f 512;");
        let lines = [
            "start: high, empty",
            "child: high, empty",
            "mistakes: 0",
            "child after use: none, empty",
            "parent after it: high, empty",
            "mistakes: 0",
            "parent after use: none, empty",
            "other descriptors: -1",
            "pipes: 0, low numbers: 0",
            "mistakes: 0",
            "low numbers of the late child: 0",
            "",
        ];
        assert_eq!(output, lines.join("\n"), "{mode}: {counters}");
        assert_eq!(value(&counters, "page_file_errno"), EFBIG, "{mode}: {counters}");
        assert_eq!(value(&counters, "page_file_pages"), 0, "{mode}: {counters}");
        assert!(value(&counters, "forced_frames") > 0, "{mode}: {counters}");
    }
}

#[test]
fn settings_that_are_wrong_end_the_program_before_its_start() {
    for (settings, word) in [
        ("1;ram=1", "ram"),
        ("1;ram=16777216;speed=1", "speed"),
        ("7", "version 7"),
    ] {
        let output = plimsoll_testkit::command("/bin/echo")
            .arg("ran")
            .env("LD_PRELOAD", library())
            .env("PLIMSOLL_EXEC", settings)
            .output()
            .expect("it starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(125), b"".as_slice())
        );
        assert!(
            error.to_lowercase().contains(word) && error.lines().count() == 1,
            "{error}"
        );
    }
}
