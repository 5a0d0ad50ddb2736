//! Recordings by short name in every command, `plimsoll runs`, and reports as links and in the browser.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Output;

use tempfile::TempDir;

use crate::watch::terminal::pseudo_terminal::{OWNED, Terminal};

pub(crate) const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// A folder in which `plimsoll run` has been used.
pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// With a copy of the stored recording that started at `started`.
    pub(crate) fn with(self, name: &str, started: &str) -> Desk {
        let stored = plimsoll_testkit::recordings::stored().join("recording-3/finished");
        let folder = self.path().join("plimsoll-runs").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        for entry in fs::read_dir(stored).expect("the recording") {
            let entry = entry.expect("an entry");
            fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        }
        let manifest = folder.join("manifest.json");
        let text = fs::read_to_string(&manifest).expect("a manifest");
        fs::write(&manifest, text.replace("2026-01-02T03:04:05Z", started)).expect("written");
        self
    }

    /// Two runs of one scenario and an older one.
    pub(crate) fn used() -> Desk {
        Desk::new()
            .with("compression-b", "2026-01-02T00:00:00Z")
            .with("compression-a", "2026-01-03T00:00:00Z")
            .with("tour-1", "2026-01-01T00:00:00Z")
    }

    fn plimsoll(&self, arguments: &[&str]) -> Output {
        self.plimsoll_with(arguments, &[])
    }

    fn plimsoll_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        plimsoll_testkit::command(PLIMSOLL)
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(self.path())
            .output()
            .expect("plimsoll starts")
    }

    /// An executable script in the folder.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.path().join(name);
        plimsoll_testkit::write_script(&path, &format!("#!/bin/sh\n{text}\n"));
        path.display().to_string()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_command_that_takes_a_recording_takes_short_names() {
    let desk = Desk::used();
    for (arguments, printed) in [
        (
            &["report", "@latest"][..],
            "plimsoll-runs/compression-a/report.html\n",
        ),
        (&["report", "@-1"], "plimsoll-runs/compression-b/report.html\n"),
        (&["report", "tour"], "plimsoll-runs/tour-1/report.html\n"),
        (
            &["report", "plimsoll-runs/@-2"],
            "plimsoll-runs/tour-1/report.html\n",
        ),
    ] {
        let output = desk.plimsoll(arguments);
        assert_eq!(
            text(&output.stdout),
            printed,
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    let compared = desk.plimsoll(&["compare", "@-1", "@latest", "--json"]);
    let document: serde_json::Value = serde_json::from_slice(&compared.stdout).expect("one document");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(2));
    assert!(
        desk.plimsoll(&["export", "@latest", "-f", "csv"])
            .stdout
            .starts_with(b"t_ns,")
    );
    let shown = text(&desk.plimsoll(&["show", "@latest"]).stdout);
    assert!(shown.contains("[scenario]"), "{shown}");
    // The file and the name of a built-in scenario go before recordings.
    assert!(text(&desk.plimsoll(&["show", "tour"]).stdout).contains("name = \"tour\""));
    // The resumed recording is found; resuming a finished run is another error than an unknown name.
    let resumed = desk.plimsoll(&["run", "thrash", "--resume", "@latest"]);
    assert_eq!(resumed.status.code(), Some(1));
    assert!(
        text(&resumed.stderr).contains("compression-a"),
        "{}",
        text(&resumed.stderr)
    );
    let replayed = desk.plimsoll(&["watch", "--replay", "nothing", "--serve", "127.0.0.1:0"]);
    assert_eq!(replayed.status.code(), Some(1));
}

#[test]
fn unknown_and_ambiguous_names_end_with_1_and_offer_names() {
    let desk = Desk::used();
    for (arguments, offered) in [
        (
            &["report", "compression"][..],
            &["compression-a", "compression-b"][..],
        ),
        (&["report", "comprezzion-a"], &["compression-a"]),
        (&["export", "@-3", "-f", "csv"], &["@latest"]),
        (&["compare", "@latest", "@newest"], &["@latest", "@-1"]),
        (&["show", "@-7"], &["@latest"]),
    ] {
        let output = desk.plimsoll(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
        for name in offered {
            assert!(said.contains(name), "{arguments:?}: {said}");
        }
    }
    let itself = desk.plimsoll(&["compare", "@latest", "compression-a"]);
    assert_eq!(itself.status.code(), Some(1), "two names of one recording");
}

#[test]
fn runs_lists_recordings_as_table_and_document() {
    let desk = Desk::used().with("z\x1b[2Jz", "2025-01-01T00:00:00Z");
    fs::remove_file(desk.path().join("plimsoll-runs/tour-1/results.json")).expect("removed");
    let table = text(&desk.plimsoll(&["runs"]).stdout);
    let names: Vec<&str> = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(
        names[..3],
        ["compression-a", "compression-b", "tour-1"],
        "{table}"
    );
    assert!(!table.contains('\x1b'), "{table:?}");
    let runs = desk.path().join("plimsoll-runs");
    let no_text = runs.join(OsStr::from_bytes(b"\xff"));
    fs::create_dir(&no_text).expect("a folder");
    fs::write(no_text.join("manifest.json"), "[]").expect("written");
    let json = desk.plimsoll(&["runs", "--json"]).stdout;
    assert!(!json.contains(&0x1b));
    let document: serde_json::Value = serde_json::from_slice(&json).expect("one document");
    assert_eq!(document["schema"], 1);
    let listed = document["recordings"].as_array().expect("a list");
    assert_eq!(listed[0]["name"], "compression-a");
    assert_eq!(listed[0]["scenario"], "compression");
    assert_eq!(listed[0]["started"], "2026-01-03T00:00:00Z");
    assert_eq!(listed[2]["status"], "unfinished");
    assert_eq!(listed[3]["name"], "z\x1b[2Jz");
    assert_eq!(listed[4]["status"], "unreadable");
    assert!(listed[0]["bytes"].as_u64().is_some_and(|bytes| bytes > 1000));
    // Before the first run, and of a folder that is not there.
    let empty = Desk::new();
    assert_eq!(empty.plimsoll(&["runs"]).status.code(), Some(0));
    let none: serde_json::Value =
        serde_json::from_slice(&empty.plimsoll(&["runs", "--json"]).stdout).expect("JSON");
    assert_eq!(none["recordings"].as_array().map(Vec::len), Some(0));
    assert_eq!(empty.plimsoll(&["runs", "elsewhere"]).status.code(), Some(1));
}

#[test]
fn open_passes_the_address_to_the_browser_without_a_shell() {
    let desk = Desk::new().with("a b$(touch run)", "2026-01-01T00:00:00Z");
    let opened = desk.path().join("opened");
    let browser = desk.script(
        "browser",
        &format!("printf '%s\\n' \"$#\" \"$@\" >'{}'", opened.display()),
    );
    let folder = desk.path().display().to_string();
    let url = format!("file://{folder}/plimsoll-runs/a%20b%24%28touch%20run%29/report.html");
    let output = desk.plimsoll_with(&["report", "@latest", "--open"], &[("BROWSER", &browser)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(&opened).expect("opened"),
        format!("1\n{url}\n")
    );
    assert!(!desk.path().join("run").exists());
    // The next command, where one fails; the address in its place.
    let failing = desk.script("failing", "exit 3");
    let browsers = format!("{failing}:/nonexistent/browser:{browser} --tab %s");
    let output = desk.plimsoll_with(&["report", "@latest", "--open"], &[("BROWSER", &browsers)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(&opened).expect("opened"),
        format!("2\n--tab\n{url}\n")
    );
    // Without BROWSER, xdg-open of the PATH.
    fs::remove_file(&opened).expect("removed");
    fs::rename(&browser, desk.path().join("xdg-open")).expect("renamed");
    let path = format!("{folder}:/usr/bin:/bin");
    let output = desk.plimsoll_with(
        &["report", "@latest", "--open"],
        &[("PATH", &path), ("BROWSER", "")],
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(opened.exists());
}

#[test]
fn a_browser_that_cannot_be_started_ends_with_3_after_the_report() {
    let desk = Desk::used();
    let output = desk.plimsoll_with(
        &["report", "@latest", "--open"],
        &[("BROWSER", "/nonexistent/browser")],
    );
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("BROWSER"));
    assert!(
        desk.path()
            .join("plimsoll-runs/compression-a/report.html")
            .exists()
    );
    for wrong in [
        &["report", "@latest", "--open", "-f", "text"][..],
        &["report", "@latest", "--open", "-o", "-"],
    ] {
        assert_eq!(desk.plimsoll(wrong).status.code(), Some(1), "{wrong:?}");
    }
}

/// The output of `plimsoll report @latest` on a terminal.
fn on_a_terminal(desk: &Desk, variables: &[(&str, &str)], options: &[&str]) -> Vec<u8> {
    let folder = desk.path().display().to_string();
    let starter = [&["env", "-C", &folder], OWNED].concat();
    let command = [&[PLIMSOLL, "report", "@latest"], options].concat();
    let mut terminal = Terminal::start(&starter, &command, variables);
    assert_eq!(terminal.end(), Some(0), "{}", terminal.contents());
    terminal.until_text("report.html");
    terminal.bytes()
}

#[test]
fn a_report_is_a_hyperlink_on_terminals_only() {
    let desk = Desk::new().with("a b", "2026-01-01T00:00:00Z");
    let link = text(&on_a_terminal(&desk, &[], &[]));
    let (_, rest) = link.split_once("\x1b]8;;file://").expect("a link");
    let (url, shown) = rest.split_once("\x1b\\").expect("its end");
    let path = format!("{}/plimsoll-runs/a%20b/report.html", desk.path().display());
    assert!(url.ends_with(&path), "{url}");
    assert!(
        shown.starts_with("plimsoll-runs/a b/report.html\x1b]8;;\x1b\\"),
        "{shown:?}"
    );
    for (variables, options) in [
        (&[("NO_COLOR", "1")][..], &[][..]),
        (&[("TERM", "dumb")], &[]),
        (&[], &["--color", "never"]),
    ] {
        let bytes = on_a_terminal(&desk, variables, options);
        assert!(!bytes.contains(&0x1b), "{variables:?} {options:?}");
    }
    // A pipe, even with colours on demand.
    let piped = desk.plimsoll_with(&["report", "@latest", "--color", "always"], &[("TERM", "xterm")]);
    assert_eq!(text(&piped.stdout), "plimsoll-runs/a b/report.html\n");
}

#[test]
fn ps_sorts_by_rss_and_mem_as_by_wss() {
    for key in ["wss", "rss", "mem"] {
        let desk = Desk::new();
        let output = desk.plimsoll(&["ps", "--sort", key, "--interval", "0.1", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one document");
        let sizes: Vec<u64> = document["processes"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|process| process["wss"].as_u64())
            .collect();
        assert!(
            !sizes.is_empty() && sizes.is_sorted_by(|a, b| a >= b),
            "{key}: {sizes:?}"
        );
    }
}
