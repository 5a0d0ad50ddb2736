//! Journals that another user planted, and folders in which another user can plant them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use plimsoll_lab::environment::{EnvironmentError, MissingKind, RunState, cleanup_in};
use plimsoll_testkit::capability;
use serde_json::json;

use super::journals::{append, journal_of, open, swap_file};
use super::{has_cgroup, has_swap_file, root};

/// The user `nobody`.
const OTHER: Option<u32> = Some(65534);

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A state folder whose journal orders the removal of a file, in a folder of this user alone.
struct Plant {
    _guard: tempfile::TempDir,
    parent: PathBuf,
    state: PathBuf,
    journal: PathBuf,
    victim: PathBuf,
}

impl Plant {
    fn new() -> Plant {
        let guard = tempfile::tempdir().unwrap();
        let (parent, place) = (guard.path().join("parent"), guard.path().join("place"));
        let state = parent.join("state");
        fs::create_dir_all(&state).unwrap();
        fs::create_dir(&place).unwrap();
        let victim = swap_file(&place, "victim");
        let journal = journal_of(&state, "planted", None, std::slice::from_ref(&victim));
        Plant {
            _guard: guard,
            parent,
            state,
            journal,
            victim,
        }
    }
}

/// `cleanup` obeyed any journal that it found: without HOME in a folder of /tmp that anybody could make first.
#[test]
fn a_journal_that_another_user_could_write_is_not_obeyed() {
    let obeyed = Plant::new();
    cleanup_in(&obeyed.state, None).unwrap();
    assert!(!obeyed.victim.exists(), "the journal of this test orders nothing");

    type Change = fn(&Plant);
    let replace_by_link = |path: &Path| {
        let moved = path.with_extension("moved");
        fs::rename(path, &moved).unwrap();
        symlink(&moved, path).unwrap();
    };
    let mut folders: Vec<(&str, Change)> = vec![
        ("a state folder for all", |plant| set_mode(&plant.state, 0o777)),
        ("a state folder for a group", |plant| {
            set_mode(&plant.state, 0o770)
        }),
        ("a sticky state folder", |plant| set_mode(&plant.state, 0o1777)),
        ("a runs folder for all", |plant| {
            set_mode(&plant.state.join("runs"), 0o777)
        }),
        ("a parent for all", |plant| set_mode(&plant.parent, 0o777)),
    ];
    if root() {
        folders.push(("a state folder of another user", |plant| {
            chown(&plant.state, OTHER, None).unwrap();
        }));
        folders.push(("a parent of another user", |plant| {
            chown(&plant.parent, OTHER, None).unwrap();
        }));
        folders.push(("a runs folder of another user", |plant| {
            chown(plant.state.join("runs"), OTHER, None).unwrap();
        }));
    }
    for (name, change) in folders {
        let plant = Plant::new();
        change(&plant);
        let refused = cleanup_in(&plant.state, None);
        assert!(
            matches!(refused, Err(EnvironmentError::StateFolder { .. })),
            "{name}: {refused:?}"
        );
        assert!(plant.victim.exists() && plant.journal.exists(), "{name}");
        // Nor does a run put its own journal there.
        let refused = open(&plant.state, "run", None);
        assert!(
            matches!(refused, Err(EnvironmentError::StateFolder { .. })),
            "{name}: {refused:?}"
        );
    }
    for folder in ["state", "state/runs"] {
        let plant = Plant::new();
        replace_by_link(&plant.parent.join(folder));
        let refused = cleanup_in(&plant.state, None);
        assert!(
            matches!(refused, Err(EnvironmentError::StateFolder { .. })),
            "{folder}: {refused:?}"
        );
        assert!(plant.victim.exists(), "{folder} is a link");
    }
}

#[test]
fn a_journal_file_that_another_user_could_write_is_kept_and_named() {
    type Change = fn(&Path);
    let mut files: Vec<(&str, Change)> = vec![
        ("for all", |journal| set_mode(journal, 0o666)),
        ("a link", |journal| {
            let moved = journal.with_extension("moved");
            fs::rename(journal, &moved).unwrap();
            symlink(&moved, journal).unwrap();
        }),
        // An open of a pipe without a writer would wait for ever.
        ("a pipe", |journal| {
            fs::remove_file(journal).unwrap();
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, journal, kind, mode, 0).unwrap();
        }),
    ];
    if root() {
        files.push(("of another user", |journal| chown(journal, OTHER, None).unwrap()));
    }
    for (name, change) in files {
        let plant = Plant::new();
        change(&plant.journal);
        let report = cleanup_in(&plant.state, None).unwrap();
        assert_eq!(report.runs[0].state, RunState::Kept, "{name}");
        assert_eq!(
            (report.runs[0].left.len(), report.is_clean()),
            (1, false),
            "{name}"
        );
        assert!(plant.victim.exists(), "{name}");
    }
}

/// The lock is written to: a link in its place would let it overwrite a file.
#[test]
fn a_link_in_place_of_the_lock_is_not_written_through() {
    let state = tempfile::tempdir().unwrap();
    let victim = state.path().join("victim");
    fs::write(&victim, "important").unwrap();
    symlink(&victim, state.path().join("machine.lock")).unwrap();
    let refused = open(state.path(), "run", None);
    assert!(
        matches!(refused, Err(EnvironmentError::StateFolder { .. })),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&victim).unwrap(), "important");
}

