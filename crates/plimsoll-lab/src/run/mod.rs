//! The run: open a session and a recording, start the sampler, calibrate, go through the trials, undo, conclude.
//!
//! Invariant: every open session ends with its undoing, and every open recording stays readable, also after an error.
//! Checked by `a_killed_run_is_undone_by_cleanup_and_its_recording_opens`.

mod background;
mod context;
mod fallback;
pub(crate) mod lone;
mod neighbour;
mod phase;
mod probes;
mod progress;
mod ready;
pub(crate) mod recorder;
pub mod requirements;
mod room;
mod services;
mod swap_use;
mod time_limit;
mod trial;
mod trial_error;
mod workloads;

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::environment::{self, Left, Session, Tripwire};
use crate::guard;
use crate::hold;
use crate::workload::protocol::{Command, Reply};

use crate::workload::{self, Worker, WorkerOptions};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::{EventKind, Manifest, Results, RunStatus, SamplerSettings, Unlocked};
use plimsoll_model::recording::{FailureCode, Recording, RecordingError, Warning, WarningCode, Writer};

pub use lone::FinishedRecording;
use plimsoll_model::scenario::{Machine, Plan, SpeedHints};
use plimsoll_sample::stop::Stop;
use plimsoll_sample::{Reader, Sampler, SamplerConfig, Target, monotonic_ns, new_manifest, now};
pub use progress::{Progress, Silent};
pub use ready::Ready;
pub use room::{RecordingSize, check_room};
pub use services::{HeapService, HeapState, Metrics, ServiceError, Services};

use recorder::{Recorder, plain_event};
use trial_error::TrialError;

/// Longest that the calibration may take; it takes about half a second on a quiet machine.
const CALIBRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers a runner's commands as a worker, until the input ends.
///
/// # Errors
/// An input that cannot be read, or an output that cannot be written: the runner is gone.
pub fn serve_worker(input: impl BufRead, output: impl Write) -> std::io::Result<()> {
    workload::serve(input, output, |name| {
        workloads::work(name)
            .or_else(|| hold::work(name))
            .or_else(|| guard::trial::work(name))
    })
}

#[derive(Debug, Clone)]
pub struct Options {
    pub plan: Plan,
    /// The machine that the plan was resolved for.
    pub machine: Machine,
    /// Samples a second.
    pub hz: u32,
    /// Folder that the recording's folder is made in.
    pub output: PathBuf,
    pub size: RecordingSize,
    /// Recording to go on with.
    pub resume: Option<PathBuf>,
    /// How long to wait for another run to end; `None` is refused at once.
    pub wait: Option<Duration>,
}

#[derive(Debug)]
pub struct Outcome {
    pub directory: PathBuf,
    /// File of the report.
    pub page: PathBuf,
    /// The verdict and all numbers.
    pub results: Results,
    pub exit: Exit,
}

/// Everything that a trial works with.
struct Runner<'a> {
    recorder: Recorder,
    sampler: Sampler,
    reader: Reader,
    manifest: Manifest,
    /// The right to change this machine; `None` where no trial can be done as asked.
    session: Option<Session>,
    /// Trials of a resumed recording that need not run again, by id.
    done: Vec<String>,
    stop: Arc<Stop>,
    progress: &'a mut dyn Progress,
    services: &'a Services,
    executable: PathBuf,
    /// The wake-up probe outside of the trials' cgroups, from the first trial on.
    neighbour: Option<Worker>,
    /// The worker that holds the background of the present trial.
    background: Option<u32>,
}

/// Runs a plan and leaves the machine as it was.
///
/// # Errors
/// When the run cannot start or cannot write its recording. A failed trial is in the results.
pub fn run(options: Options, services: &Services, progress: &mut dyn Progress) -> Result<Outcome, Failure> {
    Ready::take_machine(options, progress)?.run(services, progress)
}

