//! Opening a recording, finished or not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::hold::HeldLevel;
use super::lines::{self, Lines};
use super::lock::is_written;
use super::model::{
    Calibration, Confounder, Event, Finding, Headline, Manifest, RECORDING_SCHEMA, RESULTS_SCHEMA, Results,
    RunStatus, SamplerReport, Trial, file,
};
use super::recommendation::{Recommendation, Withheld};
use super::service::ServiceSize;
use super::size::ProgramSize;
use super::{NotARecording, RecordingError, RecordingFolder, Samples, Warning, WarningCode, parquet, stream};

#[derive(Debug, Clone)]
pub struct Recording {
    pub folder: PathBuf,
    /// The plan and the machine.
    pub manifest: Manifest,
    /// Events in the order in which they were written.
    pub events: Vec<Event>,
    /// Trials that ended, each once: of a trial that was run again, the last.
    pub trials: Vec<Trial>,
    pub samples: Samples,
    /// The results without their trials, when the run got that far: `trials` has those, and [`Recording::read_results`]
    /// reads the whole document.
    pub results: Option<Results>,
    /// Messages about missing and torn parts.
    pub warnings: Vec<Warning>,
    /// Whether the run came to its end and nothing is missing.
    pub complete: bool,
}

impl Recording {
    /// Opens the recording in `folder`. One that was cut short, by a kill or a full disk, opens with warnings.
    ///
    /// # Errors
    /// [`RecordingError::NotARecording`]; [`RecordingError::NewerSchema`]; [`RecordingError::CorruptJson`] and
    /// [`RecordingError::CorruptSamples`] with file and place, for damage to a once whole file.
    pub fn open(folder: &Path) -> Result<Self, RecordingError> {
        Recording::open_in(&RecordingFolder::open(folder)?)
    }

    /// As [`Recording::open`], of an open folder.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn open_in(folder: &RecordingFolder) -> Result<Self, RecordingError> {
        let mut recording = Recording::open_unlocked(folder)?;
        if !recording.complete && matches!(is_written(folder.path()), Ok(true)) {
            recording.warnings.push(Warning::new(
                WarningCode::StillRecording,
                "the run still records; this is its first part",
            ));
        }
        Ok(recording)
    }

    /// As [`Recording::open`], for the writer itself: without a look at the lock.
    pub(super) fn open_unlocked(folder: &RecordingFolder) -> Result<Self, RecordingError> {
        let manifest = read_manifest(folder)?;
        let mut warnings = Vec::new();
        // First, as its text needs as much memory as all trials, and only while it is read.
        let mut without_results = Vec::new();
        let schema_of = |results: &WithoutTrials| results.schema;
        let results = read_results(folder, &mut without_results, schema_of)?.map(Results::from);
        let samples = read_samples(folder, &manifest, &mut warnings)?;
        let events = whole(
            lines::read::<Event>(&folder.file(file::EVENTS))?,
            ("event", WarningCode::EventTorn),
            &mut warnings,
        );
        let trials = whole(
            lines::read::<Trial>(&folder.file(file::TRIALS))?,
            ("trial", WarningCode::TrialTorn),
            &mut warnings,
        );
        warnings.append(&mut without_results);
        let complete = results.is_some() && folder.file(file::SAMPLES).exists() && warnings.is_empty();
        Ok(Recording {
            folder: folder.path().to_owned(),
            manifest,
            events,
            trials: last_of_each(trials),
            samples,
            results,
            warnings,
            complete,
        })
    }

    /// Reads the results with their trials, when the run got that far.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read_results(folder: &Path) -> Result<Option<Results>, RecordingError> {
        let folder = RecordingFolder::open(folder)?;
        read_results(&folder, &mut Vec::new(), |results: &Results| results.schema)
    }

    /// The latest time that anything was recorded at, in nanoseconds since the start; 0 when nothing was.
    pub fn last_ns(&self) -> u64 {
        let samples = self.samples.t_ns().last().copied();
        let events = self.events.iter().map(|event| event.t_ns).max();
        let trials = self.trials.iter().map(|trial| trial.span_ns.1).max();
        [samples, events, trials].into_iter().flatten().max().unwrap_or(0)
    }
}

