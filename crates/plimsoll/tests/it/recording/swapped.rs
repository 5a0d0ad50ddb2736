//! Recordings whose folder another user swaps for a link while they are written: as root below a folder of that user, a
//! writer by path replaced files anywhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use plimsoll_model::recording::model::{EventKind, TrialStatus, file};
use plimsoll_model::recording::{Now, Recording, RecordingError, RecordingFolder, Writer};
use plimsoll_model::scenario::{FillClass, Plan};
use plimsoll_monitor::watch::{Monitor, Options, Program, Source, Summary, WatchError};
use plimsoll_report::write_page;
use plimsoll_testkit::capability;

use super::{event, manifest, plan, results, rows, trial};

/// The files that a recording and its report could replace, with a content that is no recording's.
struct Victim(PathBuf);

impl Victim {
    fn new(folder: PathBuf) -> Victim {
        fs::create_dir(&folder).unwrap();
        for name in file::ALL {
            fs::write(folder.join(name), "important").unwrap();
        }
        Victim(folder)
    }

    fn content(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        entries
            .map(|path| (name(&path), fs::read_to_string(&path).unwrap()))
            .collect()
    }
}

/// Puts a link to the victim in the place of a folder, and returns where the folder is now.
fn swap(folder: &Path, victim: &Victim) -> PathBuf {
    let moved = folder.with_extension("moved");
    fs::rename(folder, &moved).unwrap();
    symlink(&victim.0, folder).unwrap();
    moved
}

/// Everything that a run writes after the start, and its report.
fn go_on(mut writer: Writer, plan: &Plan) -> Result<(), RecordingError> {
    let place = writer.open_folder().clone();
    writer.samples(&rows(20))?;
    writer.event(&event(5, EventKind::Warning, "swapped"))?;
    let ended = trial(plan, 0, TrialStatus::Ok);
    writer.trial(&ended)?;
    let manifest = writer.manifest().clone();
    writer.update_manifest(&manifest)?;
    let results = results("run", vec![ended]);
    writer.finish(&results)?;
    let recording = Recording::open_in(&place)?;
    assert_eq!(
        recording.trials.len(),
        1,
        "the recording is read where it was written"
    );
    write_page(&recording, &results, &place).unwrap();
    Ok(())
}

#[test]
fn a_folder_swapped_for_a_link_gets_nothing() {
    let place = tempfile::tempdir().unwrap();
    let victim = Victim::new(place.path().join("victim"));
    let before = victim.content();
    let plan = plan(&[FillClass::Random], 1);

    let writer = Writer::create(place.path(), manifest("new", plan.clone())).unwrap();
    let moved = swap(&place.path().join("new"), &victim);
    go_on(writer, &plan).unwrap();
    assert_eq!(victim.content(), before);
    assert!(moved.join(file::REPORT).exists());
    assert!(Recording::open(&moved).unwrap().complete);

    drop(Writer::create(place.path(), manifest("old", plan.clone())).unwrap());
    let folder = place.path().join("old");
    let now = Now {
        utc: "2026-01-02T03:04:05Z".to_owned(),
        monotonic_ns: 9_000_000_000,
    };
    let resumed = Writer::resume(&folder, &plan, &now).unwrap();
    let moved = swap(&folder, &victim);
    go_on(resumed.writer, &plan).unwrap();
    assert_eq!(victim.content(), before);
    assert!(Recording::open(&moved).unwrap().complete);
}

