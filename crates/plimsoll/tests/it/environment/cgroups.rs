//! The memory cgroup of a run, on whichever version this machine has.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use plimsoll_lab::environment::{Cgroup, Environment, EnvironmentError, missing};
use plimsoll_proc::cgroup::{Hierarchy, PROCESSES};
use serde_json::Value;

use super::{MIB, NEVER, again, has_cgroup, is_role, read, session, settings};

/// Starts a shell that moves into the cgroup and becomes `command`.
fn spawn_inside(cgroup: &Cgroup, command: &str) -> Child {
    let procs = cgroup.group().file(PROCESSES);
    plimsoll_testkit::command("sh")
        .args(["-c", &format!("echo $$ > {} && exec {command}", procs.display())])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_cgroup_is_made_limited_and_removed() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-cgroup");
    let environment = Environment::prepare(&mut session, &settings("none")).unwrap();
    let cgroup = environment.cgroup().unwrap().clone();
    assert!(
        cgroup
            .path()
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("plimsoll-test-cgroup")
    );
    assert_eq!(cgroup.limit().unwrap(), Some(48 * MIB));
    assert_eq!(
        environment.description().cgroup.as_ref().unwrap().limit,
        Some(48 * MIB)
    );
    assert!(environment.swap_device().is_none());
    assert!(cgroup.usage().unwrap() < 48 * MIB);
    assert_eq!(cgroup.oom_kills().unwrap(), 0);
    let report = environment.tear_down(&mut session).unwrap();
    assert_eq!(report.undone.len(), 1, "{report:?}");
    assert!(!cgroup.path().exists());
    let _ = session.finish().unwrap();
}

#[test]
fn workers_are_killed_and_strangers_moved_out() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-processes");
    let environment = Environment::prepare(&mut session, &settings("none")).unwrap();
    let cgroup = environment.cgroup().unwrap().clone();
    let mut worker = spawn_inside(&cgroup, "sleep 60");
    let mut stranger = spawn_inside(&cgroup, "sleep 61");
    session.process_started(worker.id()).unwrap();
    wait_until("both to move in", || {
        read(cgroup.group().file(PROCESSES)).lines().count() == 2
    });
    let _ = environment.tear_down(&mut session).unwrap();
    assert!(!cgroup.path().exists());
    assert!(
        worker.try_wait().unwrap().is_some(),
        "the worker outlived its environment"
    );
    assert!(
        stranger.try_wait().unwrap().is_none(),
        "a process that the run did not start was killed"
    );
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let _ = session.finish().unwrap();
}

#[test]
fn an_oom_kill_is_counted() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-oom");
    let mut asked = settings("none");
    asked.limit = 16 * MIB;
    let environment = Environment::prepare(&mut session, &asked).unwrap();
    let cgroup = environment.cgroup().unwrap();
    // Keeps a line without an end in memory.
    let mut eater = spawn_inside(cgroup, "tail /dev/zero");
    assert!(!eater.wait().unwrap().success());
    assert!(cgroup.oom_kills().unwrap() >= 1);
    assert_eq!(
        cgroup.swap().unwrap().unwrap_or(0),
        0,
        "the subject `none` must not swap"
    );
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();
}

#[test]
fn unreclaimable_memory_is_an_error_and_keeps_the_limit() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-reclaim");
    let environment = Environment::prepare(&mut session, &settings("none")).unwrap();
    let cgroup = environment.cgroup().unwrap();
    // The bytes stay in a variable. The shell says when it holds them all: until then `usage` tells little, since pages
    // of its program may be charged to another cgroup, and its buffers come and go.
    let held = 12 * MIB;
    let script = format!(
        "echo $$ > {} && a=$(head -c {held} /dev/zero | tr '\\0' x) && echo ${{#a}} && read end",
        cgroup.group().file(PROCESSES).display()
    );
    let mut holder = plimsoll_testkit::command("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = plimsoll_testkit::next_line(&mut holder);
    assert_eq!(line, held.to_string(), "the holder died, or holds less");
    // Without swap its memory has nowhere to go.
    let (all, minute) = (cgroup.usage().unwrap(), Duration::from_secs(60));
    assert!(all >= held, "{all} bytes of {held} are accounted");
    let reclaimed = cgroup.reclaim(all, minute, &NEVER).unwrap();
    assert!(!reclaimed.complete, "{reclaimed:?}");
    assert!(reclaimed.after >= held, "{reclaimed:?}");
    assert_eq!(cgroup.limit().unwrap(), Some(48 * MIB));
    let stopped = cgroup.reclaim(all, minute, &AtomicBool::new(true));
    assert!(
        matches!(stopped, Err(EnvironmentError::Interrupted)),
        "{stopped:?}"
    );
    let late = cgroup.reclaim(all, Duration::ZERO, &NEVER).unwrap_err();
    assert!(
        matches!(late, EnvironmentError::ReclaimTimedOut { timeout } if timeout.is_zero()),
        "{late}"
    );
    assert_eq!(cgroup.limit().unwrap(), Some(48 * MIB));
    session.process_started(holder.id()).unwrap();
    holder.kill().ok();
    holder.wait().unwrap();
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();
}

