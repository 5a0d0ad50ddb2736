//! Children of tests start in the same state, for every state of the test process.
//!
//! Python's own tests failed on the heap "by chance": in fact wherever `cargo test` was a background job of a shell
//! without job control, which ignores SIGINT for it. Python then installs no handler of SIGINT, on any malloc.
#![allow(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_testkit::{again, command, next_line, role, this_program};

/// Signals that the hostile process ignores; bit n - 1 of a signal set is signal n.
const IGNORED: [libc::c_int; 5] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGTERM,
];

/// Signals 32 and 33, which glibc keeps for itself: it neither lets a program ignore them nor reset them.
const OF_THE_C_LIBRARY: u64 = 0b11 << 31;

/// Prints dispositions, mask, umask, standard input and environment of the process itself.
const TELL: &str = "grep -E '^(SigBlk|SigIgn|Umask):' /proc/self/status; \
    echo \"stdin: $(readlink /proc/self/fd/0)\"; echo \"$LANG $TZ ${LC_ALL-none} ${GIT_DIR-none} ${NO_COLOR-none}\"";

/// Takes over the state that `trap '' HUP INT QUIT PIPE TERM; umask 077` and a mask with SIGUSR1 leave.
fn become_hostile() {
    // SAFETY: no handler is installed; the set is initialised before its use.
    unsafe {
        for signal in IGNORED {
            assert_ne!(libc::signal(signal, libc::SIG_IGN), libc::SIG_ERR);
        }
        libc::umask(0o077);
        let mut blocked = std::mem::MaybeUninit::uninit();
        libc::sigemptyset(blocked.as_mut_ptr());
        libc::sigaddset(blocked.as_mut_ptr(), libc::SIGUSR1);
        let blocked = blocked.as_ptr();
        assert_eq!(
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked, std::ptr::null_mut()),
            0
        );
    }
}

/// The state that the command's process reports.
fn told(command: &mut Command) -> String {
    let output = command.args(["-c", TELL]).stdout(Stdio::piped()).spawn();
    let output = output.and_then(std::process::Child::wait_with_output);
    String::from_utf8(output.expect("a shell starts").stdout).expect("text")
}

