//! The monitor's threads, and its interface for user interfaces.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender, TrySendError};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use plimsoll_os::{Pidfd, UsageScope, resource_usage};

use super::account::Account;
use super::actions::{self, Actions, Request};
use super::cgroups::CgroupReader;
use super::error::WatchError;
use super::feed::feed;
use super::follow::Follower;
use super::lister::Lister;
use super::options::{Candidate, Options, Prepared, Source, TargetChoice};
use super::program::{self, Running};
use super::recorder::Recorded;
use super::replay::Replay;
use super::shared::{Shared, lock};
use super::state::{Facts, Level, MarkKind, State, TargetState};
use super::summary::{MonitorSummary, Summary};
use super::target::{self, Followed};
use crate::processes::{self, Depth};
use crate::trim::release;
use plimsoll_model::columns::Row;
use plimsoll_model::recording::RecordingError;
use plimsoll_model::recording::model::SamplerReport;
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::analysis::frame::Machine;
use plimsoll_sample::host::host;
use plimsoll_sample::{CgroupFiles, Sampler, SamplerConfig, monotonic_ns};

/// Most letters of a note.
pub const NOTE_LETTERS: usize = 500;
/// Most marks and notes that users can set: one every second for some hours.
const MOST_MARKS: usize = 10_000;
/// Most requests that wait for the running one.
const WAITING_REQUESTS: usize = 16;

/// A running monitor. Dropping it ends its threads, and the recording as [`Monitor::finish`] does. A started program
/// continues.
///
/// Slow work runs on threads of its own, so no call blocks on it. Its result arrives as a mark and a message in the
/// [`State`]; until then [`super::Status::busy`] names it.
pub struct Monitor {
    shared: Arc<Shared>,
    live: Option<Live>,
    replay: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    program: Option<Started>,
    /// Number of marks that users have set.
    marked: AtomicUsize,
    cpu_before_s: f64,
    started_ns: u64,
}

struct Started {
    pidfd: Pidfd,
    /// Waits for the program's end.
    thread: JoinHandle<()>,
}

/// The parts of a monitor of the live machine.
struct Live {
    sampler: Arc<Sampler>,
    feed: JoinHandle<()>,
    requests: SyncSender<Request>,
    /// Ends the running request early.
    stop: Arc<AtomicBool>,
    choices: Sender<TargetChoice>,
    /// Whether a user interface shows cgroups.
    cgroups: Sender<bool>,
    /// Whether a user interface shows the list of processes.
    lists: Sender<bool>,
}

impl Monitor {
    /// Starts the monitor.
    ///
    /// # Errors
    ///
    /// If sampling is impossible, the target or the recording does not exist, or the program cannot start.
    pub fn start(options: &Options) -> Result<Monitor, WatchError> {
        match &options.source {
            Source::Live(choice) => Monitor::watch(options, Followed::choose(choice)?, None),
            Source::Program(program) => Monitor::start_prepared(options, program.prepare()?),
            Source::Replay(folder) => Monitor::replay(folder),
        }
    }

    /// As [`Monitor::start`] with [`Source::Program`], for a program whose start is prepared.
    ///
    /// # Errors
    ///
    /// As [`Monitor::start`].
    pub fn start_prepared(options: &Options, program: Prepared) -> Result<Monitor, WatchError> {
        Monitor::watch(options, Followed::Nothing, Some(program))
    }

    fn replay(folder: &Path) -> Result<Monitor, WatchError> {
        let (replay, state) = Replay::open(folder)?;
        let shared = Arc::new(Shared::new(state, monotonic_ns()));
        let (stop, stopped) = mpsc::channel();
        let fed = Arc::clone(&shared);
        let thread = spawn("replay", move || replay.run(&fed, &stopped))?;
        let mut monitor = Monitor::around(shared);
        monitor.replay = Some(stop);
        monitor.threads.push(thread);
        Ok(monitor)
    }

    fn around(shared: Arc<Shared>) -> Monitor {
        Monitor {
            shared,
            live: None,
            replay: None,
            threads: Vec::new(),
            program: None,
            marked: AtomicUsize::new(0),
            cpu_before_s: own_cpu_s(),
            started_ns: monotonic_ns(),
        }
    }