#[test]
fn a_value_is_set_for_the_trial_and_put_back() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-sysctl");
    let path = "/proc/sys/vm/page-cluster";
    let before = read(path);
    let other = if before == "0" { 1 } else { 0 };
    let mut asked = settings("none");
    (asked.page_cluster, asked.swappiness) = (Some(other), Some(77));
    let environment = Environment::prepare(&mut session, &asked).unwrap();
    assert_eq!(read(path), other.to_string());
    let own = environment.cgroup().unwrap().path().join("memory.swappiness");
    if own.exists() {
        assert_eq!(read(own), "77");
    }
    let value = environment
        .description()
        .values
        .iter()
        .find(|value| value.path == Path::new(path))
        .unwrap();
    assert_eq!(
        (value.before.as_str(), value.now.as_str()),
        (before.as_str(), other.to_string().as_str())
    );
    // Somebody else changes it while the trial runs: it is theirs then.
    fs::write(path, "5").unwrap();
    let report = environment.tear_down(&mut session).unwrap();
    assert_eq!(read(path), "5");
    fs::write(path, &before).unwrap();
    assert_eq!(report.left_alone.len(), 1, "{report:?}");
    let quoted: Vec<&str> = report.left_alone[0].why.split('`').skip(1).step_by(2).collect();
    assert_eq!(
        quoted,
        ["5", other.to_string().as_str(), before.as_str()],
        "now, ours, before"
    );
    let _ = session.finish().unwrap();
}

/// Runs as a user without rights, started by the test below.
#[test]
fn unprivileged_role() {
    if !is_role("environment::cgroups::unprivileged_role") {
        return;
    }
    let mut asked = settings("zram");
    asked.swappiness = Some(1);
    let state = std::env::temp_dir().join(format!("plimsoll-unprivileged-{}", std::process::id()));
    let mut session =
        plimsoll_lab::environment::Session::open_in(&state, "nobody", &[], None, &NEVER).unwrap();
    let error = Environment::prepare(&mut session, &asked).unwrap_err();
    drop(session);
    fs::remove_dir_all(&state).unwrap();
    let EnvironmentError::Missing(list) = &error else {
        panic!("{error}")
    };
    assert_eq!(list, &missing(&asked));
    println!("\nmissing {}", serde_json::to_string(list).unwrap());
}

#[test]
fn without_root_everything_that_is_missing_is_listed() {
    use std::os::unix::process::CommandExt;
    if !has_cgroup() {
        return;
    }
    // The program must be where anybody may run it.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("tests");
    plimsoll_testkit::copy_program(std::env::current_exe().unwrap(), &program);
    for path in [folder.path(), &program] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let role = again("environment::cgroups::unprivileged_role");
    let mut command = plimsoll_testkit::command(&program);
    command
        .args(role.get_args())
        .envs(role.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .current_dir("/");
    let output = command
        .env("TMPDIR", "/tmp")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list = text.lines().find_map(|line| line.strip_prefix("missing "));
    let list: Vec<Value> = serde_json::from_str(list.expect("the role prints it")).unwrap();
    let own = Hierarchy::of_this_process().unwrap().own;
    for name in [own.to_str().unwrap(), "CAP_SYS_ADMIN", "/proc/sys/vm/swappiness"] {
        let is_it = |missing: &&Value| missing["what"].as_str().unwrap().contains(name);
        let found: Vec<&Value> = list.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{name}: {list:#?}");
        assert_eq!(found[0]["kind"], "privilege", "{name}: {list:#?}");
        // The remedy is a command.
        let how = found[0]["how"].as_str().unwrap();
        assert!(how.contains("sudo plimsoll"), "{name}: {list:#?}");
    }
}

#[test]
fn a_cgroup_is_drained_once_its_processes_are_gone() {
    if !has_cgroup() {
        return;
    }
    let mut session = session("test-drain");
    let environment = Environment::prepare(&mut session, &settings("none")).unwrap();
    let cgroup = environment.cgroup().unwrap();
    cgroup.drain(Duration::ZERO, &NEVER).unwrap();
    // It stops with the memory in a variable: 15.7 MiB at its end, about 32 for a moment before.
    let script = "sh -c 'a=$(head -c 16000000 /dev/zero | tr \"\\0\" x); kill -STOP $$'";
    let mut holder = spawn_inside(cgroup, script);
    wait_until("the memory", || cgroup.usage().unwrap() > 12 * MIB);
    let held = cgroup.drain(Duration::from_millis(20), &NEVER);
    assert!(
        matches!(held, Err(EnvironmentError::NotDrained { memory, .. }) if memory > 8 << 20),
        "{held:?}"
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    cgroup.drain(Duration::from_secs(300), &NEVER).unwrap();
    let _ = environment.tear_down(&mut session).unwrap();
    let _ = session.finish().unwrap();
}
