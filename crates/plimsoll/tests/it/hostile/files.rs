//! Links, pipes, devices, sockets and folders in the place of a recording's files, and files without end.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{Follow, Recording, RecordingError};

use super::{copy_of, plimsoll};

/// Files of finished and of killed recordings.
const FILES: [(&str, &str); 7] = [
    ("finished", file::MANIFEST),
    ("finished", file::EVENTS),
    ("finished", file::TRIALS),
    ("finished", file::RESULTS),
    ("finished", file::SAMPLES),
    ("killed", file::SAMPLES_LIVE),
    ("killed", file::TRIALS),
];

fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
}

/// Puts something else in the place of a file. A socket's listener must live on.
type Place = fn(&Path) -> Option<UnixListener>;

const OTHERS: [(&str, Place); 5] = [
    ("a symbolic link", |path| {
        symlink("/dev/zero", path).expect("a link");
        None
    }),
    ("a symbolic link", |path| {
        let content = path.with_extension("elsewhere");
        fs::write(&content, "{}\n").expect("written");
        symlink(content, path).expect("a link");
        None
    }),
    ("a pipe", |path| {
        make_pipe(path);
        None
    }),
    ("a socket", |path| {
        Some(UnixListener::bind(path).expect("a socket"))
    }),
    ("a folder", |path| {
        fs::create_dir(path).expect("a folder");
        None
    }),
];

#[test]
fn only_regular_files_are_read_of_a_recording() {
    for (name, document) in FILES {
        for (kind, place) in OTHERS {
            let (_parent, folder) = copy_of("recording-3", name);
            let path = folder.join(document);
            fs::remove_file(&path).expect("removed");
            let _listener = place(&path);
            let error = Recording::open(&folder).expect_err("it is refused");
            let refused = |error: &RecordingError| matches!(error, RecordingError::NotAFile { path: named, kind: found } if *named == path && *found == kind);
            assert!(refused(&error), "{document} as {kind}: {error:?}");
            // Following it, as `watch --replay` does, is refused too; it does not read results.
            if document != file::RESULTS {
                let followed = Follow::open(&folder).and_then(|mut follow| follow.poll());
                assert!(
                    followed.as_ref().is_err_and(refused),
                    "{document} as {kind}: {followed:?}"
                );
            }
        }
    }
}

#[test]
fn the_commands_refuse_a_pipe_and_a_device_at_once() {
    for place in [(|path: &Path| make_pipe(path)) as fn(&Path), |path| {
        symlink("/dev/zero", path).expect("a link")
    }] {
        let (_parent, folder) = copy_of("recording-3", "finished");
        let manifest = folder.join(file::MANIFEST);
        fs::remove_file(&manifest).expect("removed");
        place(&manifest);
        let path = folder.as_os_str();
        for arguments in [
            vec![OsStr::new("report"), path],
            vec![
                OsStr::new("export"),
                path,
                OsStr::new("--format"),
                OsStr::new("parquet"),
                OsStr::new("-o"),
                OsStr::new("-"),
            ],
            vec![OsStr::new("compare"), path, path.to_os_string().leak()],
            vec![
                OsStr::new("watch"),
                OsStr::new("--headless"),
                OsStr::new("--replay"),
                path,
            ],
        ] {
            let ended = plimsoll(&arguments);
            assert_eq!(
                ended.assert_sound().code,
                Some(1),
                "{}: {}",
                ended.what,
                ended.stderr
            );
        }
    }
}

#[test]
fn a_file_beyond_its_bound_is_refused_unread() {
    for (name, document) in FILES {
        let (_parent, folder) = copy_of("recording-3", name);
        let path = folder.join(document);
        // A hole: the file takes no space.
        let file = File::options().write(true).open(&path).expect("a file");
        file.set_len(1 << 40).expect("a size");
        let error = Recording::open(&folder).expect_err("it is refused");
        let refused =
            matches!(&error, RecordingError::TooLarge { bytes, max, .. } if *bytes == 1 << 40 && max < bytes);
        assert!(refused, "{document}: {error:?}");
    }
}

#[test]
fn a_line_without_an_end_is_refused_at_its_bound() {
    let (_parent, folder) = copy_of("recording-3", "finished");
    let path = folder.join(file::TRIALS);
    let file = File::options().write(true).open(&path).expect("a file");
    file.set_len(3 << 30).expect("a size");
    let error = Recording::open(&folder).expect_err("it is refused");
    // Lines 1 and 2 are whole.
    assert!(
        matches!(error, RecordingError::CorruptJson { line: 3, .. }),
        "{error:?}"
    );
}

#[test]
fn a_scenario_is_a_regular_file() {
    let parent = tempfile::tempdir().expect("a folder");
    let pipe = parent.path().join("pipe.toml");
    make_pipe(&pipe);
    let socket = parent.path().join("socket.toml");
    let _listener = UnixListener::bind(&socket).expect("a socket");
    for path in [&pipe, &socket, Path::new("/dev/zero"), parent.path()] {
        let ended = plimsoll(&[OsStr::new("run"), path.as_os_str(), OsStr::new("--check")]);
        assert_eq!(ended.assert_sound().code, Some(1), "{}", ended.what);
    }
}