/// The signal set of a line.
fn set(told: &str, name: &str) -> u64 {
    let line = told.lines().find_map(|line| line.strip_prefix(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {told}"));
    u64::from_str_radix(line.trim(), 16).expect("hexadecimal digits")
}

#[test]
fn children_start_in_a_known_state() {
    if role().is_none() {
        let hostile = [
            ("LANG", "C"),
            ("LC_ALL", "C"),
            ("TZ", "Asia/Kathmandu"),
            ("GIT_DIR", "/nowhere"),
            ("NO_COLOR", "1"),
        ];
        let output = again("children_start_in_a_known_state", "hostile")
            .envs(hostile)
            .output()
            .expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    become_hostile();
    let known = told(&mut command("sh"));
    assert_eq!(set(&known, "SigBlk:"), 0, "{known}");
    assert_eq!(set(&known, "SigIgn:") & !OF_THE_C_LIBRARY, 0, "{known}");
    for line in ["Umask:\t0022", "stdin: /dev/null", "C.UTF-8 UTC none none none"] {
        assert!(known.lines().any(|told| told == line), "no `{line}` in {known}");
    }
    // The check sees what it looks for: a child that is started otherwise is hostile too.
    let inherited = told(&mut Command::new("sh"));
    for signal in [libc::SIGHUP, libc::SIGINT] {
        assert_ne!(set(&inherited, "SigIgn:") & (1 << (signal - 1)), 0, "{inherited}");
    }
    assert!(inherited.contains("Umask:\t0077"), "{inherited}");
    assert!(inherited.contains("C Asia/Kathmandu C /nowhere 1"), "{inherited}");
}

/// The check under ThreadSanitizer forbids the heap's helper thread by a variable, as instrumented code in that thread
/// uses the state of another one, which may have ended. Copies of the test program lost the variable: one in six runs of
/// a test ended by SIGSEGV.
#[test]
fn copies_of_the_test_program_keep_named_variables() {
    const TEST: &str = "copies_of_the_test_program_keep_named_variables";
    if role().is_none() {
        let output = again(TEST, "first copy")
            .env("PLIMSOLL_TEST_KEPT", "PLIMSOLL_HEAP_PURGE,NO_SUCH_VARIABLE")
            .envs([("PLIMSOLL_HEAP_PURGE", "inline"), ("PLIMSOLL_HEAP_THP", "off")])
            .output()
            .expect("this program starts");
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    // The variable's value in the process that the command starts.
    let value = |command: &Command, name: &str| {
        let changed = command.get_envs().find(|(changed, _)| *changed == name);
        let value = changed.map_or_else(
            || std::env::var_os(name),
            |(_, value)| value.map(std::ffi::OsStr::to_owned),
        );
        value.map(|value| value.into_string().expect("text"))
    };
    let copy = this_program();
    assert_eq!(value(&copy, "PLIMSOLL_HEAP_PURGE").as_deref(), Some("inline"));
    assert_eq!(value(&copy, "PLIMSOLL_HEAP_THP"), None);
    assert_eq!(value(&copy, "NO_SUCH_VARIABLE"), None);
    // Other programs are under test.
    assert_eq!(value(&command("sh"), "PLIMSOLL_HEAP_PURGE"), None);
}

#[test]
fn a_line_is_read_and_the_rest_stays() {
    let child = command("printf")
        .arg(r"one\n\ntwo")
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.expect("printf(1) starts");
    assert_eq!([next_line(&mut child), next_line(&mut child)], ["one", ""]);
    let rest = child.wait_with_output().expect("its output");
    assert_eq!(rest.stdout, b"two");
}

fn crates() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it for tests");
    Path::new(&here).parent().expect("crates/").to_owned()
}

/// Every file below `folder` with the extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// The part of a source file that is tests.
fn tests_of(path: &Path, source: &str) -> String {
    let name = path.to_string_lossy();
    let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
    let start = if is_test { Some(0) } else { test_module(source) };
    source[start.unwrap_or(source.len())..].to_owned()
}

/// The start of the first module in braces that only builds of tests have, whatever its other attributes.
fn test_module(source: &str) -> Option<usize> {
    let is_module = |rest: &str| {
        let item = rest.lines().find(|line| !line.starts_with(['#', ')', ' ']));
        item.is_some_and(|item| item.starts_with("mod ") && item.ends_with('{'))
    };
    let starts = ["\n#[cfg(test)]", "\n#[cfg(all(test"]
        .into_iter()
        .flat_map(|cfg| source.match_indices(cfg));
    let starts = starts
        .map(|(at, _)| at + 1)
        .filter(|at| is_module(&source[*at..]));
    starts.min()
}

#[test]
fn modules_of_tests_are_found_by_their_attributes() {
    for (attributes, is_found) in [
        ("#[cfg(test)]", true),
        ("#[cfg(all(test, not(loom)))]", true),
        ("#[cfg(all(test, loom))]", true),
        ("#[cfg(test)]\n#[allow(unsafe_code)]", true),
        (
            "#[cfg(test)]\n#[allow(\n    unsafe_code,\n    reason = \"tests\"\n)]",
            true,
        ),
        ("#[cfg(not(test))]", false),
        ("#[cfg(test)]\nmod other;\n", false),
    ] {
        let source = format!("fn f() {{}}\n{attributes}\nmod tests {{\n}}\n");
        assert_eq!(test_module(&source), is_found.then_some(10), "{attributes}");
    }
}

/// Ways to start a process that leave it in the state of the test program, and other crates' files in a test.
const FORBIDDEN: [&str; 6] = [
    "Command::new(",
    "cargo_bin(",
    "libc::fork(",
    "posix_spawn(",
    "#[path = \"../../",
    "#[path = \"../../../",
];

#[test]
fn tests_start_processes_through_the_testkit() {
    let mut looked_at = 0;
    for path in files(&crates(), "rs") {
        if path
            .components()
            .any(|part| part.as_os_str() == "plimsoll-testkit")
        {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source file is text");
        let tests = tests_of(&path, &source);
        looked_at += usize::from(tests.contains("#[test]"));
        for forbidden in FORBIDDEN {
            assert!(
                !tests.contains(forbidden),
                "{} has `{forbidden}`; use plimsoll_testkit",
                path.display()
            );
        }
    }
    assert!(looked_at > 50, "{looked_at} files with tests were found");
}

#[test]
fn no_program_depends_on_the_testkit() {
    for path in files(&crates(), "toml")
        .iter()
        .filter(|path| path.ends_with("Cargo.toml"))
    {
        let manifest = fs::read_to_string(path).expect("a manifest is text");
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let depends = line.starts_with("plimsoll-testkit");
            assert!(
                !depends || section.contains("dev-dependencies"),
                "{}: {section} {line}",
                path.display()
            );
        }
    }
}