#[test]
fn a_discarded_folder_is_the_one_that_was_made() {
    let place = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let parent = place.path().join("theirs");
    let made = |name: &str| {
        let writer = Writer::create(&parent, manifest(name, plan.clone())).unwrap();
        (writer.open_folder().clone(), parent.join(name))
    };
    let is_empty = |folder: &Path| fs::read_dir(folder).unwrap().next().is_none();
    let failed = |folder: &RecordingFolder| folder.discard().unwrap_err().kind();

    let (folder, path) = made("whole");
    folder.create_file(file::OUTPUT).unwrap();
    let again = folder.create_file(file::OUTPUT).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    let opened = RecordingFolder::open(&path).unwrap();
    assert_eq!(failed(&opened), io::ErrorKind::InvalidInput);
    assert!(path.join(file::MANIFEST).exists());
    folder.discard().unwrap();
    assert!(!path.exists());

    let victim = Victim::new(place.path().join("victim"));
    let before = victim.content();
    let (folder, path) = made("link");
    let moved = swap(&path, &victim);
    folder.create_file(file::OUTPUT).unwrap();
    assert!(moved.join(file::OUTPUT).exists());
    assert_eq!(failed(&folder), io::ErrorKind::NotFound);
    assert!(path.is_symlink() && is_empty(&moved));
    assert_eq!(victim.content(), before);

    let (folder, path) = made("other");
    fs::rename(&path, path.with_extension("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(failed(&folder), io::ErrorKind::NotFound);
    assert!(path.is_dir() && is_empty(&path.with_extension("moved")));

    let (folder, path) = made("more");
    fs::write(path.join("notes"), "important").unwrap();
    assert_eq!(failed(&folder), io::ErrorKind::DirectoryNotEmpty);
    assert!(path.join("notes").exists());

    // The folder above is swapped.
    let own = place.path().join("own");
    fs::create_dir(&own).unwrap();
    let victim = Victim::new(own.join("run"));
    let (folder, _) = made("run");
    let moved = swap(&parent, &Victim(own));
    folder.discard().unwrap();
    assert!(!moved.join("run").exists());
    assert_eq!(victim.content(), before);
}

/// Starts a program under the monitor, whose user interface would draw, while the owner of the folder above the recording swaps
/// it for a link to `victim` as soon as the recording appears. Returns where that folder is then, if it was swapped.
fn watched(
    parent: &Path,
    program: &[&str],
    victim: &Victim,
) -> (Result<Summary, WatchError>, Option<PathBuf>) {
    let options = Options {
        record: Some(parent.join("run")),
        drawn: false,
        ..Options::of(Source::Program(Program {
            command: program.iter().map(Into::into).collect(),
            passes_through: false,
        }))
    };
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            while !parent.join("run").exists() {
                if failed.load(Ordering::Relaxed) {
                    return None;
                }
            }
            Some(swap(parent, victim))
        });
        let monitor = Monitor::start(&options);
        failed.store(monitor.is_err(), Ordering::Relaxed);
        let swapped = swapper.join().unwrap();
        (monitor.map(Monitor::finish), swapped)
    })
}

/// As root, the monitor created the files of the program's output by path, and removed the folder of a program that did not start
/// by path.
#[test]
fn a_program_writes_into_the_folder_that_the_monitor_made() {
    const LONGEST: Duration = Duration::from_secs(60);
    let place = tempfile::tempdir().unwrap();
    let own = place.path().join("own");
    fs::create_dir(&own).unwrap();
    let victim = Victim::new(own.join("run"));
    let (before, link) = (victim.content(), Victim(own));
    let parent = |name: String| {
        let parent = place.path().join(name);
        fs::create_dir(&parent).unwrap();
        parent
    };
    for round in 0..3 {
        let parent = parent(format!("started-{round}"));
        let (summary, moved) = watched(&parent, &["sh", "-c", "echo said"], &link);
        assert_eq!(summary.unwrap().program.unwrap().exit_code, Some(0));
        let output = moved.unwrap().join("run").join(file::OUTPUT);
        assert_eq!(fs::read_to_string(output).unwrap(), "said\n");
        assert_eq!(victim.content(), before);
    }
    // The folder is there for a moment: rounds until one has seen it.
    let start = Instant::now();
    let mut swapped = 0;
    for round in 0.. {
        if swapped > 0 && round >= 20 || start.elapsed() > LONGEST {
            break;
        }
        let parent = parent(format!("failed-{round}"));
        let (refused, moved) = watched(&parent, &["/no/such/program"], &link);
        assert!(matches!(refused, Err(WatchError::Program { .. })));
        swapped += usize::from(moved.is_some());
        assert!(!moved.unwrap_or(parent).join("run").exists());
        assert_eq!(victim.content(), before);
    }
    assert!(swapped > 0, "no folder was swapped: the test shows nothing");
}

/// The owner of the parent swaps every new folder as soon as it appears.
#[test]
fn a_user_who_swaps_folders_cannot_lead_root_elsewhere() {
    const ROUNDS: usize = 60;
    let is_root = rustix::process::geteuid().is_root();
    if !capability("setpriv", is_root, "needs root to become another user") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let victim = Victim::new(place.path().join("victim"));
    let before = victim.content();
    let parent = place.path().join("theirs");
    fs::create_dir(&parent).unwrap();
    chown(&parent, Some(65534), None).unwrap();
    let script = r#"while :; do for one in "$0"/run-*[0-9]; do
        [ -L "$one" ] || { mv "$one" "$one.moved" && ln -s "$1" "$one"; } 2>&-; done; done"#;
    let mut attacker = plimsoll_testkit::command("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            script,
        ])
        .args([&parent, &victim.0])
        .spawn()
        .unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let outcomes: Vec<Result<(), RecordingError>> = (0..ROUNDS)
        .map(|round| {
            let writer = Writer::create(&parent, manifest(&format!("run-{round}"), plan.clone()))?;
            go_on(writer, &plan)
        })
        .collect();
    let swapped = (0..ROUNDS).filter(|round| parent.join(format!("run-{round}")).is_symlink());
    let swapped = swapped.count();
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    assert_eq!(victim.content(), before, "{outcomes:?}");
    assert!(
        swapped > 0,
        "the attacker swapped no folder: the test shows nothing"
    );
    for outcome in &outcomes {
        assert!(
            matches!(outcome, Ok(()) | Err(RecordingError::Replaced { .. })),
            "{outcome:?}"
        );
    }
}