/// Every kind of change, planted in a journal that is obeyed, with an object that is not a run's.
#[test]
fn a_planted_change_of_any_kind_is_not_obeyed() {
    let state = tempfile::tempdir().unwrap();
    let journal = journal_of(state.path(), "planted", None, &[]);
    let value = state.path().join("value");
    fs::write(&value, "7").unwrap();
    let (mine, swap) = (state.path().join("mine"), state.path().join("swapfile"));
    fs::write(&mine, "").unwrap();
    set_mode(&mine, 0o600);
    let cgroup = state.path().join("plimsoll-planted-1");
    fs::create_dir(&cgroup).unwrap();
    let controlled = state.path().join("controlled");
    fs::create_dir(&controlled).unwrap();
    fs::write(controlled.join("cgroup.subtree_control"), "memory").unwrap();
    // A cap of no cgroup.
    let cap = controlled.join("memory.high");
    fs::write(&cap, "4096").unwrap();
    // Its parent is a shell, so that it is no child of this process.
    let mut shell = plimsoll_testkit::command("sh")
        .args(["-c", "sleep 60 & echo $!; wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid: i32 = plimsoll_testkit::next_line(&mut shell).parse().unwrap();
    let process = procfs::process::Process::new(pid).unwrap();
    let start = process.stat().unwrap().starttime;
    let current = super::read("/proc/sys/kernel/printk_ratelimit");
    let changes = [
        json!({"kind": "value", "path": value, "before": "1", "wrote": "7"}),
        json!({"kind": "value", "path": "/proc/sys/kernel/printk_ratelimit", "before": "6", "wrote": current}),
        json!({"kind": "file", "path": mine, "uuid": "u"}),
        json!({"kind": "swap-on", "path": swap, "uuid": "u"}),
        json!({"kind": "cgroup", "path": cgroup}),
        json!({"kind": "memory-controller", "cgroup": controlled}),
        json!({"kind": "cap", "path": cap, "before": "max", "wrote": ["4096", "4096"]}),
        json!({"kind": "cap", "path": value, "before": "8", "wrote": ["7", "7"]}),
        json!({"kind": "module", "name": "plimsoll_no_such_module"}),
        json!({"kind": "zram-algorithm", "id": 999_999, "before": "../x"}),
        json!({"kind": "process", "pid": pid, "start_time": start}),
    ];
    append(&journal, 1, &changes);
    let report = cleanup_in(state.path(), None).unwrap();
    let alive = process
        .stat()
        .is_ok_and(|stat| stat.starttime == start && stat.state != 'Z');
    let number = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(number, rustix::process::Signal::KILL);
    shell.wait().unwrap();
    let run = &report.runs[0];
    assert!(alive, "the process was killed: {run:?}");
    assert_eq!(
        (run.state, run.undone.len(), run.left_alone.len(), run.left.len()),
        (RunState::Kept, 0, 1, changes.len() - 1),
        "{run:?}"
    );
    assert_eq!(
        (super::read(&value).as_str(), super::read(&cap).as_str()),
        ("7", "4096")
    );
    assert_eq!(super::read("/proc/sys/kernel/printk_ratelimit"), current);
    assert!(mine.exists() && cgroup.is_dir() && journal.exists());
    assert_eq!(super::read(controlled.join("cgroup.subtree_control")), "memory");
}

/// A cgroup of another service, empty for a moment.
#[test]
fn a_planted_cgroup_of_another_program_stays() {
    if !has_cgroup() {
        return;
    }
    let parent = plimsoll_proc::cgroup::Hierarchy::of_this_process().unwrap().own;
    let theirs = parent.join(format!("service-{}", std::process::id()));
    fs::create_dir(&theirs).unwrap();
    let state = tempfile::tempdir().unwrap();
    let journal = journal_of(state.path(), "planted", None, &[]);
    append(&journal, 1, &[json!({"kind": "cgroup", "path": theirs})]);
    let report = cleanup_in(state.path(), None);
    let stayed = theirs.is_dir();
    let _ = fs::remove_dir(&theirs);
    assert!(stayed);
    assert_eq!(report.unwrap().runs[0].state, RunState::Kept);
}

/// The owner of the folder replaced the new swap file by a link, and root wrote a swap header over its target.
#[test]
fn a_swap_folder_of_another_user_is_refused_before_the_run() {
    if !has_swap_file() {
        return;
    }
    let place = tempfile::tempdir_in(super::disk()).unwrap();
    let mut settings = super::settings("swapfile");
    settings.swap_dir = place.path().to_owned();
    let refused = || {
        let missing = plimsoll_lab::environment::missing(&settings);
        missing
            .iter()
            .any(|missing| missing.kind == MissingKind::SwapFolder)
    };
    assert!(!refused(), "a folder of this user");
    set_mode(place.path(), 0o1777);
    assert!(!refused(), "a sticky folder");
    set_mode(place.path(), 0o777);
    assert!(refused(), "a folder for all");
    set_mode(place.path(), 0o755);
    chown(place.path(), OTHER, None).unwrap();
    assert!(refused(), "a folder of another user");
}

#[test]
fn the_command_refuses_an_untrusted_state_folder_with_exit_code_3() {
    let plant = Plant::new();
    set_mode(&plant.state, 0o777);
    let output = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .arg("cleanup")
        .env("PLIMSOLL_STATE_DIR", &plant.state)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("PLIMSOLL_STATE_DIR"), "the remedy: {text}");
    assert!(plant.victim.exists());
}

/// A service without HOME used `/tmp/plimsoll`, which any user could make first.
#[test]
fn a_user_without_a_home_has_no_state_in_a_shared_folder() {
    if !capability("setpriv", root(), "needs root to become another user") {
        return;
    }
    // A copy that the other user can execute, whatever the folder of this build is like.
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    let program = folder.path().join("plimsoll");
    plimsoll_testkit::copy_program(env!("CARGO_BIN_EXE_plimsoll"), &program);
    let output = plimsoll_testkit::command("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .arg("cleanup")
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("PLIMSOLL_STATE_DIR"), "the remedy: {text}");
}
