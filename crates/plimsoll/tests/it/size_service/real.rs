//! Services on the real kernel, with a zram device of the test's own.

use rustix::process::{Pid, Signal, kill_process};

use plimsoll_lab::environment::{Environment, Session};
use plimsoll_proc::cgroup::{CgroupVersion, MemoryCgroup};

use super::*;

/// The working set of the service, and the memory that it touched once.
const HOT: u64 = 64 * MIB;
const COLD: u64 = 32 * MIB;
/// Memory of two workers besides: their programs, stacks and page tables.
const OVERHEAD: u64 = 8 * MIB;

fn zram() -> bool {
    let there = Path::new("/sys/class/zram-control/hot_add").exists();
    hierarchy().is_some() && capability("zram", there, "needs the zram module")
}

/// A cgroup with a limit of its own that swaps to a zram device of its own, and a process in it that touched memory once.
struct Service {
    session: Session,
    environment: Environment,
    folder: PathBuf,
    file: PathBuf,
    /// The cap before the sizing.
    before: String,
    cold: Worker,
}

impl Service {
    /// None on a machine without zram.
    fn start() -> Option<Service> {
        if !zram() {
            return None;
        }
        let mut session = crate::machine::alone();
        let settings = crate::machine::settings("zram", COLD + HOT, 1024 * MIB, 512 * MIB);
        let environment = Environment::prepare(&mut session, &settings).expect("an environment");
        let cgroup = environment.cgroup().expect("a cgroup");
        let folder = cgroup.path().to_owned();
        let file = folder.join(Cap::file(cgroup.version()));
        Some(Service {
            before: read(&file),
            cold: Worker::cold(&folder, COLD),
            session,
            environment,
            folder,
            file,
        })
    }

    fn path(&self) -> &str {
        self.folder.to_str().expect("text")
    }

    /// The cap is the one of before, and the OOM killer is on.
    fn assert_restored(&self) {
        assert_eq!(read(&self.file), self.before);
        assert!(!is_killer_off(&self.folder));
    }

    /// Starts a sizing and waits until it has lowered the cap.
    fn sized_by(&self, sizing: &Sizing) -> Kept {
        sizing.started(&self.folder, &self.file, "2m")
    }

    fn end(mut self) {
        drop(self.cold);
        let _ = self.environment.tear_down(&mut self.session).expect("undone");
    }
}

/// Whether the OOM killer of a cgroup v1 is off, or `false` in v2, whose cap never kills.
fn is_killer_off(folder: &Path) -> bool {
    match hierarchy().expect("checked").version {
        CgroupVersion::V1 => {
            let group = MemoryCgroup::new(folder, CgroupVersion::V1);
            group.oom_control().expect("root may").kill_disabled
        }
        CgroupVersion::V2 => false,
    }
}

