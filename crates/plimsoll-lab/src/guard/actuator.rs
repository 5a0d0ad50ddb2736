//! Carries orders out: signals through pidfds, page-outs, throttles, and the journal before them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use plimsoll_os::{Errno, Pidfd, Range};
use plimsoll_proc::cgroup::has_hidden_members;
use plimsoll_proc::{Folder, PidStat, ProcessId, Statm, maps};
use plimsoll_sample::stop::Stop;

use super::error::GuardError;
use super::members::{Look, Members};
use super::order::{GroupId, Order, Outcome, Target};
use super::retry::{Next, Retry};
use crate::environment::{Vigil, is_stopped, resume_parent};

/// Bytes of one call that pages out.
const PIECE: u64 = 2 << 20;
/// Longest page-out of one order: the other orders wait meanwhile.
const LONGEST: Duration = Duration::from_millis(500);

/// A process that the journal has.
#[derive(Debug)]
struct Journalled {
    pidfd: Pidfd,
    name: String,
    /// Its parent, if that ran when the process was stopped.
    parent: Option<ProcessId>,
    /// The retry of a failed SIGCONT.
    retry: Option<Retry>,
}

/// Dropping it continues all processes.
#[derive(Debug)]
pub(super) struct Actuator {
    /// `None` in a dry run.
    vigil: Option<Vigil>,
    stopped: BTreeSet<ProcessId>,
    journalled: BTreeMap<ProcessId, Journalled>,
    /// Address that the next page-out of a process begins at.
    cursors: BTreeMap<ProcessId, u64>,
    /// End of the reclaim of this look.
    reclaim_until: Instant,
}

impl Actuator {
    pub(super) fn new(vigil: Option<Vigil>) -> Actuator {
        Actuator {
            vigil,
            stopped: BTreeSet::new(),
            journalled: BTreeMap::new(),
            cursors: BTreeMap::new(),
            reclaim_until: Instant::now(),
        }
    }

    /// Begins the orders of a look.
    pub(super) fn begin_look(&mut self) {
        self.reclaim_until = Instant::now() + LONGEST;
    }

    pub(super) fn throttled(&self) -> BTreeSet<GroupId> {
        self.vigil.iter().flat_map(Vigil::throttled).collect()
    }

    pub(super) fn stopped(&self) -> &BTreeSet<ProcessId> {
        &self.stopped
    }

    /// Name of a journalled process.
    pub(super) fn name(&self, process: ProcessId) -> String {
        let journalled = self.journalled.get(&process);
        journalled.map_or_else(String::new, |journalled| journalled.name.clone())
    }

    /// The processes with a failed SIGCONT that is due for a retry, and those that another program has continued since.
    pub(super) fn retries(&mut self, at: Duration) -> (Vec<ProcessId>, Vec<ProcessId>) {
        let (mut due, mut freed) = (Vec::new(), Vec::new());
        for (process, journalled) in &mut self.journalled {
            let Some(retry) = &mut journalled.retry else {
                continue;
            };
            match retry.decide(at, state(*process)) {
                Next::Wait => {}
                Next::Try => due.push(*process),
                Next::GiveUp => freed.push(*process),
            }
        }
        (due, freed)
    }

    /// Ends the retries for a process that another program has continued.
    pub(super) fn give_up(&mut self, process: ProcessId) -> Result<(), GuardError> {
        self.runs_again(process);
        self.forget(process)
    }

    pub(super) fn carry_out(&mut self, order: &Order, members: &Members, stop: &Stop) -> Outcome {
        if self.vigil.is_none() {
            return Outcome::Dry;
        }
        let done = match order {
            Order::Stop { process, .. } => self.stop(*process, members),
            Order::Continue { process, .. } => self.go_on(*process),
            Order::Trim { process, bytes, .. } => self.trim(*process, *bytes, members, stop),
            Order::Kill { process, .. } => kill(*process, members),
            Order::Throttle { group, .. } => self.throttle(*group, members, stop),
            Order::Unthrottle { group, .. } => self.unthrottle(*group),
        };
        done.unwrap_or_else(|error| Outcome::Refused {
            lasting: error.is_lasting(),
            error: error.to_string(),
        })
    }

