//! Programs that are started to be watched, and how the command ends.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use plimsoll_model::recording::RecordingError;
use plimsoll_monitor::watch::{Monitor, Options, Source, TargetChoice, WatchError};
use plimsoll_proc::cgroup::HierarchyError;
use plimsoll_testkit::capability;

use super::{Kept, headless, stderr, summary, wait_until, watch};

#[test]
fn the_code_of_the_program_is_passed_on() {
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("kill -15 $$", 143),
    ] {
        let output = watch(&["--json", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
        let program = &summary(&output)["program"];
        let (exit, signal) = if code > 128 {
            (None, Some(code - 128))
        } else {
            (Some(code), None)
        };
        assert_eq!(program["exit_code"].as_i64(), exit.map(i64::from), "{script}");
        assert_eq!(program["signal"].as_i64(), signal.map(i64::from), "{script}");
    }
    assert_eq!(watch(&["--", "/no/such/program"]).status.code(), Some(127));
    assert_eq!(watch(&["--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn output_passes_through_and_the_summary_follows_it() {
    let output = watch(&["--", "sh", "-c", "echo to the output; echo to the errors >&2"]);
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr(&output),
    );
    assert!(said.starts_with("to the output\nwatched "), "{said}");
    assert!(complained.contains("to the errors\n"), "{complained}");
    for words in ["time in fault", "memory pressure", "machine's swap", "monitor"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// The reported memory of a program, against the memory that it took.
#[test]
fn the_summary_has_the_resource_usage_of_the_program() {
    // Bytes of zeros that are written, not only mapped.
    let script = "x = b'\\1' * (96 << 20)\nimport time; time.sleep(0.7)\nt = time.process_time()\n\
                  while time.process_time() < t + 0.3: pass";
    if !capability("python3", python(), "python3 is not installed") {
        return;
    }
    let output = watch(&["--json", "--", "python3", "-c", script]);
    let summary = summary(&output);
    let number = |name: &str| {
        summary
            .pointer(name)
            .and_then(serde_json::Value::as_f64)
            .unwrap_or(-1.0)
    };
    let mib = f64::from(1 << 20);
    for pointer in ["/target/peak_resident_bytes", "/program/max_resident_bytes"] {
        let peak = number(pointer) / mib;
        assert!((96.0..160.0).contains(&peak), "{pointer}: {peak}: {summary:#}");
    }
    assert!(number("/program/cpu_user_s") >= 0.05, "{summary:#}");
    assert!(
        number("/program/minor_faults") >= 96.0 * 256.0 / 512.0,
        "{summary:#}"
    );
    assert!((0.9..60.0).contains(&number("/seconds")), "{summary:#}");
    assert!(number("/samples") >= 5.0, "{summary:#}");
    // Measured or not, nothing is made up.
    let kind = summary
        .pointer("/program/fault_time/kind")
        .and_then(serde_json::Value::as_str);
    let kept =
        std::fs::read_to_string("/proc/sys/kernel/task_delayacct").is_ok_and(|text| text.trim() == "1");
    let root = rustix::process::geteuid().is_root();
    assert_eq!(
        kind,
        Some(if kept && root { "measured" } else { "unknown" }),
        "{summary:#}"
    );
}

fn python() -> bool {
    plimsoll_testkit::command("python3")
        .arg("-V")
        .output()
        .is_ok_and(|output| output.status.success())
}

#[test]
fn a_signal_to_the_monitor_ends_the_program_too() {
    let mut watch = headless(&[
        "--json",
        "--",
        "sh",
        "-c",
        "trap 'exit 3' TERM; echo ready; while :; do sleep 0.05; done",
    ]);
    let mut watch = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(plimsoll_testkit::next_line(&mut watch), "ready");
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let rest = watch.wait_with_output().unwrap();
    assert_eq!(rest.status.code(), Some(3), "{rest:?}");
    let summary: serde_json::Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!(summary["program"]["exit_code"], 3, "{rest:?}");
}

#[test]
fn a_signal_or_the_time_ends_a_monitor_without_a_program_well() {
    assert_eq!(watch(&["--duration", "0.3"]).status.code(), Some(0));
    let mut watch = headless(&["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    // Its first word says that it is at work.
    std::io::Read::read_exact(watch.stderr.as_mut().unwrap(), &mut first).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&watch);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = watch.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(summary(&output)["samples"].as_u64() >= Some(1));
}

#[test]
fn missing_targets_are_usage_errors() {
    for arguments in [
        ["--pid", "99999999"],
        ["--cgroup", "/no/such/group"],
        ["--record", "/proc/no"],
    ] {
        let output = watch(&[arguments, ["--duration", "0.1"]].concat());
        assert_eq!(
            output.status.code(),
            Some(1),
            "{arguments:?}: {}",
            stderr(&output)
        );
        let said = stderr(&output);
        assert!(said.contains(arguments[1]), "{said}");
        assert!(output.stdout.is_empty());
    }
    // Not the errors of a process or cgroup that is there and may not be read.
    let refused = |choice| Monitor::start(&Options::of(Source::Live(choice))).err();
    let no_process = refused(TargetChoice::Pid(99_999_999));
    assert!(matches!(
        no_process,
        Some(WatchError::NoSuchProcess { pid: 99_999_999 })
    ));
    let no_cgroup = refused(TargetChoice::Cgroup("/no/such/group".into()));
    let is_of_cgroup = matches!(
        &no_cgroup,
        Some(WatchError::Cgroup {
            source: HierarchyError::NoSuchCgroup { .. }
        })
    );
    assert!(is_of_cgroup, "{no_cgroup:?}");
    // The message had the path twice.
    let words = no_cgroup.map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(words.matches("/no/such/group").count(), 1, "{words}");
    let refused = Monitor::start(&Options {
        record: Some("/proc/no".into()),
        ..Options::of(Source::Live(TargetChoice::None))
    });
    assert!(matches!(
        refused,
        Err(WatchError::Recording(RecordingError::Io { doing: "create", .. }))
    ));
    let output = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("watch")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--headless"), "{}", stderr(&output));
}

/// A user without privileges watches a process of root.
#[test]
fn an_unprivileged_user_watches_readable_values() {
    let root = rustix::process::geteuid().is_root();
    if !capability("root", root, "needs root to become nobody") {
        return;
    }
    // Where the program lies nobody may look.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(env!("CARGO_BIN_EXE_plimsoll"), &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let target = Kept::start("sleep", &["60"]);
    wait_until("asleep", || {
        std::fs::read_to_string(format!("/proc/{}/comm", target.pid())).is_ok_and(|name| name == "sleep\n")
    });
    let output = plimsoll_testkit::command(&program)
        .args(["watch", "--headless", "--json", "--duration", "1.5", "--pid"])
        .arg(target.pid().to_string())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = summary(&output);
    let resident = summary
        .pointer("/target/peak_resident_bytes")
        .and_then(serde_json::Value::as_u64);
    assert!(resident > Some(100_000), "{summary:#}");
    let refused = plimsoll_testkit::command(&program)
        .args(["watch", "--headless", "--record", "/plimsoll-not-there"])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = stderr(&refused);
    let denied = format!("os error {}", rustix::io::Errno::ACCESS.raw_os_error());
    assert!(
        said.contains("/plimsoll-not-there") && said.contains(&denied),
        "{said}"
    );
}
