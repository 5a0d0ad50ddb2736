//! Recordings whose folder another user swaps for a link while they are written: as root below a folder of that user, a
//! writer by path replaced files anywhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use plimsoll_model::recording::model::{EventKind, TrialStatus, file};
use plimsoll_model::recording::{Now, Recording, RecordingError, Writer};
use plimsoll_model::scenario::{FillClass, Plan};
use plimsoll_report::write_page;
use plimsoll_testkit::capability;

use super::{event, manifest, plan, results, rows, trial};

/// The files that a recording and its report could replace, with a content that is no recording's.
struct Victim(PathBuf);

impl Victim {
    fn new(folder: PathBuf) -> Victim {
        fs::create_dir(&folder).unwrap();
        for name in [
            file::MANIFEST,
            file::EVENTS,
            file::TRIALS,
            file::SAMPLES,
            file::SAMPLES_LIVE,
            file::RESULTS,
            file::REPORT,
        ] {
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