    fn stop(&mut self, process: ProcessId, members: &Members) -> Result<Outcome, GuardError> {
        if self.stopped.contains(&process) {
            // An earlier SIGCONT failed, and the journal still has the process and its parent. Another program may have
            // continued it since the look. If the kernel refuses SIGSTOP too, the next looks find whether it runs.
            match self.signal(process, libc::SIGSTOP) {
                Ok(false) => return Ok(Outcome::Void),
                Ok(true) | Err(GuardError::Signal { .. }) => {}
                Err(error) => return Err(error),
            }
            if let Some(journalled) = self.journalled.get_mut(&process) {
                journalled.retry = None;
            }
            return Ok(Outcome::Done(0));
        }
        if let Entry::Vacant(place) = self.journalled.entry(process) {
            let Some(pidfd) = open(process)? else {
                return Ok(Outcome::Void);
            };
            place.insert(Journalled {
                pidfd,
                name: members.known_name(process),
                parent: None,
                retry: None,
            });
        }
        // After the descriptor was opened, so that both are of the same process.
        if !members.may_stop(process) {
            self.forget(process)?;
            return Ok(Outcome::Void);
        }
        let parent = running_parent(process);
        if let Some(vigil) = &mut self.vigil {
            vigil.stopping(process, parent)?;
        }
        if let Some(journalled) = self.journalled.get_mut(&process) {
            journalled.parent = parent;
        }
        match self.signal(process, libc::SIGSTOP)? {
            true => {
                self.stopped.insert(process);
                Ok(Outcome::Done(0))
            }
            false => Ok(Outcome::Void),
        }
    }

    fn go_on(&mut self, process: ProcessId) -> Result<Outcome, GuardError> {
        if !self.stopped.contains(&process) {
            return Ok(Outcome::Void);
        }
        let continued = self.signal(process, libc::SIGCONT);
        let lives = continued.inspect_err(|_| self.schedule_retry(process))?;
        self.runs_again(process);
        match lives {
            true => Ok(Outcome::Done(0)),
            false => Ok(Outcome::Void),
        }
    }

    /// Schedules the retry of a failed SIGCONT, unless one is scheduled.
    pub(super) fn schedule_retry(&mut self, process: ProcessId) {
        if let Some(journalled) = self.journalled.get_mut(&process)
            && journalled.retry.is_none()
        {
            journalled.retry = Some(Retry::new(state(process)));
        }
    }

    /// Records that a process runs again. Continues its parent if the parent stopped with it.
    fn runs_again(&mut self, process: ProcessId) {
        self.stopped.remove(&process);
        let Some(journalled) = self.journalled.get_mut(&process) else {
            return;
        };
        journalled.retry = None;
        if let Some(parent) = journalled.parent.filter(|parent| !self.stopped.contains(parent)) {
            resume_parent(parent);
        }
    }

    /// Sends a signal to a journalled process. Returns whether it lives.
    fn signal(&mut self, process: ProcessId, signal: i32) -> Result<bool, GuardError> {
        let Some(journalled) = self.journalled.get(&process) else {
            return Ok(false);
        };
        match journalled.pidfd.send_signal(signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => {
                self.stopped.remove(&process);
                self.forget(process)?;
                Ok(false)
            }
            Err(errno) => Err(GuardError::Signal {
                pid: process.pid,
                errno,
            }),
        }
    }

    /// Strikes a process out of the journal: another program has stopped it, or it has ended.
    pub(super) fn forget(&mut self, process: ProcessId) -> Result<(), GuardError> {
        if self.stopped.contains(&process) || self.journalled.remove(&process).is_none() {
            return Ok(());
        }
        self.cursors.remove(&process);
        match &mut self.vigil {
            Some(vigil) => Ok(vigil.released(process)?),
            None => Ok(()),
        }
    }

    /// Strikes all processes out that run and fail `keep`.
    pub(super) fn forget_running(&mut self, keep: impl Fn(ProcessId) -> bool) -> Result<(), GuardError> {
        let running = self
            .journalled
            .keys()
            .filter(|process| !self.stopped.contains(process));
        let gone: Vec<ProcessId> = running.copied().filter(|process| !keep(*process)).collect();
        gone.into_iter().try_for_each(|process| self.forget(process))
    }

