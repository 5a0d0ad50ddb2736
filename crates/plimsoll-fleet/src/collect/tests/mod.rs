use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use plimsoll_model::recording::model::file;
use plimsoll_model::recording::table::{self, Column, Value};
use plimsoll_testkit::fleets::{attempt, busy_recording, finished_task, plan_json, seal};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod around_results;

/// A fleet's folder with a recording to copy.
struct Fleet {
    folder: TempDir,
    recording: PathBuf,
    plan: Plan,
}

impl Fleet {
    fn new(tasks: &[&str]) -> Fleet {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tasks")).unwrap();
        Fleet {
            recording: busy_recording(&folder.path().join("source"), 40, 3, 1),
            plan: serde_json::from_str(&plan_json(tasks)).unwrap(),
            folder,
        }
    }

    fn tasks(&self) -> PathBuf {
        self.folder.path().join("tasks")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn finish(&self, id: &str, host: &str) -> PathBuf {
        finished_task(&self.tasks(), id, host, &self.recording)
    }

    fn collect(&self) -> Collected {
        collect(self.folder.path(), &self.plan, &self.data()).unwrap()
    }

    fn state(&self, index: usize) -> State {
        self.collect().tasks.swap_remove(index).state
    }

    fn task_data(&self, host: &str, id: &str) -> PathBuf {
        self.data().join(format!("run=demo/host={host}/task={id}"))
    }
}

fn read(path: &Path, columns: &'static [Column]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut reader = table::open(path, columns).unwrap();
    while let Some(group) = reader.next_group().unwrap() {
        rows.extend(group);
    }
    rows
}

/// The values of a column by its name.
fn column(rows: &[Vec<Value>], columns: &[Column], name: &str) -> Vec<Value> {
    let index = columns.iter().position(|column| column.name == name).unwrap();
    rows.iter().map(|row| row[index].clone()).collect()
}

fn texts(values: &[&str]) -> Vec<Value> {
    values
        .iter()
        .map(|text| Value::Text((*text).to_owned()))
        .collect()
}

/// Every file below a folder, with its content.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = fs::read(&path).unwrap();
                found.insert(path, content);
            }
        }
    }
    found
}

#[test]
fn results_become_a_data_set() {
    let fleet = Fleet::new(&["a", "b", "c", "d", "e", "f"]);
    fleet.finish("a", "node-1");
    fleet.finish("b", "x=y/z");
    attempt(&fleet.tasks(), "c", 1, "node-2", "dead", None);
    attempt(&fleet.tasks(), "c", 2, "node-3", "failed", Some(3));
    attempt(&fleet.tasks(), "d", 1, "node-2", "running", None);
    fs::create_dir(fleet.tasks().join("f")).unwrap();
    fs::create_dir(fleet.tasks().join(".a.2.tmp")).unwrap();
    fs::create_dir(fleet.tasks().join("stranger\u{1b}")).unwrap();

    let collected = fleet.collect();
    let names: Vec<&str> = collected.tasks.iter().map(|task| task.state.name()).collect();
    assert_eq!(names, ["done", "done", "failed", "missing", "missing", "corrupt"]);
    assert_eq!(
        (collected.copied, collected.kept, collected.incomplete()),
        (2, 0, 4)
    );
    assert_eq!((collected.unknown_count, collected.unknown.len()), (1, 1));
    assert_eq!(collected.unknown, ["stranger\u{fffd}"]);
    let failed = &collected.tasks[2];
    assert_eq!(
        (failed.exit, failed.host.as_deref(), failed.attempts.len()),
        (Some(3), Some("node-3"), 2)
    );
    let rows = collected.tasks[0].rows.unwrap();
    assert_eq!((rows.samples, rows.trials), (40, 3));

    let copied = fs::read(fleet.task_data("node-1", "a").join("samples.parquet")).unwrap();
    assert!(copied == fs::read(fleet.recording.join(file::SAMPLES)).unwrap());
    let tasks = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
    assert_eq!(
        column(&tasks, columns::TASKS, "state"),
        texts(&["done", "done", "failed", "missing", "missing", "corrupt"])
    );
    assert_eq!(
        column(&tasks, columns::TASKS, "host")[1],
        Value::Text("x=y/z".to_owned())
    );
    assert_eq!(column(&tasks, columns::TASKS, "attempts")[2], Value::Integer(2));

    let other = fleet.task_data("x%3Dy%2Fz", "b");
    let trials = read(&other.join("trials.parquet"), columns::TRIALS);
    assert_eq!(
        column(&trials, columns::TRIALS, "status"),
        texts(&["ok", "ok", "untrustworthy"])
    );
    let metrics = read(&other.join("metrics.parquet"), columns::METRICS);
    assert_eq!(metrics.len() as u64, rows.metrics);
    let speeds: Vec<&Vec<Value>> = metrics
        .iter()
        .filter(|row| row[6] == Value::Text("fill_gb_per_s".to_owned()))
        .collect();
    let last = speeds.last().unwrap();
    assert_eq!(speeds.len(), 3);
    assert_eq!(last[7], Value::Text("GB/s".to_owned()));
    assert_eq!(last[10], Value::Number(2.2237));
    assert_eq!(
        last[11..],
        [
            Value::Text("untrustworthy".to_owned()),
            Value::Flag(false),
            Value::Text("steal".to_owned())
        ]
    );
    assert_eq!(speeds[0][12..], [Value::Flag(true), Value::Absent]);
    assert!(!fleet.data().join(".collect").exists());
}

