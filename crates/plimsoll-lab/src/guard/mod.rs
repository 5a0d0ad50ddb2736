//! Thrash control: holds some of the processes back that together need more memory than there is, so that the others work.
//!
//! ```text
//! gauge ---pressure--> course ---orders--> actuator ---> signals, page-outs
//! members -candidates->  |  ^                  |
//!                        v  |                  v
//!                    detector, judge,       vigil (journal)
//!                    policy
//! ```
//!
//! `gauge` reads stalls, refaults and room; `members` lists the processes of the scope and their exemptions, `groups`
//! their cgroups, and `frozen` finds whether those are frozen. `course` decides, and reads nothing: `detector` finds
//! thrashing, a `policy` gives orders, and `judge` compares the useful work with the work before the policy, and lifts a
//! policy that does not help. `actuator` carries the orders out, `retry` schedules the retries of a failed SIGCONT, and
//! `trial` runs a guard beside the workers of a trial.
//!
//! - Invariant: an order names only a candidate of the same look. Checked by
//!   `orders_name_candidates_and_each_stop_is_continued`.
//! - Invariant: a process that the guard stopped runs again when the guard ends, and when it ceases to be a candidate; likewise
//!   the throttle of a cgroup ends. Checked by the same test, and on real processes by `a_killed_guard_is_undone_by_cleanup`.
//! - Invariant: the guard neither stops nor continues a process that another program has stopped, except a parent that stopped
//!   while its child was stopped (`su`, `sudo`). Checked by `a_process_that_a_debugger_stopped_stays_stopped` and
//!   `a_process_that_another_program_continued_is_not_retried`.

mod actuator;
mod course;
mod decision;
mod detector;
mod error;
mod frozen;
mod gauge;
mod groups;
mod judge;
mod members;
mod order;
mod policy;
mod protection;
mod retry;
mod scope;
pub(crate) mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_model::scenario::GuardPolicy;
use plimsoll_os::{UsageScope, resource_usage};
use plimsoll_sample::stop::Stop;

use crate::environment::Vigil;
use actuator::Actuator;
use course::Course;
use gauge::Gauge;
use groups::Groups;
use members::{Look, Members};
use order::{GroupId, Order, Outcome, Target};
use scope::Scope;

pub use decision::{Decision, Event};
pub use error::GuardError;
pub use order::Reason;
pub use protection::{Exemption, Protection};

/// Time between two readings of the pressure, and between two looks at the processes while they thrash.
const TICK: Duration = Duration::from_secs(1);
/// Longest sleep between two looks at the request to stop.
const SLICE: Duration = Duration::from_millis(200);

/// The processes that a guard may stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeChoice {
    Machine,
    /// A memory cgroup and those below it: its folder, or a path below the mount.
    Cgroup(PathBuf),
    /// A process and its descendants.
    Tree(u32),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub scope: ScopeChoice,
    pub policy: GuardPolicy,
    pub protection: Protection,
    /// Tell the orders, and carry out none.
    pub dry_run: bool,
    pub duration: Option<Duration>,
}

/// Totals of a guard at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Summary {
    pub seconds: f64,
    /// Times of thrashing.
    pub episodes: u64,
    pub stops: u64,
    pub trims: u64,
    pub throttles: u64,
    pub kills: u64,
    /// CPU time of the guard itself, in percent of one CPU.
    pub cpu_percent: f64,
}

/// Guards until a stop or the end of its duration. Every process runs again when this returns, and no cgroup is throttled.
///
/// # Errors
/// [`GuardError`]: the guard cannot begin, its scope vanishes, or a process cannot be continued.
pub fn guard(options: &Options, stop: &Stop, tell: &mut dyn FnMut(&Decision)) -> Result<Summary, GuardError> {
    let scope = Scope::find(&options.scope)?;
    let gauge = Gauge::new(&scope)?;
    let groups = match options.policy {
        GuardPolicy::Throttle => Some(Groups::find(&scope)?),
        _ => None,
    };
    let (vigil, continued) = match options.dry_run {
        true => (None, Vec::new()),
        false => {
            let (vigil, continued) = open_vigil()?;
            (Some(vigil), continued)
        }
    };
    let mut guard = Guard {
        members: Members::new(scope, options.protection.clone(), groups),
        gauge,
        course: Course::new(options.policy, options.dry_run),
        actuator: Actuator::new(vigil),
        start: Instant::now(),
        summary: Summary::default(),
    };
    let cpu_before = resource_usage(UsageScope::Thread);
    let begun = Event::Begun {
        scope: guard.members.scope_name(),
        policy: options.policy,
        only_user: members::only_user(),
    };
    let recovered = continued.into_iter().map(|what| Event::Recovered { what });
    let missing = guard.members.missing_protections().into_iter();
    let missing = missing.map(|cgroup| Event::Unprotected { cgroup });
    let first = std::iter::once(begun).chain(recovered).chain(missing).collect();
    guard.tell_all(Duration::ZERO, first, tell);
    let ended = guard.watch(options.duration, stop, tell);
    guard.conclude(tell);
    let cpu_after = resource_usage(UsageScope::Thread);
    let used = |usage: plimsoll_os::ResourceUsage| (usage.user_us + usage.system_us) as f64 / 1e6;
    guard.summary.seconds = guard.start.elapsed().as_secs_f64();
    guard.summary.cpu_percent =
        100.0 * (used(cpu_after) - used(cpu_before)) / guard.summary.seconds.max(1e-3);
    let summary = guard.summary;
    // A process that stays stopped is worse than any reason to end.
    guard.actuator.finish()?;
    ended?;
    Ok(summary)
}