    /// Pages out private anonymous memory of a process until so many bytes have left RAM, from where the last page-out ended.
    fn trim(
        &mut self,
        process: ProcessId,
        bytes: u64,
        members: &Members,
        stop: &Stop,
    ) -> Result<Outcome, GuardError> {
        let Some(pidfd) = open(process)? else {
            return Ok(Outcome::Void);
        };
        if !self.stopped.contains(&process) && !members.may_stop(process) {
            return Ok(Outcome::Void);
        }
        let Ok(folder) = Folder::open(process.pid) else {
            return Ok(Outcome::Void);
        };
        let (mut maps, mut buffer) = (Vec::new(), Vec::new());
        let Ok(text) = folder.read("maps", &mut maps) else {
            return Ok(Outcome::Void);
        };
        let mut resident =
            || Statm::parse(folder.read("statm", &mut buffer).ok()?).map(|statm| statm.resident);
        let Some(before) = resident() else {
            return Ok(Outcome::Void);
        };
        let begun = Instant::now();
        let mut left = 0;
        let mut proceed = |_| {
            left = before.saturating_sub(resident().unwrap_or(before));
            left < bytes && begun.elapsed() < LONGEST && !stop.requested()
        };
        let cursor = self.cursors.get(&process).copied().unwrap_or(0);
        let mut next = 0;
        for range in ranges_from(text, cursor) {
            match pidfd.page_out(&[range], PIECE, &mut proceed) {
                Ok(done) if done < range.length => {
                    next = range.start + done;
                    break;
                }
                Ok(_) => {}
                Err(error) if matches!(error.errno, Errno::NOMEM | Errno::INVAL) => {}
                Err(error) if error.errno == Errno::SRCH => return Ok(Outcome::Void),
                Err(error) => {
                    return Err(GuardError::Trim {
                        pid: process.pid,
                        errno: error.errno,
                    });
                }
            }
        }
        self.cursors.insert(process, next);
        Ok(Outcome::Done(before.saturating_sub(resident().unwrap_or(before))))
    }

    fn throttle(&mut self, group: GroupId, members: &Members, stop: &Stop) -> Result<Outcome, GuardError> {
        let (Some(vigil), Some(folder)) = (&mut self.vigil, members.group_folder(group)) else {
            return Ok(Outcome::Void);
        };
        if has_hidden_members(folder) {
            let cgroup = members.name(Target::Group(group), &Look::default());
            return Err(GuardError::HiddenProcesses { cgroup });
        }
        let until = self.reclaim_until;
        let is_over = || Instant::now() >= until || stop.requested();
        match vigil.throttle(group, folder, is_over) {
            Ok(Some(true)) => Ok(Outcome::Done(0)),
            Ok(Some(false) | None) => Ok(Outcome::Void),
            Err(error) => {
                // The course takes it for free. What another program has changed stays so.
                let _ = vigil.unthrottle(group);
                Err(error.into())
            }
        }
    }

    fn unthrottle(&mut self, group: GroupId) -> Result<Outcome, GuardError> {
        let lifted = self
            .vigil
            .as_mut()
            .map_or(Ok(false), |vigil| vigil.unthrottle(group))?;
        Ok(if lifted { Outcome::Done(0) } else { Outcome::Void })
    }

    /// Continues all stopped processes. Returns the number of continued ones, and of those that cannot be continued.
    pub(super) fn release_all(&mut self) -> (usize, usize) {
        let stopped: Vec<ProcessId> = self.stopped.iter().copied().collect();
        let continued = stopped
            .into_iter()
            .filter(|process| matches!(self.go_on(*process), Ok(Outcome::Done(_))));
        (continued.count(), self.stopped.len())
    }

    /// Undoes the rest of the journal, and removes it.
    pub(super) fn finish(mut self) -> Result<(), GuardError> {
        match self.vigil.take() {
            Some(vigil) => Ok(vigil.finish().map(drop)?),
            None => Ok(()),
        }
    }
}

impl Drop for Actuator {
    fn drop(&mut self) {
        // The journal has those that cannot be continued.
        let _ = self.release_all();
    }
}

/// The mappings that can be paged out, from an address on, and then those before it.
fn ranges_from(maps: &[u8], cursor: u64) -> Vec<Range> {
    let mappings = maps::parse(maps);
    let mappings = mappings.filter(|mapping| mapping.is_private_anonymous() && mapping.is_reclaimable());
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for mapping in mappings {
        let (start, end) = (mapping.start, mapping.start + mapping.length);
        let split = cursor.clamp(start, end);
        for (list, start, end) in [(&mut rest, start, split), (&mut first, split, end)] {
            if start < end {
                let length = end - start;
                list.push(Range { start, length });
            }
        }
    }
    first.append(&mut rest);
    first
}

