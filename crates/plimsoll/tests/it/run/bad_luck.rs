//! Runs to which something happens: memory or disk runs out, a worker is killed, a byte is wrong.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use super::{PLIMSOLL, Run, has_laboratory, send};

#[test]
fn an_oom_kill_fails_the_trial_and_is_named() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&[
        "--set",
        "subject=none",
        "--set",
        "class=random",
        "--set",
        "limit=16M",
    ]);
    let ended = run.finish();
    ended.assert_failed(5, "out-of-memory");
}

#[test]
fn without_swap_nothing_is_trimmed_and_the_trial_says_so() {
    if !has_laboratory() {
        return;
    }
    let ended = Run::new(&["--set", "subject=none", "--set", "class=random"]).finish();
    ended.assert_failed(2, "not-run");
}

#[test]
fn a_limit_below_the_size_is_not_a_full_fill() {
    if !has_laboratory() {
        return;
    }
    let ended = Run::new(&["--set", "limit=20M", "--set", "class=random"]).finish();
    // Two thirds of what it needs: the kernel may as well end it (5) as let it crawl (2). Neither is ok.
    match ended.code {
        5 => ended.assert_failed(5, "out-of-memory"),
        _ => ended.assert_failed(2, "size-not-reached"),
    }
}

#[test]
fn a_worker_killed_from_outside_fails_its_trial() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "class=random", "--set", "hold=0.5"]);
    let mut started = run.start();
    started.await_event("phase-end", "fill");
    send(started.stop_worker(), Signal::KILL);
    let ended = started.finish();
    ended.assert_failed(5, "worker-killed");
    let failure = &ended.trials()[0]["failures"][0];
    assert_eq!(failure["signal"], 9, "{failure:#}");
    assert!(failure["exit_code"].is_null(), "{failure:#}");
}

#[test]
fn one_wrong_byte_fails_the_trial_and_is_found() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "class=constant", "--set", "hold=0.5"]);
    let mut started = run.start();
    started.await_event("phase-end", "fill");
    let worker = started.stop_worker();
    flip_a_byte(worker);
    started.resume(worker);
    let ended = started.finish();
    ended.assert_failed(2, "wrong-bytes");
    assert_eq!(ended.trials()[0]["verified"], false);
}

/// Changes the byte in the middle of the largest anonymous mapping of a process.
fn flip_a_byte(pid: u32) {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let (start, end) = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(1) == Some("rw-p") && line.split_whitespace().count() == 5)
        .filter_map(|line| line.split_whitespace().next()?.split_once('-'))
        .filter_map(|(a, b)| Some((u64::from_str_radix(a, 16).ok()?, u64::from_str_radix(b, 16).ok()?)))
        .max_by_key(|(start, end)| end - start)
        .expect("a mapping");
    let mut memory = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .expect("mem");
    memory.seek(SeekFrom::Start((start + end) / 2)).expect("seek");
    memory.write_all(&[0xa5]).expect("write");
}

/// A small file system in memory, unmounted when dropped.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(size: &str) -> SmallDisk {
        let mount = tempfile::tempdir().expect("a folder");
        let mounted = plimsoll_testkit::command("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(mount.path())
            .status()
            .expect("mount");
        assert!(mounted.success(), "root can mount a tmpfs");
        SmallDisk(mount)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The run that records on this disk.
    fn run(&self) -> std::process::Command {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command
            .args(["run", "compression", "--json", "--wait", "--hz", "100"])
            .args(["--set", "size=32M", "--set", "hold=3", "--output"])
            .arg(self.path());
        command
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = plimsoll_testkit::command("umount").arg(self.path()).status();
        assert!(unmounted.expect("umount").success());
    }
}

#[test]
fn a_disk_without_room_for_the_recording_is_refused_before_the_run() {
    if !has_laboratory() {
        return;
    }
    let disk = SmallDisk::mount("1M");
    let ended = super::Ended::of(disk.run().output().expect("plimsoll starts"));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(ended.stderr.contains("--output"), "the remedy: {}", ended.stderr);
    assert_eq!(std::fs::read_dir(disk.path()).expect("the disk").count(), 0);
}

#[test]
fn a_full_disk_under_the_recording_ends_the_run_clearly() {
    if !has_laboratory() {
        return;
    }
    let disk = SmallDisk::mount("64M");
    let mut child = disk
        .run()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("plimsoll starts");
    // Another program fills the disk as soon as there is a recording.
    let recording = || std::fs::read_dir(disk.path()).expect("the disk").flatten().next();
    while recording().is_none_or(|folder| !folder.path().join("trials.jsonl").exists()) {
        if child.try_wait().expect("its state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let name = recording().map(|folder| folder.path());
    let filler = std::fs::File::create(disk.path().join("filler")).expect("a file");
    let filled = std::io::copy(&mut std::io::repeat(0), &mut &filler);
    let output = child.wait_with_output().expect("its end");
    filled.expect_err("the disk is small");
    let opened = name.as_ref().map(|folder| {
        plimsoll_testkit::command(PLIMSOLL)
            .arg("report")
            .arg(folder)
            .arg("--json")
            .output()
            .expect("report")
            .status
            .success()
    });
    let ended = super::Ended::of(output);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let full = format!("os error {}", rustix::io::Errno::NOSPC.raw_os_error());
    assert!(ended.stderr.contains(&full), "{}", ended.stderr);
    assert_eq!(opened, Some(true), "what was recorded does not open");
    let name = name
        .and_then(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .expect("a recording");
    let left = super::find("/var/lib/plimsoll/runs".as_ref(), &name, 1);
    assert!(left.is_empty(), "{left:?}");
}
