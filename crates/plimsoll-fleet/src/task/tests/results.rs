//! Results that are damaged, and attempts that fail as they give theirs.

use super::*;

#[test]
fn a_damaged_result_is_replaced() {
    type Damage = fn(&Path);
    let damages: [Damage; 6] = [
        |result| fs::create_dir(result).unwrap(),
        |result| {
            fs::create_dir(result).unwrap();
            fs::write(result.join("result.json"), "{\"version\":1").unwrap();
        },
        |result| {
            fs::create_dir(result).unwrap();
            symlink("/dev/zero", result.join("result.json")).unwrap();
        },
        |result| {
            fs::create_dir(result).unwrap();
            rustix::fs::mkfifoat(
                rustix::fs::CWD,
                result.join("result.json"),
                rustix::fs::Mode::RWXU,
            )
            .unwrap();
        },
        |result| fs::write(result, "no folder").unwrap(),
        |result| symlink("/etc", result).unwrap(),
    ];
    for damage in damages {
        let tasks = Tasks::new();
        let task = tasks.task();
        damage(&tasks.path.join("a"));
        assert_eq!(task.done().unwrap(), None);
        finish(task.begin(&here(), None).unwrap(), "x");
        assert!(task.done().unwrap().is_some());
        assert_eq!(tasks.names(), ["a", "a.attempts"]);
    }
    assert!(Path::new("/etc").is_dir());
}

#[test]
fn a_result_of_a_newer_program_stays() {
    let tasks = Tasks::new();
    let task = tasks.task();
    finish(task.begin(&here(), None).unwrap(), "x");
    let file = tasks.path.join("a/result.json");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("\"version\": 1", "\"version\": 2");
    fs::write(&file, text).unwrap();
    let error = task.done().unwrap_err();
    assert!(
        matches!(
            error,
            FleetError::Version {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error:?}"
    );
}

/// Such a result was finished for every start of the task, and corrupt for `collect`: it stayed so for ever.
#[test]
fn a_result_with_a_damaged_file_is_replaced() {
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |path| fs::write(path, "damaged").unwrap(),
        |path| fs::remove_file(path).unwrap(),
        |path| {
            fs::remove_file(path).unwrap();
            symlink("/dev/zero", path).unwrap();
        },
        |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        },
    ];
    let samples = format!("recording/{}", file::SAMPLES);
    for path in [
        "host.json",
        "recording/manifest.json",
        "recording/results.json",
        &samples,
    ] {
        for damage in damages {
            let tasks = Tasks::new();
            let task = tasks.task();
            finish(task.begin(&here(), None).unwrap(), "x");
            damage(&tasks.path.join("a").join(path));
            assert_replaced(&tasks, &task);
        }
    }
}

/// Starts a task again whose result is whole but for other files than its document.
fn assert_replaced(tasks: &Tasks, task: &TaskFolder) {
    assert!(task.finished().unwrap().is_some());
    assert_eq!(task.done().unwrap(), None);
    let Published::Won(result) = finish(task.begin(&here(), None).unwrap(), "again") else {
        panic!("the damaged result won");
    };
    assert_eq!(result.attempt, 2);
    assert_eq!(task.done().unwrap(), Some(result));
    assert_eq!(tasks.samples(), "again");
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
}

#[test]
fn a_result_without_its_recording_is_replaced() {
    type Damage = fn(&Path);
    let damages: [Damage; 3] = [
        |recording| fs::remove_dir_all(recording).unwrap(),
        |recording| {
            fs::remove_dir_all(recording).unwrap();
            symlink("/etc", recording).unwrap();
        },
        |recording| {
            fs::remove_dir_all(recording).unwrap();
            fs::write(recording, "no folder").unwrap();
        },
    ];
    for damage in damages {
        let tasks = Tasks::new();
        let task = tasks.task();
        finish(task.begin(&here(), None).unwrap(), "x");
        damage(&tasks.path.join("a/recording"));
        assert_replaced(&tasks, &task);
    }
}