/// The parent of a process, if it is not stopped.
fn running_parent(process: ProcessId) -> Option<ProcessId> {
    let parent = PidStat::read(process.pid, &mut Vec::new()).ok()?.parent;
    let parent = ProcessId::of(parent).ok()?;
    (!is_stopped(parent)).then_some(parent)
}

/// Whether a signal has stopped the process. `None` if its state is unknown: the process has ended or cannot be read, a
/// debugger or a freezer holds it, or it waits in the kernel.
fn state(process: ProcessId) -> Option<bool> {
    let mut buffer = Vec::new();
    let stat = PidStat::read(process.pid, &mut buffer).ok()?;
    let is_known = stat.start_ticks == process.start_ticks && !matches!(stat.state, 't' | 'D');
    is_known.then_some(stat.state == 'T')
}

/// Opens a process; `None` if it has ended.
fn open(process: ProcessId) -> Result<Option<Pidfd>, GuardError> {
    match Pidfd::open(process.pid) {
        // The number may be another process's by now.
        Ok(pidfd) => Ok(Some(pidfd).filter(|_| process.is_alive())),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(GuardError::Open {
            pid: process.pid,
            errno,
        }),
    }
}

fn kill(process: ProcessId, members: &Members) -> Result<Outcome, GuardError> {
    let Some(pidfd) = open(process)?.filter(|_| members.may_stop(process)) else {
        return Ok(Outcome::Void);
    };
    match pidfd.send_signal(libc::SIGKILL) {
        Ok(()) => Ok(Outcome::Done(0)),
        Err(Errno::SRCH) => Ok(Outcome::Void),
        Err(errno) => Err(GuardError::Signal {
            pid: process.pid,
            errno,
        }),
    }
}