    fn watch(
        options: &Options,
        followed: Followed,
        program: Option<Prepared>,
    ) -> Result<Monitor, WatchError> {
        let origin_ns = monotonic_ns();
        // Before the recording: without the cgroup, the monitor leaves none.
        let cgroup = program.as_ref().and_then(|prepared| prepared.cgroup.as_deref());
        let cgroup = cgroup.map(target::files_of).transpose()?;
        let facts = facts(options.hz);
        let machine = facts.machine;
        let shared = Arc::new(Shared::new(State::new(facts), origin_ns));
        let mut monitor = Monitor::around(Arc::clone(&shared));
        let batched = match options.drawn {
            true => SamplerConfig::at_once(options.hz, origin_ns),
            false => SamplerConfig::by_the_second(options.hz, origin_ns),
        };
        let (sampler, batches) = Sampler::start(SamplerConfig {
            rare_once_a_second: true,
            ..batched
        })?;
        let sampler = Arc::new(sampler);
        shared.state().status.unlocked = sampler.locked().err().map(ToString::to_string);
        let (fed, drawn) = (Arc::clone(&shared), options.drawn);
        let feed = spawn("feed", move || feed(&batches, &fed, machine, drawn))?;
        let (requests, requested) = mpsc::sync_channel(WAITING_REQUESTS);
        let (choices, chosen) = mpsc::channel();
        let (cgroups, cgroups_wanted) = mpsc::channel();
        let (lists, wanted) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        monitor.live = Some(Live {
            sampler: Arc::clone(&sampler),
            feed,
            requests,
            stop: Arc::clone(&stop),
            choices,
            cgroups,
            lists,
        });
        let title = program
            .as_ref()
            .map(|prepared| prepared.program.words())
            .or(followed.title().map(str::to_owned));
        shared.change_target(title.map(|title| TargetState {
            title,
            cgroup: followed.folder(),
            ..TargetState::default()
        }));
        if let Some(folder) = &options.record {
            *lock(&shared.recorder) = Some(actions::start_recording(folder, &shared, &sampler)?);
        }
        let followed = match program {
            Some(program) => monitor
                .start_program(program, cgroup)
                .inspect_err(|_| monitor.discard())?,
            None => {
                *lock(&shared.account) = Account::open(shared.now_ns())?;
                followed
            }
        };
        let follower = Follower::new(Arc::clone(&shared), Arc::clone(&sampler), followed);
        monitor
            .threads
            .push(spawn("target", move || follower.run(&chosen))?);
        if options.drawn {
            let reader = CgroupReader::new(Arc::clone(&shared));
            monitor
                .threads
                .push(spawn("cgroups", move || reader.run(&cgroups_wanted))?);
            let lister = Lister::new(Arc::clone(&shared));
            monitor.threads.push(spawn("top", move || lister.run(&wanted))?);
        }
        let actions = Actions {
            shared: Arc::clone(&shared),
            sampler,
            stop: Arc::clone(&stop),
        };
        monitor
            .threads
            .push(spawn("actions", move || actions.run(&requested))?);
        Ok(monitor)
    }

    /// Starts the program, in `cgroup` if there is one, and a thread that waits for its end. After an error, the program does
    /// not run.
    fn start_program(
        &mut self,
        program: Prepared,
        cgroup: Option<CgroupFiles>,
    ) -> Result<Followed, WatchError> {
        let folder = lock(&self.shared.recorder)
            .as_ref()
            .map(|recorder| recorder.place().clone());
        let mut account = Account::open(self.shared.now_ns())?;
        account.open_delays();
        *lock(&self.shared.account) = account;
        let running: Running = program.start(folder.as_ref())?;
        self.shared
            .mark(MarkKind::Target, format!("{} started", running.title));
        let followed = Followed::program(running.identity, running.title.clone(), cgroup);
        let shared = Arc::clone(&self.shared);
        // No thread has waited for the process yet, so its pid is still valid.
        let pid = running.identity.pid;
        let watched = Pidfd::open(pid)
            .map_err(|errno| WatchError::Thread(std::io::Error::from_raw_os_error(errno.raw())))
            .and_then(|pidfd| {
                Ok((
                    pidfd,
                    spawn("program", move || program::wait_for(running, &shared))?,
                ))
            });
        let (pidfd, thread) = watched.inspect_err(|_| program::abandon(pid))?;
        self.program = Some(Started { pidfd, thread });
        Ok(followed)
    }

