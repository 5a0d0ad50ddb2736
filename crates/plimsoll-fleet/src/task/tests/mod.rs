mod results;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use plimsoll_model::recording::model::file;
use plimsoll_proc::ProcessId;
use tempfile::TempDir;

use super::*;
use crate::fingerprint::Fingerprint;

/// The files of a recording in these tests.
const FILES: [&str; 4] = [file::MANIFEST, file::RESULTS, file::SAMPLES, file::REPORT];

/// A folder of tasks.
struct Tasks {
    _folder: TempDir,
    path: PathBuf,
}

impl Tasks {
    fn new() -> Tasks {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks");
        Tasks {
            _folder: folder,
            path,
        }
    }

    fn task(&self) -> TaskFolder {
        TaskFolder::open(&self.path, &id()).unwrap()
    }

    /// Everything in the folder of tasks, sorted.
    fn names(&self) -> Vec<String> {
        names(&self.path)
    }

    fn attempt(&self, number: u32) -> PathBuf {
        self.path.join(format!("a.attempts/{number}"))
    }

    /// The samples of the result.
    fn samples(&self) -> String {
        let recording = self.path.join("a/recording");
        fs::read_to_string(recording.join(file::SAMPLES)).unwrap()
    }
}

fn id() -> TaskId {
    "a".parse().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn here() -> TaskProcess {
    TaskProcess::this().unwrap()
}

/// A process of this host that is gone.
fn gone() -> TaskProcess {
    let id = ProcessId {
        pid: std::process::id(),
        start_ticks: 1,
    };
    TaskProcess { id, ..here() }
}

fn host() -> Fingerprint {
    Fingerprint::of(&plimsoll_proc::Tree::below("/nowhere"))
}

fn record(attempt: &AttemptFolder, text: &str) -> &'static Path {
    let folder = attempt.path().join("thrash-1");
    fs::create_dir(&folder).unwrap();
    for name in FILES {
        fs::write(folder.join(name), text).unwrap();
    }
    Path::new("thrash-1")
}

/// The end of a run with this recording.
fn end(attempt: &mut AttemptFolder, recording: Option<&Path>) -> Result<Published, FleetError> {
    attempt.finish(&Ending {
        exit: 7,
        recording,
        host: &host(),
        binary_sha256: "0",
    })
}

fn finish(mut attempt: AttemptFolder, text: &str) -> Published {
    let recording = record(&attempt, text);
    end(&mut attempt, Some(recording)).unwrap()
}

/// As the start of a task does it.
fn settle(task: &TaskFolder, process: &TaskProcess) -> u32 {
    let done = task.done().unwrap();
    task.settle(process, done.as_ref()).unwrap()
}

fn attempts(task: &TaskFolder) -> Vec<Attempt> {
    let numbers = task.attempt_numbers().unwrap().into_iter();
    numbers.map(|number| task.attempt(number).unwrap()).collect()
}

fn outcomes(task: &TaskFolder) -> Vec<AttemptOutcome> {
    attempts(task)
        .into_iter()
        .map(|attempt| attempt.outcome)
        .collect()
}

#[test]
fn a_finished_attempt_gives_the_result() {
    let tasks = Tasks::new();
    let task = tasks.task();
    assert_eq!(task.finished().unwrap(), None);
    let attempt = task.begin(&here(), Some(2)).unwrap();
    assert_eq!(attempt.number(), 1);
    assert_eq!(outcomes(&task), [AttemptOutcome::Running]);
    let Published::Won(result) = finish(attempt, "x") else {
        panic!("another attempt won");
    };
    assert_eq!(task.finished().unwrap().as_ref(), Some(&result));
    assert_eq!(
        (result.exit, result.status, result.attempt),
        (7, ResultStatus::Done, 1)
    );
    assert_eq!(result.engine_restarts, Some(2));
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
    assert_eq!(
        names(&tasks.path.join("a")),
        ["host.json", "recording", "result.json"]
    );
    assert_eq!(tasks.samples(), "x");
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json"]);
    let [attempt] = &attempts(&task)[..] else {
        panic!("one attempt")
    };
    assert_eq!(attempt.outcome, AttemptOutcome::Done);
    assert_eq!(attempt.exit, Some(7));
    assert_eq!(attempt.ended.as_ref(), Some(&result.ended));
}