/// Ends a sizing by a signal. Returns its document.
fn stopped(process: Kept, by: Signal) -> Value {
    kill_process(Pid::from_child(&process.0), by).expect("it lives");
    let output = wait(process);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn wait(mut process: Kept) -> Output {
    let (mut stdout, mut stderr) = (process.0.stdout.take(), process.0.stderr.take());
    let mut output = Output {
        status: process.0.wait().expect("a child"),
        stdout: Vec::new(),
        stderr: Vec::new(),
    };
    // The output is small enough for the pipes.
    for (pipe, text) in [
        (
            stdout.as_mut().map(|pipe| pipe as &mut dyn std::io::Read),
            &mut output.stdout,
        ),
        (
            stderr.as_mut().map(|pipe| pipe as &mut dyn std::io::Read),
            &mut output.stderr,
        ),
    ] {
        if let Some(pipe) = pipe {
            pipe.read_to_end(text).expect("its output");
        }
    }
    output
}

/// A known answer: one process reads 64 MiB in a circle, another one touched 32 MiB once.
#[test]
fn the_working_set_of_a_service_is_found() {
    let Some(service) = Service::start() else { return };
    let hot = Worker::hot(&service.folder, HOT);
    let sizing = Sizing::new();
    let output = sizing.run(&[
        "--cgroup",
        service.path(),
        "--duration",
        "20s",
        "--psi",
        "1%",
        "--json",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    service.assert_restored();
    sizing.assert_no_journal();

    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |name: &str| document.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    assert_eq!(document["bound"], "pressure", "{document:#}");
    let found = number("/working_set/p50_bytes");
    let (least, most) = (HOT - HOT / 10, HOT + HOT / 10 + OVERHEAD);
    assert!((least..=most).contains(&found), "{document:#}");
    assert!(number("/peak_bytes") >= HOT + COLD, "{document:#}");
    assert!(number("/anonymous_bytes") >= HOT + COLD, "{document:#}");
    assert!(number("/least_cap_bytes") < most, "{document:#}");
    assert_eq!(
        sizing.results()["service"]["working_set"],
        document["working_set"]
    );

    let recording = sizing.recording().expect("a recording");
    assert!(recording.join("report.html").exists());
    let text = plimsoll_testkit::command(PLIMSOLL)
        .args(["report", "--format", "text"])
        .arg(&recording)
        .output()
        .expect("plimsoll starts");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(
        text.contains("MemoryHigh=") && text.contains("requests:"),
        "{text}"
    );
    drop(hot);
    service.end();
}

#[test]
fn a_killed_sizing_is_undone_by_cleanup() {
    let Some(service) = Service::start() else { return };
    let sizing = Sizing::new();
    for _ in 0..3 {
        let process = service.sized_by(&sizing);
        drop(process);
        let v1 = hierarchy().expect("checked").version == CgroupVersion::V1;
        assert_eq!(is_killer_off(&service.folder), v1, "the cap of v1 must not kill");
        let lowered = read(&service.file);
        assert_ne!(lowered, service.before, "a killed sizing restores nothing");
        // A sizing now would take that cap for the service's own.
        let refused = sizing.run(&["--cgroup", service.path(), "--json"]);
        assert_eq!(code(&refused), 3, "{}", stderr(&refused));
        assert_eq!(
            (read(&service.file), is_killer_off(&service.folder)),
            (lowered, v1)
        );
        let output = sizing.cleanup();
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        service.assert_restored();
        sizing.assert_no_journal();
        fs::remove_dir_all(sizing.recording().expect("a recording")).expect("removed");
    }
    service.end();
}

#[test]
fn a_signal_restores_the_cap() {
    let Some(service) = Service::start() else { return };
    for stop in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sizing = Sizing::new();
        let process = service.sized_by(&sizing);
        let document = stopped(process, stop);
        service.assert_restored();
        sizing.assert_no_journal();
        assert_eq!(sizing.results()["status"], "interrupted");
        assert!(document["early"].is_string(), "{document:#}");
    }
    service.end();
}

/// A service without swap needs more memory at once than its cap leaves. In v1 it waits until the cap is lifted, and lives.
#[test]
fn a_service_that_outgrows_the_cap_is_not_killed() {
    let Some(group) = Group::new("outgrows") else {
        return;
    };
    let version = group.hierarchy.version;
    let cgroup = MemoryCgroup::new(&group.folder, version);
    cgroup.set_limit(512 * MIB).expect("a limit");
    cgroup.forbid_swap(512 * MIB).expect("a limit");
    if version == CgroupVersion::V1 {
        cgroup.set_swappiness(0).expect("a swappiness");
    }
    let before = read(&group.cap_file());
    let cold = Worker::cold(&group.folder, 32 * MIB);
    // Page cache, the only memory that the sizing can reclaim.
    let files = tempfile::tempdir().expect("a folder");
    let file = format!("of={}", files.path().join("cache").display());
    let words = ["dd", "if=/dev/zero", &file, "bs=1M", "count=64", "conv=fsync"];
    let cached = inside(&group.folder, &words).output().expect("a shell");
    assert_eq!(code(&cached), 0, "{}", stderr(&cached));
    let sizing = Sizing::new();
    // The interval is 3 s: the worker fills its memory before the sizing changes the cap again.
    let process = sizing.started(&group.folder, &group.cap_file(), "10m");
    let more = Worker::cold(&group.folder, 256 * MIB);
    let document = stopped(process, Signal::INT);
    assert_eq!(cgroup.oom_kills().expect("root may"), 0, "{document:#}");
    assert_eq!(read(&group.cap_file()), before);
    assert!(!is_killer_off(&group.folder));
    sizing.assert_no_journal();
    drop((cold, more));
}

/// The OOM killer of v1 that an administrator turned off is off during the sizing and after it.
#[test]
fn an_oom_killer_that_was_off_stays_off() {
    let Some(service) = Service::start() else { return };
    let version = hierarchy().expect("checked").version;
    let v1 = version == CgroupVersion::V1;
    if v1 {
        let group = MemoryCgroup::new(&service.folder, version);
        group.let_oom_kill(false).expect("root may");
    }
    let sizing = Sizing::new();
    let process = service.sized_by(&sizing);
    assert_eq!(is_killer_off(&service.folder), v1);
    stopped(process, Signal::INT);
    assert_eq!(read(&service.file), service.before);
    assert_eq!(is_killer_off(&service.folder), v1);
    sizing.assert_no_journal();
    service.end();
}

/// An administrator, or systemd, sets the cap meanwhile: theirs stays.
#[test]
fn a_cap_that_another_program_changes_stays_its_own() {
    let Some(service) = Service::start() else { return };
    let sizing = Sizing::new();
    let process = service.sized_by(&sizing);
    let theirs = (900 * MIB).to_string();
    fs::write(&service.file, &theirs).expect("root may");
    let output = wait(process);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert_eq!(read(&service.file), theirs);
    sizing.assert_no_journal();
    let warnings = sizing.results()["warnings"].clone();
    let codes: Vec<&Value> = warnings
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["code"])
        .collect();
    assert!(codes.contains(&&Value::from("change-left")), "{warnings}");
    service.end();
}

#[test]
fn the_second_sizing_of_two_waits_for_nobody_and_changes_nothing() {
    let Some(service) = Service::start() else { return };
    let sizing = Sizing::new();
    let process = service.sized_by(&sizing);
    let output = sizing.run(&["--cgroup", service.path()]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    stopped(process, Signal::INT);
    assert_eq!(read(&service.file), service.before);
    service.end();
}

/// The process of `--pid` ends; then its cgroup goes away too.
#[test]
fn a_service_that_ends_ends_the_sizing() {
    for removed in [false, true] {
        let Some(group) = Group::new("ends") else { return };
        let before = read(&group.cap_file());
        let mut first = sleeper(&group.folder);
        let mut second = sleeper(&group.folder);
        let sizing = Sizing::new();
        let pid = first.pid().to_string();
        let process = sizing.begun(&["--pid", &pid, "--duration", "10m", "--json"]);
        first.kill();
        if removed {
            second.kill();
            wait_until("the end of the cgroup", || fs::remove_dir(&group.folder).is_ok());
        }
        let output = wait(process);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        sizing.assert_no_journal();
        let warnings = sizing.results()["warnings"].to_string();
        assert!(
            warnings.contains("shared-cgroup"),
            "the second one is a stranger: {warnings}"
        );
        if !removed {
            assert_eq!(read(&group.cap_file()), before);
        }
    }
}

/// A service that outgrows its own limit is killed; the cap is then not the sizing's any more.
#[test]
fn an_oom_kill_ends_the_sizing_and_restores_the_cap() {
    let Some(group) = Group::new("oom") else { return };
    let version = group.hierarchy.version;
    let cgroup = MemoryCgroup::new(&group.folder, version);
    cgroup.set_limit(128 * MIB).expect("a limit");
    // No page of it goes to the swap of others: v1's limit on both lets a lower limit swap.
    cgroup.forbid_swap(128 * MIB).expect("a limit");
    if version == CgroupVersion::V1 {
        cgroup.set_swappiness(0).expect("a swappiness");
    }
    let before = read(&group.cap_file());
    let cold = Worker::cold(&group.folder, 32 * MIB);
    let sizing = Sizing::new();
    let path = group.folder.to_str().expect("text");
    let process = sizing.begun(&["--cgroup", path, "--duration", "10m", "--json"]);
    let mut greedy = Worker::start(&group.folder);
    greedy.fill(512 * MIB);
    let output = wait(process);
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert_eq!(read(&group.cap_file()), before);
    sizing.assert_no_journal();
    drop((cold, greedy));
}
