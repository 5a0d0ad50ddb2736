//! Going on with a recording that was cut short.

use std::path::Path;
use std::sync::Arc;

use super::append::AppendFile;
use super::batch::Schema;
use super::difference::differences;
use super::lines;
use super::lock::lock;
use super::model::{Event, Manifest, Resumption, Trial, TrialStatus, file};
use super::schema::sample_schema;
use super::stream;
use super::writer::Streams;
use super::{Recording, RecordingError, RecordingFolder, Warning, Writer};
use crate::scenario::Plan;

/// Time between the parts of a resumed run, in nanoseconds: enough to show as a gap.
const GAP_NS: u64 = 1_000_000_000;

/// A recording that was opened to go on.
#[derive(Debug)]
pub struct Resumed {
    pub writer: Writer,
    /// The trials that need not run again: those that ended ok.
    pub done: Vec<Trial>,
    /// Messages about lost parts of the first run.
    pub warnings: Vec<Warning>,
}

/// The instant at which a part starts.
#[derive(Debug, Clone)]
pub struct Now {
    /// In UTC, RFC 3339.
    pub utc: String,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub monotonic_ns: u64,
}

impl Writer {
    /// Reopens the recording in `folder` to go on with the same plan. Samples, events and trials stay; times go on
    /// after the last one recorded, and the manifest's `resumed` list says how they relate to the clock. Results are
    /// removed, as they are those of a part.
    ///
    /// # Errors
    /// [`RecordingError::OtherPlan`] with the differences, [`RecordingError::OtherVersion`], [`RecordingError::InUse`]
    /// while another process writes it, and the errors of reading and writing.
    pub fn resume(folder: &Path, plan: &Plan, now: &Now) -> Result<Resumed, RecordingError> {
        let folder = RecordingFolder::open(folder)?;
        let lock = lock(&folder)?;
        let recording = Recording::open_unlocked(&folder)?;
        let differences = differences(&recording.manifest.plan, plan);
        if !differences.is_empty() {
            return Err(RecordingError::OtherPlan {
                path: folder.path().to_owned(),
                differences,
            });
        }
        let t_ns = match recording.last_ns() {
            0 => 0,
            last => last.saturating_add(GAP_NS),
        };
        let mut manifest = recording.manifest.clone();
        manifest.resumed.push(Resumption {
            started: now.utc.clone(),
            monotonic_ns: now.monotonic_ns,
            t_ns,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        });
        let schema = Arc::new(sample_schema());
        let streams = reopen(&folder, &manifest, &schema)?;
        manifest.checksums.remove(file::SAMPLES);
        let mut writer = Writer::with(folder.clone(), recording.manifest.clone(), streams, lock);
        writer.update_manifest(&manifest)?;
        folder.file(file::RESULTS).remove_if_there()?;
        // Whether the manifest knew of it or not: a run that could not write its last manifest leaves it without a
        // checksum, and a reader prefers it to the stream, which is longer from here on.
        folder.file(file::SAMPLES).remove_if_there()?;
        let mut done = recording.trials;
        done.retain(|trial| trial.status == TrialStatus::Ok);
        Ok(Resumed {
            writer,
            done,
            warnings: recording.warnings,
        })
    }
}

fn reopen(
    folder: &RecordingFolder,
    manifest: &Manifest,
    schema: &Arc<Schema>,
) -> Result<Streams, RecordingError> {
    let samples = reopen_samples(folder, manifest, schema)?;
    let events = folder.file(file::EVENTS);
    let trials = folder.file(file::TRIALS);
    let whole_events = lines::read::<Event>(&events)?.whole;
    let whole_trials = lines::read::<Trial>(&trials)?.whole;
    Ok(Streams {
        schema: Arc::clone(schema),
        samples,
        events: AppendFile::reopen(events, whole_events)?,
        trials: AppendFile::reopen(trials, whole_trials)?,
    })
}

/// The stream of samples, ready for appending: the whole batches of the live one, or the finished file as a stream.
fn reopen_samples(
    folder: &RecordingFolder,
    manifest: &Manifest,
    schema: &Arc<Schema>,
) -> Result<AppendFile, RecordingError> {
    let live = folder.file(file::SAMPLES_LIVE);
    let finished = folder.file(file::SAMPLES);
    let other_version = || RecordingError::OtherVersion {
        path: folder.path().to_owned(),
        reason: "its samples have other columns than this version of plimsoll records".to_owned(),
    };
    if finished.exists() {
        let temporary = folder.file(".samples.arrows.new");
        temporary.remove_if_there()?;
        let expected = manifest.checksums.get(file::SAMPLES).map(String::as_str);
        super::parquet::to_stream(&finished, expected, temporary.clone(), schema)?
            .ok_or_else(other_version)?;
        temporary.rename_to(&live)?;
    }
    let head = match live.exists() {
        true => stream::Reader::open(&live)?,
        false => None,
    };
    let Some(mut reader) = head else {
        live.remove_if_there()?;
        return stream::create(live, schema);
    };
    if !reader.schema().same_columns(schema) {
        return Err(other_version());
    }
    while reader.next_batch()?.is_some() {}
    AppendFile::reopen(live, reader.whole())
}
