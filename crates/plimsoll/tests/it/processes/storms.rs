//! The fault-storm detector on real memory: workers in cgroups of their own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use plimsoll_lab::environment::{Cgroup, Environment};
use plimsoll_model::scenario::{FillClass, Settings, ThpMode};
use plimsoll_monitor::processes::{Depth, Observer, Storm, pinned_from, storms};
use plimsoll_testkit::capability;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};

use super::{Kept, wait_until};

const MIB: u64 = 1 << 20;

/// A cgroup of this test's, removed when dropped.
pub(super) struct Group {
    pub(super) folder: PathBuf,
    version: CgroupVersion,
}

impl Group {
    pub(super) fn new(name: &str, limit: u64) -> Option<Group> {
        let hierarchy = Hierarchy::of_this_process();
        let root = rustix::process::geteuid().is_root();
        if !capability(
            "cgroup",
            root && hierarchy.is_ok(),
            "needs root and a memory cgroup hierarchy",
        ) {
            return None;
        }
        let hierarchy = hierarchy.unwrap();
        let folder = hierarchy
            .mount
            .join(format!("plimsoll-ps-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let group = Group {
            folder,
            version: hierarchy.version,
        };
        fs::write(group.limit_file(), limit.to_string()).unwrap();
        Some(group)
    }

    fn limit_file(&self) -> PathBuf {
        self.folder.join(match self.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes were killed before; their memory may still be being freed.
        for _ in 0..500 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Starts a command inside of a cgroup, with this standard output.
fn spawn(folder: &Path, command: &str, output: Stdio) -> Child {
    plimsoll_testkit::command("sh")
        .args([
            "-c",
            &format!("echo $$ > {}/cgroup.procs && exec {command}", folder.display()),
        ])
        .stdin(Stdio::piped())
        .stdout(output)
        .spawn()
        .unwrap()
}

/// A worker that fills memory and reads it again and again.
pub(crate) fn scanner(folder: &Path, bytes: u64) -> Kept {
    scanner_to(folder, bytes, Stdio::null())
}

/// The same, with its replies in `output`.
fn scanner_to(folder: &Path, bytes: u64, output: Stdio) -> Kept {
    let mut child = spawn(
        folder,
        &format!("{} worker", env!("CARGO_BIN_EXE_plimsoll")),
        output,
    );
    let fill = plimsoll_lab::workload::protocol::Command::Fill {
        bytes,
        request: bytes,
        class: FillClass::Constant,
        seed: 1,
        thp: ThpMode::Never,
        placement: plimsoll_lab::workload::protocol::Placement::default(),
    };
    let line = serde_json::to_string(&fill).unwrap() + "\n";
    let again = serde_json::to_string(&plimsoll_lab::workload::protocol::Command::Restore).unwrap() + "\n";
    let mut input = child.stdin.take().unwrap();
    input.write_all(line.as_bytes()).unwrap();
    // Until it is killed, however fast it reads.
    std::thread::spawn(move || while input.write_all(again.as_bytes()).is_ok() {});
    Kept(child)
}

/// Runs `look` on a worker that scans `bytes` in the cgroup; repeats it if the OOM killer ended the worker.
///
/// Linux 6.18 once killed a scanner a second after its start, at a fault that took a page back from zram: its cgroup had
/// 36 MB in swap, and 60 MB of swap were free. No storm is of a worker that has ended.
pub(crate) fn while_scanned<T>(cgroup: &Cgroup, bytes: u64, look: impl Fn(&mut Kept) -> T) -> T {
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        let kills = cgroup.oom_kills().unwrap();
        let mut worker = scanner(cgroup.path(), bytes);
        let findings = look(&mut worker);
        let has_ended = worker.0.try_wait().unwrap();
        if cgroup.oom_kills().unwrap() == kills {
            assert_eq!(has_ended, None, "the worker ended, and not by the OOM killer");
            return findings;
        }
        println!("the OOM killer ended the worker: {has_ended:?}");
    }
    panic!("the OOM killer ended {TRIES} workers");
}

/// A file of `bytes`, of which nothing is in the page cache: its reader is charged for it. It is one hole, so that how
/// often its pages go and come depends on no disk.
fn file(bytes: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.as_file().set_len(bytes).unwrap();
    file
}

/// The storm of `folder` over a second, if there is one.
fn storm(folder: &Path) -> Option<Storm> {
    let mut observer = Observer::new().unwrap();
    let before = observer.snapshot(Depth::Counters).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let after = observer.snapshot(Depth::Detail).unwrap();
    storms(&before, &after)
        .into_iter()
        .find(|storm| storm.cgroup == folder)
}

fn usage(folder: &Path) -> u64 {
    let mut observer = Observer::new().unwrap();
    let snapshot = observer.snapshot(Depth::Counters).unwrap();
    snapshot
        .cgroups
        .get(folder)
        .and_then(|cgroup| cgroup.usage)
        .unwrap_or(0)
}

pub(crate) fn zram(limit: u64) -> Settings {
    crate::machine::settings("zram", 32 * MIB, limit, 96 * MIB)
}

/// The document of `plimsoll ps --storm --json`.
fn storms_listed() -> serde_json::Value {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    let output = command.args(["ps", "--storm", "--json"]).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The story: 64 MiB scanned again and again under a cap of 32 MiB.
#[test]
fn anonymous_memory_scanned_beyond_its_cap_is_a_storm() {
    let there = Path::new("/sys/class/zram-control/hot_add").exists() && rustix::process::geteuid().is_root();
    if !capability("zram", there, "needs root and the zram module") {
        return;
    }
    let mut session = crate::machine::alone();
    let environment = Environment::prepare(&mut session, &zram(32 * MIB)).unwrap();
    let cgroup = environment.cgroup().unwrap();
    let folder = cgroup.path().to_owned();
    let (pid, found, listing) = while_scanned(cgroup, 64 * MIB, |worker| {
        wait_until("the cap to be reached", || {
            usage(&folder) > 31 * MIB || worker.has_ended()
        });
        let found = (0..10).find_map(|_| storm(&folder));
        let listing = (0..10)
            .map(|_| storms_listed())
            .find(|listing| listing["storms"] != serde_json::json!([]));
        (worker.pid(), found, listing)
    });
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();

    let found = found.expect("a storm");
    assert_eq!(
        (found.cap.bytes, found.processes[0].identity.pid),
        (32 * MIB, pid)
    );
    assert!(found.cap.file.starts_with(&folder));
    assert!(found.anon_per_s > found.refaults_per_s / 2.0, "{found:?}");
    assert!(found.processes[0].rates.major_per_s > 100.0, "{found:?}");
    assert!(
        found.system_percent >= plimsoll_monitor::processes::SYSTEM_PERCENT,
        "{found:?}"
    );
    assert!(
        found.usage_before > 30 * MIB && found.cap.usage.unwrap() <= 32 * MIB,
        "{found:?}"
    );
    println!("{}\n{}", found.sentence(), found.advice);
    let document = listing.expect("`ps --storm` finds it too");
    let entries = document["processes"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["storm"] == true), "{entries:?}");
    let entry = entries
        .iter()
        .find(|entry| entry["pid"] == pid)
        .expect("the worker is listed");
    assert!(entry["swap"].as_u64().unwrap() > 16 * MIB, "{entry}");
}

/// No swap is needed to storm: the pages of a file that is larger than the cap go and come too.
#[test]
fn a_file_read_again_and_again_beyond_its_cap_is_a_storm() {
    let Some(group) = Group::new("file", 16 * MIB) else {
        return;
    };
    let file = file(48 * MIB);
    let names = format!("{} ", file.path().display()).repeat(1000);
    let reader = Kept(spawn(&group.folder, &format!("cat {names}"), Stdio::null()));
    wait_until("the cap to be reached", || usage(&group.folder) > 15 * MIB);
    let found = (0..10).find_map(|_| storm(&group.folder)).expect("a storm");
    assert_eq!(found.processes[0].identity.pid, reader.pid());
    assert!(found.anon_per_s < found.refaults_per_s / 2.0, "{found:?}");
    assert_eq!(found.cap.file, group.limit_file());
    assert!(
        found
            .sentence()
            .contains(&group.limit_file().display().to_string())
    );
}

#[test]
fn the_same_scan_within_its_cap_is_none_and_neither_is_its_first_touch() {
    let Some(group) = Group::new("roomy", 256 * MIB) else {
        return;
    };
    let mut observer = Observer::new().unwrap();
    let mut worker = scanner(&group.folder, 64 * MIB);
    let before = observer.snapshot(Depth::Counters).unwrap();
    wait_until("the fill", || usage(&group.folder) > 60 * MIB);
    let after = observer.snapshot(Depth::Detail).unwrap();
    let process = after.process(worker.pid()).unwrap();
    assert!(process.minor_faults > 10_000, "{process:?}");
    assert!(
        storms(&before, &after)
            .iter()
            .all(|storm| storm.cgroup != group.folder)
    );
    assert_eq!(storm(&group.folder), None);
    assert!(worker.0.try_wait().unwrap().is_none(), "the worker has ended");
}

/// A working set that just fits is at its cap, and busy, and misses nothing.
#[test]
fn a_cgroup_at_its_cap_without_refaults_is_no_storm() {
    let Some(group) = Group::new("full", 256 * MIB) else {
        return;
    };
    let replies = tempfile::NamedTempFile::new().unwrap();
    let output = replies.reopen().unwrap().into();
    let mut worker = scanner_to(&group.folder, 16 * MIB, output);
    // It is ready, has filled its memory, and has read all of it once.
    wait_until("the fill", || {
        fs::read_to_string(replies.path()).unwrap().lines().count() >= 3
    });
    let cap = usage(&group.folder) + MIB / 2;
    fs::write(group.limit_file(), cap.to_string()).unwrap();
    let mut observer = Observer::new().unwrap();
    let before = observer.snapshot(Depth::Counters).unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let after = observer.snapshot(Depth::Detail).unwrap();
    for snapshot in [&before, &after] {
        let usage = snapshot.cgroups[&group.folder].usage.unwrap();
        assert!(
            usage as f64 >= pinned_from(cap),
            "not at its cap: {usage} of {cap}"
        );
    }
    let user = [&before, &after].map(|snapshot| snapshot.process(worker.pid()).unwrap().user_us);
    assert!(user[1] > user[0], "it does nothing: {user:?}");
    let found = storms(&before, &after);
    assert!(
        found.iter().all(|storm| storm.cgroup != group.folder),
        "{found:?}"
    );
    assert!(worker.0.try_wait().unwrap().is_none(), "the worker has ended");
}
