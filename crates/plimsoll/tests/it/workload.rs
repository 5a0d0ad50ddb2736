//! Tests of the `workload` room: real worker processes, driven, killed and tampered with from outside.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_lab::workload::Cost;
use plimsoll_lab::workload::protocol::{Command, Placement, RefusalCode, Reply, Verification};
use plimsoll_lab::workload::{Worker, WorkerError, WorkerOptions};
use plimsoll_model::scenario::{FillClass, ThpMode};
use plimsoll_proc::cgroup::{CgroupVersion, MemoryCgroup};
use plimsoll_testkit::next_line;

const EXE: &str = env!("CARGO_BIN_EXE_plimsoll");
const MINUTE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;

fn worker() -> Worker {
    Worker::spawn(Path::new(EXE), &WorkerOptions::default()).unwrap()
}

fn fill(bytes: u64, class: FillClass) -> Command {
    Command::Fill {
        bytes,
        request: 3 * MIB,
        class,
        seed: 17,
        thp: ThpMode::Never,
        placement: Placement::default(),
    }
}

fn call(worker: &mut Worker, command: &Command) -> Result<Reply, WorkerError> {
    worker.call(command, MINUTE, &AtomicBool::new(false))
}

fn done(worker: &mut Worker, command: &Command) -> (Cost, Option<Verification>) {
    match call(worker, command).unwrap() {
        Reply::Done { cost, verification } => (cost, verification),
        other => panic!("{other:?}"),
    }
}

fn ranges(worker: &mut Worker) -> Vec<(u64, u64)> {
    match call(worker, &Command::Mappings).unwrap() {
        Reply::Mappings { ranges } => ranges,
        other => panic!("{other:?}"),
    }
}

/// True while process `pid` exists and is not a zombie.
fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

fn ends_within(pid: u32, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if !lives(pid) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn every_class_is_filled_trimmed_restored_and_released() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "some text of a real file\n".repeat(999)).unwrap();
    let mut worker = worker();
    for class in [
        FillClass::Random,
        FillClass::Runs20,
        FillClass::Constant,
        FillClass::Ratio(3.5),
        FillClass::File(file.path().to_owned()),
    ] {
        // Not a multiple of the request, of a page or of a generator block.
        let bytes = 10 * MIB + 4321;
        let (filled, none) = done(&mut worker, &fill(bytes, class.clone()));
        assert_eq!((filled.bytes, none), (bytes, None));
        let resident = worker.usage().unwrap().resident_bytes;
        assert!(resident >= bytes, "{class}");
        assert_eq!(done(&mut worker, &Command::Trim).0.bytes, bytes);
        let (read, verification) = done(&mut worker, &Command::Restore);
        let verification = verification.unwrap();
        assert!(
            verification.holds() && verification.bytes == bytes,
            "{class}: {verification:?}"
        );
        assert_eq!(read.bytes, bytes);
        assert_eq!(done(&mut worker, &Command::Release).0.bytes, bytes);
        // The program's own pages come and go besides; a debug build has many.
        let left = worker.usage().unwrap().resident_bytes;
        assert!(left + bytes / 2 < resident, "{class}: {left} of {resident}");
    }
}

#[test]
fn a_byte_changed_behind_the_workers_back_is_found() {
    let mut worker = worker();
    done(&mut worker, &fill(8 * MIB, FillClass::Random));
    let ranges = ranges(&mut worker);
    assert_eq!(
        ranges.iter().map(|range| range.1).collect::<Vec<_>>(),
        [3 * MIB, 3 * MIB, 2 * MIB]
    );
    let memory = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{}/mem", worker.pid()))
        .unwrap();
    let at = ranges[1].0 + 12_345;
    let mut byte = [0];
    memory.read_exact_at(&mut byte, at).unwrap();
    memory.write_all_at(&[byte[0] ^ 1], at).unwrap();

    let found = done(&mut worker, &Command::Restore).1.unwrap();
    assert_eq!(
        (found.wrong_bytes, found.first_wrong),
        (1, Some(3 * MIB + 12_345))
    );
    assert!(!found.holds() && found.checksum != found.expected_checksum);

    memory.write_all_at(&byte, at).unwrap();
    assert!(done(&mut worker, &Command::Restore).1.unwrap().holds());
}

