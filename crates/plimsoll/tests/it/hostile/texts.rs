//! Hostile texts in every place that a person reads: recordings, journals, names of files and processes, arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use plimsoll_model::recording::model::file;
use serde_json::Value;

use super::{acts, all_commands, copy_of, ended, hostile_texts, plimsoll};

/// Puts `text` into every string of a document, and into the names of maps.
fn everywhere(value: &mut Value, text: &str) {
    const KEPT: [&str; 9] = [
        "schema",
        "kind",
        "status",
        "workload",
        "order",
        "class",
        "subject",
        "trim",
        "checksums",
    ];
    match value {
        Value::String(string) => string.push_str(text),
        Value::Array(list) => list.iter_mut().for_each(|item| everywhere(item, text)),
        Value::Object(fields) => {
            for (name, field) in fields
                .iter_mut()
                .filter(|(name, _)| !KEPT.contains(&name.as_str()))
            {
                match (name.as_str(), field) {
                    // Maps by name: parameters, metrics, settings, values (formerly figures).
                    ("params" | "metrics" | "settings" | "figures" | "values", Value::Object(named)) => {
                        let first = named.values().next().cloned();
                        named.extend(first.map(|value| (text.to_owned(), value)));
                    }
                    (_, field) => everywhere(field, text),
                }
            }
        }
        _ => {}
    }
}

#[test]
fn a_recording_of_hostile_texts_is_shown_harmless_by_every_command() {
    // All that are short in one, and the long one.
    let (long, short): (Vec<String>, Vec<String>) =
        hostile_texts().into_iter().partition(|text| text.len() > 1000);
    for text in [short.concat(), long.concat()] {
        let (_parent, folder) = copy_of("recording-3", "finished");
        for name in [file::TRIALS, file::EVENTS] {
            let path = folder.join(name);
            let lines = fs::read_to_string(&path).expect("a file");
            let changed = lines.lines().map(|line| {
                let mut value: Value = serde_json::from_str(line).expect("JSON");
                everywhere(&mut value, &text);
                value.to_string() + "\n"
            });
            fs::write(&path, changed.collect::<String>()).expect("written");
        }
        for name in [file::MANIFEST, file::RESULTS] {
            let path = folder.join(name);
            let content = fs::read_to_string(&path).expect("a file");
            let mut value: Value = serde_json::from_str(&content).expect("JSON");
            // The plan has settings of one form.
            let plan = value.as_object_mut().and_then(|fields| fields.remove("plan"));
            everywhere(&mut value, &text);
            if let (Some(plan), Some(fields)) = (plan, value.as_object_mut()) {
                fields.insert("plan".to_owned(), plan);
            }
            fs::write(&path, value.to_string()).expect("written");
        }
        let arguments = ["report", "--format", "text"].map(OsStr::new);
        let shown = plimsoll(&[&arguments[..], &[folder.as_os_str()]].concat());
        assert_eq!(shown.code, Some(0), "it is shown, not refused: {}", shown.stderr);
        all_commands(&folder);
    }
}

#[test]
fn an_error_about_a_hostile_name_or_key_is_harmless() {
    let parent = tempfile::tempdir().expect("a folder");
    let name = OsStr::from_bytes(b"\x1b[2J\xc2\x9b3m\xff.toml");
    let missing = parent.path().join(name);
    let scenario = parent.path().join("s\u{1b}]0;x\u{7}.toml");
    fs::write(
        &scenario,
        "[scenario]\nname = \"\u{1b}[2J\"\n\"k\\u001b[2J\" = 1\n",
    )
    .expect("written");
    for arguments in [
        vec![OsStr::new("report"), missing.as_os_str()],
        vec![
            OsStr::new("compare"),
            missing.as_os_str(),
            parent.path().as_os_str(),
        ],
        vec![
            OsStr::new("export"),
            missing.as_os_str(),
            OsStr::new("--format"),
            OsStr::new("csv"),
        ],
        vec![OsStr::new("run"), missing.as_os_str(), OsStr::new("--check")],
        vec![OsStr::new("run"), scenario.as_os_str(), OsStr::new("--check")],
        vec![OsStr::new("show"), missing.as_os_str()],
        vec![
            OsStr::new("watch"),
            OsStr::new("--headless"),
            OsStr::new("--replay"),
            missing.as_os_str(),
        ],
        vec![OsStr::new("report"), OsStr::new("--\u{1b}[2J")],
        vec![OsStr::new("\u{1b}[2J")],
        vec![
            OsStr::new("run"),
            OsStr::new("--set"),
            OsStr::new("\u{1b}[2J=1"),
            OsStr::new("--check"),
        ],
    ] {
        let ended = plimsoll(&arguments);
        ended.assert_sound().assert_readable();
        assert_ne!(ended.code, Some(0), "{}", ended.what);
    }
}

#[test]
fn a_hostile_journal_is_named_and_does_not_act() {
    let state = tempfile::tempdir().expect("a folder");
    let runs = state.path().join("runs");
    fs::create_dir(&runs).expect("a folder");
    for (number, text) in ["\u{1b}[2J{\"not\": \"a change\"}\n", "\u{0}\u{9b}3m", ""]
        .iter()
        .enumerate()
    {
        fs::write(runs.join(format!("r\u{1b}]0;x\u{7}{number}.journal")), text).expect("written");
    }
    for arguments in [&["cleanup"][..], &["cleanup", "--json"]] {
        let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
        ended(command.args(arguments).env("PLIMSOLL_STATE_DIR", state.path()))
            .assert_sound()
            .assert_readable();
    }
}

#[test]
fn a_hostile_process_name_reaches_no_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("\u{1b}[2J\u{9b}3m");
    plimsoll_testkit::copy_program("/bin/sleep", &program);
    let mut child = plimsoll_testkit::command(&program)
        .args(["600"])
        .spawn()
        .expect("it starts");
    let pid = OsString::from(child.id().to_string());
    let found = [
        plimsoll(&["ps", "--interval", "0.1", "--limit", "0"].map(OsStr::new)),
        plimsoll(&["ps", "--interval", "0.1", "--json"].map(OsStr::new)),
        plimsoll(&[OsStr::new("heap"), OsStr::new("stat"), &pid]),
    ];
    child.kill().and_then(|()| child.wait()).expect("it ends");
    for ended in found {
        ended.assert_sound().assert_readable();
    }
}

#[test]
fn the_letters_that_act_are_known() {
    assert!(acts('\u{1b}') && acts('\u{9b}') && acts('\u{202e}') && acts('\r'));
    assert!(!acts('\n') && !acts('\t') && !acts('\u{fffd}') && !acts('\u{e9}'));
}
