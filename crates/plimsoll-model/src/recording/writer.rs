//! Writes a recording during the run.

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::append::{AppendFile, replace};
use super::batch::Schema;
use super::lines::{encode_file, encode_line, require_finite};
use super::lock::lock;
use super::model::{Event, Manifest, Results, Trial, file};
use super::schema::{batch, sample_schema};
use super::{RecordingError, RecordingFolder, arrow, stream};
use crate::columns::Row;

/// An open recording. A writer dropped without [`Writer::finish`] leaves the recording of a killed run: it opens.
///
/// Every call hands its record to the kernel before it returns, so killing the process loses nothing that was
/// written. A power cut may lose records that the kernel had not yet written to the disk.
#[derive(Debug)]
pub struct Writer {
    folder: RecordingFolder,
    pub(super) manifest: Manifest,
    schema: Arc<Schema>,
    samples: AppendFile,
    events: AppendFile,
    trials: AppendFile,
    /// Held, so that no second process resumes the recording meanwhile.
    _lock: File,
}

/// The files that [`Writer`] appends to.
pub(super) struct Streams {
    pub(super) schema: Arc<Schema>,
    pub(super) samples: AppendFile,
    pub(super) events: AppendFile,
    pub(super) trials: AppendFile,
}

impl Writer {
    /// Makes the folder `<parent>/<name of the run>` and writes the manifest.
    ///
    /// # Errors
    /// When the folder is there already, its name is no plain name, or it cannot be written.
    pub fn create(parent: &Path, manifest: Manifest) -> Result<Self, RecordingError> {
        let plain = {
            let mut parts = Path::new(&manifest.run).components();
            matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        };
        if !plain {
            return Err(RecordingError::Name { name: manifest.run });
        }
        fs::create_dir_all(parent).map_err(|source| RecordingError::io("create", parent, source))?;
        let folder = RecordingFolder::create(parent, &manifest.run)?;
        let lock = lock(&folder)?;
        let events = AppendFile::create(folder.file(file::EVENTS))?;
        folder.check_made(events.file())?;
        write_manifest(&folder, &manifest)?;
        let schema = Arc::new(sample_schema());
        let streams = Streams {
            samples: stream::create(folder.file(file::SAMPLES_LIVE), &schema)?,
            schema,
            events,
            trials: AppendFile::create(folder.file(file::TRIALS))?,
        };
        Ok(Writer::with(folder, manifest, streams, lock))
    }

    pub(super) fn with(folder: RecordingFolder, manifest: Manifest, streams: Streams, lock: File) -> Self {
        Writer {
            folder,
            manifest,
            schema: streams.schema,
            samples: streams.samples,
            events: streams.events,
            trials: streams.trials,
            _lock: lock,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder itself, whatever its path leads to by now.
    pub fn open_folder(&self) -> &RecordingFolder {
        &self.folder
    }

    /// The manifest as it was last written.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The reading of CLOCK_MONOTONIC that times count from, for the part of the run that is being written:
    /// `t_ns = now.wrapping_sub(origin_ns)`. Wrapping, since after a reboot a resumed run may be older than the clock.
    pub fn origin_ns(&self) -> u64 {
        match self.manifest.resumed.last() {
            Some(part) => part.monotonic_ns.wrapping_sub(part.t_ns),
            None => self.manifest.monotonic_start_ns,
        }
    }

    /// Appends samples as one record batch.
    ///
    /// # Errors
    /// [`RecordingError::Full`] when the disk is full: the file then has nothing of the batch. Otherwise the system's
    /// error.
    pub fn samples(&mut self, rows: &[Row]) -> Result<(), RecordingError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.samples
            .append(&arrow::batch_message(&batch(&self.schema, rows)))
    }

    /// Appends an event.
    ///
    /// # Errors
    /// As [`Writer::samples`].
    pub fn event(&mut self, event: &Event) -> Result<(), RecordingError> {
        let line = encode_line(self.events.path(), event)?;
        self.events.append(&line)
    }

    /// Appends a trial that has ended. A trial that was run again replaces its former self for every reader.
    ///
    /// # Errors
    /// As [`Writer::samples`]; [`RecordingError::NotFinite`] for a value that JSON cannot hold.
    pub fn trial(&mut self, trial: &Trial) -> Result<(), RecordingError> {
        require_finite(&format!("trial `{}`", trial.id), trial)?;
        let line = encode_line(self.trials.path(), trial)?;
        self.trials.append(&line)
    }

    /// Replaces the manifest.
    ///
    /// # Errors
    /// As [`Writer::samples`]; the former manifest stays then.
    pub fn update_manifest(&mut self, manifest: &Manifest) -> Result<(), RecordingError> {
        write_manifest(&self.folder, manifest)?;
        self.manifest = manifest.clone();
        Ok(())
    }

    /// Ends the recording: results first, then the samples as Parquet, then the stream they came from goes.
    ///
    /// # Errors
    /// As [`Writer::trial`]; the recording then is that of a run that was cut short, with all that was written.
    pub fn finish(mut self, results: &Results) -> Result<PathBuf, RecordingError> {
        write_results(&self.folder, results)?;
        self.samples.sync()?;
        self.events.sync()?;
        self.trials.sync()?;
        let live = self.folder.file(file::SAMPLES_LIVE);
        let checksum = super::parquet::from_stream(&live, &self.folder.file(file::SAMPLES))?;
        let mut manifest = self.manifest.clone();
        manifest.checksums.insert(file::SAMPLES.to_owned(), checksum);
        self.update_manifest(&manifest)?;
        live.remove_if_there()?;
        Ok(self.folder.path().to_owned())
    }
}

fn write_results(folder: &RecordingFolder, results: &Results) -> Result<(), RecordingError> {
    require_finite("results.json", &results.trials)?;
    require_finite("results.json", &results.sampler)?;
    if let Some(calibration) = &results.calibration {
        require_finite("results.json: calibration", calibration)?;
    }
    let document = folder.file(file::RESULTS);
    replace(&document, &encode_file(document.path(), results)?)
}

fn write_manifest(folder: &RecordingFolder, manifest: &Manifest) -> Result<(), RecordingError> {
    if let Some(calibration) = &manifest.calibration {
        require_finite("manifest.json: calibration", calibration)?;
    }
    let document = folder.file(file::MANIFEST);
    replace(&document, &encode_file(document.path(), manifest)?)
}