/// Refuses trials that violate the machine's reserve or do not fit their swap.
pub fn check_sizes(plan: &Plan, machine: &Machine) -> Result<(), Failure> {
    check_settings(plan)?;
    for trial in &plan.trials {
        let settings = &trial.settings;
        let disk_free = match settings.uses_disk() {
            true => Some(environment::disk_free(&settings.swap_dir).or_exit(Exit::Missing)?),
            false => None,
        };
        if let Some(level) = settings.background {
            hold::fits(level, machine)
                .map_err(|error| anyhow::anyhow!("trial {}: background: {error}", trial.id))
                .or_exit(Exit::Missing)?;
        }
        environment::safe_size(machine, disk_free, settings)
            .map_err(|error| anyhow::anyhow!("trial {}: {error}", trial.id))
            .or_exit(Exit::Missing)?;
    }
    Ok(())
}

/// Refuses settings that no machine can run.
pub fn check_settings(plan: &Plan) -> Result<(), Failure> {
    plan.trials.iter().try_for_each(|trial| {
        let checked = trial.settings.check();
        checked.map_err(|error| Failure::message(Exit::Usage, format_args!("trial {}: {error}", trial.id)))
    })
}

/// Everything that the trials of a plan lack on this machine, each once.
fn missing(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for trial in &plan.trials {
        for missing in environment::missing(&trial.settings) {
            let text = missing.to_string();
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}

impl<'a> Runner<'a> {
    /// Opens the recording and starts the sampler: the first sample is taken before anything else is done.
    fn open(
        options: &Options,
        name: String,
        session: Option<Session>,
        stop: Arc<Stop>,
        services: &'a Services,
        progress: &'a mut dyn Progress,
    ) -> Result<Self, Failure> {
        let missing = missing(&options.plan);
        let executable = std::env::current_exe()
            .map_err(|error| anyhow::anyhow!("cannot find this program's own file to start workers: {error}"))
            .or_exit(Exit::Missing)?;
        let OpenRecording {
            mut writer,
            done,
            warnings,
        } = open_recording(options, name, &missing)?;
        let origin_ns = writer.origin_ns();
        let (sampler, batches) =
            Sampler::start(SamplerConfig::by_the_second(options.hz, origin_ns)).or_exit(Exit::Missing)?;
        let mut manifest = writer.manifest().clone();
        manifest.missing.clone_from(&missing);
        manifest.sampler = SamplerSettings {
            hz: options.hz,
            locked: sampler.locked().map_err(Unlocked::of),
        };
        writer.update_manifest(&manifest).or_exit(Exit::Missing)?;
        for warning in &warnings {
            progress.warn(&warning.text);
        }
        let tripwire = Tripwire::new(options.machine.ram);
        let recorder = Recorder::start(writer, batches, Some(tripwire), Arc::clone(&stop), origin_ns)?;
        let reader = Reader::open().or_exit(Exit::Missing)?;
        Ok(Runner {
            recorder,
            sampler,
            reader,
            manifest,
            session,
            done,
            stop,
            progress,
            services,
            executable,
            neighbour: None,
            background: None,
        })
    }

    /// Calibrates and goes through the trials. Returns how the program should end as far as the trials say.
    fn go(&mut self, plan: &Plan) -> Result<Exit, Failure> {
        self.recorder
            .event(plain_event(EventKind::RunStart, self.manifest.run.clone()))?;
        let mut exit = Exit::Done;
        for missing in &self.manifest.missing {
            self.progress.warn(missing);
            exit = Exit::Missing;
        }
        let estimate = plan.estimate(&SpeedHints::default());
        self.progress
            .begin(plan.trials.len(), Duration::from_secs_f64(estimate.seconds));
        let share = Duration::from_secs_f64(estimate.seconds / plan.trials.len().max(1) as f64);
        self.calibrate()?;
        for (number, trial) in plan.trials.iter().enumerate() {
            if self.stop.requested() {
                break;
            }
            self.progress.trial(number + 1);
            if !self.done.contains(&trial.id) {
                let ended = self.trial(trial)?;
                self.progress.trial_done(&ended.trial);
                exit = exit.max(ended.exit);
            }
            self.progress.advance(share);
        }
        Ok(self.stop.cause().map_or(exit, |cause| cause.exit()))
    }

    /// Measures the idle machine in a worker, so that the runner stays small.
    fn calibrate(&mut self) -> Result<(), Failure> {
        self.progress.step("calibrating");
        self.recorder
            .event(plain_event(EventKind::Calibration, "start"))?;
        let mut worker = Worker::spawn(&self.executable, &WorkerOptions::default()).or_exit(Exit::Missing)?;
        match worker.call(&Command::Calibrate, CALIBRATION_TIMEOUT, self.stop.flag()) {
            Ok(Reply::Calibration { calibration }) => self.manifest.calibration = Some(calibration),
            Ok(other) => self.warn(Warning::new(
                WarningCode::CalibrationFailed,
                format!("cannot calibrate: the worker's reply is {other:?}; report this defect"),
            ))?,
            Err(_) if self.stop.requested() => {}
            Err(error) => self.warn(Warning::new(
                WarningCode::CalibrationFailed,
                format!("cannot calibrate, so no metric has a ratio to the machine: {error}"),
            ))?,
        }
        self.recorder.event(plain_event(EventKind::Calibration, "end"))?;
        self.recorder.manifest(&self.manifest)
    }

    /// Starts a worker, known to the session so that a cleanup would find it.
    fn start_worker(&mut self, options: &WorkerOptions) -> Result<Worker, TrialError> {
        let worker = Worker::spawn(&self.executable, options)
            .map_err(|error| TrialError::new(Exit::Missing, FailureCode::WorkerStart, error))?;
        self.note_start(worker.pid())?;
        Ok(worker)
    }

    /// Writes a process of the run into the journal.
    fn note_start(&mut self, pid: u32) -> Result<(), TrialError> {
        let Some(session) = self.session.as_mut() else {
            return Ok(());
        };
        session
            .process_started(pid)
            .map_err(|error| TrialError::new(Exit::Missing, FailureCode::WorkerStart, error))
    }

    /// Writes its end into the journal.
    fn note_end_of(&mut self, pid: u32) {
        if let Some(session) = self.session.as_mut()
            && let Err(error) = session.process_ended(pid)
        {
            self.progress.warn(&error.to_string());
        }
    }

    /// Ends a worker, and waits for its end. Returns how long that took.
    fn retire_worker(&mut self, worker: Worker) -> Duration {
        let (pid, start) = (worker.pid(), Instant::now());
        drop(worker);
        let took = start.elapsed();
        self.note_end_of(pid);
        took
    }

    /// Shows a warning and keeps it in the recording.
    fn warn(&mut self, Warning { code, text }: Warning) -> Result<(), Failure> {
        self.progress.warn(&text);
        let mut event = plain_event(EventKind::Warning, text);
        event.code = Some(code);
        self.recorder.event(event).map(drop)
    }

    /// Watches a worker and its environment in the samples and the snapshots from now on, or nothing.
    fn watch(&mut self, target: Option<&Target>) {
        self.sampler.set_target(target);
        self.reader.set_target(target);
    }

    /// Undoes the outstanding changes of the session, and warns of failures at once, so that no later error hides
    /// them.
    fn undo(&mut self) -> Result<Exit, Failure> {
        match self.session.take().map(Session::finish) {
            None => Ok(Exit::Done),
            Some(Ok(report)) => {
                for left in &report.left_alone {
                    self.warn(left_alone(left))?;
                }
                Ok(Exit::Done)
            }
            Some(Err(error)) => {
                self.warn(Warning::new(WarningCode::UndoFailed, error.to_string()))?;
                Ok(Exit::WorkloadFailed)
            }
        }
    }

    /// Writes the end of the run, with its cause if premature.
    fn note_end(&self, ran: &Result<Exit, Failure>) -> Result<(), Failure> {
        let stopped = match (self.stop.cause(), ran) {
            (Some(cause), _) => Some(cause.to_string()),
            (None, Err(failure)) => Some(format!("{:#}", failure.error)),
            (None, Ok(_)) => None,
        };
        if let Some(text) = stopped {
            self.recorder.event(plain_event(EventKind::Stopped, text))?;
        }
        self.recorder.event(plain_event(EventKind::RunEnd, "")).map(drop)
    }

    /// Undoes the outstanding changes, ends the recording, and computes its results and report.
    fn conclude(mut self, ran: Result<Exit, Failure>) -> Result<Outcome, Failure> {
        self.progress.step("undoing and concluding");
        self.retire_neighbour();
        let undone = self.undo();
        if let Some(cause) = self.stop.cause() {
            self.progress.warn(&cause.to_string());
        }
        let ended = self.note_end(&ran);
        self.manifest.swap_slots = merge_slots(&self.manifest.swap_slots, &self.sampler.swap_slots());
        let kept = self.recorder.manifest(&self.manifest);
        let sampled = self.sampler.stop();
        let writer = self.recorder.close();
        self.progress.end();
        let mut exit = ran?.max(undone?);
        ended.and(kept)?;
        let writer = writer?;
        let place = writer.open_folder().clone();
        let mut results = (self.services.results)(&Recording::open_in(&place).or_exit(Exit::Missing)?);
        // Only the samples know the other parts of a resumed run; only the sampler counts dropped samples.
        if self.manifest.resumed.is_empty() {
            results.sampler = sampled;
        } else {
            results.sampler.dropped += sampled.dropped;
        }
        let directory = writer.finish(&results).or_exit(Exit::Missing)?;
        // Opened anew: the page shows the finished recording, not one that is still being written.
        let recording = Recording::open_in(&place).or_exit(Exit::Missing)?;
        let page = (self.services.report)(&recording, &results, &place)
            .map_err(|error| Failure::message(Exit::Missing, error))?;
        if exit == Exit::Done && results.status == RunStatus::Untrustworthy {
            exit = Exit::Untrustworthy;
        }
        Ok(Outcome {
            directory,
            page,
            results,
            exit,
        })
    }
}

/// The warning about a change that is not undone, as it is no longer the run's.
pub(crate) fn left_alone(left: &Left) -> Warning {
    Warning::new(
        WarningCode::ChangeLeft,
        format!("not undone, since another program has changed it: {left}"),
    )
}

/// Devices by slot of all parts of a run, all devices of a slot.
fn merge_slots(before: &[String], now: &[String]) -> Vec<String> {
    let slots = before.len().max(now.len());
    (0..slots)
        .map(|slot| {
            let mut devices: Vec<&str> = Vec::new();
            for names in [before.get(slot), now.get(slot)].into_iter().flatten() {
                for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                    if !devices.contains(&name) {
                        devices.push(name);
                    }
                }
            }
            devices.join(", ")
        })
        .collect()
}

/// `<scenario>-<UTC time>-<four hex digits>`: sorts by time, and two runs of one second do not meet.
pub fn run_name(scenario: &str) -> String {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = time.replace(['-', ':'], "");
    let salt = ((monotonic_ns() / 1000) ^ u64::from(std::process::id())) & 0xffff;
    format!("{scenario}-{time}-{salt:04x}")
}

/// How a recording that cannot be opened ends the program.
pub fn recording_failure(error: RecordingError) -> Failure {
    let exit = match &error {
        RecordingError::NewerSchema { .. } | RecordingError::OtherVersion { .. } => Exit::Unsupported,
        RecordingError::Full { .. } | RecordingError::InUse { .. } => Exit::Missing,
        _ => Exit::Usage,
    };
    Failure::new(exit, error)
}

struct OpenRecording {
    writer: Writer,
    /// Trials that need not run again, by id.
    done: Vec<String>,
    warnings: Vec<Warning>,
}

/// Makes a new recording, or reopens the one to go on with.
fn open_recording(options: &Options, name: String, missing: &[String]) -> Result<OpenRecording, Failure> {
    if let Some(folder) = &options.resume {
        let resumed = Writer::resume(folder, &options.plan, &now()).map_err(recording_failure)?;
        let done = resumed.done.into_iter().map(|trial| trial.id).collect();
        return Ok(OpenRecording {
            writer: resumed.writer,
            done,
            warnings: resumed.warnings,
        });
    }
    let mut manifest = new_manifest(name, options.plan.clone(), options.hz);
    manifest.missing = missing.to_vec();
    let writer = Writer::create(&options.output, manifest).or_exit(Exit::Missing)?;
    Ok(OpenRecording {
        writer,
        done: Vec::new(),
        warnings: Vec::new(),
    })
}
