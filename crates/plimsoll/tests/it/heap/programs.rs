//! Real programs on the heap: what they make is what they make on the C library's malloc.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use super::{compiled, has, heap_run, scratch, source};
use crate::require;

/// Waits for a command, which is killed after `seconds`.
pub(super) fn finished(command: &mut Command, seconds: u64) -> Output {
    let command = assert_cmd::Command::from_std(std::mem::replace(command, Command::new("true")));
    let mut command = command;
    let output = command.timeout(Duration::from_secs(seconds)).output();
    output.expect("the program starts and ends")
}

/// A program on the heap, in a folder, its variables fixed.
pub(super) fn on_heap(front_end: &str, folder: &Path) -> Command {
    let mut command = heap_run();
    command.args(["--front-end", front_end, "--"]).current_dir(folder);
    command
}

/// What a program writes on the C library's malloc it writes on the heap with both front ends. Returns that.
fn as_on_glibc<S: AsRef<OsStr>>(name: &str, arguments: &[S], variables: &[(&str, &str)]) -> String {
    let run = |what: &str, mut command: Command| {
        let output = finished(command.envs(variables.iter().copied()), 300);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{name}, {what}: {}: {errors}",
            output.status
        );
        (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
    };
    let folder = scratch(&format!("as-on-glibc-{name}"));
    let mut plain = Command::new(&arguments[0]);
    plain
        .args(&arguments[1..])
        .current_dir(&folder)
        .env_remove("LD_PRELOAD");
    let expected = run("glibc", plain);
    for front_end in ["lfh", "standard"] {
        let folder = scratch(&format!("as-on-glibc-{name}"));
        let mut command = on_heap(front_end, &folder);
        command.args(arguments);
        assert_eq!(run(front_end, command), expected, "{name} on {front_end}");
    }
    expected.0
}

#[test]
fn python_makes_the_same_of_an_everyday_script() {
    if !has("python3") {
        return;
    }
    let script = source("everyday.py");
    let arguments = [OsStr::new("python3"), script.as_os_str()];
    let digest = as_on_glibc("python", &arguments, &[]);
    // Without its own pools for small objects, each is a block of malloc.
    assert_eq!(
        as_on_glibc("python-malloc", &arguments, &[("PYTHONMALLOC", "malloc")]),
        digest
    );
    assert_eq!(digest.trim().len(), 64);
}

#[test]
fn python_passes_its_own_tests() {
    if !has("python3") {
        return;
    }
    let installed = Command::new("python3")
        .args(["-c", "import test.test_list"])
        .output();
    let installed = installed.is_ok_and(|output| output.status.success());
    if !require::capability(
        "python-tests",
        installed,
        "Python's package `test` is not installed",
    ) {
        return;
    }
    let folder = scratch("python-tests");
    let mut command = on_heap("lfh", &folder);
    command.args(["python3", "-m", "test", "--timeout", "240", "-q"]);
    // It fails wherever a package of the installation is loaded at the start and uses threads, on any malloc.
    command.args(["-i", "test_import_from_another_thread"]);
    command.args(["test_list", "test_dict", "test_threading"]);
    let output = finished(command.env("PYTHONMALLOC", "malloc"), 400);
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn sqlite_answers_the_same() {
    if !has("sqlite3") {
        return;
    }
    let read = format!(".read {}", source("tables.sql").display());
    let answer = as_on_glibc("sqlite3", &["sqlite3", "data.db", &read], &[]);
    assert!(
        answer.starts_with("25714|") && answer.ends_with("ok\n"),
        "{answer}"
    );
}

#[test]
fn compilers_write_the_same_code() {
    if !has("gcc") || !has("g++") {
        return;
    }
    let script = format!(
        "gcc -O2 -c -o c.o '{}' && g++ -O2 -c -o cpp.o '{}' && sha256sum c.o cpp.o",
        source("stress.c").display(),
        source("new.cpp").display()
    );
    as_on_glibc("gcc", &["sh", "-c", &script], &[]);
}

/// rustc brings a malloc of its own, which stands before any that is preloaded; what it starts does not.
#[test]
fn rustc_builds_a_program_that_runs() {
    if !has("rustc") {
        return;
    }
    let program = "use std::collections::BTreeMap;\n\
        fn main() {\n\
            let mut words = BTreeMap::<String, Vec<usize>>::new();\n\
            let threads: Vec<_> = (0..4).map(|t| std::thread::spawn(move || (0..1000).map(|n| format!(\"{}\", n * t)).collect::<Vec<_>>())).collect();\n\
            for (t, thread) in threads.into_iter().enumerate() { for word in thread.join().unwrap() { words.entry(word).or_default().push(t); } }\n\
            println!(\"{} {:?}\", words.len(), words.iter().nth(77));\n\
        }\n";
    let script = format!("echo '{program}' > main.rs && rustc --edition 2021 -O main.rs && ./main");
    as_on_glibc("rustc", &["sh", "-c", &script], &[]);
}

#[test]
fn git_makes_the_same_repository() {
    if !has("git") {
        return;
    }
    let script = "git init -q -b main . && for n in $(seq 40); do \
            seq $n $((n * 200)) > file$((n % 7)) && git add . && git commit -q -m \"Change $n\"; done && \
        git gc -q --aggressive && git fsck --strict && git log --stat --format='%H %s' && git diff HEAD~20 | sha256sum && \
        git blame file3 | sha256sum";
    let who = [
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ];
    let log = as_on_glibc("git", &["sh", "-c", script], &who);
    assert!(log.contains("Change 40"), "{log}");
}

fn stressed(mode: &str) -> String {
    let program = compiled("gcc", "stress.c", "c", &[]);
    let mut written = Vec::new();
    for front_end in ["lfh", "standard"] {
        let mut command = on_heap(front_end, program.parent().expect("a folder"));
        let output = finished(command.arg(&program).arg(mode), 300);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{front_end}: {}: {text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        written.push(text);
    }
    assert_eq!(written[0], written[1]);
    written.remove(0)
}

#[test]
fn forks_in_the_middle_of_malloc_leave_no_lock_behind() {
    if has("gcc") {
        assert_eq!(stressed("fork"), "100 forks\n");
    }
}

#[test]
fn signals_in_the_middle_of_malloc_harm_nothing() {
    if has("gcc") {
        assert_eq!(stressed("signals"), "interrupted\n");
    }
}

#[test]
fn threads_of_short_lives_leave_their_blocks_to_others() {
    if has("gcc") {
        assert_eq!(stressed("churn"), "4800 threads\n");
    }
}

#[test]
fn a_limit_of_address_space_is_survived() {
    if !has("gcc") || !has("python3") {
        return;
    }
    let program = compiled("gcc", "stress.c", "c", &[]);
    let folder = scratch("limits");
    for front_end in ["lfh", "standard"] {
        let script = format!("ulimit -v 131072 && exec '{}' exhaustion", program.display());
        let output = finished(on_heap(front_end, &folder).args(["sh", "-c", &script]), 120);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            text,
            "ran out and recovered\n",
            "{front_end}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let script = format!(
        "ulimit -v 1500000 && exec python3 '{}'",
        source("everyday.py").display()
    );
    as_on_glibc("limit", &["sh", "-c", &script], &[]);
}
