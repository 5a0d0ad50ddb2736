//! The program: one line a run, exit codes, errors that say what to do.

use std::process::{Command, Output};

fn heap_load(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heap-load"));
    command.args(arguments).output().expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_prints_one_line() {
    for arguments in [
        &[
            "replacement",
            "--threads=2",
            "--blocks=100",
            "--sizes=1-2k",
            "--count=500",
        ][..],
        &[
            "larson",
            "--threads=2",
            "--blocks=100",
            "--round=500",
            "--rounds=2",
        ],
        &["aggressive", "--bytes=64k", "--order=random"],
        &["fragmentation", "--live=1m", "--phases=16-64,1-2k", "--rest=0"],
        &["cross-thread", "--batch=16", "--sizes=log:8b-1000", "--count=500"],
        &[
            "large",
            "--blocks=2",
            "--sizes=16-64k",
            "--grow-to=100k",
            "--count=2",
        ],
        &["idle-threads", "--threads=4"],
    ] {
        let output = heap_load(arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let line = stdout(&output);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(
            line.starts_with(&format!("{{\"load\":\"{}\",\"allocator\":\"lib", arguments[0])),
            "{line}"
        );
        assert!(line.contains("\"figures\":{") && line.ends_with("}}\n"), "{line}");
        assert!(!line.contains("null"), "a figure is missing: {line}");
    }
}

#[test]
fn scaling_prints_a_line_a_step() {
    let output = heap_load(&[
        "scaling",
        "--blocks=400",
        "--threads=4",
        "--sizes=22",
        "--count=300",
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = stdout(&output);
    for (line, (threads, blocks)) in text.lines().zip([(1, 400), (2, 200), (4, 100)]) {
        assert!(
            line.contains(&format!("\"threads\":{threads},\"blocks\":{blocks},")),
            "{line}"
        );
        assert!(
            line.contains(&format!("\"pair_count\":{},", 300 * threads)),
            "{line}"
        );
        assert!(line.contains("\"sizes\":\"22b-22b\""), "{line}");
    }
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn a_wrong_command_line_ends_with_1_and_a_reason() {
    for (arguments, reason) in [
        (&["replacement", "--sizes=16-1k"][..], "16b-1k"),
        (&["replacement", "--seconds=soon"], "no number of seconds"),
        (
            &["replacement", "--seconds=1", "--count=1"],
            "cannot be used with",
        ),
        (&["replacement", "--threads=0"], "threads must be at least 1"),
        (&["large", "--grow-to=5g"], "at most 1 GiB"),
        (&["juggling"], "juggling"),
        (&[], "Usage"),
    ] {
        let output = heap_load(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(reason), "{arguments:?}: {error}");
        assert_eq!(stdout(&output), "");
    }
    assert_eq!(heap_load(&["--help"]).status.code(), Some(0));
}

/// Address space for the program, but not for what it is asked to hold.
#[test]
fn memory_that_runs_out_ends_with_2_and_says_what_to_do() {
    let limited = "ulimit -v 300000; exec \"$0\" large --blocks 500 --sizes 1m --count 1";
    let output = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_heap-load")])
        .output()
        .expect("the shell starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("ask for fewer blocks"), "{error}");
}
