//! The recorder: drains the sampler into the recording, watches the tripwire, and takes events and trials.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::environment::{Trip, Tripwire};
use plimsoll_model::columns::{Row, col};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::{Event, EventKind, Manifest, Trial};
use plimsoll_model::recording::{RecordingError, Writer};
use plimsoll_sample::stop::Stop;
use plimsoll_sample::{Batch, monotonic_ns};

/// Writes a recording while a run goes on. Times are nanoseconds since `origin`.
pub(crate) struct Recorder {
    writer: Arc<Mutex<Writer>>,
    thread: JoinHandle<Result<(), RecordingError>>,
    origin_ns: u64,
}

impl Recorder {
    /// Starts draining `batches`. A recording that cannot be written, or a tripped wire, stops the run; without a tripwire,
    /// the caller watches the machine itself.
    pub(crate) fn start(
        writer: Writer,
        batches: Receiver<Batch>,
        tripwire: Option<Tripwire>,
        stop: Arc<Stop>,
        origin_ns: u64,
    ) -> Result<Self, Failure> {
        let writer = Arc::new(Mutex::new(writer));
        let drain = Arc::clone(&writer);
        let thread = std::thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || drain_batches(&batches, &drain, tripwire, &stop))
            .map_err(|error| anyhow::anyhow!("cannot start the recorder's thread: {error}"))
            .or_exit(Exit::Missing)?;
        Ok(Recorder {
            writer,
            thread,
            origin_ns,
        })
    }

    /// Nanoseconds since the start of the recording.
    pub(crate) fn now(&self) -> u64 {
        monotonic_ns().wrapping_sub(self.origin_ns)
    }

    /// Writes an event that happens now; returns its time.
    pub(crate) fn event(&self, mut event: Event) -> Result<u64, Failure> {
        event.t_ns = self.now();
        self.past_event(&event)?;
        Ok(event.t_ns)
    }

    /// Writes an event with its own time.
    pub(crate) fn past_event(&self, event: &Event) -> Result<(), Failure> {
        self.writer().event(event).or_exit(Exit::Missing)
    }

    pub(crate) fn trial(&self, trial: &Trial) -> Result<(), Failure> {
        self.writer().trial(trial).or_exit(Exit::Missing)
    }

    pub(crate) fn manifest(&self, manifest: &Manifest) -> Result<(), Failure> {
        self.writer().update_manifest(manifest).or_exit(Exit::Missing)
    }

    /// Waits for the last batch. The sampler must have been stopped.
    pub(crate) fn close(self) -> Result<Writer, Failure> {
        let drained = self
            .thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        drained.or_exit(Exit::Missing)?;
        let writer = Arc::into_inner(self.writer)
            .ok_or_else(|| Failure::message(Exit::Missing, "the recording is still being written"))?;
        Ok(writer.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drain_batches(
    batches: &Receiver<Batch>,
    writer: &Mutex<Writer>,
    mut tripwire: Option<Tripwire>,
    stop: &Stop,
) -> Result<(), RecordingError> {
    while let Ok(batch) = batches.recv() {
        if let Some(tripwire) = &mut tripwire
            && let Some(trip) = batch.rows().iter().find_map(|row| tripped(tripwire, row))
        {
            stop.trip(trip.to_string());
        }
        let written = writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .samples(batch.rows());
        if let Err(error) = written {
            stop.trip(format!("the recording cannot be written: {error}"));
            return Err(error);
        }
    }
    Ok(())
}

fn tripped(tripwire: &mut Tripwire, row: &Row) -> Option<Trip> {
    let available = u64::try_from(row.get(col::MEM_AVAILABLE)?).ok()?;
    let stalled_us = row
        .get(col::PSI_MEMORY_FULL_US)
        .and_then(|us| u64::try_from(us).ok());
    tripwire.check(Duration::from_nanos(row.t_ns), available, stalled_us)
}

/// An event without trial or phase; `t_ns` is set when it is written.
pub(crate) fn plain_event(kind: EventKind, text: impl Into<String>) -> Event {
    Event::new(0, kind, text)
}
