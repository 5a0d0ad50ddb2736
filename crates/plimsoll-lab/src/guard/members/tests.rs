//! The processes that a look finds, and those that it spares.

use super::*;
use crate::guard::ScopeChoice;

#[test]
fn a_process_that_another_program_continues_is_spared() {
    let mut known = Known::new(ProcessId {
        pid: 1,
        start_ticks: 1,
    });
    known.see(true, false);
    assert!(!known.spared, "it waits for a page");
    known.see(true, true);
    known.see(true, true);
    assert!(!known.spared);
    known.see(false, false);
    assert!(!known.spared, "the guard continued it");
    known.see(true, true);
    known.see(true, false);
    assert!(known.spared);
}

/// A program that has printed that it is ready.
fn started(command: &[&str]) -> std::process::Child {
    // The session of the tests may be one of which nothing is known: init's, or one from outside of the pid namespace.
    let mut child = plimsoll_testkit::command("setsid")
        .args(command)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(plimsoll_testkit::next_line(&mut child), "ready");
    child
}

/// A shell that says when it has prepared itself, then goes on.
fn shell(prepare: &str, then: &str) -> std::process::Child {
    let script = format!("{prepare} echo ready; {then}");
    started(&["sh", "-c", &script])
}

fn members_of(child: &std::process::Child, protection: Protection) -> Members {
    let scope = Scope::find(&ScopeChoice::Tree(child.id())).unwrap();
    let mut members = Members::new(scope, protection, None);
    members.own.sessions.insert(child.id());
    members
}

/// SIGCONT reaches a zombie, and the event had no name.
#[test]
fn a_zombie_keeps_its_name() {
    let mut child = shell("", "exec sleep 60");
    let process = ProcessId::of(child.id()).unwrap();
    let mut members = Members::new(Scope::Machine, free(), None);
    let mut look = || members.look(&BTreeSet::new(), &BTreeSet::new()).unwrap();
    let name = look().name(process);
    child.kill().unwrap();
    while process.is_alive() {
        std::thread::yield_now();
    }
    let last = look();
    child.wait().unwrap();
    assert!(!name.is_empty() && !last.names.contains_key(&process));
    assert_eq!(last.name(process), name);
}

/// Between the check of the scope and the look, the number of a process may become that of another one.
#[test]
fn a_later_process_with_a_number_of_the_tree_is_not_in_the_look() {
    let mut child = shell("", "exec sleep 60");
    let mut members = members_of(&child, free());
    let count = |members: &mut Members| {
        let look = members.look(&BTreeSet::new(), &BTreeSet::new()).unwrap();
        look.names.len()
    };
    let before = count(&mut members);
    let Scope::Tree { known, .. } = &mut members.scope else {
        unreachable!("the scope is a tree");
    };
    for process in known.values_mut() {
        process.start_ticks -= 1;
    }
    let after = count(&mut members);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((before, after), (1, 0));
}

/// Looks until `done` or for so many looks. A process is active once its CPU time or its faults have grown.
fn look_until(members: &mut Members, looks: u32, done: impl Fn(&Look) -> bool) -> bool {
    (0..looks).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        done(&members.look(&BTreeSet::new(), &BTreeSet::new()).unwrap())
    })
}

