//! Feeds the state, and does what its user asks for.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::state::{Facts, Mark, MarkKind, State};
use crate::analysis::frame::{Frame, Machine};
use crate::recording::host;
use crate::sample::{Batch, Row, SampleError, Sampler, SamplerConfig, Target, monotonic_ns};

/// Where frames come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This machine, with what is watched besides.
    Live(Target),
}

/// What to watch, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where frames come from.
    pub source: Source,
    /// Samples a second.
    pub hz: u32,
}

/// A monitor at work. Dropping it ends its threads.
pub struct Monitor {
    state: Arc<Mutex<State>>,
    sampler: Option<Sampler>,
    feed: Option<JoinHandle<()>>,
    origin_ns: u64,
}

impl Monitor {
    /// Starts sampling.
    ///
    /// # Errors
    /// When there can be no samples.
    pub fn start(options: &Options) -> Result<Monitor, SampleError> {
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
        let Source::Live(target) = &options.source;
        sampler.set_target(Some(target));
        let fed = Arc::clone(&state);
        let feed = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || feed(&batches, &fed, machine))
            .map_err(SampleError::Thread)?;
        Ok(Monitor {
            state,
            sampler: Some(sampler),
            feed: Some(feed),
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

    /// Sets a mark with a number (1-4) now.
    pub fn mark(&self, number: u32) {
        let t_ns = self.now_ns();
        self.state().mark(Mark {
            t_ns,
            kind: MarkKind::Number(number),
            text: String::new(),
        });
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
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