#[test]
fn two_attempts_at_once_give_one_result() {
    const RIVALS: usize = 8;
    let tasks = Tasks::new();
    let barrier = Barrier::new(RIVALS);
    let mut published: Vec<Published> = std::thread::scope(|scope| {
        let rivals: Vec<_> = (0..RIVALS)
            .map(|rival| {
                let (tasks, barrier) = (&tasks, &barrier);
                scope.spawn(move || {
                    // As on different hosts: the claims of one process have one name.
                    let process = TaskProcess {
                        host: format!("host-{rival}"),
                        ..here()
                    };
                    barrier.wait();
                    let attempt = tasks.task().begin(&process, None).unwrap();
                    barrier.wait();
                    finish(attempt, &rival.to_string())
                })
            })
            .collect();
        rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
    });
    let task = tasks.task();
    let result = task.finished().unwrap().unwrap();
    published.sort_by_key(|published| matches!(published, Published::Lost(_)));
    assert_eq!(published[0], Published::Won(result.clone()));
    for lost in &published[1..] {
        assert_eq!(*lost, Published::Lost(result.clone()));
    }
    assert_eq!(task.attempt_numbers().unwrap(), (1..=8).collect::<Vec<_>>());
    for attempt in attempts(&task) {
        let expected = match attempt.number == result.attempt {
            true => AttemptOutcome::Done,
            false => AttemptOutcome::Superseded,
        };
        assert_eq!(attempt.outcome, expected);
        assert_eq!(names(&tasks.attempt(attempt.number)), ["attempt.json"]);
    }
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
}

#[test]
fn a_dead_attempt_of_this_boot_is_marked_and_its_parts_go() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let dead = task.begin(&gone(), None).unwrap();
    record(&dead, "x");
    let live = task.begin(&here(), None).unwrap();
    record(&live, "x");
    assert_eq!(settle(&task, &here()), 1);
    assert_eq!(outcomes(&task), [AttemptOutcome::Dead, AttemptOutcome::Running]);
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json"]);
    assert_eq!(names(&tasks.attempt(2)), ["attempt.json", "thrash-1"]);
    assert_eq!(settle(&task, &here()), 0, "once");
}

#[test]
fn an_attempt_before_the_last_boot_of_this_host_is_dead() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let before = TaskProcess {
        boot_id: "before".to_owned(),
        ..here()
    };
    task.begin(&before, None).unwrap();
    assert_eq!(settle(&task, &here()), 1);
    assert_eq!(outcomes(&task), [AttemptOutcome::Dead]);
}

#[test]
fn an_attempt_of_another_host_may_live() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let other = TaskProcess {
        host: "other".to_owned(),
        ..gone()
    };
    let attempt = task.begin(&other, None).unwrap();
    record(&attempt, "x");
    assert_eq!(settle(&task, &here()), 0);
    assert_eq!(outcomes(&task), [AttemptOutcome::Running]);
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json", "thrash-1"]);
    // Its host marks it.
    let of_other = TaskProcess {
        host: "other".to_owned(),
        ..here()
    };
    assert_eq!(settle(&task, &of_other), 1);
}

/// A node dies and its task runs on another one; then the first node is back, with its process.
#[test]
fn a_lost_host_leaves_no_parts_once_the_task_is_done() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let other = TaskProcess {
        host: "other".to_owned(),
        ..here()
    };
    fs::create_dir_all(tasks.path.join("a.attempts/.other.1.1.claim")).unwrap();
    let mut lost = task.begin(&other, None).unwrap();
    let recording = record(&lost, "x");
    fs::create_dir(tasks.path.join(".a.1.tmp")).unwrap();
    finish(task.begin(&here(), None).unwrap(), "y");
    settle(&task, &here());
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
    assert_eq!(names(&tasks.path.join("a.attempts")), ["1", "2"]);
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json"]);
    assert_eq!(outcomes(&task), [AttemptOutcome::Running, AttemptOutcome::Done]);
    let ended = end(&mut lost, Some(recording));
    assert!(matches!(ended, Err(FleetError::Io { .. })), "{ended:?}");
    let result = task.done().unwrap().unwrap();
    let concluded = lost.conclude(result.clone(), 0).unwrap();
    assert_eq!(concluded, Published::Lost(result));
    assert_eq!(
        outcomes(&task),
        [AttemptOutcome::Superseded, AttemptOutcome::Done]
    );
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
}

