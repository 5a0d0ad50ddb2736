//! Guards of processes that thrash, on a zram device of the tests' own.
//!
//! One scene serves all tests: a cgroup whose processes need almost twice its limit, guarded three times.

use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::sync::LazyLock;

use plimsoll_lab::environment::{Environment, Session};

use super::*;

const MIB: u64 = 1 << 20;
/// Room of the cgroup, and the memory of each of its processes.
const LIMIT: u64 = 128 * MIB;
const HELD: u64 = 24 * MIB;
/// Processes that a guard may stop. Four of them fit beside the two that it may not.
const CONSUMERS: usize = 8;

/// The test that is a consumer in another process.
const CONSUMER: &str = "guard::pressure::consumer";
/// Variable with the cgroup of a consumer.
const CONSUMER_GROUP: &str = "PLIMSOLL_TEST_CONSUMER_GROUP";

const PAGE: usize = 4096;
/// Passes over a page each time that it is visited: user time, from which a guard sees that processes do useful work.
const PASSES: u64 = 4;

/// A consumer itself: writes pages at random until it is killed, or its test has ended. Nothing to test where it is not started
/// by a test.
#[test]
fn consumer() {
    if plimsoll_testkit::role().as_deref() != Some(CONSUMER) {
        return;
    }
    // A guard spares the session of its caller, which is that of the tests.
    rustix::process::setsid().expect("it leads no process group");
    let parent = rustix::process::getppid();
    let group = std::env::var_os(CONSUMER_GROUP).expect("a cgroup");
    fs::write(Path::new(&group).join(PROCESSES), std::process::id().to_string()).expect("root moves itself");
    let mut memory = plimsoll_os::Mapping::anonymous(HELD as usize).expect("memory");
    let pages = memory.len() / PAGE;
    let mut random = u64::from(std::process::id()) | 1;
    let mut next = 0;
    while rustix::process::getppid() == parent {
        // At first each page in turn, so that all are there.
        let page = if next < pages {
            next
        } else {
            (random >> 33) as usize % pages
        };
        next = next.saturating_add(1);
        let bytes = &mut memory.bytes_mut()[page * PAGE..][..PAGE];
        for _ in 0..PASSES {
            // Half of the page does not compress.
            for word in bytes[..PAGE / 2].chunks_exact_mut(8) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&random.to_le_bytes());
            }
        }
    }
}

fn has_zram() -> bool {
    let there = Path::new("/sys/class/zram-control/hot_add").exists();
    root_with_cgroup() && capability("zram", there, "needs the zram module")
}

fn start_consumer(group: &Path) -> Kept {
    let child = plimsoll_testkit::again(CONSUMER, CONSUMER)
        .env(CONSUMER_GROUP, group)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Kept(child.expect("this program starts"))
}

fn wait_for_memory(consumer: &Kept) {
    wait_until("a consumer with its memory", || anonymous(consumer.pid()) >= HELD);
}

/// Bytes of anonymous memory, in RAM and in swap.
fn anonymous(pid: u32) -> u64 {
    let text = fs::read(format!("/proc/{pid}/status")).expect("it lives");
    let status = plimsoll_proc::PidStatus::parse(&text);
    status.anon.unwrap_or(0) + status.swap.unwrap_or(0)
}

fn user_us(pid: u32) -> u64 {
    PidStat::read(pid, &mut Vec::new()).expect("it lives").user_us
}

/// Waits until a process is stopped: one that waits for a page stops only when it has it.
fn wait_for_stop(pid: u32) {
    wait_until("a stop", || is_stopped(pid));
}