#[test]
fn a_second_collection_copies_nothing_and_changes_nothing() {
    let fleet = Fleet::new(&["a", "b"]);
    fleet.finish("a", "node-1");
    fleet.finish("b", "node-2");
    fleet.collect();
    let before = content(&fleet.data());
    let samples = fleet.task_data("node-1", "a").join("samples.parquet");
    let inode = fs::metadata(&samples).unwrap().ino();
    let again = fleet.collect();
    assert_eq!((again.copied, again.kept), (0, 2));
    assert!(content(&fleet.data()) == before);
    assert_eq!(fs::metadata(&samples).unwrap().ino(), inode);

    // A file of the data set that is not whole is copied again.
    fs::write(&samples, "PAR1").unwrap();
    let again = fleet.collect();
    assert_eq!((again.copied, again.kept), (1, 1));
    assert!(content(&fleet.data()) == before);
    // A power cut while another collection wrote: nothing is known to be whole.
    fs::create_dir(fleet.data().join(".collect")).unwrap();
    fs::write(fleet.data().join(".collect/boot"), "an earlier boot").unwrap();
    assert_eq!(fleet.collect().copied, 2);
    assert!(content(&fleet.data()) == before);
}

#[test]
fn a_task_without_its_result_leaves_the_data_set_and_other_runs_stay() {
    let mut fleet = Fleet::new(&["a", "b"]);
    let a = fleet.finish("a", "node-1");
    fleet.finish("b", "node-2");
    fleet.collect();
    let other = Plan {
        run: "other".parse().unwrap(),
        ..fleet.plan.clone()
    };
    collect(fleet.folder.path(), &other, &fleet.data()).unwrap();
    fs::remove_dir_all(a).unwrap();
    // Its result is now of another host.
    let b = fleet.tasks().join("b");
    fs::remove_dir_all(&b).unwrap();
    fleet.recording = busy_recording(&fleet.folder.path().join("next"), 7, 1, 2);
    fleet.finish("b", "node-3");
    let collected = fleet.collect();
    assert_eq!(collected.tasks[0].state.name(), "missing");
    assert!(!fleet.task_data("node-1", "a").exists());
    assert!(!fleet.data().join("run=demo/host=node-2").exists());
    assert!(fleet.task_data("node-3", "b").exists());
    assert!(fleet.data().join("run=other/host=node-1/task=a").exists());
    let tasks = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
    let runs = column(&tasks, columns::TASKS, "run");
    assert_eq!(runs, texts(&["other", "other", "demo", "demo"]));
}

/// Replaces text in a document of a result whose checksums then agree again, as a forger would.
fn forge(folder: &Path, name: &str, from: &str, to: &str) {
    let path = folder.join(name);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{name}: {from}");
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
    seal(folder, "a");
}