/// A claim of the task `node.lan` looked like one of the task `node` while both were in the folder of tasks.
#[test]
fn a_task_leaves_the_claims_of_other_tasks() {
    let tasks = Tasks::new();
    let open = |id: &str| TaskFolder::open(&tasks.path, &id.parse().unwrap()).unwrap();
    let (node, lan) = (open("node"), open("node.lan"));
    let claims = ["node.lan.attempts/.other.1.1.claim", ".node.lan.other.1.1.claim"];
    let claims = claims.map(|claim| tasks.path.join(claim));
    for claim in &claims {
        fs::create_dir_all(claim).unwrap();
    }
    finish(node.begin(&here(), None).unwrap(), "x");
    settle(&node, &here());
    assert!(claims.iter().all(|claim| claim.is_dir()));
    finish(lan.begin(&here(), None).unwrap(), "x");
    settle(&lan, &here());
    assert_eq!(names(&tasks.path.join("node.lan.attempts")), ["1"]);
}

#[test]
fn an_attempt_of_a_live_process_of_this_host_is_under_way() {
    let tasks = Tasks::new();
    let task = tasks.task();
    assert_eq!(task.under_way(&here()).unwrap(), None);
    let other = TaskProcess {
        host: "other".to_owned(),
        ..here()
    };
    task.begin(&gone(), None).unwrap();
    task.begin(&other, None).unwrap();
    assert_eq!(task.under_way(&here()).unwrap(), None);
    let mut live = task.begin(&here(), None).unwrap();
    assert_eq!(task.under_way(&here()).unwrap(), Some(3));
    live.fail(2).unwrap();
    assert_eq!(task.under_way(&here()).unwrap(), None);
}

#[test]
fn a_failed_attempt_keeps_its_recording_until_the_task_is_done() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let mut attempt = task.begin(&here(), None).unwrap();
    record(&attempt, "x");
    attempt.fail(2).unwrap();
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json", "recording"]);
    let [failed] = &attempts(&task)[..] else {
        panic!("one attempt")
    };
    assert_eq!((failed.outcome, failed.exit), (AttemptOutcome::Failed, Some(2)));
    assert_eq!(task.done().unwrap(), None);
    finish(task.begin(&here(), None).unwrap(), "y");
    settle(&task, &here());
    assert_eq!(names(&tasks.attempt(1)), ["attempt.json"]);
    assert_eq!(outcomes(&task), [AttemptOutcome::Failed, AttemptOutcome::Done]);
}

/// The states that a death can leave on disk, in the order of `begin`, `finish` and `settle`.
#[test]
fn a_death_at_any_step_leaves_one_result() {
    // Death while it claims a number: before and after the file is written.
    for has_file in [false, true] {
        let tasks = Tasks::new();
        let task = tasks.task();
        let claim = tasks.path.join(format!("a.attempts/.{}.claim", gone().label()));
        fs::create_dir_all(&claim).unwrap();
        if has_file {
            fs::write(claim.join(".attempt.json.1.x.new"), "{").unwrap();
        }
        assert_one_result(&tasks, &task);
    }
    // Death during the run, with a file half written, and with the recording moved.
    type Death = fn(&Tasks);
    let deaths: [Death; 4] = [
        |_| {},
        |tasks| fs::write(tasks.attempt(1).join(".attempt.json.1.x.new"), "{").unwrap(),
        |tasks| {
            fs::create_dir(tasks.path.join(".a.1.tmp")).unwrap();
            fs::rename(
                tasks.attempt(1).join("thrash-1"),
                tasks.path.join(".a.1.tmp/recording"),
            )
            .unwrap();
        },
        |tasks| {
            fs::create_dir_all(tasks.path.join(".a.1.old/recording")).unwrap();
            fs::write(tasks.path.join(".a.1.old/result.json"), "{").unwrap();
        },
    ];
    for death in deaths {
        let tasks = Tasks::new();
        let task = tasks.task();
        let attempt = task.begin(&gone(), None).unwrap();
        record(&attempt, "x");
        death(&tasks);
        assert_one_result(&tasks, &task);
        assert_eq!(outcomes(&task), [AttemptOutcome::Dead, AttemptOutcome::Done]);
    }
    // Death after the result is published, before its attempt says so.
    let tasks = Tasks::new();
    let task = tasks.task();
    let attempt = task.begin(&gone(), None).unwrap();
    let running = fs::read(tasks.attempt(1).join("attempt.json")).unwrap();
    finish(attempt, "x");
    fs::write(tasks.attempt(1).join("attempt.json"), running).unwrap();
    assert_eq!(outcomes(&task), [AttemptOutcome::Done], "as its result says");
    assert_eq!(settle(&task, &here()), 0);
    assert_eq!(task.recorded(1).unwrap().outcome, AttemptOutcome::Done);
}