fn look_at(
    mut child: std::process::Child,
    protection: Protection,
    looks: u32,
    done: impl Fn(&Look) -> bool,
) -> bool {
    let found = look_until(&mut members_of(&child, protection), looks, done);
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

/// More looks than a process takes to become a candidate on a busy machine, and some looks that suffice on a quiet one.
const MANY: u32 = 1500;
const SOME: u32 = 40;
const SPINS: &str = "while :; do :; done";

fn free() -> Protection {
    Protection {
        own_session_is_free: true,
        ..Protection::default()
    }
}

fn has_candidates(look: &Look) -> bool {
    !look.candidates.is_empty()
}

#[test]
fn active_processes_without_protection_are_candidates() {
    let is_shell = |look: &Look| look.candidates.iter().any(|one| look.names[&one.id] == "sh");
    assert!(look_at(shell("", SPINS), free(), MANY, is_shell));
    assert!(
        !look_at(shell("", SPINS), Protection::default(), SOME, has_candidates),
        "a session of the guard"
    );
    let named = Protection {
        names: vec!["sh".to_owned()],
        ..free()
    };
    assert!(!look_at(shell("", SPINS), named, SOME, has_candidates));
    let child = shell("", SPINS);
    let numbered = Protection {
        pids: vec![child.id()],
        ..free()
    };
    assert!(!look_at(child, numbered, SOME, has_candidates));
    // Only CAP_SYS_RESOURCE may lower it.
    let is_adjusted = |look: &Look| look.candidates.iter().any(|one| one.oom_adjustment == 300);
    let adjusted = shell("echo 300 > /proc/$$/oom_score_adj;", SPINS);
    assert!(look_at(adjusted, free(), MANY, is_adjusted));
    assert!(protection::by_adjustment(-500) && !protection::by_adjustment(-499));
}

#[test]
fn processes_that_another_program_stopped_are_none() {
    let is_foreign = |look: &Look| !look.foreign.is_empty() && look.candidates.is_empty();
    assert!(look_at(shell("", "kill -STOP $$"), free(), MANY, is_foreign));
}

#[test]
fn a_process_that_a_debugger_traces_is_none() {
    let has_python = plimsoll_testkit::command("python3")
        .arg("--version")
        .output()
        .is_ok();
    if !plimsoll_testkit::capability("python3", has_python, "python3 is not installed") {
        return;
    }
    let python = |first: &str| {
        let script = format!("import ctypes; {first}print('ready', flush=True)\nwhile True: pass");
        started(&["python3", "-c", &script])
    };
    assert!(look_at(python(""), free(), MANY, has_candidates));
    // PTRACE_TRACEME: this test is its debugger from then on.
    let traced = python("assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0; ");
    assert!(!look_at(traced, free(), SOME, has_candidates));
}

/// A cgroup that the test can freeze.
struct Freezable {
    folder: PathBuf,
    file: &'static str,
    values: [&'static str; 2],
}

impl Freezable {
    /// One in each mounted hierarchy that can freeze.
    fn all() -> Vec<Freezable> {
        let mounts = plimsoll_proc::mounts::of(&Tree::live());
        let files = mounts.iter().filter_map(|mount| match &*mount.kind {
            "cgroup" if mount.has_option("freezer") => Some((mount, "freezer.state", ["THAWED", "FROZEN"])),
            "cgroup2" => Some((mount, "cgroup.freeze", ["0", "1"])),
            _ => None,
        });
        let made = files.filter_map(|(mount, file, values)| {
            let name = format!("plimsoll-test-freezer-{}", std::process::id());
            let folder = Path::new(&mount.point).join(name);
            std::fs::create_dir(&folder).ok()?;
            Some(Freezable { folder, file, values })
        });
        made.collect()
    }

    fn freeze(&self, yes: bool) {
        std::fs::write(self.folder.join(self.file), self.values[usize::from(yes)]).unwrap();
    }
}

impl Drop for Freezable {
    fn drop(&mut self) {
        // A killed process leaves its cgroup a little later.
        for _ in 0..200 {
            match std::fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
                _ => return,
            }
        }
    }
}

#[test]
fn a_process_in_a_frozen_cgroup_is_none() {
    let groups = Freezable::all();
    if !plimsoll_testkit::capability(
        "cgroup",
        !groups.is_empty(),
        "needs root and a cgroup hierarchy that freezes",
    ) {
        return;
    }
    for group in groups {
        let mut child = shell("", SPINS);
        std::fs::write(group.folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        let mut members = members_of(&child, free());
        let is_candidate = look_until(&mut members, MANY, has_candidates);
        let process = members.known.values().next().map(|known| known.id);
        let may_stop = |members: &Members| process.is_some_and(|process| members.may_stop(process));
        let could_stop = may_stop(&members);
        group.freeze(true);
        // No look since: the state must be read anew.
        let is_refused_at_once = (0..MANY).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            !may_stop(&members)
        });
        let is_spared = look_until(&mut members, MANY, |look| !has_candidates(look));
        // It stays so, although its state is D on v1, which counts as activity of others.
        let stays = !look_until(&mut members, SOME, has_candidates);
        let may_stop_frozen = may_stop(&members);
        group.freeze(false);
        let is_candidate_again = look_until(&mut members, MANY, has_candidates);
        child.kill().unwrap();
        child.wait().unwrap();
        let file = group.file;
        assert!(is_candidate && could_stop, "{file}");
        assert!(is_spared && stays, "{file}: frozen, but a candidate");
        assert!(
            is_refused_at_once && !may_stop_frozen,
            "{file}: it may not be stopped between two looks"
        );
        assert!(is_candidate_again, "{file}: thawed");
    }
}
