//! The monitor: its threads, and what a face may ask of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use plimsoll_os::{Pidfd, UsageScope, resource_usage};

use super::account::Account;
use super::actions::{self, Actions, Request};
use super::error::WatchError;
use super::feed::feed;
use super::follow::Follower;
use super::options::{Candidate, Options, Program, Source, TargetChoice};
use super::program::{self, Running};
use super::recorder::Recorded;
use super::replay::Replay;
use super::shared::{Shared, lock};
use super::state::{Facts, Level, MarkKind, State, TargetState};
use super::summary::{MonitorSummary, Summary};
use super::target::Followed;
use crate::analysis::frame::Machine;
use crate::inert::inert;
use crate::processes::{self, Depth};
use crate::recording::model::SamplerReport;
use crate::recording::{RecordingError, host};
use crate::sample::{Sampler, SamplerConfig, monotonic_ns};
use crate::trim::release;

/// A monitor at work. Dropping it ends its threads, and the recording as [`Monitor::finish`] does; a program that was
/// started goes on.
///
/// Whatever takes time is done by threads of its own: no call waits for it. The outcome arrives as a mark and a message
/// in the [`State`]; [`super::Status::busy`] says what goes on until then.
pub struct Monitor {
    shared: Arc<Shared>,
    live: Option<Live>,
    replay: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    program: Option<Started>,
    cpu_before_s: f64,
    started_ns: u64,
}

/// The program that was started.
struct Started {
    pidfd: Pidfd,
    /// Waits for its end.
    thread: JoinHandle<()>,
}

/// What a monitor of this machine has.
struct Live {
    sampler: Arc<Sampler>,
    feed: JoinHandle<()>,
    requests: Sender<Request>,
    /// Ends what is being done for a request.
    stop: Arc<AtomicBool>,
    choices: Sender<TargetChoice>,
}

