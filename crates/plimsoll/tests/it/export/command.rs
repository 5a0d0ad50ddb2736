//! The command: where it writes, and how it ends.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{Recording, RecordingError, WarningCode};

use plimsoll_testkit::recordings::recorded;

fn export(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command.arg("export").arg(folder).args(arguments);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    export(folder, arguments).output().expect("plimsoll starts")
}

/// Names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn each_form_goes_to_standard_output_and_to_a_file_alike() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(&parent.path().join("runs"), true);
    let out = tempfile::tempdir().unwrap();
    for format in ["parquet", "csv", "json", "prometheus"] {
        let printed = run(&folder, &["--format", format]);
        assert_eq!(printed.status.code(), Some(0), "{format}");
        assert!(printed.stderr.is_empty() && !printed.stdout.is_empty());
        let path = out.path().join(format);
        let written = run(&folder, &["-f", format, "-o", path.to_str().unwrap()]);
        assert_eq!(written.status.code(), Some(0), "{format}");
        assert!(written.stdout.is_empty());
        assert!(fs::read(&path).unwrap() == printed.stdout, "{format}");
    }
    assert_eq!(names(out.path()), ["csv", "json", "parquet", "prometheus"]);
}

#[test]
fn a_recording_that_was_cut_short_is_exported_with_a_warning() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), false);
    let output = run(&folder, &["-f", "csv"]);
    assert_eq!(output.status.code(), Some(0));
    let recording = Recording::open(&folder).unwrap();
    assert_eq!((recording.complete, recording.samples.len()), (false, 25));
    let codes: Vec<WarningCode> = recording.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [WarningCode::SamplesTorn, WarningCode::ResultsMissing]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for warning in &recording.warnings {
        assert!(stderr.contains(&warning.text), "{stderr}");
    }
}

#[test]
fn what_is_no_recording_and_no_format_ends_with_1() {
    let parent = tempfile::tempdir().unwrap();
    let output = run(parent.path(), &["-f", "parquet"]);
    assert_eq!(output.status.code(), Some(1));
    let error = Recording::open(parent.path()).map(drop).unwrap_err();
    assert!(matches!(error, RecordingError::NotARecording { .. }), "{error}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(&error.to_string()), "{stderr}");
    assert_eq!(run(parent.path(), &["-f", "xml"]).status.code(), Some(1));
}

#[test]
fn a_full_disk_leaves_the_former_file_and_nothing_else() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(&parent.path().join("runs"), true);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("samples.csv");
    fs::write(&path, "old").unwrap();
    // No file may become longer than four blocks; the signal that comes with it is ignored, as the error says enough.
    let limited = plimsoll_testkit::command("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""])
        .args([env!("CARGO_BIN_EXE_plimsoll"), "export"])
        .arg(&folder)
        .args(["-f", "csv", "-o"])
        .arg(&path)
        .output()
        .expect("a shell starts");
    assert_eq!(limited.status.code(), Some(3), "{limited:?}");
    let stderr = String::from_utf8_lossy(&limited.stderr).into_owned();
    let too_large = std::io::Error::from(rustix::io::Errno::FBIG).to_string();
    for expected in ["samples.csv", &too_large] {
        assert!(stderr.contains(expected), "{stderr}");
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(out.path()), ["samples.csv"]);
    let full = export(&folder, &["-f", "json"])
        .stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(full.status.code(), Some(3));
}

#[test]
fn a_link_keeps_pointing_and_a_device_stays_one() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(&parent.path().join("runs"), true);
    let out = tempfile::tempdir().unwrap();
    let (file, link) = (out.path().join("file"), out.path().join("link"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    let output = run(&folder, &["-f", "csv", "-o", link.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().starts_with("t_ns,"));
    // A pipe, which is no regular file either.
    let output = run(&folder, &["-f", "csv", "-o", "/dev/stdout"]);
    assert!(output.stdout.starts_with(b"t_ns,"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), true);
    let mut child = export(&folder, &["-f", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn parquet_is_not_written_to_a_terminal() {
    use rustix::pty;
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), true);
    let master = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let terminal = fs::OpenOptions::new()
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let output = export(&folder, &["-f", "parquet"])
        .stdout(terminal)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--output FILE"));
    assert!(folder.join(file::SAMPLES).exists());
}