/// Undoes the stops and throttles of a killed guard. Returns the undone changes.
///
/// # Errors
/// As [`guard`].
pub fn release() -> Result<Vec<String>, GuardError> {
    let (vigil, continued) = open_vigil()?;
    vigil.finish().map(drop)?;
    Ok(continued)
}

fn open_vigil() -> Result<(Vigil, Vec<String>), GuardError> {
    let command = plimsoll_sample::command_line();
    Ok(Vigil::open(&command)?)
}

struct Guard {
    members: Members,
    gauge: Gauge,
    course: Course,
    actuator: Actuator,
    start: Instant,
    summary: Summary,
}

impl Guard {
    fn watch(
        &mut self,
        duration: Option<Duration>,
        stop: &Stop,
        tell: &mut dyn FnMut(&Decision),
    ) -> Result<(), GuardError> {
        let is_over = |now: Duration| stop.requested() || duration.is_some_and(|limit| now >= limit);
        loop {
            let next = Instant::now() + TICK;
            if is_over(self.start.elapsed()) {
                return Ok(());
            }
            self.step(stop, tell)?;
            while !is_over(self.start.elapsed()) {
                let left = next.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                // A trigger of the kernel wakes a calm guard early.
                let wait = left.min(SLICE);
                match self
                    .course
                    .is_calm()
                    .then(|| self.gauge.wait_for_stalls(wait))
                    .flatten()
                {
                    Some(true) => break,
                    Some(false) => {}
                    None => std::thread::sleep(wait),
                }
            }
        }
    }

    /// One reading, one look if it is needed, and the orders that follow.
    fn step(&mut self, stop: &Stop, tell: &mut dyn FnMut(&Decision)) -> Result<(), GuardError> {
        self.members.check_scope()?;
        let pressure = self.gauge.read(self.throttled_folders())?;
        let now = self.start.elapsed();
        let events = self.course.feel(now, pressure);
        self.tell_all(now, events, tell);
        self.retry(now, tell)?;
        if !self.course.needs_look() {
            return self.forget_unseen();
        }
        self.actuator.begin_look();
        let throttled = self.actuator.throttled();
        let look = self.members.look(self.actuator.stopped(), &throttled)?;
        for process in &look.foreign {
            self.actuator.forget(*process)?;
        }
        self.actuator
            .forget_running(|process| look.names.contains_key(&process))?;
        let room = self.gauge.room(&look)?;
        let decided = self.course.decide(now, room, &look);
        let is_last = |event: &Event| matches!(event, Event::Resting { .. } | Event::Calm);
        let (last, first): (Vec<Event>, Vec<Event>) = decided.events.into_iter().partition(is_last);
        self.tell_all(now, first, tell);
        for order in decided.orders {
            let outcome = self.actuator.carry_out(&order, &self.members, stop);
            self.learn(&order, &outcome);
            let name = self.members.name(order.target(), &look);
            let event = Event::of_order(&order, name, outcome);
            self.tell_all(now, event.into_iter().collect(), tell);
        }
        self.tell_all(now, last, tell);
        self.forget_unseen()
    }

    /// Retries each failed SIGCONT that is due, without a look.
    fn retry(&mut self, now: Duration, tell: &mut dyn FnMut(&Decision)) -> Result<(), GuardError> {
        let (due, freed) = self.actuator.retries(now);
        for process in freed {
            self.members.spare(Target::Process(process));
            self.actuator.give_up(process)?;
        }
        for process in due {
            let reason = Reason::Retry;
            let order = Order::Continue { process, reason };
            let name = self.actuator.name(process);
            let outcome = self.actuator.carry_out(&order, &self.members, &Stop::default());
            let event = Event::of_order(&order, name, outcome);
            self.tell_all(now, event.into_iter().collect(), tell);
        }
        Ok(())
    }

    /// Removes the running processes from the journal unless the next step looks at them: without a look, the guard
    /// does not see that another program stops them.
    fn forget_unseen(&mut self) -> Result<(), GuardError> {
        match self.course.needs_look() {
            true => Ok(()),
            false => self.actuator.forget_running(|_| false),
        }
    }

    fn throttled_folders(&self) -> BTreeMap<GroupId, PathBuf> {
        let folder = |id: GroupId| Some((id, self.members.group_folder(id)?.to_owned()));
        self.actuator.throttled().into_iter().filter_map(folder).collect()
    }