/// Starts the task again.
fn assert_one_result(tasks: &Tasks, task: &TaskFolder) {
    settle(task, &here());
    let Published::Won(_) = finish(task.begin(&here(), None).unwrap(), "again") else {
        panic!("another attempt won");
    };
    assert_eq!(tasks.names(), ["a", "a.attempts"]);
    assert_eq!(tasks.samples(), "again");
    let numbers = task.attempt_numbers().unwrap();
    for number in &numbers {
        assert_eq!(names(&tasks.attempt(*number)), ["attempt.json"]);
    }
    assert_eq!(names(&tasks.path.join("a.attempts")).len(), numbers.len());
}

/// The tasks of other machines may hold anything.
#[test]
fn strange_attempts_do_no_harm() {
    let tasks = Tasks::new();
    let task = tasks.task();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "x").unwrap();
    let attempts = tasks.path.join("a.attempts");
    fs::create_dir(&attempts).unwrap();
    for name in ["0", "01", "-1", "+1", "x", "99999999999", "10000"] {
        fs::create_dir(attempts.join(name)).unwrap();
    }
    fs::create_dir(attempts.join("2")).unwrap();
    symlink("/dev/zero", attempts.join("2/attempt.json")).unwrap();
    symlink(outside.path(), attempts.join("3")).unwrap();
    fs::write(attempts.join("4"), "no folder").unwrap();
    fs::create_dir(attempts.join("5")).unwrap();
    fs::write(attempts.join("5/attempt.json"), vec![b' '; 1 << 17]).unwrap();
    let dead = task.begin(&gone(), None).unwrap();
    assert_eq!(dead.number(), 6);
    symlink(outside.path(), dead.path().join("thrash-1")).unwrap();
    symlink(outside.path(), tasks.path.join(".a.6.tmp")).unwrap();
    settle(&task, &here());
    assert_eq!(names(outside.path()), ["kept"]);
    assert_eq!(task.attempt_numbers().unwrap(), [2, 3, 4, 5, 6]);
    for number in 2..=5 {
        assert!(task.attempt(number).is_err(), "{number}");
    }
    finish(task.begin(&here(), None).unwrap(), "x");
    assert_eq!(names(outside.path()), ["kept"]);
}

#[test]
fn attempts_end_at_their_limit() {
    let tasks = Tasks::new();
    let task = tasks.task();
    fs::create_dir_all(tasks.attempt(9999)).unwrap();
    fs::write(tasks.attempt(9999).join("attempt.json"), "x").unwrap();
    let error = task.begin(&here(), None).unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error:?}");
    assert_eq!(tasks.names(), ["a.attempts"]);
    assert_eq!(names(&tasks.path.join("a.attempts")), ["9999"]);
}

#[test]
fn root_refuses_a_folder_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let tasks = Tasks::new();
    fs::create_dir(&tasks.path).unwrap();
    fs::set_permissions(&tasks.path, fs::Permissions::from_mode(0o777)).unwrap();
    let error = TaskFolder::open(&tasks.path, &id()).unwrap_err();
    assert!(matches!(error, FleetError::Untrusted(_)), "{error:?}");
}