#[cfg(test)]
impl Actuator {
    /// Stops a process, candidate or not, and waits until it is stopped.
    pub(super) fn stop_for_test(&mut self, process: ProcessId, parent: Option<ProcessId>) {
        let journalled = Journalled {
            pidfd: open(process).unwrap().unwrap(),
            name: "test".to_owned(),
            parent,
            retry: None,
        };
        self.journalled.insert(process, journalled);
        assert!(self.signal(process, libc::SIGSTOP).unwrap());
        self.stopped.insert(process);
        let start = Instant::now();
        while !is_stopped(process) {
            assert!(start.elapsed() < Duration::from_secs(30));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Jobs;
    use crate::guard::scope::Scope;
    use crate::guard::{Protection, ScopeChoice};

    /// The tree of a process, without protection.
    fn tree_of(pid: u32) -> Members {
        let scope = Scope::find(&ScopeChoice::Tree(pid)).unwrap();
        Members::new(scope, Protection::default(), None)
    }

    /// A process that sleeps, its tree, and an actuator without a journal.
    fn sleeper() -> (std::process::Child, ProcessId, Members, Actuator) {
        let child = plimsoll_testkit::command("sleep").arg("60").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        let members = tree_of(child.id());
        (child, process, members, Actuator::new(None))
    }

    #[test]
    fn page_outs_go_on_behind_the_last_one() {
        let text = b"1000-3000 rw-p 00000000 00:00 0 \n\
            5000-6000 r-xp 00000000 fe:00 9 /usr/bin/a\n\
            7000-9000 rw-p 00000000 00:00 0 \n\
            a000-f000 ---p 00000000 00:00 0 \n\
            ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";
        let ranges = |cursor| {
            let ranges = ranges_from(text, cursor).into_iter();
            ranges
                .map(|range| (range.start, range.start + range.length))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(0), [(0x1000, 0x3000), (0x7000, 0x9000)]);
        assert_eq!(
            ranges(0x2000),
            [(0x2000, 0x3000), (0x7000, 0x9000), (0x1000, 0x2000)]
        );
        assert_eq!(
            ranges(0x8000),
            [(0x8000, 0x9000), (0x1000, 0x3000), (0x7000, 0x8000)]
        );
        assert_eq!(ranges(0xffff), [(0x1000, 0x3000), (0x7000, 0x9000)]);
    }

    /// The kernel refuses `[vsyscall]`: a page-out that reached the end of the mappings failed.
    #[test]
    fn all_memory_of_a_process_is_paged_out() {
        let (mut child, process, members, mut actuator) = sleeper();
        // As for one that the guard has stopped.
        actuator.stopped.insert(process);
        let trimmed = actuator.trim(process, u64::MAX, &members, &Stop::default());
        let is_refused = matches!(&trimmed, Err(GuardError::Trim { errno, .. }) if *errno == Errno::PERM);
        if plimsoll_testkit::capability("process-madvise", !is_refused, "needs CAP_SYS_NICE") {
            assert!(matches!(trimmed, Ok(Outcome::Done(_))), "{trimmed:?}");
        }
        actuator.stopped.clear();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The kernel refuses SIGCONT to a process that now runs as another user, in another session. Such a process stayed
    /// stopped until the guard ended.
    #[test]
    fn a_refused_sigcont_is_retried_until_it_succeeds() {
        let is_root = rustix::process::geteuid().is_root();
        if !plimsoll_testkit::capability("root", is_root, "only root can become another user") {
            return;
        }
        let mut child = plimsoll_testkit::command("setsid")
            .args(["sh", "-c", "echo ready; exec sleep 60"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(plimsoll_testkit::next_line(&mut child), "ready");
        let process = ProcessId::of(child.id()).unwrap();
        let mut actuator = Actuator::new(None);
        actuator.stop_for_test(process, None);
        let (now, none) = (Duration::ZERO, (Vec::new(), Vec::new()));
        assert_eq!(actuator.retries(now), none);
        // On Linux, each thread has its own user.
        let refused = std::thread::scope(|scope| {
            let as_nobody = scope.spawn(|| {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                actuator.go_on(process)
            });
            as_nobody.join().unwrap()
        });
        assert!(
            matches!(&refused, Err(GuardError::Signal { errno, .. }) if *errno == Errno::PERM),
            "{refused:?}"
        );
        actuator.forget_running(|_| false).unwrap();
        assert_eq!(actuator.retries(now), (vec![process], Vec::new()));
        assert_eq!(actuator.go_on(process).unwrap(), Outcome::Done(0));
        assert_eq!(actuator.retries(Duration::from_secs(9)), none);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// The guard ignored the new stop, since the process was still stopped, and the next retry continued it. A repeated
    /// stop lost the parent that ran at the first stop.
    #[test]
    fn a_process_that_a_policy_stops_again_is_not_retried() {
        let mut jobs = Jobs::start();
        let (child, parent) = (jobs.child, jobs.parent());
        let members = tree_of(child.pid);
        let mut actuator = Actuator::new(None);
        actuator.stop_for_test(child, Some(parent));
        jobs.wait_for_parent(true);
        actuator.schedule_retry(child);
        assert_eq!(actuator.stop(child, &members).unwrap(), Outcome::Done(0));
        assert_eq!(actuator.retries(Duration::ZERO), (Vec::new(), Vec::new()));
        assert_eq!(actuator.journalled[&child].parent, Some(parent));
        assert_eq!(actuator.release_all(), (1, 0));
        jobs.wait_for_parent(false);
        jobs.end();
    }

    /// The guard reported a stop of a process that another program had continued, and of one that had ended.
    #[test]
    fn a_stop_after_a_failed_sigcont_stops_the_process() {
        let (mut child, process, members, mut actuator) = sleeper();
        actuator.stop_for_test(process, None);
        actuator.schedule_retry(process);
        assert!(actuator.signal(process, libc::SIGCONT).unwrap());
        let wait_for = |stopped: bool| {
            let start = Instant::now();
            while is_stopped(process) != stopped {
                assert!(start.elapsed() < Duration::from_secs(30), "stopped: {stopped}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(false);
        assert_eq!(actuator.stop(process, &members).unwrap(), Outcome::Done(0));
        wait_for(true);
        child.kill().unwrap();
        child.wait().unwrap();
        actuator.schedule_retry(process);
        assert_eq!(actuator.stop(process, &members).unwrap(), Outcome::Void);
        assert!(actuator.stopped.is_empty() && actuator.journalled.is_empty());
    }

    /// `su` and `runuser` stop with their child, and stayed stopped when the guard continued it.
    #[test]
    fn a_parent_that_stopped_with_its_child_runs_again() {
        let mut jobs = Jobs::start();
        let child = jobs.child;
        let mut actuator = Actuator::new(None);
        actuator.stop_for_test(child, running_parent(child));
        jobs.wait_for_parent(true);
        assert_eq!(actuator.release_all(), (1, 0));
        jobs.wait_for_parent(false);
        jobs.end();
    }
}
