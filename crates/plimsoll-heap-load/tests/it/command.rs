//! The program: one line a run, exit codes, errors with a remedy.

use std::process::Output;

use plimsoll_heap_load::LoadError;

fn heap_load(arguments: &[&str]) -> Output {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_heap-load"));
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
        assert!(line.contains("\"values\":{") && line.ends_with("}}\n"), "{line}");
        assert!(!line.contains("null"), "a value is missing: {line}");
    }
}

/// A value of a run that must succeed.
fn value(line: &str, name: &str) -> f64 {
    let rest = line
        .split_once(&format!("\"{name}\":"))
        .expect("the value is there")
        .1;
    let end = rest.find([',', '}']).expect("something follows");
    rest[..end].parse().expect("it is a number")
}

#[test]
fn memory_is_what_the_blocks_take() {
    let line = stdout(&heap_load(&[
        "large",
        "--threads=2",
        "--blocks=8",
        "--sizes=1m",
        "--count=20",
    ]));
    assert_eq!(value(&line, "live_bytes"), f64::from(16 << 20));
    let per_live = value(&line, "resident_per_live");
    assert!((0.99..3.0).contains(&per_live), "every page was written: {line}");

    // Many small blocks cannot take less than their bytes, nor, on any allocator, five times as much.
    let line = stdout(&heap_load(&[
        "replacement",
        "--sizes=22",
        "--blocks=100000",
        "--count=1000",
    ]));
    assert!((1.0..5.0).contains(&value(&line, "resident_per_live")), "{line}");
    assert!(
        value(&line, "peak_growth_bytes") >= value(&line, "resident_growth_bytes"),
        "{line}"
    );
}

#[test]
fn idle_threads_take_their_stacks_and_the_allocators_share() {
    let line = stdout(&heap_load(&["idle-threads", "--threads=100"]));
    let share = value(&line, "allocator_kib_per_thread");
    // The first page of a stack is touched by any thread.
    assert!(value(&line, "kib_per_thread") >= share + 4.0, "{line}");
    let line = stdout(&heap_load(&["idle-threads", "--threads=100", "--blocks=0"]));
    assert!(
        value(&line, "allocator_kib_per_thread") < 1.0,
        "threads that allocate nothing: {line}"
    );
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
    for (arguments, names) in [
        (&["replacement", "--sizes=16-1k"][..], &["16b-1k"][..]),
        (&["replacement", "--seconds=soon"], &["--seconds", "soon"]),
        (
            &["replacement", "--seconds=1", "--count=1"],
            &["--seconds", "--count"],
        ),
        (&["replacement", "--threads=0"], &["threads must be at least 1"]),
        (&["large", "--grow-to=5g"], &["at most 1 GiB"]),
        (&["juggling"], &["juggling"]),
        (&[], &["Usage"]),
    ] {
        let output = heap_load(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        for name in names {
            assert!(error.contains(name), "{arguments:?}: {error}");
        }
        assert_eq!(stdout(&output), "");
    }
    assert_eq!(heap_load(&["--help"]).status.code(), Some(0));
}

/// Address space for the program, but not for the requested blocks.
#[test]
fn memory_that_runs_out_ends_with_2_and_says_what_to_do() {
    let limited = "ulimit -v 300000; exec \"$0\" large --blocks 500 --sizes 1m --count 1";
    let output = plimsoll_testkit::command("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_heap-load")])
        .output()
        .expect("the shell starts");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let expected = LoadError::OutOfMemory { size: 1 << 20 };
    assert!(error.contains(&expected.to_string()), "{error}");
}
