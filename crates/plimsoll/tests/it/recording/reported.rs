//! `plimsoll report` on a damaged or truncated recording: it ends with 1 and names the file, or shows the intact part.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::file;
use tempfile::TempDir;

/// A copy of one of the recordings that came with the tests.
fn copy(name: &str) -> (TempDir, PathBuf) {
    let golden = plimsoll_testkit::recordings::stored()
        .join("recording-1")
        .join(name);
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join(name);
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    (parent, folder)
}

fn report(folder: &Path, arguments: &[&str]) -> Output {
    plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("report")
        .arg(folder)
        .args(arguments)
        .output()
        .expect("plimsoll starts")
}

fn cut(path: &Path, keep: impl FnOnce(usize) -> usize) {
    let content = fs::read(path).unwrap();
    fs::write(path, &content[..keep(content.len())]).unwrap();
}

fn turn_a_bit_in_the_middle(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).unwrap();
}

/// The report is refused, names `path`, and writes no page.
fn assert_refused(folder: &Path, name: &str) {
    let output = report(folder, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{name}: {said}");
    assert!(
        said.contains(folder.join(name).to_str().unwrap()),
        "{name}: {said}"
    );
    assert!(output.stdout.is_empty());
    assert!(!folder.join(file::REPORT).exists());
}

#[test]
fn a_damaged_file_is_named_and_nothing_is_shown() {
    let (_parent, folder) = copy("finished");
    turn_a_bit_in_the_middle(&folder.join(file::SAMPLES));
    assert_refused(&folder, file::SAMPLES);

    let (_parent, folder) = copy("finished");
    cut(&folder.join(file::SAMPLES), |length| length / 2);
    assert_refused(&folder, file::SAMPLES);

    for name in [file::MANIFEST, file::EVENTS, file::TRIALS] {
        let (_parent, folder) = copy("finished");
        let path = folder.join(name);
        let mut content = fs::read(&path).unwrap();
        content[0] = b'?';
        fs::write(&path, content).unwrap();
        assert_refused(&folder, name);
    }
}

#[test]
fn a_recording_that_was_cut_off_is_shown_with_a_warning() {
    for (name, file) in [
        ("killed", file::SAMPLES_LIVE),
        ("killed", file::TRIALS),
        ("finished", file::EVENTS),
    ] {
        let (_parent, folder) = copy(name);
        cut(&folder.join(file), |length| length - 7);
        let output = report(&folder, &["--format", "json"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{file}: {said}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let recording = Recording::open(&folder).unwrap();
        assert!(!recording.warnings.is_empty(), "{file}");
        for warning in &recording.warnings {
            assert!(said.contains(&warning.text), "{file}: {said}");
        }
        let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(results["run"], name, "{file}");

        let output = report(&folder, &[]);
        assert_eq!(output.status.code(), Some(0), "{file}");
        let page = fs::read_to_string(folder.join(file::REPORT)).unwrap();
        assert!(page.contains("</html>"), "{file}");
    }
}

/// `report` wrote through a link in place of report.html: root overwrote a file of the recording's owner's choice.
#[test]
fn a_link_in_place_of_the_report_is_replaced() {
    let (_parent, folder) = copy("finished");
    let (page, victim) = (folder.join(file::REPORT), folder.join("victim"));
    fs::write(&victim, "important").unwrap();
    std::os::unix::fs::symlink(&victim, &page).unwrap();
    let output = report(&folder, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
    assert!(fs::symlink_metadata(&page).unwrap().is_file());
    assert!(fs::read_to_string(&page).unwrap().contains("<html"));
    // A second report replaces the first whole, not in place: a reader keeps the old one.
    let mut old = fs::File::open(&page).unwrap();
    assert!(report(&folder, &[]).status.success());
    let inode = |found: fs::Metadata| std::os::unix::fs::MetadataExt::ino(&found);
    assert_ne!(
        inode(old.metadata().unwrap()),
        inode(fs::metadata(&page).unwrap())
    );
    let mut text = String::new();
    std::io::Read::read_to_string(&mut old, &mut text).unwrap();
    assert!(text.contains("</html>"));
}

#[test]
fn an_output_through_a_link_of_another_user_is_refused() {
    if !plimsoll_testkit::capability(
        "chown",
        rustix::process::geteuid().is_root(),
        "needs root to give a link to another user",
    ) {
        return;
    }
    let (parent, folder) = copy("finished");
    let (link, victim) = (parent.path().join("link"), parent.path().join("victim"));
    fs::write(&victim, "important").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
    let output = report(&folder, &["--output", link.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
}