    /// Removes the recording, which holds nothing of a program that did not start: its folder would block the next attempt.
    fn discard(&self) {
        self.shared.state().status.recording = None;
        let recorder = lock(&self.shared.recorder).take();
        if let Some(recorder) = recorder {
            // The error of the start is reported instead.
            let _ = recorder.discard();
        }
    }

    /// Locks the state. New frames wait for the lock: hold it only to copy.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// The latest sample of this machine; None in a replay.
    pub fn latest_sample(&self) -> Option<Row> {
        self.live.as_ref().map(|live| live.sampler.latest())
    }

    /// Nanoseconds since the start of the recording; in a replay, the time of the last frame.
    pub fn now_ns(&self) -> u64 {
        let state = self.state();
        if state.status.replay {
            return state.history.latest().map_or(0, |frame| frame.t_ns);
        }
        drop(state);
        self.shared.now_ns()
    }

    /// Whether the started program has ended. Always false for other targets.
    pub fn ended(&self) -> bool {
        self.shared.outcome().is_some()
    }

    /// Waits at most `timeout` for the end of the started program. Returns whether it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait_for_program(timeout)
    }

    /// Sends a signal to the started program, if it still runs.
    pub fn signal_program(&self, signal: i32) {
        if let Some(program) = &self.program {
            // The program may have ended just now.
            let _ = program.pidfd.send_signal(signal);
        }
    }

    /// Returns whether the mark was set; otherwise a message has the reason.
    pub fn mark(&self, number: u32) -> bool {
        self.may_mark() && {
            self.shared.mark(MarkKind::Number(number), "");
            true
        }
    }

    /// As [`Monitor::mark`]. A longer text than [`NOTE_LETTERS`] is cut.
    pub fn note(&self, text: &str) -> bool {
        self.may_mark() && {
            let end = text.char_indices().nth(NOTE_LETTERS);
            self.shared
                .mark(MarkKind::Note, &text[..end.map_or(text.len(), |(end, _)| end)]);
            true
        }
    }

    /// Whether users may set one more mark: each is kept in memory and in the recording.
    fn may_mark(&self) -> bool {
        if !self.may_change() {
            return false;
        }
        let few = self.marked.fetch_add(1, Ordering::Relaxed) < MOST_MARKS;
        if !few {
            self.marked.store(MOST_MARKS, Ordering::Relaxed);
            let text = format!("cannot set a mark: {MOST_MARKS} are set, which is the most");
            self.shared.say(Level::Warning, text);
        }
        few
    }

    pub fn trim(&self) {
        match self.shared.trimmable() {
            Some(what) => self.ask(Request::Trim(what)),
            None => self
                .shared
                .say(Level::Error, "cannot trim: there is no target; choose one first"),
        }
    }

    /// The steps of [`Monitor::release`], one per line, for the confirmation prompt.
    pub fn release_plan(&self) -> Vec<String> {
        release::plan().iter().map(ToString::to_string).collect()
    }

    pub fn release(&self) {
        self.ask(Request::Release);
    }

    /// Counts the flags of all pages, at a CPU cost of about 30 ms per GiB.
    pub fn count_page_flags(&self) {
        self.ask(Request::PageFlags);
    }

    pub fn set_target(&self, choice: TargetChoice) {
        if self.may_change()
            && let Some(live) = &self.live
        {
            // The receiving thread lives as long as this sender.
            let _ = live.choices.send(choice);
        }
    }

    /// Processes for the choice of a target, the largest first. Reads `/proc`, about 50 us per process.
    pub fn candidates(&self) -> Vec<Candidate> {
        let found = processes::list(Depth::Detail).unwrap_or_default();
        let mut candidates: Vec<Candidate> = found
            .processes
            .iter()
            .map(|process| Candidate {
                pid: process.identity.pid,
                name: sanitize(&process.name).into_owned(),
                resident: process.wss(),
                swap: process.swap().unwrap_or(0),
            })
            .collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.resident + candidate.swap));
        candidates
    }

    /// Starts or ends the reading of [`State::cgroups`]. A replay has none.
    pub fn list_cgroups(&self, wanted: bool) {
        if let Some(live) = &self.live {
            // Without a user interface there is no receiver.
            let _ = live.cgroups.send(wanted);
        }
    }

    /// Starts or ends the list of processes in [`State::top`]. While it runs, another start asks for a list
    /// at once. A replay has none.
    pub fn list_top(&self, wanted: bool) {
        if let Some(live) = &self.live {
            // Without a user interface there is no receiver.
            let _ = live.lists.send(wanted);
        }
    }

    /// Starts to record into `folder`, which must not exist; None ends the recording.
    pub fn record(&self, folder: Option<PathBuf>) {
        self.ask(Request::Record(folder));
    }

    /// Whether this is the live machine. Otherwise shows a warning.
    fn may_change(&self) -> bool {
        if self.live.is_none() {
            self.shared.say(Level::Warning, "a replay has no actions");
        }
        self.live.is_some()
    }

    fn ask(&self, request: Request) {
        if self.may_change()
            && let Some(live) = &self.live
        {
            match live.requests.try_send(request) {
                Err(TrySendError::Full(_)) => {
                    let text =
                        "cannot start one more action: too many wait; try again when the running one is done";
                    self.shared.say(Level::Warning, text);
                }
                // The receiving thread lives as long as this sender.
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// Ends the monitor and the recording, and returns the summary. Waits for the started program.
    pub fn finish(mut self) -> Summary {
        if let Some(program) = self.program.take() {
            let _ = program.thread.join();
        }
        let (sampler, recorded) = self.end();
        let cpu_s = own_cpu_s() - self.cpu_before_s;
        let wall_s = monotonic_ns().saturating_sub(self.started_ns) as f64 / 1e9;
        let outcome = self.shared.outcome();
        let title = {
            let state = self.state();
            let target = state.target.as_ref();
            target.map_or_else(|| state.facts.hostname.clone(), |target| target.title.clone())
        };
        let monitor = MonitorSummary {
            sampler,
            cpu_s,
            cpu_percent: plimsoll_report::analysis::ratio(100.0 * cpu_s, wall_s).unwrap_or(0.0),
        };
        let account = lock(&self.shared.account);
        Summary::of(title, &account, outcome.as_ref(), monitor, recorded)
    }

    /// Ends the threads and the recording, once.
    fn end(&mut self) -> (SamplerReport, Option<Result<Recorded, RecordingError>>) {
        drop(self.replay.take());
        let Some(live) = self.live.take() else {
            self.join();
            return (SamplerReport::default(), None);
        };
        live.stop.store(true, Ordering::Relaxed);
        drop((live.requests, live.choices, live.cgroups, live.lists));
        self.join();
        lock(&self.shared.account).close(self.shared.now_ns());
        let slots = live.sampler.swap_slots();
        // The other threads have dropped their handles: this is the last one.
        let report = Arc::into_inner(live.sampler)
            .map(Sampler::stop)
            .unwrap_or_default();
        // The feed ends with the sampler's batches.
        let _ = live.feed.join();
        let recorder = lock(&self.shared.recorder).take();
        let recorded = recorder.map(|recorder| recorder.finish(slots, report.dropped));
        (report, recorded)
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panicked thread has printed its message; the other threads must still end.
            let _ = thread.join();
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, WatchError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(WatchError::Thread)
}

fn own_cpu_s() -> f64 {
    let usage = resource_usage(UsageScope::Process);
    (usage.user_us + usage.system_us) as f64 / 1e6
}

fn facts(hz: u32) -> Facts {
    let host = host();
    Facts {
        hostname: host.hostname,
        kernel: host.kernel,
        machine: Machine {
            page_size: host.page_size,
            cpus: host.cpus,
        },
        mem_total: host.mem_total,
        started: humantime::format_rfc3339_nanos(SystemTime::now()).to_string(),
        hz,
    }
}
