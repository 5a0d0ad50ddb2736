//! A hold with a recording: its settings, each look at the level in the samples, and marks for the time at which the
//! level was reached and for the end.
//!
//! - Invariant: the memory is released before the recording ends: a full disk keeps none of it. Checked by
//!   `a_full_disk_ends_the_hold_and_releases_the_memory`.
//! - Invariant: a level that was reached is in at least one sample before the end. Checked by
//!   `a_level_that_is_reached_at_the_end_of_the_duration_is_recorded`.
//! - Invariant: a hold that cannot begin leaves no recording. Checked by `a_refused_hold_leaves_no_recording`.

use std::path::Path;
use std::sync::Arc;

use plimsoll_model::exit::Failure;
use plimsoll_model::recording::hold::{APPROACH, HOLD, HOLD_SCENARIO, HoldEnd};
use plimsoll_model::recording::model::{Event, EventKind, MOST_ANALYSED, RunStatus};
use plimsoll_sample::stop::{Cause, Stop};
use plimsoll_sample::{CgroupFiles, HeldLook, HeldPost, Target};

use crate::hold::{self, Ending, HoldError, Observer, Options, Start, Status, Summary};
use crate::run::lone::LoneRecording;
use crate::run::recorder::plain_event;
use crate::run::{FinishedRecording, Services, run_name};

/// A hold that began, and its recording.
#[derive(Debug)]
pub struct RecordedHold {
    pub held: Result<(Summary, Ending), HoldError>,
    pub recording: FinishedRecording,
}

/// Holds a level as [`hold::hold`] does, with a recording in the folder `output`.
///
/// # Errors
/// [`HoldError`]: the hold did not begin, or its recording cannot be written. A later error of the hold is in the result.
pub fn hold(
    options: &Options,
    output: &Path,
    services: &Services,
    stop: &Arc<Stop>,
    shown: &mut dyn Observer,
) -> Result<RecordedHold, HoldError> {
    let mut recorder = Recorder {
        output,
        stop,
        shown,
        open: None,
    };
    let held = hold::hold(options, stop, &mut recorder);
    match recorder.open {
        // It did not begin: only a begin opens the recording.
        None => Err(held.err().unwrap_or(HoldError::Panicked)),
        Some(open) => open.conclude(options, held, stop, services),
    }
}

struct Recorder<'a> {
    output: &'a Path,
    stop: &'a Arc<Stop>,
    shown: &'a mut dyn Observer,
    open: Option<Open>,
}

/// A recording in progress.
struct Open {
    recording: LoneRecording,
    post: HeldPost,
    start_ns: u64,
    last_look_ns: u64,
    has_reached: bool,
}

impl Observer for Recorder<'_> {
    fn begin(&mut self, start: &Start<'_>) -> Result<(), HoldError> {
        self.shown.begin(start)?;
        let title = match start.cgroup {
            None => "hold of a level of the machine".to_owned(),
            Some(cgroup) => format!("hold of a level of the cgroup {}", cgroup.path().display()),
        };
        let recording = LoneRecording::open(
            self.output,
            run_name(HOLD_SCENARIO),
            (HOLD_SCENARIO, title),
            start.settings,
            // The hold itself watches the reserve, and stalls are the load of a pressure.
            None,
            self.stop,
        )?;
        let post = HeldPost::default();
        recording.set_target(&Target {
            workers: vec![start.worker],
            cgroup: start
                .cgroup
                .map(|cgroup| CgroupFiles::of(cgroup.path(), cgroup.version())),
            held: Some(post.clone()),
            ..Target::default()
        });
        let start_ns = recording.event(phase_event(EventKind::PhaseStart, false))?;
        self.open = Some(Open {
            recording,
            post,
            start_ns,
            last_look_ns: start_ns,
            has_reached: false,
        });
        Ok(())
    }

    fn look(&mut self, status: &Status, summary: &Summary) {
        self.shown.look(status, summary);
        let Some(open) = &mut self.open else { return };
        if let Err(failure) = open.look(status, summary) {
            self.stop
                .trip(format!("the recording cannot be written: {:#}", failure.error));
        }
    }
}

impl Open {
    fn look(&mut self, status: &Status, summary: &Summary) -> Result<(), Failure> {
        let of_memory = status.stalled_percent.is_none();
        self.post.post(HeldLook {
            held: of_memory.then_some(status.held),
            available: Some(status.available),
            goal: status.goal,
            stalled_ppm: status.stalled_percent.map(|percent| (percent * 1e4) as u64),
        });
        if summary.reached_s.is_some() && !self.has_reached {
            self.has_reached = true;
            let reached_ns = self.recording.event(phase_event(EventKind::PhaseStart, true))?;
            self.recording.await_sample(reached_ns);
        }
        self.last_look_ns = self.recording.now();
        Ok(())
    }

    /// Ends the recording of a hold whose memory is released.
    fn conclude(
        self,
        options: &Options,
        held: Result<(Summary, Ending), HoldError>,
        stop: &Stop,
        services: &Services,
    ) -> Result<RecordedHold, HoldError> {
        // From here on, samples have no level.
        self.post.post(HeldLook::default());
        let (ended, reason) = end(options, &held, stop);
        let t_ns = match &held {
            // The clock of the summary started a little after that of the recording's first phase.
            Ok((summary, _)) => (self.start_ns + (summary.seconds * 1e9) as u64).max(self.last_look_ns),
            Err(_) => self.last_look_ns,
        };
        let word = serde_json::to_value(ended).unwrap_or_default();
        self.recording.past_event(&Event {
            t_ns,
            text: word.as_str().unwrap_or_default().to_owned(),
            ..phase_event(EventKind::PhaseEnd, self.has_reached)
        })?;
        if let Some(reason) = reason {
            self.recording.event(plain_event(EventKind::Stopped, reason))?;
        }
        let closed = self.recording.close()?;
        let summary = held.as_ref().ok().map(|(summary, _)| summary);
        let recording = match (closed.samples() > MOST_ANALYSED, summary) {
            (true, Some(summary)) => closed.finish(|results| {
                let level = summary.document(ended);
                results.status = RunStatus::of_hold(&level);
                results.hold = Some(level);
            })?,
            _ => closed.analyse(services)?,
        };
        Ok(RecordedHold { held, recording })
    }
}

/// The end of a hold, and the reason for an early one.
fn end(
    options: &Options,
    held: &Result<(Summary, Ending), HoldError>,
    stop: &Stop,
) -> (HoldEnd, Option<String>) {
    let ending = match held {
        Err(error) => return (HoldEnd::Failed, Some(error.to_string())),
        Ok((_, ending)) => ending,
    };
    let reason = match (ending, stop.cause()) {
        (Ending::Elapsed, _) => None,
        (Ending::Reserve(trip), _) => Some(trip.to_string()),
        // A hold without a duration ends by a signal.
        (Ending::Stopped, None | Some(Cause::Signal(_))) if options.duration.is_none() => None,
        (Ending::Stopped, Some(cause @ Cause::Signal(_))) => Some(cause.to_string()),
        (Ending::Stopped, Some(cause)) => return (HoldEnd::Failed, Some(cause.to_string())),
        (Ending::Stopped, None) => None,
    };
    (ending.into(), reason)
}

/// The start or the end of a phase: until the level is reached, or from then on.
fn phase_event(kind: EventKind, has_reached: bool) -> Event {
    let (phase, number) = match has_reached {
        false => (APPROACH, 1),
        true => (HOLD, 2),
    };
    Event {
        phase: Some(phase.to_owned()),
        number: (kind == EventKind::PhaseStart).then_some(number),
        ..plain_event(kind, "")
    }
}