#[test]
fn a_worker_killed_from_outside_is_noticed_at_once() {
    let mut worker = worker();
    done(&mut worker, &fill(MIB, FillClass::Constant));
    let pid = rustix::process::Pid::from_raw(worker.pid() as i32).unwrap();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    // Restore after restore, so that the kill falls into one or between two. No clock reaches the end of a call: only the
    // notice of the death can end it.
    let never = Duration::from_secs(u64::MAX);
    let error = loop {
        if let Err(error) = worker.call(&Command::Restore, never, &AtomicBool::new(false)) {
            break error;
        }
    };
    killer.join().unwrap();
    assert!(
        matches!(
            error,
            WorkerError::Died {
                signal: Some(9),
                status: None
            }
        ),
        "{error:?}"
    );
    // Each further call returns the same error.
    let again = call(&mut worker, &Command::Trim).unwrap_err();
    assert!(
        matches!(again, WorkerError::Died { signal: Some(9), .. }),
        "{again:?}"
    );
}

#[test]
fn the_end_of_its_input_ends_a_worker() {
    let mut child = Process::new(EXE)
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready: Reply = serde_json::from_str(&next_line(&mut child)).unwrap();
    assert_eq!(ready, Reply::Ready { pid: child.id() });
    let mut input = child.stdin.take().unwrap();
    let mut command = serde_json::to_string(&fill(MIB, FillClass::Random)).unwrap();
    command.push('\n');
    input.write_all(command.as_bytes()).unwrap();
    drop(input);
    // The command before the end is still carried out.
    let line = next_line(&mut child);
    assert!(
        matches!(serde_json::from_str(&line).unwrap(), Reply::Done { .. }),
        "{line}"
    );
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_dropped_worker_is_gone() {
    let mut worker = worker();
    done(&mut worker, &fill(MIB, FillClass::Random));
    let pid = worker.pid();
    assert!(lives(pid));
    drop(worker);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "not reaped");
}

#[test]
fn a_worker_dies_with_the_thread_that_started_it() {
    let pid = std::thread::spawn(|| {
        let worker = worker();
        let pid = worker.pid();
        // Its destructor, which would kill it, must not run.
        std::mem::forget(worker);
        pid
    })
    .join()
    .unwrap();
    assert!(ends_within(pid, MINUTE));
}

#[test]
fn holding_memory_burns_no_cpu() {
    let mut worker = worker();
    done(&mut worker, &fill(16 * MIB, FillClass::Random));
    let before = worker.usage().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let after = worker.usage().unwrap();
    let cpu = (after.cpu_user_s + after.cpu_system_s) - (before.cpu_user_s + before.cpu_system_s);
    // At most one clock tick.
    assert!(cpu <= 0.011, "{cpu} s of CPU in 1.5 s of doing nothing");
}

#[test]
fn a_failed_fill_is_an_error_and_the_worker_continues() {
    let mut worker = worker();
    let huge = Command::Fill {
        bytes: 99 << 40,
        request: 1 << 30,
        class: FillClass::Constant,
        seed: 1,
        thp: ThpMode::System,
        placement: Placement::default(),
    };
    for (command, expected) in [
        (huge, RefusalCode::TooMuch),
        (fill(0, FillClass::Random), RefusalCode::ZeroBytes),
        (
            fill(MIB, FillClass::File("/no/such/file".into())),
            RefusalCode::Data,
        ),
        (Command::Restore, RefusalCode::NothingFilled),
    ] {
        match call(&mut worker, &command) {
            Err(WorkerError::Failed { code, message }) => assert_eq!(code, expected, "{message}"),
            other => panic!("{other:?}"),
        }
    }
    done(&mut worker, &fill(MIB, FillClass::Constant));
}

#[test]
fn an_address_space_limit_is_a_refusal_and_not_a_crash() {
    let script = format!("ulimit -v 262144; exec {EXE} worker");
    let mut child = Process::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut command = serde_json::to_string(&fill(512 * MIB, FillClass::Constant)).unwrap();
    command.push('\n');
    child.stdin.take().unwrap().write_all(command.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let replies: Vec<Reply> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        matches!(
            &replies[..],
            [
                Reply::Ready { .. },
                Reply::Failed {
                    code: RefusalCode::Map,
                    ..
                }
            ]
        ),
        "{replies:?}"
    );
}

