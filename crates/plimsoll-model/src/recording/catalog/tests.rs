//! Lists and short names of recordings.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A folder of recordings that holds no more than lists read.
struct Runs(PathBuf);

impl Runs {
    fn new(test: &str) -> Runs {
        let folder = std::env::temp_dir().join(format!("plimsoll-catalog-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        Runs(folder)
    }

    fn with(self, name: &str, started: &str, status: Option<&str>) -> Runs {
        let folder = self.0.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let manifest = format!(
            r#"{{"schema": 4, "started": "{started}", "plan": {{"scenario": "thrash"}}, "more": 1}}"#
        );
        fs::write(folder.join(file::MANIFEST), manifest).expect("written");
        if let Some(status) = status {
            let results = format!(r#"{{"schema": 3, "status": "{status}", "trials": []}}"#);
            fs::write(folder.join(file::RESULTS), results).expect("written");
        }
        self
    }

    fn find(&self, name: &str) -> Result<String, FindError> {
        let found = find(Path::new(name), &self.0)?;
        Ok(found
            .strip_prefix(&self.0)
            .unwrap_or(&found)
            .display()
            .to_string())
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn three(test: &str) -> Runs {
    Runs::new(test)
        .with("thrash-b", "2026-01-02T00:00:00Z", Some("ok"))
        .with("thrash-a", "2026-01-03T00:00:00Z", Some("untrustworthy"))
        .with("wscap", "2026-01-01T00:00:00Z", None)
}

#[test]
fn selectors_go_back_from_the_newest_start_and_prefixes_must_be_unique() {
    let runs = three("selectors");
    for (name, found) in [
        ("@latest", "thrash-a"),
        ("@-0", "thrash-a"),
        ("@-1", "thrash-b"),
        ("@-2", "wscap"),
        ("ws", "wscap"),
        ("wscap", "wscap"),
        ("thrash-b", "thrash-b"),
    ] {
        assert_eq!(runs.find(name).expect(name), found, "{name}");
    }
    assert!(matches!(
        runs.find("@-3"),
        Err(FindError::TooFew { count: 3, .. })
    ));
    assert!(matches!(runs.find("@newest"), Err(FindError::Selector { .. })));
    assert!(matches!(runs.find("@--1"), Err(FindError::Selector { .. })));
    match runs.find("thrash") {
        Err(FindError::Ambiguous { matches, .. }) => assert_eq!(matches, ["thrash-b", "thrash-a"]),
        other => panic!("{other:?}"),
    }
    match runs.find("thresh-a") {
        Err(FindError::Unknown { nearest, .. }) => {
            assert_eq!(nearest.first().map(String::as_str), Some("thrash-a"))
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(runs.find(""), Err(FindError::Unknown { .. })));
}

#[test]
fn a_name_that_begins_others_means_itself_and_an_existing_path_wins() {
    let runs = three("exact").with("thrash", "2026-01-01T00:00:00Z", Some("ok"));
    assert_eq!(runs.find("thrash").expect("exact"), "thrash");
    let path = runs.0.join("wscap");
    assert_eq!(find(&path, Path::new("nowhere")).expect("a path"), path);
    // Short names below another folder.
    let latest = runs.0.join("@latest");
    assert_eq!(
        find(&latest, Path::new("nowhere")).expect("the newest"),
        runs.0.join("thrash-a")
    );
    assert_eq!(
        find(&runs.0.join("ws"), Path::new("nowhere")).expect("unique"),
        path
    );
}

#[test]
fn without_a_folder_of_runs_a_name_is_unknown_and_a_selector_an_error() {
    let nowhere = Path::new("/nonexistent/plimsoll-runs");
    assert!(matches!(
        find(Path::new("x"), nowhere),
        Err(FindError::Unknown { .. })
    ));
    assert!(matches!(
        find(Path::new("@latest"), nowhere),
        Err(FindError::Folder { .. })
    ));
}

#[test]
fn a_list_has_the_newest_first_with_status_and_size_and_damaged_ones_last() {
    let runs = three("list");
    fs::create_dir(runs.0.join("not-a-recording")).expect("a folder");
    let damaged = runs.0.join("zz-damaged");
    fs::create_dir(&damaged).expect("a folder");
    fs::write(damaged.join(file::MANIFEST), "{").expect("written");
    let pipe = runs.0.join("zz-pipe");
    fs::create_dir(&pipe).expect("a folder");
    rustix::fs::mkfifoat(rustix::fs::CWD, pipe.join(file::MANIFEST), rustix::fs::Mode::RWXU).expect("a pipe");
    fs::write(runs.0.join("thrash-b").join(file::RESULTS), "[]").expect("written");
    let listed = list(&runs.0).expect("a list");
    let rows: Vec<(&str, &str, ListedStatus)> = listed
        .iter()
        .map(|one| (one.name.as_str(), one.scenario.as_str(), one.status))
        .collect();
    assert_eq!(
        rows,
        [
            ("thrash-a", "thrash", ListedStatus::Untrustworthy),
            ("thrash-b", "thrash", ListedStatus::Unreadable),
            ("wscap", "thrash", ListedStatus::Unfinished),
            ("zz-damaged", "", ListedStatus::Unreadable),
        ]
    );
    let manifest = fs::metadata(runs.0.join("wscap").join(file::MANIFEST)).expect("a file");
    assert_eq!(listed[2].bytes, manifest.len());
}

#[test]
fn errors_hold_no_control_character_of_a_name() {
    let runs = Runs::new("hostile")
        .with("a\x1b[2J1", "2026-01-02T00:00:00Z", None)
        .with("a\x1b[2J2", "2026-01-02T00:00:00Z", None);
    for name in ["a", "b\x1b[2J", "a\x1b[2J3", "@\x1b"] {
        let text = runs.find(name).expect_err(name).to_string();
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}
