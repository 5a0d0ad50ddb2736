//! The recording of a command without trials: of a sizing, or of a hold.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::{Event, EventKind, Manifest, Results, SamplerReport, Unlocked};
use plimsoll_model::recording::{Recording, Writer};
use plimsoll_model::scenario::Plan;
use plimsoll_sample::stop::Stop;
use plimsoll_sample::{Sampler, SamplerConfig, Target, new_manifest};
use serde::Serialize;

use super::Services;
use super::recorder::{Recorder, plain_event};
use crate::environment::Tripwire;

/// Samples a second.
const HZ: u32 = 10;
/// Longest wait for a sample, many times its period. A busy machine delays the sampler's thread.
const LATE_SAMPLE: Duration = Duration::from_secs(2);
/// Time between two looks for a sample.
const POLL: Duration = Duration::from_millis(5);

/// A recording in progress.
pub(crate) struct LoneRecording {
    recorder: Recorder,
    sampler: Sampler,
    manifest: Manifest,
}

/// A recording whose last event and sample are written.
pub(crate) struct ClosedRecording {
    writer: Writer,
    sampled: SamplerReport,
}

#[derive(Debug)]
pub struct FinishedRecording {
    pub directory: PathBuf,
    /// File of the report; `None` for a recording that is too long to analyse at its end.
    pub page: Option<PathBuf>,
    pub results: Results,
}

impl LoneRecording {
    /// Makes the recording `name` in the folder `output`, with the settings of the command, and starts to sample.
    pub(crate) fn open(
        output: &Path,
        name: String,
        (scenario, title): (&str, String),
        settings: &impl Serialize,
        tripwire: Option<Tripwire>,
        stop: &Arc<Stop>,
    ) -> Result<LoneRecording, Failure> {
        let mut manifest = new_manifest(name, Plan::without_trials(scenario, title), HZ);
        let mut writer = Writer::create(output, manifest.clone()).or_exit(Exit::Missing)?;
        let origin_ns = writer.origin_ns();
        let (sampler, batches) =
            Sampler::start(SamplerConfig::by_the_second(HZ, origin_ns)).or_exit(Exit::Missing)?;
        manifest.sampler.locked = sampler.locked().map_err(Unlocked::of);
        writer.update_manifest(&manifest).or_exit(Exit::Missing)?;
        let recorder = Recorder::start(writer, batches, tripwire, Arc::clone(stop), origin_ns)?;
        let recording = LoneRecording {
            recorder,
            sampler,
            manifest,
        };
        recording.event(plain_event(EventKind::RunStart, recording.manifest.run.clone()))?;
        let text = serde_json::to_string(settings).or_exit(Exit::Missing)?;
        recording.event(plain_event(EventKind::Environment, text))?;
        Ok(recording)
    }

    /// Watches `target` from the next sample on.
    pub(crate) fn set_target(&self, target: &Target) {
        self.sampler.set_target(Some(target));
    }

    /// Waits until the recording has a sample of `t_ns` or later: usually for less than the time between two samples.
    pub(crate) fn await_sample(&self, t_ns: u64) {
        let start = Instant::now();
        while self.sampler.latest().t_ns < t_ns && start.elapsed() < LATE_SAMPLE {
            std::thread::sleep(POLL);
        }
    }

    /// Nanoseconds since the start of the recording.
    pub(crate) fn now(&self) -> u64 {
        self.recorder.now()
    }

    /// Writes an event that happens now; returns its time.
    pub(crate) fn event(&self, event: Event) -> Result<u64, Failure> {
        self.recorder.event(event)
    }

    /// Writes an event that happened before.
    pub(crate) fn past_event(&self, event: &Event) -> Result<(), Failure> {
        self.recorder.past_event(event)
    }

    /// Writes the end, and waits for the last sample.
    pub(crate) fn close(mut self) -> Result<ClosedRecording, Failure> {
        self.recorder.event(plain_event(EventKind::RunEnd, ""))?;
        self.manifest.swap_slots = self.sampler.swap_slots();
        self.recorder.manifest(&self.manifest)?;
        let sampled = self.sampler.stop();
        let writer = self.recorder.close()?;
        Ok(ClosedRecording { writer, sampled })
    }
}

impl ClosedRecording {
    pub(crate) fn samples(&self) -> u64 {
        self.sampled.samples
    }

    /// Computes the results, completes the recording with them, and writes the report.
    pub(crate) fn analyse(self, services: &Services) -> Result<FinishedRecording, Failure> {
        let place = self.writer.open_folder().clone();
        let mut results = (services.results)(&Recording::open_in(&place).or_exit(Exit::Missing)?);
        results.sampler = self.sampled;
        let directory = self.writer.finish(&results).or_exit(Exit::Missing)?;
        let recording = Recording::open_in(&place).or_exit(Exit::Missing)?;
        let page = (services.report)(&recording, &results, &place)
            .map_err(|error| Failure::message(Exit::Missing, error))?;
        Ok(FinishedRecording {
            directory,
            page: Some(page),
            results,
        })
    }

    /// Completes the recording without an analysis, which takes about a kilobyte of memory a sample; `complete` adds the
    /// results that are known. `plimsoll report` computes the others.
    pub(crate) fn finish(self, complete: impl FnOnce(&mut Results)) -> Result<FinishedRecording, Failure> {
        let mut results = Results::unread(self.writer.manifest());
        results.sampler = self.sampled;
        complete(&mut results);
        let directory = self.writer.finish(&results).or_exit(Exit::Missing)?;
        Ok(FinishedRecording {
            directory,
            page: None,
            results,
        })
    }
}