#[test]
fn a_timeout_and_an_interruption_end_the_wait() {
    let long = Command::Calibrate;
    let mut slow = worker();
    let error = slow
        .call(&long, Duration::from_millis(20), &AtomicBool::new(false))
        .unwrap_err();
    assert!(matches!(error, WorkerError::Timeout { .. }), "{error:?}");
    // The answer that is still to come must not be taken for that of the next command.
    assert!(matches!(
        call(&mut slow, &Command::Trim),
        Err(WorkerError::Protocol(_))
    ));
    drop(slow);

    let interrupted = AtomicBool::new(false);
    // It never answers: only the interruption can end the wait.
    let mut busy = worker();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(busy.pid() as i32).unwrap(),
        rustix::process::Signal::STOP,
    )
    .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            interrupted.store(true, Ordering::Relaxed);
        });
        let start = Instant::now();
        let error = busy.call(&long, 60 * MINUTE, &interrupted).unwrap_err();
        assert!(matches!(error, WorkerError::Interrupted), "{error:?}");
        assert!(start.elapsed() < MINUTE, "it waited for an answer");
    });
}

#[test]
fn a_program_that_is_no_worker_is_an_error() {
    let options = WorkerOptions::default();
    let missing = Worker::spawn(Path::new("/no/such/program"), &options).unwrap_err();
    assert!(matches!(missing, WorkerError::Spawn { .. }), "{missing}");
    let ends = Worker::spawn(Path::new("/bin/false"), &options).unwrap_err();
    assert!(
        matches!(
            ends,
            WorkerError::Died {
                status: Some(1),
                signal: None
            }
        ),
        "{ends}"
    );
    let talks = Worker::spawn(Path::new("/bin/echo"), &options).unwrap_err();
    assert!(matches!(talks, WorkerError::Protocol(_)), "{talks}");
    let nowhere = WorkerOptions {
        cgroup: Some(MemoryCgroup::new("/no/such/cgroup", CgroupVersion::V2)),
        ..WorkerOptions::default()
    };
    let homeless = Worker::spawn(Path::new(EXE), &nowhere).unwrap_err();
    assert!(matches!(homeless, WorkerError::Cgroup { .. }), "{homeless}");
}

#[test]
fn a_trim_from_outside_covers_every_byte() {
    let mut worker = worker();
    let bytes = 130 * MIB + 77;
    done(&mut worker, &fill(bytes, FillClass::Constant));
    let outcome = worker.trim_from_outside(3, MINUTE, &AtomicBool::new(false));
    let refused = matches!(&outcome, Err(WorkerError::TrimFromOutside { errno, .. })
        if [plimsoll_os::Errno::PERM, plimsoll_os::Errno::NOSYS].contains(errno));
    if !plimsoll_testkit::capability("process-madvise", !refused, "the kernel refuses process_madvise") {
        return;
    }
    assert_eq!(outcome.unwrap().bytes, bytes);
    assert!(done(&mut worker, &Command::Restore).1.unwrap().holds());
    let interrupted = worker.trim_from_outside(1, MINUTE, &AtomicBool::new(true));
    assert!(
        matches!(interrupted, Err(WorkerError::Interrupted)),
        "{interrupted:?}"
    );
}

/// A memory cgroup of this test's own, v1 or v2, removed at the end.
struct OwnCgroup(std::path::PathBuf);