    /// Takes in whether a process was stopped, or a cgroup throttled.
    fn learn(&mut self, order: &Order, outcome: &Outcome) {
        let target = order.target();
        match (order, outcome) {
            (Order::Stop { process, .. }, Outcome::Done(_) | Outcome::Dry) => {
                self.members.stopped_again(*process)
            }
            (Order::Stop { .. }, Outcome::Void) => self.course.not_held(target),
            (Order::Stop { .. } | Order::Throttle { .. }, Outcome::Refused { lasting, .. }) => {
                self.course.not_held(target);
                if *lasting {
                    self.members.spare(target);
                }
            }
            // Another program has changed its values.
            (Order::Unthrottle { .. }, Outcome::Refused { .. }) => self.members.spare(target),
            _ => {}
        }
    }

    fn tell_all(&mut self, now: Duration, events: Vec<Event>, tell: &mut dyn FnMut(&Decision)) {
        for event in events {
            self.count(&event);
            tell(&Decision::now(now, event));
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Thrashing { .. } => self.summary.episodes += 1,
            Event::Stopped { .. } => self.summary.stops += 1,
            Event::Trimmed { .. } => self.summary.trims += 1,
            Event::Throttled { .. } => self.summary.throttles += 1,
            Event::Killed { .. } => self.summary.kills += 1,
            _ => {}
        }
    }

    /// Lifts all throttles, and continues all processes.
    fn conclude(&mut self, tell: &mut dyn FnMut(&Decision)) {
        let now = self.start.elapsed();
        for group in self.actuator.throttled() {
            let reason = Reason::End;
            let order = Order::Unthrottle { group, reason };
            let outcome = self.actuator.carry_out(&order, &self.members, &Stop::default());
            let name = self.members.name(order.target(), &Look::default());
            let event = Event::of_order(&order, name, outcome);
            self.tell_all(now, event.into_iter().collect(), tell);
        }
        let (continued, left) = self.actuator.release_all();
        tell(&Decision::now(now, Event::Ended { continued, left }));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_os::Pidfd;
    use plimsoll_proc::ProcessId;

    use super::*;
    use crate::environment::is_stopped;

    /// A calm guard with a stopped process whose SIGCONT has failed once. The order of the fields is the order of their
    /// drops.
    struct Scene {
        guard: Guard,
        process: ProcessId,
        child: std::process::Child,
        journal: PathBuf,
        _state: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Scene {
            let folder = tempfile::tempdir().unwrap();
            let (mut vigil, _) = Vigil::open_in(&folder.path().join("state"), &[]).unwrap();
            let journal = vigil.journal_path().unwrap();
            let child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
            let process = ProcessId::of(child.id()).unwrap();
            vigil.stopping(process, None).unwrap();
            let scope = Scope::find(&ScopeChoice::Tree(child.id())).unwrap();
            let mut guard = Guard {
                gauge: Gauge::new(&scope).unwrap(),
                members: Members::new(scope, Protection::default(), None),
                course: Course::new(GuardPolicy::Relay, false),
                actuator: Actuator::new(Some(vigil)),
                start: Instant::now(),
                summary: Summary::default(),
            };
            guard.actuator.stop_for_test(process, None);
            guard.actuator.schedule_retry(process);
            Scene {
                guard,
                process,
                child,
                journal,
                _state: folder,
            }
        }

        fn step(&mut self) -> Vec<Event> {
            let mut told = Vec::new();
            let mut tell = |decision: &Decision| told.push(decision.event.clone());
            self.guard.step(&Stop::default(), &mut tell).unwrap();
            assert_eq!(self.guard.members.looks(), 0, "a calm guard needs no look");
            told
        }

        fn send(&self, signal: i32) {
            let pidfd = Pidfd::open(self.process.pid).unwrap();
            pidfd.send_signal(signal).unwrap();
        }

        /// Whether all changes in the journal are undone.
        fn is_journal_empty(&self) -> bool {
            std::fs::read_to_string(&self.journal).unwrap().lines().count() == 1
        }

        fn end(mut self) {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    /// At first, the guard retried SIGCONT only at its own end. Then it retried every second with a look at all
    /// processes, and an error of a look ended the guard.
    #[test]
    fn a_calm_guard_retries_sigcont_without_a_look() {
        let mut scene = Scene::new();
        assert!(!scene.is_journal_empty());
        let continued = Event::Continued {
            pid: scene.process.pid,
            name: "test".to_owned(),
            reason: Reason::Retry,
        };
        assert_eq!(scene.step(), [continued]);
        assert!(!is_stopped(scene.process));
        assert!(scene.is_journal_empty());
        scene.end();
    }

    /// The guard went on with the retries, and continued the process after a debugger had stopped it.
    #[test]
    fn a_process_that_another_program_continued_is_not_retried() {
        let mut scene = Scene::new();
        scene.send(libc::SIGCONT);
        assert_eq!(scene.step(), []);
        assert!(!scene.is_journal_empty(), "the process ran in one step only");
        assert_eq!(scene.step(), []);
        assert!(scene.guard.actuator.stopped().is_empty() && scene.is_journal_empty());
        scene.send(libc::SIGSTOP);
        let start = Instant::now();
        while !is_stopped(scene.process) {
            assert!(start.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(scene.step(), []);
        assert!(is_stopped(scene.process));
        scene.end();
    }
}