#[test]
fn hostile_results_are_corrupt_and_lead_nowhere() {
    type Damage = fn(&Path);
    let damages: &[(&str, Damage)] = &[
        ("no result", |task| {
            fs::remove_file(task.join("result.json")).unwrap()
        }),
        ("a result of another task", |task| seal(task, "b")),
        ("no JSON", |task| {
            fs::write(task.join("result.json"), "{").unwrap()
        }),
        ("a newer version", |task| {
            fs::write(task.join("result.json"), r#"{"version": 2}"#).unwrap()
        }),
        ("a link as result", |task| {
            let path = task.join("result.json");
            fs::rename(&path, task.join("real")).unwrap();
            symlink("real", path).unwrap();
        }),
        ("a pipe as result", |task| {
            let path = task.join("result.json");
            fs::remove_file(&path).unwrap();
            assert!(
                plimsoll_testkit::command("mkfifo")
                    .arg(path)
                    .status()
                    .unwrap()
                    .success()
            );
        }),
        ("a result of 2 GiB", |task| {
            let file = fs::File::options()
                .append(true)
                .open(task.join("result.json"))
                .unwrap();
            file.set_len(2 << 30).unwrap();
        }),
        ("a link as recording", |task| {
            let path = task.join("recording");
            fs::rename(&path, task.join("real")).unwrap();
            symlink("real", path).unwrap();
        }),
        ("a link as samples", |task| {
            let path = task.join("recording/samples.parquet");
            fs::rename(&path, task.join("real")).unwrap();
            symlink("../real", path).unwrap();
        }),
        ("a sample file cut short", |task| {
            let file = fs::File::options()
                .append(true)
                .open(task.join("recording/samples.parquet"))
                .unwrap();
            file.set_len(file.metadata().unwrap().len() - 9).unwrap();
        }),
        ("no samples", |task| {
            fs::remove_file(task.join("recording/samples.parquet")).unwrap()
        }),
        ("samples of 9 GiB", |task| {
            let file = fs::File::options()
                .append(true)
                .open(task.join("recording/samples.parquet"))
                .unwrap();
            file.set_len(9 << 30).unwrap();
        }),
        ("a value without its checksum", |task| {
            let path = task.join("recording/results.json");
            fs::write(
                &path,
                fs::read_to_string(&path).unwrap().replace("0.2237", "0.3237"),
            )
            .unwrap();
        }),
        ("a newer schema", |task| {
            forge(
                task,
                "recording/manifest.json",
                r#""schema": 5"#,
                r#""schema": 6"#,
            )
        }),
        ("an infinite value", |task| {
            forge(task, "recording/results.json", "0.2237", "1e999")
        }),
        ("trials that are none", |task| {
            forge(task, "recording/results.json", "\"trials\": [", "\"trials\": [7,")
        }),
        ("results without trials", |task| {
            forge(task, "recording/results.json", "\"trials\"", "\"others\"")
        }),
        ("a trial twice", |task| {
            forge(task, "recording/results.json", "random#1", "random#2")
        }),
        ("a host without a name", |task| {
            forge(task, "host.json", "node-1", "")
        }),
        ("a host with a tab", |task| {
            forge(task, "host.json", "node-1", "node\\t1")
        }),
        ("a long host", |task| {
            forge(task, "host.json", "node-1", &"n".repeat(65))
        }),
        ("a name of a metric of 2 kB", |task| {
            forge(task, "recording/results.json", "fill_gb_per_s", &"m".repeat(2000));
        }),
        ("a trial of 9 MiB", |task| {
            forge(
                task,
                "recording/results.json",
                "\"metrics\": {",
                &format!("\"metrics\": {{{} ", " ".repeat(9 << 20)),
            );
        }),
    ];
    let fleet = Fleet::new(&["a", "b"]);
    fleet.finish("b", "node-2");
    for (name, damage) in damages {
        let _ = fs::remove_dir_all(fleet.tasks().join("a"));
        fleet.finish("a", "node-1");
        assert_eq!(fleet.collect().incomplete(), 0, "{name}");
        damage(&fleet.tasks().join("a"));
        let mut collected = fleet.collect();
        let state = collected.tasks.swap_remove(0).state;
        // The copy of an earlier collection stays, if its document is the same.
        if state == State::Done {
            fs::remove_dir_all(fleet.data()).unwrap();
        }
        let state = fleet.state(0);
        assert_eq!(state.name(), "corrupt", "{name}");
        assert!(
            state.reason().is_some_and(|reason| reason.chars().count() > 10),
            "{name}"
        );
        assert!(!fleet.task_data("node-1", "a").exists(), "{name}");
        assert!(fleet.task_data("node-2", "b").exists(), "{name}");
    }
}

#[test]
fn names_of_hosts_stay_within_the_data_set() {
    let fleet = Fleet::new(&["a"]);
    for (host, folder) in [
        ("..", "host=.."),
        ("../../x", "host=..%2F..%2Fx"),
        ("\u{e4}", "host=%C3%A4"),
        ("%2F", "host=%252F"),
    ] {
        let _ = fs::remove_dir_all(fleet.tasks().join("a"));
        fleet.finish("a", host);
        assert_eq!(fleet.state(0), State::Done, "{host}");
        let names: Vec<_> = fs::read_dir(fleet.data().join("run=demo"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [folder], "{host}");
    }
}

#[test]
fn a_link_in_the_data_set_is_not_followed() {
    let fleet = Fleet::new(&["a"]);
    fleet.finish("a", "node-1");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(fleet.data()).unwrap();
    symlink(elsewhere.path(), fleet.data().join("run=demo")).unwrap();
    let result = collect(fleet.folder.path(), &fleet.plan, &fleet.data());
    assert!(matches!(result, Err(FleetError::Io { .. })), "{result:?}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn two_collections_at_once_are_refused() {
    let fleet = Fleet::new(&["a"]);
    fs::create_dir(fleet.data()).unwrap();
    let lock = Folder::open(&fleet.data()).unwrap().lock(".lock").unwrap();
    let result = collect(fleet.folder.path(), &fleet.plan, &fleet.data());
    assert!(matches!(result, Err(FleetError::Refused { .. })), "{result:?}");
    drop(lock);
    assert_eq!(fleet.collect().tasks.len(), 1);
}

#[test]
fn samples_of_other_layouts_get_that_of_this_version() {
    let fleet = Fleet::new(&["a"]);
    let stored = plimsoll_testkit::recordings::stored();
    let found = content(&stored)
        .into_keys()
        .filter(|path| path.ends_with(file::SAMPLES));
    let mut count = 0;
    for samples in found {
        let _ = fs::remove_dir_all(fleet.tasks().join("a"));
        finished_task(&fleet.tasks(), "a", "node-1", samples.parent().unwrap());
        let collected = fleet.collect();
        let [task] = &collected.tasks[..] else {
            panic!("one task")
        };
        if task.state != State::Done {
            panic!("{}: {:?}", samples.display(), task.state);
        }
        let copied = fs::read(fleet.task_data("node-1", "a").join("samples.parquet")).unwrap();
        assert!(copied != fs::read(&samples).unwrap(), "{}", samples.display());
        assert!(task.rows.unwrap().samples > 0);
        count += 1;
    }
    assert!(count > 0, "no stored recordings in {}", stored.display());
}

#[test]
fn a_kill_at_any_moment_and_a_second_run_give_the_same_data() {
    let ids: Vec<String> = (0..12).map(|index| format!("t{index}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let fleet = Fleet::new(&ids);
    for id in &ids[1..] {
        fleet.finish(id, &format!("host-of-{id}"));
    }
    fleet.collect();
    let expected = content(&fleet.data());
    let start = std::time::Instant::now();
    fleet.collect();
    fs::remove_dir_all(fleet.data()).unwrap();
    fleet.collect();
    let whole = start.elapsed();
    for round in 0..24 {
        if round % 4 == 0 {
            fs::remove_dir_all(fleet.data()).unwrap();
        }
        let pid = plimsoll_testkit::fork(60, || {
            fleet.collect();
            0
        });
        std::thread::sleep(whole * (round * 7 % 24) / 24);
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        // Each task that is there is whole.
        for path in content(&fleet.data())
            .keys()
            .filter(|path| path.ends_with("_source.json"))
        {
            if path.to_string_lossy().contains("/.collect/") {
                continue;
            }
            let task = path.parent().unwrap();
            for (path, bytes) in content(task) {
                assert!(expected.get(&path) == Some(&bytes), "{}", path.display());
            }
        }
        if round % 2 == 1 {
            fleet.collect();
            assert!(content(&fleet.data()) == expected, "round {round}");
        }
    }
}

/// Damage of a file of a task's result.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove,
    Link,
    Folder,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        2 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => Just(Damage::Remove),
        1 => Just(Damage::Link),
        1 => Just(Damage::Folder),
    ]
}

fn apply(damage: &Damage, path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    match damage {
        Damage::Flip(at, bit) => {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
        }
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len() + 1)),
        Damage::Insert(at, more) => {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, more.iter().copied());
        }
        Damage::Remove | Damage::Link | Damage::Folder => {
            fs::remove_file(path).unwrap();
            match damage {
                Damage::Link => symlink("/etc/passwd", path).unwrap(),
                Damage::Folder => fs::create_dir(path).unwrap(),
                _ => {}
            }
            return;
        }
    }
    fs::write(path, bytes).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_damage_is_listed_or_changes_nothing(
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..4),
    ) {
        let fleet = Fleet::new(&["a"]);
        fleet.finish("a", "node-1");
        fleet.collect();
        let rows = |fleet: &Fleet| -> BTreeMap<PathBuf, Vec<u8>> {
            let parquet = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
            content(&fleet.data().join("run=demo")).into_iter().filter(|(path, _)| parquet(path)).collect()
        };
        let before = rows(&fleet);
        let mut files: Vec<PathBuf> = content(&fleet.tasks()).into_keys().collect();
        for (at, damage) in damages {
            if files.is_empty() {
                break;
            }
            let path = files.swap_remove(at.index(files.len()));
            apply(&damage, &path);
        }
        for fresh in [false, true] {
            if fresh {
                fs::remove_dir_all(fleet.data()).unwrap();
            }
            let collected = fleet.collect();
            prop_assert_eq!(collected.tasks.len(), 1);
            let listed = read(&fleet.data().join("tasks.parquet"), columns::TASKS);
            prop_assert_eq!(listed.len(), 1);
            match &collected.tasks[0].state {
                State::Done => prop_assert!(rows(&fleet) == before),
                state => {
                    prop_assert!(state.reason().is_some());
                    prop_assert!(rows(&fleet).is_empty());
                }
            }
        }
    }
}