fn pid_of(line: &Value) -> u32 {
    let pid = line["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    pid.unwrap_or_else(|| panic!("no process: {line:#}"))
}

/// The processes that are stopped after these lines, in the order of their stops.
fn stopped_by(lines: &[Value]) -> Vec<u32> {
    let mut stopped = Vec::new();
    for line in lines {
        match line["decision"].as_str() {
            Some("stopped") => stopped.push(pid_of(line)),
            Some("continued") => stopped.retain(|pid| *pid != pid_of(line)),
            _ => {}
        }
    }
    stopped
}

/// What the tests look at: the course of three guards of one scene, one after the other.
struct Seen {
    dry: Dry,
    turns: Turns,
    killed: Killed,
    consumers: BTreeSet<u32>,
    /// Stopped by the test before the first guard began.
    debugged: u32,
    /// In a protected cgroup.
    protected: u32,
    /// Its CPU time in user mode during the guards.
    protected_user_us: u64,
}

/// A dry run.
struct Dry {
    ended: Ended,
    /// Consumers that were seen stopped meanwhile.
    stopped: BTreeSet<u32>,
    journals: usize,
    /// How the guard ended whose reader went away, if it did by itself.
    closed: Option<ExitStatus>,
}

/// A guard that a signal ended.
struct Turns {
    ended: Ended,
    /// Journals while processes were stopped, and after the end.
    journals: (usize, usize),
    /// Killed while it was stopped.
    victim: u32,
    /// Moved out of the cgroup while it was stopped, and whether it ran afterwards.
    moved: u32,
    moved_ran: bool,
    /// Stopped by the test after the guard had continued it.
    halted: u32,
    /// Continued by the test after the guard had stopped it.
    freed: u32,
    /// Stopped after the end.
    stopped: BTreeSet<u32>,
}

/// A guard that was killed.
struct Killed {
    lines: Vec<Value>,
    /// Stopped after its end, and after a cleanup.
    stopped: (BTreeSet<u32>, BTreeSet<u32>),
    journals: (usize, usize),
    cleanup: Output,
}

/// The cgroup with its processes. Fields are dropped in this order: the processes, the cgroups, then the swap.
struct Scene {
    consumers: Vec<Kept>,
    debugged: Kept,
    protected: Kept,
    /// The cgroup of the protected process, and one beside the guarded cgroup.
    shelter: Group,
    outside: Group,
    guarded: PathBuf,
    environment: Option<Environment>,
    session: Session,
}

impl Scene {
    fn make() -> Scene {
        let mut session = crate::machine::alone_as("a-guard");
        let all = HELD * (CONSUMERS as u64 + 2);
        let settings = crate::machine::settings("zram", all, LIMIT, 400 * MIB);
        let environment = Environment::prepare(&mut session, &settings).expect("an environment");
        let guarded = environment.cgroup().expect("a cgroup").path().to_owned();
        let shelter = Group::below(&guarded, "shelter");
        let debugged = start_consumer(&guarded);
        wait_for_memory(&debugged);
        send(debugged.pid(), Signal::STOP);
        wait_for_stop(debugged.pid());
        let scene = Scene {
            protected: start_consumer(&shelter.0),
            consumers: (0..CONSUMERS).map(|_| start_consumer(&guarded)).collect(),
            debugged,
            shelter,
            outside: Group::new("outside"),
            guarded,
            environment: Some(environment),
            session,
        };
        scene
            .consumers
            .iter()
            .chain([&scene.protected])
            .for_each(wait_for_memory);
        scene
    }

    fn guard(&self, state: &State, more: &[&str]) -> Guard {
        let guarded = self.guarded.to_str().expect("ASCII");
        let scope = ["--cgroup", guarded, "--protect-cgroup", self.shelter.path()];
        Guard::start(state, &[&scope[..], more].concat())
    }

    fn pids(&self) -> BTreeSet<u32> {
        self.consumers.iter().map(Kept::pid).collect()
    }

    fn stopped(&self) -> BTreeSet<u32> {
        self.pids().into_iter().filter(|pid| is_stopped(*pid)).collect()
    }

    /// Ends a consumer, and forgets it.
    fn kill(&mut self, pid: u32) {
        self.consumers.retain(|consumer| consumer.pid() != pid);
    }

    /// A dry run, and beside it one whose reader goes away.
    fn dry_run(&self) -> Dry {
        let (state, other) = (State::new(), State::new());
        let mut closed = Kept(self.closed(&other));
        let mut guard = self.guard(&state, &["--dry-run"]);
        let mut stopped = BTreeSet::new();
        guard.wait_meanwhile(
            "an order of a dry run",
            |line| line["decision"] == "would",
            || stopped.extend(self.stopped()),
        );
        std::thread::sleep(Duration::from_secs(1));
        stopped.extend(self.stopped());
        let journals = state.journals().len();
        let ended = guard.end_by(Signal::TERM);
        stopped.extend(self.stopped());
        // Its first decision came before the order.
        Dry {
            ended,
            stopped,
            journals,
            closed: closed.0.try_wait().expect("a child"),
        }
    }

    /// A dry run whose standard output is read to the first line, and then closed.
    fn closed(&self, state: &State) -> Child {
        let mut command = state.command(&["guard", "--json", "--dry-run", "--cgroup"]);
        command
            .arg(&self.guarded)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("plimsoll starts");
        let line = plimsoll_testkit::next_line(&mut child);
        assert!(line.contains("begun"), "{line}");
        drop(child.stdout.take());
        child
    }

    /// A guard under which a stopped process ends, another one leaves, and a third is stopped by another program.
    fn turns(&mut self) -> Turns {
        let state = State::new();
        let mut guard = self.guard(&state, &[]);
        while stopped_by(&guard.seen).len() < 3 {
            guard.wait_for("three stopped processes", |line| line["decision"] == "stopped");
        }
        let journals = state.journals().len();
        // Those that were stopped last wait longest.
        let waiting = stopped_by(&guard.seen);
        let [.., moved, victim] = waiting[..] else {
            panic!("{waiting:?}")
        };
        wait_for_stop(victim);
        self.kill(victim);
        wait_for_stop(moved);
        self.outside.take_in(moved);
        guard.wait_for("the release of a process that left", |line| {
            line["decision"] == "continued" && line["pid"] == moved
        });
        let moved_ran = (0..100).any(|_| {
            std::thread::sleep(LOOK);
            !is_stopped(moved)
        });
        self.kill(moved);
        // Before the death of the process that left, there may have been a turn.
        let turn = guard.wait_for("a turn", |line| {
            line["decision"] == "continued" && line["reason"] == "turn"
        });
        let halted = pid_of(&turn);
        send(halted, Signal::STOP);
        wait_for_stop(halted);
        // The guard looks once a second, and has seen both states by then.
        let freed = *stopped_by(&guard.seen).last().expect("others wait meanwhile");
        wait_for_stop(freed);
        std::thread::sleep(Duration::from_secs(3));
        send(freed, Signal::CONT);
        guard.wait_for("the exemption of a process that the test continued", |line| {
            line["decision"] == "continued" && line["pid"] == freed
        });
        let ended = guard.end_by(Signal::TERM);
        Turns {
            ended,
            journals: (journals, state.journals().len()),
            victim,
            moved,
            moved_ran,
            halted,
            freed,
            stopped: self.stopped(),
        }
    }

    fn killed(&self) -> Killed {
        let state = State::new();
        let mut guard = self.guard(&state, &[]);
        guard.wait_for("a stopped process", |line| line["decision"] == "stopped");
        // The other orders of the same second follow at once.
        std::thread::sleep(Duration::from_millis(300));
        send(guard.pid(), Signal::KILL);
        let ended = guard.finish();
        assert_eq!(ended.code, None, "{}", ended.errors);
        for pid in stopped_by(&ended.lines) {
            wait_for_stop(pid);
        }
        let stopped = self.stopped();
        let journals = state.journals().len();
        let cleanup = state
            .command(&["cleanup", "--json"])
            .output()
            .expect("plimsoll starts");
        Killed {
            lines: ended.lines,
            stopped: (stopped, self.stopped()),
            journals: (journals, state.journals().len()),
            cleanup,
        }
    }

    fn end(mut self) {
        self.consumers.clear();
        self.debugged.kill();
        self.protected.kill();
        fs::remove_dir(self.shelter.path()).expect("it is empty");
        let environment = self.environment.take().expect("until now");
        let _ = environment.tear_down(&mut self.session).expect("undone");
        // Undoes nothing more.
    }
}

/// The scene is over when the first test looks at it.
static SEEN: LazyLock<Seen> = LazyLock::new(|| {
    let mut scene = Scene::make();
    let before = user_us(scene.protected.pid());
    let consumers = scene.pids();
    let dry = scene.dry_run();
    let turns = scene.turns();
    send(turns.halted, Signal::CONT);
    let killed = scene.killed();
    let (debugged, protected) = (scene.debugged.pid(), scene.protected.pid());
    assert!(
        is_stopped(debugged),
        "a guard or a cleanup continued the process that this test stopped"
    );
    let protected_user_us = user_us(protected) - before;
    scene.end();
    Seen {
        dry,
        turns,
        killed,
        consumers,
        debugged,
        protected,
        protected_user_us,
    }
});

/// The lines of all guards.
fn all_lines(seen: &Seen) -> impl Iterator<Item = &Value> {
    let of_ended = [&seen.dry.ended, &seen.turns.ended];
    of_ended
        .into_iter()
        .flat_map(|ended| &ended.lines)
        .chain(&seen.killed.lines)
}

#[test]
fn processes_that_thrash_take_turns_and_all_run_at_the_end() {
    if !has_zram() {
        return;
    }
    let turns = &SEEN.turns;
    turns.ended.assert_went_well();
    let lines = &turns.ended.lines;
    let at = |decision: &str| lines.iter().position(|line| line["decision"] == decision);
    let order = ["begun", "thrashing", "stopped", "continued", "ended"].map(at);
    assert!(order.is_sorted() && order[0].is_some(), "{order:?}: {lines:#?}");
    let turn = lines
        .iter()
        .position(|line| line["reason"] == "turn")
        .expect("waited for");
    let process = pid_of(&lines[turn]);
    assert!(
        stopped_by(&lines[..turn]).contains(&process),
        "it was stopped before: {lines:#?}"
    );
    for line in lines.iter().filter(|line| line["pid"].is_number()) {
        assert_ne!(line["decision"], "failed", "{line:#}");
        assert!(SEEN.consumers.contains(&pid_of(line)), "{line:#}");
    }
    let last = lines.last().expect("a line");
    assert!(
        last["continued"].as_u64() > Some(0),
        "processes were stopped at its end: {last:#}"
    );
    let ours = BTreeSet::from([turns.halted]);
    assert_eq!(
        turns.stopped, ours,
        "stopped after the end, but for the one that the test stopped"
    );
    assert_eq!(turns.journals, (1, 0));
}

#[test]
fn a_killed_guard_is_undone_by_cleanup() {
    if !has_zram() {
        return;
    }
    let killed = &SEEN.killed;
    let (before, after) = &killed.stopped;
    assert!(!before.is_empty());
    assert_eq!(code(&killed.cleanup), Some(0), "{:?}", killed.cleanup);
    let report: Value = serde_json::from_slice(&killed.cleanup.stdout).expect("a document");
    let run = &report["runs"][0];
    assert_eq!(run["state"], "undone", "{report:#}");
    let undone = run["undone"].as_array().expect("a list");
    for pid in before {
        let number = pid.to_string();
        let is_of_it = |change: &Value| {
            let text = change.as_str().expect("a text");
            text.split(' ').any(|word| word == number)
        };
        assert!(undone.iter().any(is_of_it), "{pid}: {report:#}");
    }
    assert!(after.is_empty(), "{after:?}: {report:#}");
    assert_eq!(killed.journals, (1, 0));
}

#[test]
fn a_process_that_a_debugger_stopped_stays_stopped() {
    if !has_zram() {
        return;
    }
    let seen = &*SEEN;
    // The scene has checked that it was stopped to the end.
    let naming: Vec<&Value> = all_lines(seen)
        .filter(|line| line["pid"] == seen.debugged)
        .collect();
    assert!(naming.is_empty(), "{naming:#?}");
}

/// Checks that the last line about a process continues it, with this reason.
fn assert_was_continued_for(reason: &str, pid: u32) {
    let naming = SEEN.turns.ended.naming(pid);
    let last = naming.last().expect("a line about it");
    assert_eq!(
        (&last["decision"], &last["reason"]),
        (&"continued".into(), &reason.into()),
        "{naming:#?}"
    );
}

/// The guard had stopped and continued it before, so that its journal had it.
#[test]
fn a_process_that_a_debugger_stops_meanwhile_stays_stopped() {
    if !has_zram() {
        return;
    }
    let turns = &SEEN.turns;
    assert!(turns.stopped.contains(&turns.halted));
    assert_was_continued_for("turn", turns.halted);
}

#[test]
fn a_process_that_another_program_continues_is_left_alone() {
    if !has_zram() {
        return;
    }
    let turns = &SEEN.turns;
    assert_was_continued_for("exempt", turns.freed);
}

#[test]
fn a_protected_cgroup_is_not_touched() {
    if !has_zram() {
        return;
    }
    let seen = &*SEEN;
    let naming: Vec<&Value> = all_lines(seen)
        .filter(|line| line["pid"] == seen.protected)
        .collect();
    assert!(naming.is_empty(), "{naming:#?}");
    assert!(seen.protected_user_us > 0, "it worked, as a candidate does");
}

#[test]
fn processes_that_end_while_they_are_stopped_are_forgotten() {
    if !has_zram() {
        return;
    }
    let turns = &SEEN.turns;
    turns.ended.assert_went_well();
    let is_of_victim = |line: &Value| line["pid"] == turns.victim;
    let lines = &turns.ended.lines;
    let stop = lines
        .iter()
        .rposition(|line| is_of_victim(line) && line["decision"] == "stopped");
    let later = &lines[stop.expect("it was stopped") + 1..];
    // The guard may see its death late, and then continues nothing.
    let orders = later
        .iter()
        .filter(|line| is_of_victim(line) && line["reason"] != "exempt");
    assert_eq!(orders.count(), 0, "{lines:#?}");
    let turned = later.iter().any(|line| line["reason"] == "turn");
    assert!(turned, "others take their turns: {lines:#?}");
}

#[test]
fn a_stopped_process_that_leaves_the_cgroup_runs_again() {
    if !has_zram() {
        return;
    }
    let turns = &SEEN.turns;
    assert!(turns.moved_ran);
    assert_was_continued_for("exempt", turns.moved);
}

#[test]
fn a_dry_run_stops_nothing() {
    if !has_zram() {
        return;
    }
    let dry = &SEEN.dry;
    dry.ended.assert_went_well();
    let would = dry.ended.lines.iter().filter(|line| line["decision"] == "would");
    assert!(
        would.clone().any(|line| line["order"] == "stop"),
        "{:#?}",
        dry.ended.lines
    );
    for line in would {
        assert!(SEEN.consumers.contains(&pid_of(line)), "{line:#}");
    }
    assert_eq!(stopped_by(&dry.ended.lines), Vec::<u32>::new());
    assert_eq!(dry.stopped, BTreeSet::new());
    assert_eq!(dry.journals, 0);
}

/// Without a reader, its decisions are lost.
#[test]
fn closed_standard_output_ends_the_guard() {
    if !has_zram() {
        return;
    }
    let ended = SEEN.dry.closed;
    let ended = ended.expect("it guarded on after the first decision that it could not write");
    assert_eq!(ended.code(), Some(3));
}