/// `plimsoll report` on the recording of a result.
#[test]
fn a_new_report_is_no_damage() {
    let tasks = Tasks::new();
    let task = tasks.task();
    finish(task.begin(&here(), None).unwrap(), "x");
    fs::write(tasks.path.join("a/recording/report.html"), "new").unwrap();
    assert!(task.done().unwrap().is_some());
}

/// The document had a limit for the host that runs the task, and another one for `collect`.
#[test]
fn a_document_is_read_up_to_a_limit() {
    let tasks = Tasks::new();
    let task = tasks.task();
    finish(task.begin(&here(), None).unwrap(), "x");
    let path = tasks.path.join("a/result.json");
    let mut bytes = fs::read(&path).unwrap();
    for (length, is_read) in [(1 << 20, true), ((1 << 20) + 1, false)] {
        bytes.resize(length, b' ');
        fs::write(&path, &bytes).unwrap();
        let read = TaskResult::read(&task.result_folder().unwrap().unwrap());
        assert_eq!(read.is_ok(), is_read, "{length}");
        if let Ok(read) = read {
            let (result, digest) = read.unwrap();
            assert_eq!((result.attempt, digest), (1, crate::sha256::of_bytes(&bytes)));
        }
        assert_eq!(task.done().unwrap().is_some(), is_read, "{length}");
    }
}

/// The winner looked for the result of another attempt after the error, found its own, and was marked as superseded.
#[test]
fn an_attempt_that_fails_after_its_publication_is_done() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let mut attempt = task.begin(&here(), None).unwrap();
    let recording = record(&attempt, "x");
    // Deeper than a removal goes.
    let aside = tasks.path.join(".a.1.old");
    fs::create_dir_all(aside.join("x/".repeat(10))).unwrap();
    let failed = end(&mut attempt, Some(recording));
    assert!(matches!(failed, Err(FleetError::Format { .. })), "{failed:?}");
    fs::remove_dir_all(&aside).unwrap();
    let result = task.done().unwrap().unwrap();
    let concluded = attempt.conclude(result.clone(), 3).unwrap();
    assert_eq!(concluded, Published::Won(result));
    let attempt = task.recorded(1).unwrap();
    assert_eq!((attempt.outcome, attempt.exit), (AttemptOutcome::Done, Some(7)));
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
}

/// A file server did the rename and its answer was lost, so that the client asked again: the folder to rename was not there.
#[test]
fn a_publication_without_an_answer_is_one() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let mut attempt = task.begin(&here(), None).unwrap();
    let recording = record(&attempt, "x");
    let won = end(&mut attempt, Some(recording)).unwrap();
    let Published::Won(result) = &won else {
        panic!("another attempt won");
    };
    assert_eq!(attempt.publish(result.clone()).unwrap(), *result);
    // Its own result is in the place.
    assert_eq!(end(&mut attempt, None).unwrap(), won);
    assert_eq!(outcomes(&task), [AttemptOutcome::Done]);
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
    // Somebody has removed both.
    fs::remove_dir_all(tasks.path.join("a")).unwrap();
    let lost = attempt.publish(result.clone());
    assert!(matches!(lost, Err(FleetError::Io { .. })), "{lost:?}");
}

/// The recording stayed in the temporary folder of the result, where nobody looks for it.
#[test]
fn a_failed_publication_gives_the_recording_back() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let mut attempt = task.begin(&here(), None).unwrap();
    let recording = record(&attempt, "x");
    let events = attempt.path().join(recording).join(file::EVENTS);
    symlink("/dev/null", events).unwrap();
    let failed = end(&mut attempt, Some(recording));
    assert!(matches!(failed, Err(FleetError::Format { .. })), "{failed:?}");
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json"], "it was moved");
    attempt.fail(3).unwrap();
    assert_eq!(tasks.names(), ["a.attempts"]);
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json", "recording"]);
    let samples = tasks.attempt(1).join("recording").join(file::SAMPLES);
    assert_eq!(fs::read(samples).unwrap(), b"x");
    assert_eq!(outcomes(&task), [AttemptOutcome::Failed]);
}