pub(super) fn read_manifest(folder: &RecordingFolder) -> Result<Manifest, RecordingError> {
    let manifest = folder.file(file::MANIFEST);
    if !manifest.exists() {
        return Err(RecordingError::NotARecording {
            path: folder.path().to_owned(),
            reason: NotARecording::NoManifest,
        });
    }
    lines::read_large_document(
        &manifest,
        RECORDING_SCHEMA,
        "restore the file from a copy; the recording does not open without it",
        |manifest: &Manifest| manifest.schema,
    )
}

fn read_samples(
    folder: &RecordingFolder,
    manifest: &Manifest,
    warnings: &mut Vec<Warning>,
) -> Result<Samples, RecordingError> {
    let finished = folder.file(file::SAMPLES);
    if finished.exists() {
        return parquet::read(
            &finished,
            manifest.checksums.get(file::SAMPLES).map(String::as_str),
        );
    }
    let live = folder.file(file::SAMPLES_LIVE);
    if !live.exists() {
        warnings.push(Warning::new(
            WarningCode::SamplesMissing,
            "cannot read the samples: samples.parquet and samples.arrows are missing; restore one from a copy",
        ));
        return Ok(Samples::default());
    }
    let (samples, _, torn) = stream::read(&live)?;
    let mut code = WarningCode::SamplesUnfinished;
    let mut text = format!(
        "cannot read samples.parquet: the run ended before it wrote it; samples.arrows has {} samples",
        samples.len()
    );
    if torn > 0 {
        code = WarningCode::SamplesTorn;
        text.push_str(&format!(" and {torn} bytes of an incomplete batch"));
    }
    warnings.push(Warning::new(code, text));
    Ok(samples)
}

fn read_results<T: DeserializeOwned>(
    folder: &RecordingFolder,
    warnings: &mut Vec<Warning>,
    schema_of: fn(&T) -> u32,
) -> Result<Option<T>, RecordingError> {
    let found = folder.file(file::RESULTS);
    if !found.exists() {
        warnings.push(Warning::new(
            WarningCode::ResultsMissing,
            "cannot read the results: results.json is missing, as the run did not end; results are computed from the rest",
        ));
        return Ok(None);
    }
    lines::read_large_document(
        &found,
        RESULTS_SCHEMA,
        "delete it; `plimsoll report` computes its content from the rest of the recording",
        schema_of,
    )
    .map(Some)
}

/// [`Results`] whose trials are passed over.
#[derive(Deserialize)]
struct WithoutTrials {
    schema: u32,
    version: String,
    run: String,
    scenario: String,
    status: RunStatus,
    calibration: Option<Calibration>,
    confounders: Vec<Confounder>,
    warnings: Vec<Warning>,
    sampler: SamplerReport,
    #[serde(default)]
    headline: Headline,
    #[serde(default)]
    findings: Vec<Finding>,
    #[serde(default)]
    recommendations: Vec<Recommendation>,
    #[serde(default)]
    withheld: Vec<Withheld>,
    #[serde(default)]
    size: Option<ProgramSize>,
    service: Option<ServiceSize>,
    hold: Option<HeldLevel>,
    #[serde(rename = "trials")]
    _trials: IgnoredAny,
}

impl From<WithoutTrials> for Results {
    fn from(results: WithoutTrials) -> Results {
        Results {
            schema: results.schema,
            version: results.version,
            run: results.run,
            scenario: results.scenario,
            status: results.status,
            calibration: results.calibration,
            confounders: results.confounders,
            warnings: results.warnings,
            sampler: results.sampler,
            headline: results.headline,
            findings: results.findings,
            recommendations: results.recommendations,
            withheld: results.withheld,
            size: results.size,
            service: results.service,
            hold: results.hold,
            trials: Vec::new(),
        }
    }
}

/// The whole lines of a file, with a warning if its last one is incomplete.
fn whole<T>(lines: Lines<T>, (name, torn): (&str, WarningCode), warnings: &mut Vec<Warning>) -> Vec<T> {
    if lines.torn > 0 {
        warnings.push(Warning::new(
            torn,
            format!(
                "the last {name} is incomplete ({} bytes) and not shown",
                lines.torn
            ),
        ));
    }
    lines.documents
}

/// Of trials with the same name, the last, at its own place.
fn last_of_each(mut trials: Vec<Trial>) -> Vec<Trial> {
    let mut seen = HashSet::new();
    let mut is_last: Vec<bool> = trials
        .iter()
        .rev()
        .map(|trial| seen.insert(trial.id.clone()))
        .collect();
    trials.retain(|_| is_last.pop().unwrap_or(true));
    trials
}
