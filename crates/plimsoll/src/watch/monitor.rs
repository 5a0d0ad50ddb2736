//! Feeds the state, and does what its user asks for.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::actions::{self, Request};
use super::error::WatchError;
use super::options::{Candidate, Options, TargetChoice};
use super::state::{Facts, Mark, MarkKind, State};
use crate::analysis::frame::{Frame, Machine};
use crate::recording::host;
use crate::sample::{Batch, Row, Sampler, SamplerConfig, monotonic_ns};

/// A monitor at work. Dropping it ends its threads.
///
/// Whatever takes time is done by threads of its own: no call waits for it. The outcome arrives as a mark and a message
/// in the [`State`]; [`super::Status::busy`] says what goes on until then.
pub struct Monitor {
    state: Arc<Mutex<State>>,
    sampler: Option<Sampler>,
    feed: Option<JoinHandle<()>>,
    requests: Option<Sender<Request>>,
    actions: Option<JoinHandle<()>>,
    origin_ns: u64,
}

impl Monitor {
    /// Starts sampling.
    ///
    /// # Errors
    /// When there can be no samples, the target or the recording is not there, or the program cannot be started.
    pub fn start(options: &Options) -> Result<Monitor, WatchError> {
        let host = host();
        let origin_ns = monotonic_ns();
        let facts = Facts {
            hostname: host.hostname,
            kernel: host.kernel,
            machine: Machine {
                page_size: host.page_size,
                cpus: host.cpus,
            },
            mem_total: host.mem_total,
            started: jiff::Timestamp::now().to_string(),
            hz: options.hz,
        };
        let machine = facts.machine;
        let state = Arc::new(Mutex::new(State::new(facts)));
        let (sampler, batches) = Sampler::start(SamplerConfig::at_once(options.hz, origin_ns))?;
        let fed = Arc::clone(&state);
        let feed = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || feed(&batches, &fed, machine))
            .map_err(WatchError::Thread)?;
        let (requests, asked) = mpsc::channel();
        let acted_on = Arc::clone(&state);
        let actions = std::thread::Builder::new()
            .name("actions".to_owned())
            .spawn(move || {
                actions::carry_out(&asked, &acted_on, || monotonic_ns().wrapping_sub(origin_ns));
            })
            .map_err(WatchError::Thread)?;
        Ok(Monitor {
            state,
            sampler: Some(sampler),
            feed: Some(feed),
            requests: Some(requests),
            actions: Some(actions),
            origin_ns,
        })
    }

    /// The state, for as long as it takes to copy what is needed: frames wait meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Now, in nanoseconds since the start of the recording.
    pub fn now_ns(&self) -> u64 {
        monotonic_ns().wrapping_sub(self.origin_ns)
    }

    /// Whether there will be no more frames; [`super::Status::ended`] says why.
    pub fn ended(&self) -> bool {
        self.state().status.ended.is_some()
    }

    /// Sets a mark with a number (1-4) now.
    pub fn mark(&self, number: u32) {
        self.set_mark(MarkKind::Number(number), String::new());
    }

    /// Sets a note now.
    pub fn note(&self, text: &str) {
        self.set_mark(MarkKind::Note, text.to_owned());
    }

    /// Trims the target.
    pub fn trim(&self) {
        self.ask(Request::Trim);
    }

    /// What [`Monitor::release`] would do, a line a step, for the user to agree to.
    pub fn release_plan(&self) -> Vec<String> {
        Vec::new()
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
        self.ask(Request::Target(choice));
    }

    /// Processes to choose from, the largest first. Reads /proc: a few milliseconds.
    pub fn candidates(&self) -> Vec<Candidate> {
        Vec::new()
    }

    /// Records into `folder`, which must not exist yet, from now on; None ends the recording.
    pub fn record(&self, folder: Option<PathBuf>) {
        self.ask(Request::Record(folder));
    }

    fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            // The thread is there for as long as this sender is.
            let _ = requests.send(request);
        }
    }

    fn set_mark(&self, kind: MarkKind, text: String) {
        let t_ns = self.now_ns();
        self.state().mark(Mark { t_ns, kind, text });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(actions) = self.actions.take() {
            let _ = actions.join();
        }
        // The feed ends with the sampler's batches.
        drop(self.sampler.take());
        if let Some(feed) = self.feed.take() {
            let _ = feed.join();
        }
    }
}

fn feed(batches: &Receiver<Batch>, state: &Mutex<State>, machine: Machine) {
    let mut before: Option<Row> = None;
    for batch in batches {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        for row in batch.rows() {
            state.history.push(Frame::of(row, before.as_ref(), machine));
            before = Some(*row);
        }
    }
}
