//! Writes the recording on a thread of its own, so that a slow disk blocks no other thread.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

use super::error::WatchError;
use plimsoll_model::columns::{Row, col};
use plimsoll_model::recording::model::{
    Event, EventKind, MOST_ANALYSED, Manifest, Results, SamplerReport, SamplerSettings, watch_plan,
};
use plimsoll_model::recording::{Recording, RecordingError, RecordingFolder, Warning, Writer};
use plimsoll_report as report;
use plimsoll_report::analysis;
use plimsoll_sample::new_manifest;

/// Queue length for a slow disk, in entries of about one second. When the queue is full, entries are lost and counted.
const WAITING: usize = 240;

enum Entry {
    Rows(Vec<Row>),
    Event(Event),
    /// End of the recording: names of the swap slots, and number of lost samples.
    End {
        swap_slots: Vec<String>,
        lost: u64,
    },
}

pub(super) struct Recorder {
    place: RecordingFolder,
    entries: SyncSender<Entry>,
    thread: JoinHandle<Result<Recorded, RecordingError>>,
    /// Offset of the monitor's time to the recording's, which begins later.
    ahead_ns: u64,
    pending: Vec<Row>,
    rows_per_batch: usize,
    lost: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub folder: PathBuf,
    /// The report; None if the recording is too long to analyse at once.
    pub page: Option<PathBuf>,
    /// Reason for a missing report.
    pub error: Option<String>,
}

pub(super) struct Heading {
    pub(super) title: String,
    pub(super) sampler: SamplerSettings,
}

impl Recorder {
    /// Creates the folder and starts the writing thread. `now_ns` is the monitor's time. The writing thread calls
    /// `failed` when it cannot continue.
    pub(super) fn start(
        folder: &Path,
        heading: Heading,
        now_ns: u64,
        failed: impl FnOnce(&RecordingError) + Send + 'static,
    ) -> Result<Recorder, WatchError> {
        let hz = heading.sampler.hz;
        let (parent, name) = place(folder);
        let mut manifest = new_manifest(name, watch_plan(&heading.title), hz);
        manifest.sampler = heading.sampler;
        let writer = Writer::create(&parent, manifest)?;
        let place = writer.open_folder().clone();
        let (entries, written) = mpsc::sync_channel(WAITING);
        let thread = start_writing(writer, written, failed).inspect_err(|_| {
            // The first error is reported; the folder that stays would block the next attempt with an error of its own.
            let _ = place.discard();
        })?;
        Ok(Recorder {
            place,
            entries,
            thread,
            ahead_ns: now_ns,
            pending: Vec::with_capacity(hz as usize),
            rows_per_batch: hz as usize,
            lost: 0,
        })
    }

    /// The folder of the recording.
    pub(super) fn place(&self) -> &RecordingFolder {
        &self.place
    }