impl OwnCgroup {
    fn create() -> std::io::Result<OwnCgroup> {
        let parent = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
            .into_iter()
            .find(|path| Path::new(path).join("cgroup.procs").exists())
            .ok_or(std::io::ErrorKind::NotFound)?;
        let path = Path::new(parent).join(format!("plimsoll-test-workload-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(OwnCgroup(path))
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_worker_is_in_its_cgroup_before_it_is_ready() {
    let cgroup = OwnCgroup::create();
    let reason = cgroup.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !plimsoll_testkit::capability("cgroup", cgroup.is_ok(), &reason) {
        return;
    }
    let cgroup = cgroup.unwrap();
    let options = WorkerOptions {
        cgroup: Some(MemoryCgroup::new(&cgroup.0, CgroupVersion::V2)),
        ..WorkerOptions::default()
    };
    let worker = Worker::spawn(Path::new(EXE), &options).unwrap();
    let procs = fs::read_to_string(cgroup.0.join("cgroup.procs")).unwrap();
    assert_eq!(procs.trim(), worker.pid().to_string());
    worker.kill().unwrap();
}

#[test]
fn a_calibration_is_plausible() {
    let calibration = match call(&mut worker(), &Command::Calibrate).unwrap() {
        Reply::Calibration { calibration } => calibration,
        other => panic!("{other:?}"),
    };
    for (value, from, to) in [
        (calibration.memset_gb_per_s, 0.5, 500.0),
        (calibration.memcpy_gb_per_s, 0.2, 500.0),
        (calibration.read_gb_per_s, 0.02, 500.0),
        (calibration.first_touch_gb_per_s, 0.01, 500.0),
        (calibration.fault_ns, 20.0, 100_000.0),
        (calibration.random_access_ns, 5.0, 20_000.0),
        (calibration.timer_ns, 1.0, 20_000.0),
    ] {
        assert!((from..to).contains(&value), "{calibration:?}");
    }
    // A fault does all that a load does, and more.
    assert!(
        calibration.memset_gb_per_s > calibration.first_touch_gb_per_s,
        "{calibration:?}"
    );
}

/// A swap file of this test's own, in use until dropped.
struct OwnSwap {
    name: std::ffi::CString,
    _folder: tempfile::TempDir,
    // Last: the machine is free once the swap is off.
    _alone: plimsoll_lab::environment::Session,
}

impl OwnSwap {
    fn turn_on(bytes: usize) -> std::io::Result<OwnSwap> {
        use std::os::unix::ffi::OsStrExt;
        let page = plimsoll_os::page_size();
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let path = folder.path().join("swap");
        // The header of mkswap(8): version and last page at 1024, the signature at the end of the first page.
        let mut contents = vec![0; bytes];
        contents[1024..1028].copy_from_slice(&1u32.to_ne_bytes());
        contents[1028..1032].copy_from_slice(&((bytes / page - 1) as u32).to_ne_bytes());
        contents[page - 10..page].copy_from_slice(b"SWAPSPACE2");
        let mut file = fs::File::create(&path)?;
        file.write_all(&contents)?;
        file.sync_all()?;
        let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        let alone = crate::machine::alone();
        let swap = plimsoll_os::swap_on(&name, Some(100));
        swap.map_err(|errno| std::io::Error::from_raw_os_error(errno.raw()))?;
        Ok(OwnSwap {
            name,
            _folder: folder,
            _alone: alone,
        })
    }
}

impl Drop for OwnSwap {
    fn drop(&mut self) {
        plimsoll_os::swap_off(&self.name).unwrap();
    }
}

#[test]
fn trimmed_memory_leaves_the_working_set_and_comes_back_whole() {
    let swap = OwnSwap::turn_on(64 << 20);
    let reason = swap.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !plimsoll_testkit::capability("swapfile", swap.is_ok(), &reason) {
        return;
    }
    // Dropped after the worker, so that the swap file is empty when it is turned off.
    let _swap = swap.unwrap();
    let mut worker = worker();
    let bytes = 24 * MIB;
    done(&mut worker, &fill(bytes, FillClass::Random));
    for from_outside in [false, true] {
        let full = worker.usage().unwrap().resident_bytes;
        if from_outside {
            worker
                .trim_from_outside(1, MINUTE, &AtomicBool::new(false))
                .unwrap();
        } else {
            done(&mut worker, &Command::Trim);
        }
        let left = worker.usage().unwrap().resident_bytes;
        // Pages under writeback or shared with a batch may stay; most must go.
        assert!(
            left + bytes * 9 / 10 < full,
            "{left} of {full} bytes left, from outside: {from_outside}"
        );
        let (cost, verification) = done(&mut worker, &Command::Restore);
        assert!(verification.unwrap().holds());
        assert!(cost.major_faults + cost.minor_faults > 0, "{cost:?}");
        assert!(worker.usage().unwrap().resident_bytes >= bytes);
    }
}
