//! The command line: its output on each stream, and its exit codes.

use std::process::Output;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

fn plimsoll(arguments: &[&str]) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .args(arguments)
        .output()
        .expect("plimsoll starts")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = plimsoll(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{arguments:?}: {error}: {}",
            String::from_utf8_lossy(&output.stdout)
        )
    })
}

#[test]
fn wrong_words_end_with_1_and_nothing_on_standard_output() {
    for arguments in [
        &["frobnicate"][..],
        &["run", "N=5"],
        &["run", "thrash", "loadline"],
        &["run", "thrash", "--scale", "2"],
        &["run", "compression", "--scale", "0.5"],
        &["run", "--resume", "nowhere", "N=5"],
        &["run", "compression", "--hz", "1000"],
        &["show", "nothing"],
        &["report", "nothing", "--format", "text", "--theme", "dark"],
    ] {
        let output = plimsoll(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn help_and_version_end_with_0() {
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"]] {
        let output = plimsoll(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn json_documents_are_versioned_and_alone_on_standard_output() {
    for arguments in [
        &["list", "--json"][..],
        &["doctor", "--json"],
        &["cleanup", "--json"],
    ] {
        assert_eq!(json(arguments)["schema"], 1, "{arguments:?}");
    }
}

#[test]
fn every_listed_scenario_shows_and_checks() {
    let list = json(&["list", "--json"]);
    let names: Vec<&str> = list["scenarios"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    assert!(names.contains(&"compression"));
    for name in names {
        let shown = plimsoll(&["show", name]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains("[scenario]"));
        assert!(plimsoll(&["run", name, "--check"]).status.success(), "{name}");
        let resolved = plimsoll(&["run", name, "--show"]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("resolved.toml");
        std::fs::write(&file, &resolved.stdout).expect("write");
        let checked = plimsoll_testkit::command(PLIMSOLL)
            .arg("run")
            .arg(&file)
            .arg("--check")
            .output()
            .expect("plimsoll");
        assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&checked.stderr)
        );
        let plan = json(&["run", name, "--quick", "--dry-run", "--json"]);
        assert!(plan["bounds"]["memory_bytes"].as_f64() > Some(0.0), "{name}");
    }
}

/// The plan of `plimsoll run`, as `--show` prints it.
fn shown(arguments: &[&str]) -> String {
    let output = plimsoll(&[&["run", "--show"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn changes_stand_behind_set_or_behind_the_scenario() {
    let expected = shown(&["thrash", "--set", "N=5", "--set", "S=10M", "--set", "W=100"]);
    assert!(expected.contains("consumers = 5\n"), "{expected}");
    assert!(expected.contains("writes = 100\n"), "{expected}");
    for arguments in [
        &["thrash", "--set", "N=5", "S=10M", "W=100"][..],
        &["thrash", "N=5", "S=10M", "W=100"],
        &["thrash", "S=10M", "W=100", "--set", "N=5"],
    ] {
        assert_eq!(shown(arguments), expected, "{arguments:?}");
    }
    // What stands behind the scenario comes after what `--set` says.
    let twice = shown(&["thrash", "N=7", "--set", "N=5"]);
    assert!(twice.contains("consumers = 7\n"), "{twice}");
    assert_eq!(
        shown(&["thrash-e1", "--scale", "0.1"]),
        shown(&["thrash-e1", "--set", "scale=0.1"])
    );
}

#[test]
fn a_change_without_a_scenario_is_a_usage_error() {
    let output = plimsoll(&["run", "N=5", "S=10M"]);
    let said = String::from_utf8_lossy(&output.stderr);
    for words in ["`N=5`", "plimsoll run thrash N=5", "plimsoll run tour N=5"] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn without_a_name_it_is_the_tour() {
    let [named, unnamed] = [&["tour"][..], &[]].map(shown);
    assert_eq!(named, unnamed);
    for kind in ["compression", "wscap", "map", "contention", "loadline", "thrash"] {
        assert!(named.contains(&format!("workload = \"{kind}\"")), "{kind}");
    }
}

#[test]
fn a_dry_run_states_its_bounds() {
    let arguments = |more: &[&'static str]| {
        let common = ["run", "compression", "--dry-run", "size=32M", "limit=80M"];
        [&common[..], more].concat()
    };
    let bounds = |more: &[&'static str]| {
        let document = json(&[&arguments(more)[..], &["--json"]].concat());
        move |name: &str| document["bounds"][name].as_f64().expect("a number")
    };
    let mib = f64::from(1 << 20);
    let usual = bounds(&[]);
    assert_eq!(usual("cgroup_limit_bytes"), 80.0 * mib);
    assert_eq!(usual("files_bytes"), 0.0);
    let (expected, limit) = (usual("expected_s"), usual("time_limit_s"));
    assert!(
        (limit - 120.0 - 4.0 * expected).abs() < 4.0,
        "{expected} s, {limit} s"
    );
    let changes = ["time-limit=7", "subject=swapfile", "swap-size=64M"];
    let given = bounds(&changes);
    assert_eq!((given("time_limit_s"), given("files_bytes")), (7.0, 64.0 * mib));
    // The text has the same values.
    for (changes, values) in [
        (&[][..], &["80.0 MiB".to_owned(), format!("{limit:.0} s")][..]),
        (&changes, &["7 s".to_owned(), "64.0 MiB".to_owned()]),
    ] {
        let output = plimsoll(&arguments(changes));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success());
        assert!(
            values.iter().all(|value| text.contains(value)),
            "{values:?}: {text}"
        );
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let script = format!("{PLIMSOLL} completions bash | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}");
    let output = plimsoll_testkit::command("bash")
        .arg("-c")
        .arg(script)
        .output()
        .expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_standard_error_that_cannot_be_written_is_no_panic() {
    for command in [
        "frobnicate 2>/dev/full",
        "show nothing 2>/dev/full",
        "show nothing 2>&-",
    ] {
        let script = format!("{PLIMSOLL} {command}; echo $?");
        let output = plimsoll_testkit::command("bash")
            .arg("-c")
            .arg(script)
            .output()
            .expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "1", "{command}");
    }
}

#[test]
fn no_color_is_honoured_and_always_overrides_it() {
    let plain = plimsoll_testkit::command(PLIMSOLL)
        .arg("doctor")
        .env("NO_COLOR", "1")
        .output()
        .expect("plimsoll");
    assert!(!plain.stdout.contains(&0x1b));
    let coloured = plimsoll_testkit::command(PLIMSOLL)
        .args(["doctor", "--color", "always"])
        .output()
        .expect("plimsoll");
    assert!(coloured.stdout.contains(&0x1b));
}

#[test]
fn a_folder_without_a_recording_is_a_usage_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .arg("report")
        .arg(folder.path())
        .output()
        .expect("plimsoll");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let name = folder.path().to_string_lossy();
    assert!(said.contains(&*name), "{said}");
}
