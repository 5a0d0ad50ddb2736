//! Watching what thrashes.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use plimsoll::environment::{CgroupVersion, Hierarchy};
use plimsoll::recording::Recording;

use super::{Kept, stderr, watch};
use crate::require::capability;

const MIB: u64 = 1 << 20;

/// A cgroup of this test's, removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Group> {
        let hierarchy = Hierarchy::of_this_process();
        let there = rustix::process::geteuid().is_root() && hierarchy.is_ok();
        if !capability("cgroup", there, "needs root and a memory cgroup hierarchy") {
            return None;
        }
        let hierarchy = hierarchy.unwrap();
        let folder = hierarchy
            .mount
            .join(format!("plimsoll-watch-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let group = Group(folder);
        let file = match hierarchy.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        };
        fs::write(group.0.join(file), limit.to_string()).unwrap();
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// 128 MiB of a file read again and again under a cap of 64 MiB: every page comes from the disk again.
#[test]
fn no_tick_is_missed_while_the_target_thrashes() {
    let _alone = crate::machine::alone();
    let Some(group) = Group::new(64 * MIB) else {
        return;
    };
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&vec![7; 128 * MIB as usize]).unwrap();
    file.as_file().sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && while :; do cat {} > /dev/null; done",
        group.0.display(),
        file.path().display()
    );
    let reader = Kept::start("sh", &["-c", &script]);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let path = group.0.to_str().unwrap();
    let output = watch(&[
        "--duration",
        "12",
        "--cgroup",
        path,
        "--record",
        record.to_str().unwrap(),
    ]);
    // Its `cat` is of the cgroup too.
    for pid in plimsoll::processes::members(&group.0).unwrap() {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    drop(reader);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let recording = Recording::open(&record).unwrap();
    let refaults = recording.samples.column("workingset_refault_file").unwrap();
    let last = recording.samples.len() - 1;
    let refaulted = refaults.growth(0, last).unwrap();
    assert!(refaulted > 10_000, "it did not thrash: {refaulted} refaults");
    let usage = recording
        .samples
        .column("cgroup_usage")
        .unwrap()
        .get(last)
        .unwrap();
    assert!(usage > 32 * MIB as i64, "{usage}");
    let times = recording.samples.t_ns();
    let widest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    println!(
        "{refaulted} refaults; widest gap {} ms of {} samples",
        widest / 1_000_000,
        times.len()
    );
    assert!(widest <= 300_000_000, "{} ms", widest / 1_000_000);
    let warned = recording
        .events
        .iter()
        .any(|event| event.text.contains("fault storm"));
    println!("storm told: {warned}");
}