    /// Adds samples. Drops those from before the start.
    pub(super) fn rows(&mut self, rows: &[Row]) {
        for row in rows {
            if let Some(t_ns) = row.t_ns.checked_sub(self.ahead_ns) {
                let mut row = *row;
                row.t_ns = t_ns;
                self.pending.push(row);
            }
        }
        if self.pending.len() >= self.rows_per_batch {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let rows = std::mem::replace(&mut self.pending, Vec::with_capacity(self.rows_per_batch));
        let count = rows.len() as u64;
        if self.entries.try_send(Entry::Rows(rows)).is_err() {
            self.lost += count;
        }
    }

    pub(super) fn event(&mut self, mut event: Event) {
        event.t_ns = event.t_ns.saturating_sub(self.ahead_ns);
        // A disk that is minutes behind loses the event; lost samples are counted.
        let _ = self.entries.try_send(Entry::Event(event));
    }

    /// Ends the recording. `dropped` samples never reached the recorder.
    pub(super) fn finish(
        mut self,
        swap_slots: Vec<String>,
        dropped: u64,
    ) -> Result<Recorded, RecordingError> {
        self.flush();
        // The send fails if the thread has ended with an error, which `join` then returns.
        let _ = self.entries.send(Entry::End {
            swap_slots,
            lost: self.lost + dropped,
        });
        drop(self.entries);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Ends the writing thread and removes the recording.
    ///
    /// # Errors
    /// As [`RecordingFolder::discard`].
    pub(super) fn discard(self) -> std::io::Result<()> {
        drop(self.entries);
        // Its result does not matter: its files are removed.
        let _ = self.thread.join();
        self.place.discard()
    }
}

/// Writes the first event, and starts the writing thread.
fn start_writing(
    mut writer: Writer,
    entries: Receiver<Entry>,
    failed: impl FnOnce(&RecordingError) + Send + 'static,
) -> Result<JoinHandle<Result<Recorded, RecordingError>>, WatchError> {
    writer.event(&Event::new(0, EventKind::RunStart, ""))?;
    std::thread::Builder::new()
        .name("recorder".to_owned())
        .spawn(move || write(writer, &entries).inspect_err(failed))
        .map_err(WatchError::Thread)
}

/// Message for a recording that cannot continue.
pub(super) fn ended_early(error: &RecordingError) -> String {
    match error {
        RecordingError::Full { folder, source, .. } => format!(
            "cannot continue the recording in {}: {source}; it is kept up to here. Free some space and \
             record into another folder",
            folder.display()
        ),
        error => format!("cannot continue the recording: {error}; it is kept up to here"),
    }
}

/// Parent folder and name of the recording's folder.
fn place(folder: &Path) -> (PathBuf, String) {
    let parent = folder
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    // A path without a name (`..`) passes unchanged: the writer rejects it.
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    (parent.to_owned(), name.to_string_lossy().into_owned())
}

/// Writes entries until the end, and finishes the recording. If the monitor vanishes without an end, the recording
/// stays as after a killed run: it opens.
fn write(mut writer: Writer, entries: &Receiver<Entry>) -> Result<Recorded, RecordingError> {
    let mut written = Written::default();
    let hz = writer.manifest().sampler.hz;
    for entry in entries {
        match entry {
            Entry::Rows(rows) => {
                writer.samples(&rows)?;
                written.samples += rows.len();
                written.first = written.first.or(rows.first().copied());
                written.last = rows.last().copied().or(written.last);
                written.late += rows.iter().filter(|row| is_late(row, hz)).count() as u64;
            }
            Entry::Event(event) => {
                writer.event(&event)?;
                written.end_ns = written.end_ns.max(event.t_ns);
                written.warnings.extend(event.warning());
            }
            Entry::End { swap_slots, lost } => {
                let end_ns = written.end_ns.max(written.last.map_or(0, |row| row.t_ns));
                writer.event(&Event::new(end_ns, EventKind::RunEnd, ""))?;
                let mut manifest = writer.manifest().clone();
                manifest.swap_slots = swap_slots;
                writer.update_manifest(&manifest)?;
                return conclude(writer, written, lost);
            }
        }
    }
    Ok(Recorded {
        folder: writer.folder().to_owned(),
        page: None,
        error: None,
    })
}

/// Totals of the written entries.
#[derive(Default)]
struct Written {
    samples: usize,
    first: Option<Row>,
    last: Option<Row>,
    late: u64,
    end_ns: u64,
    warnings: Vec<Warning>,
}

/// Whether a sample is more than half a period late.
fn is_late(row: &Row, hz: u32) -> bool {
    let half_period_ns = 500_000_000 / i64::from(hz.max(1));
    row.get(col::TICK_LATE_NS)
        .is_some_and(|late| late > half_period_ns)
}

fn conclude(writer: Writer, written: Written, lost: u64) -> Result<Recorded, RecordingError> {
    if written.samples as u64 > MOST_ANALYSED {
        let results = results_of(writer.manifest(), written, lost);
        let folder = writer.finish(&results)?;
        return Ok(Recorded {
            folder,
            page: None,
            error: None,
        });
    }
    let place = writer.open_folder().clone();
    let mut results = plimsoll_report::results(&Recording::open_in(&place)?);
    results.sampler.dropped += lost;
    let folder = writer.finish(&results)?;
    let made = report::write_page(&Recording::open_in(&place)?, &results, &place);
    let (page, error) = match made {
        Ok(page) => (Some(page), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(Recorded { folder, page, error })
}

/// Results of a recording that is too long to analyse here. `plimsoll report` computes the rest.
fn results_of(manifest: &Manifest, written: Written, lost: u64) -> Results {
    // The monitor may have started long before the recording.
    let growth = |column: usize| {
        let at = |row: Option<Row>| row.and_then(|row| row.get(column));
        let growth = at(written.last)?.checked_sub(at(written.first)?)?;
        u64::try_from(growth).ok()
    };
    let count = |column: usize| growth(column).unwrap_or(0);
    let samples = written.samples as u64;
    let cpu_s = count(col::SAMPLER_CPU_US) as f64 / 1e6;
    let wall_s = written.last.map_or(0, |row| row.t_ns) as f64 / 1e9;
    Results {
        warnings: written.warnings,
        sampler: SamplerReport {
            hz: manifest.sampler.hz,
            samples,
            late: written.late,
            missed: count(col::MISSED_TICKS),
            dropped: lost,
            cpu_s,
            cpu_percent: analysis::ratio(100.0 * cpu_s, wall_s).unwrap_or(0.0),
            us_per_sample: analysis::ratio(1e6 * cpu_s, samples as f64).unwrap_or(0.0),
        },
        ..Results::unread(manifest)
    }
}