impl Monitor {
    /// Starts to watch.
    ///
    /// # Errors
    /// When there can be no samples, the target or the recording is not there, or the program cannot be started.
    pub fn start(options: &Options) -> Result<Monitor, WatchError> {
        match &options.source {
            Source::Live(choice) => Monitor::watch(options, Followed::choose(choice)?, None),
            Source::Program(program) => Monitor::watch(options, Followed::Nothing, Some(program)),
            Source::Replay(folder) => Monitor::replay(folder),
        }
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
            cpu_before_s: own_cpu_s(),
            started_ns: monotonic_ns(),
        }
    }

    fn watch(
        options: &Options,
        followed: Followed,
        program: Option<&Program>,
    ) -> Result<Monitor, WatchError> {
        let origin_ns = monotonic_ns();
        let facts = facts(options.hz);
        let machine = facts.machine;
        let shared = Arc::new(Shared::new(State::new(facts), origin_ns));
        let mut monitor = Monitor::around(Arc::clone(&shared));
        let config = match options.drawn {
            true => SamplerConfig::at_once(options.hz, origin_ns),
            false => SamplerConfig::by_the_second(options.hz, origin_ns),
        };
        let (sampler, batches) = Sampler::start(config)?;
        let sampler = Arc::new(sampler);
        shared.state().status.unlocked = sampler.locked().err();
        let (fed, drawn) = (Arc::clone(&shared), options.drawn);
        let feed = spawn("feed", move || feed(&batches, &fed, machine, drawn))?;
        let (requests, requested) = mpsc::channel();
        let (choices, chosen) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        monitor.live = Some(Live {
            sampler: Arc::clone(&sampler),
            feed,
            requests,
            stop: Arc::clone(&stop),
            choices,
        });
        let title = program
            .map(Program::words)
            .or(followed.title().map(str::to_owned));
        shared.change_target(title.map(|title| TargetState {
            title,
            ..TargetState::default()
        }));
        if let Some(folder) = &options.record {
            *lock(&shared.recorder) = Some(actions::start_recording(folder, &shared, &sampler)?);
        }
        let followed = match program {
            Some(program) => monitor.start_program(program)?,
            None => {
                *lock(&shared.account) = Account::open(shared.now_ns())?;
                followed
            }
        };
        let follower = Follower::new(Arc::clone(&shared), Arc::clone(&sampler), followed);
        monitor
            .threads
            .push(spawn("target", move || follower.run(&chosen))?);
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

    /// Starts the program, and waits for its end on a thread.
    fn start_program(&mut self, program: &Program) -> Result<Followed, WatchError> {
        let folder = self.shared.state().status.recording.clone();
        let mut account = Account::open(self.shared.now_ns())?;
        account.open_delays();
        *lock(&self.shared.account) = account;
        let running: Running = program.start(folder.as_deref()).inspect_err(|_| {
            // Nothing was watched: the folder would only be in the way of the next attempt.
            drop(lock(&self.shared.recorder).take());
            if let Some(folder) = &folder {
                let _ = std::fs::remove_dir_all(folder);
            }
        })?;
        self.shared
            .mark(MarkKind::Target, format!("{} started", running.title));
        let followed = Followed::program(running.identity, running.title.clone());
        let shared = Arc::clone(&self.shared);
        // Nobody has waited for it yet, so that the number is still its own.
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

    /// The state, for as long as it takes to copy what is needed: frames wait meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    /// Now, in nanoseconds since the start of the recording; in a replay, the time of the last frame.
    pub fn now_ns(&self) -> u64 {
        let state = self.state();
        if state.status.replay {
            return state.history.latest().map_or(0, |frame| frame.t_ns);
        }
        drop(state);
        self.shared.now_ns()
    }

    /// Whether a face should end: the program that was started has ended. Never true of anything else.
    pub fn ended(&self) -> bool {
        self.shared.outcome().is_some()
    }

    /// Waits at most `timeout` for the program that was started to end. Whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.shared.wait_for_program(timeout)
    }

    /// Sends a signal to the program that was started, if it still runs.
    pub fn signal_program(&self, signal: i32) {
        if let Some(program) = &self.program {
            // It may have ended just now.
            let _ = program.pidfd.send_signal(signal);
        }
    }

    /// Sets a mark with a number (1-4) now.
    pub fn mark(&self, number: u32) {
        if self.may_change() {
            self.shared.mark(MarkKind::Number(number), "");
        }
    }

    /// Sets a note now.
    pub fn note(&self, text: &str) {
        if self.may_change() {
            self.shared.mark(MarkKind::Note, text);
        }
    }

    /// Trims the target.
    pub fn trim(&self) {
        match self.shared.trimmable() {
            Some(what) => self.ask(Request::Trim(what)),
            None => self.shared.say(
                Level::Error,
                "nothing is watched that could be trimmed; choose a target first",
            ),
        }
    }

    /// What [`Monitor::release`] would do, a line a step, for the user to agree to.
    pub fn release_plan(&self) -> Vec<String> {
        release::plan().iter().map(ToString::to_string).collect()
    }

    /// Releases standby memory and page cache.
    pub fn release(&self) {
        self.ask(Request::Release);
    }

    /// Counts the flags of all pages: takes CPU time, about 30 ms a GiB.
    pub fn count_page_flags(&self) {
        self.ask(Request::PageFlags);
    }

    /// Watches another target from now on.
    pub fn set_target(&self, choice: TargetChoice) {
        if self.may_change()
            && let Some(live) = &self.live
        {
            // The thread is there for as long as this sender is.
            let _ = live.choices.send(choice);
        }
    }

    /// Processes to choose from, the largest first. Reads /proc: about 50 us a process.
    pub fn candidates(&self) -> Vec<Candidate> {
        let found = processes::list(Depth::Detail).unwrap_or_default();
        let mut candidates: Vec<Candidate> = found
            .processes
            .iter()
            .map(|process| Candidate {
                pid: process.identity.pid,
                name: inert(&process.name).into_owned(),
                resident: process.wss(),
                swap: process.swap().unwrap_or(0),
            })
            .collect();
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.resident + candidate.swap));
        candidates
    }

    /// Records into `folder`, which must not exist yet, from now on; None ends the recording.
    pub fn record(&self, folder: Option<PathBuf>) {
        self.ask(Request::Record(folder));
    }

    /// Whether this machine is watched; says so where a recording is.
    fn may_change(&self) -> bool {
        if self.live.is_none() {
            self.shared
                .say(Level::Warning, "this is a recording: nothing can be done to it");
        }
        self.live.is_some()
    }

    fn ask(&self, request: Request) {
        if self.may_change()
            && let Some(live) = &self.live
        {
            let _ = live.requests.send(request);
        }
    }

    /// Ends watching and the recording, and says what was seen. Waits for the program that was started.
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
            cpu_percent: crate::analysis::ratio(100.0 * cpu_s, wall_s).unwrap_or(0.0),
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
        drop((live.requests, live.choices));
        self.join();
        lock(&self.shared.account).close(self.shared.now_ns());
        let slots = live.sampler.swap_slots();
        // Theirs are gone: this is the last handle.
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
            // A thread that panicked has said so; the others are ended all the same.
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

/// CPU time of this process so far, in seconds.
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
