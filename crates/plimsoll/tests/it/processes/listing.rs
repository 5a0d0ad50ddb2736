//! `plimsoll ps` as a program: the document, the table, hostile names, missing permission.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use plimsoll_testkit::capability;
use serde_json::Value;

use super::{Kept, wait_until};

fn plimsoll(arguments: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("ps").args(arguments).env("NO_COLOR", "1");
    command
}

fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn document(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(
        plimsoll(&["--interval", "0.2", "--json"]).args(arguments),
    ))
    .unwrap()
}

fn entry(document: &Value, pid: u32) -> Value {
    let entries = document["processes"].as_array().unwrap();
    let found = entries.iter().find(|entry| entry["pid"] == pid);
    found
        .unwrap_or_else(|| panic!("{pid} is not in the list"))
        .clone()
}

#[test]
fn the_document_has_these_fields() {
    let child = Kept(plimsoll_testkit::command("sleep").arg("60").spawn().unwrap());
    let document = document(&["--pss"]);
    let keys = |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let fields = serde_json::json!({
        "document": keys(&document),
        "process": keys(&entry(&document, child.pid())),
        "rates": keys(&entry(&document, child.pid())["rates"]),
        "schema": document["schema"],
    });
    insta::assert_snapshot!(serde_json::to_string_pretty(&fields).unwrap());
    let entry = entry(&document, child.pid());
    assert_eq!(entry["command"], "sleep 60");
    assert_eq!(entry["parent"], std::process::id());
    let kinds = ["anon", "file", "shmem"].map(|kind| entry[kind].as_u64().unwrap());
    assert_eq!(entry["wss"].as_u64().unwrap(), kinds.iter().sum::<u64>());
    assert!(entry["pss"].as_u64().unwrap() > 0);
    assert!(document["pss_cost"]["seconds"].as_f64().unwrap() > 0.0);
}

/// A name and a command line that would clear the screen, colour it, change its title and turn the writing around.
#[test]
fn hostile_names_are_sanitized() {
    let name = "\x1b[2Jx\u{9b}31m";
    let argument = "\x1b]0;title\x07 \u{202e}gpj\r\n<script>";
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join(name);
    std::os::unix::fs::symlink("/bin/sleep", &script).unwrap();
    let child = Kept(
        plimsoll_testkit::command(&script)
            .arg0(argument)
            .arg("61")
            .spawn()
            .unwrap(),
    );
    let pid = child.pid().to_string();
    wait_until("the new program", || {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .unwrap()
            .starts_with(argument.as_bytes())
    });
    let table = stdout(&mut plimsoll(&["--interval", "0.1"]));
    let line = table
        .lines()
        .find(|line| line.split_whitespace().next() == Some(&pid))
        .unwrap();
    assert!(line.contains("\u{fffd}]0;title\u{fffd}"), "{line:?}");
    assert!(
        table
            .chars()
            .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}')),
        "{table:?}"
    );

    let text = stdout(&mut plimsoll(&["--interval", "0.1", "--json"]));
    assert!(
        text.chars()
            .all(|c| c == '\n' || !(c.is_control() || c == '\u{202e}'))
    );
    let document: Value = serde_json::from_str(&text).unwrap();
    let entry = entry(&document, child.pid());
    assert_eq!(
        entry["command"],
        format!("{argument} 61"),
        "the document keeps what is so"
    );
    assert!(entry["name"].as_str().unwrap().starts_with("\x1b[2Jx"));
}

#[test]
fn processes_in_the_root_cgroup_have_no_refaults_of_their_own() {
    let document = document(&[]);
    let entries = document["processes"].as_array().unwrap();
    // Only the root of the machine has no limit of its own to set (v2), or names an agent (v1).
    let in_root = |entry: &&Value| {
        let folder = entry["cgroup"].as_str().map(std::path::Path::new);
        folder.is_some_and(|folder| {
            folder.join("release_agent").exists()
                || (folder.join("cgroup.procs").exists()
                    && !folder.join("memory.max").exists()
                    && !folder.join("memory.limit_in_bytes").exists())
        })
    };
    for entry in entries.iter().filter(in_root) {
        assert!(entry["cgroup_refaults_per_s"].is_null(), "{entry:#}");
    }
    // This process was there in both looks.
    let this = entry(&document, std::process::id());
    let counts = this["cgroup"].is_string() && !in_root(&&this);
    assert_eq!(this["cgroup_refaults_per_s"].is_number(), counts, "{this:#}");
}

#[test]
fn lists_are_sorted_cut_and_fit_the_terminal() {
    let by_wss = document(&["--sort", "wss"]);
    let sizes: Vec<u64> = by_wss["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["wss"].as_u64().unwrap())
        .collect();
    assert!(sizes.len() > 1 && sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    let by_pid = document(&["--sort", "pid"]);
    let pids: Vec<u64> = by_pid["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["pid"].as_u64().unwrap())
        .collect();
    assert!(pids.is_sorted(), "{pids:?}");
    let table = stdout(&mut plimsoll(&["--interval", "0.1", "-n", "1"]));
    // Above it stand the storms of other tests.
    let lines: Vec<&str> = table.lines().skip_while(|line| !line.contains("WSS")).collect();
    assert!(lines.len() == 3 && lines[2].starts_with("and "), "{table}");
    let refused = plimsoll(&["--sort", "pss"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    for interval in ["0", "nan", "-1", "1e9"] {
        let refused = plimsoll(&[&format!("--interval={interval}")]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{interval}");
    }
}

#[test]
fn another_user_sees_the_reasons_for_missing_values() {
    let root = rustix::process::geteuid().is_root();
    if !capability("root", root, "needs root to become another user") {
        return;
    }
    // The program is where only root may reach it, so it is copied to where others do.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let mut open = std::fs::metadata(folder.path()).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(env!("CARGO_BIN_EXE_plimsoll"), &program);
    let mut command = plimsoll_testkit::command(&program);
    command
        .args(["ps", "--pss", "--json", "--interval", "0.1"])
        .uid(65534)
        .gid(65534);
    let listing: Value = serde_json::from_str(&stdout(&mut command)).unwrap();
    let processes = listing["processes"].as_array().unwrap();
    let unknown = processes.iter().filter(|process| process["pss"].is_null());
    let denied = listing["denied"]["smaps_rollup"].as_u64().unwrap();
    assert!(denied > 0 && unknown.count() as u64 >= denied, "{listing:#}");
    let notes = listing["notes"].as_array().unwrap();
    assert!(!notes.is_empty(), "{listing:#}");
}

#[test]
fn a_watched_list_comes_again_and_ends_with_its_reader_or_by_a_signal() {
    use rustix::process::Signal;

    let watch = || {
        let mut command = plimsoll(&["--watch", "--interval", "0.1", "-n", "1"]);
        Kept(command.stdout(Stdio::piped()).spawn().unwrap())
    };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = watch();
        let mut output = child.0.stdout.take().unwrap();
        let mut text = String::new();
        while text.matches("COMMAND").count() < 3 {
            let mut part = [0; 4096];
            let length = output.read(&mut part).unwrap();
            assert!(length > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&part[..length]));
        }
        assert!(!text.contains('\x1b'), "not a terminal: {text:?}");
        let pid = rustix::process::Pid::from_child(&child.0);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(0), "{signal:?}");
    }

    let mut child = watch();
    drop(child.0.stdout.take());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}
