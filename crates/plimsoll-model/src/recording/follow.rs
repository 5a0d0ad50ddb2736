//! Reading a recording while it is being written.

use std::fs;
use std::io::{BufReader, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::batch::Batch;
use super::folder::RecordingFile;
use super::lock::is_written;
use super::model::{Event, EventKind, Manifest, Trial, file};
use super::open::open_if_there;
use super::reader::read_manifest;
use super::{RecordingError, RecordingFolder, Samples, lines, parquet, stream};

/// Follows a recording: each [`Follow::poll`] returns the records since the previous one.
///
/// Invariant: every sample, event and trial comes once, also when the stream of samples becomes a Parquet file, or that
/// a stream again, between two polls.
#[derive(Debug)]
pub struct Follow {
    folder: PathBuf,
    manifest: Manifest,
    manifest_seen: Option<Version>,
    stream: Option<stream::Reader>,
    finished_seen: Option<Version>,
    /// Samples that were read, over all files.
    read: usize,
    /// Samples of the open stream that are to be passed over, since they came from another file.
    skip: usize,
    events: Tail<Event>,
    trials: Tail<Trial>,
    /// Why the run was stopped, as far as its events say.
    stopped: Option<String>,
    /// Records that no poll has returned yet: an error in one file must not lose those of another.
    news: News,
}

/// Records since the last poll.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct News {
    pub samples: Samples,
    pub events: Vec<Event>,
    /// The new trials. One with the name of an earlier one replaces it: it was run again.
    pub trials: Vec<Trial>,
    /// Whether [`Follow::manifest`] is another than before.
    pub manifest_changed: bool,
    pub state: FollowState,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FollowState {
    /// A process writes it.
    #[default]
    Writing,
    /// It came to its end, and everything has been read.
    Finished,
    /// No process writes it, it is incomplete, and the caller has all records. Polling shows when it
    /// is resumed.
    Stopped(StopCause),
}

/// The cause of an incomplete recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopCause {
    /// The last event names the cause.
    #[error("{0}")]
    Recorded(String),
    #[error("the program that wrote it ended without finishing it")]
    Unfinished,
}

impl Follow {
    /// Opens the recording in `folder` and reads its manifest. The first poll returns the records so far.
    ///
    /// # Errors
    /// [`RecordingError::NotARecording`], [`RecordingError::NewerSchema`], [`RecordingError::CorruptJson`].
    pub fn open(folder: &Path) -> Result<Follow, RecordingError> {
        // Before it is read: a manifest that is replaced meanwhile is read again.
        let manifest_seen = Version::of(&folder.join(file::MANIFEST));
        Ok(Follow {
            folder: folder.to_owned(),
            manifest: read_manifest(&RecordingFolder::open(folder)?)?,
            manifest_seen,
            stream: None,
            finished_seen: None,
            read: 0,
            skip: 0,
            events: Tail::new(RecordingFile::at(folder.join(file::EVENTS))),
            trials: Tail::new(RecordingFile::at(folder.join(file::TRIALS))),
            stopped: None,
            news: News::default(),
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The manifest as it was last read.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Records since the last poll; on the first one, all of them. Does not wait.
    ///
    /// # Errors
    /// Damage, with file and place, and errors of the system. Records read before the error come with the next poll
    /// that succeeds.
    pub fn poll(&mut self) -> Result<News, RecordingError> {
        // The state before the content: a writer that has ended writes nothing afterwards.
        let ended = self.ended()?;
        self.poll_manifest()?;
        self.poll_samples()?;
        self.news.events.extend(self.events.poll()?);
        self.news.trials.extend(self.trials.poll()?);
        let mut news = std::mem::take(&mut self.news);
        for event in &news.events {
            match event.kind {
                EventKind::Stopped => self.stopped = Some(event.text.clone()),
                EventKind::RunStart => self.stopped = None,
                _ => {}
            }
        }
        news.state = match ended {
            None => FollowState::Writing,
            Some(Ended::Finished) => FollowState::Finished,
            Some(Ended::CutShort) => {
                let recorded = self.stopped.clone().map(StopCause::Recorded);
                FollowState::Stopped(recorded.unwrap_or(StopCause::Unfinished))
            }
        };
        Ok(news)
    }

    /// How the recording ended, if it has.
    fn ended(&self) -> Result<Option<Ended>, RecordingError> {
        let there = |name: &str| self.folder.join(name).exists();
        let finished = || there(file::RESULTS) && there(file::SAMPLES);
        // The stream goes last of all when a recording is finished.
        if finished() && !there(file::SAMPLES_LIVE) {
            return Ok(Some(Ended::Finished));
        }
        if is_written(&self.folder)? {
            return Ok(None);
        }
        // Looked at after the lock, as finishing comes before letting go of it.
        Ok(Some(match finished() {
            true => Ended::Finished,
            false => Ended::CutShort,
        }))
    }

    fn poll_manifest(&mut self) -> Result<(), RecordingError> {
        let version = Version::of(&self.folder.join(file::MANIFEST));
        if version == self.manifest_seen {
            return Ok(());
        }
        let manifest = read_manifest(&RecordingFolder::open(&self.folder)?)?;
        self.news.manifest_changed |= manifest != self.manifest;
        self.manifest = manifest;
        self.manifest_seen = version;
        Ok(())
    }

    fn poll_samples(&mut self) -> Result<(), RecordingError> {
        // Also when its name is gone: until then it held all that there is.
        self.poll_stream()?;
        let live = RecordingFile::at(self.folder.join(file::SAMPLES_LIVE));
        if live.exists() {
            if self.stream.as_ref().is_some_and(stream::Reader::is_current) {
                return Ok(());
            }
            match stream::Reader::open(&live) {
                Ok(stream) => self.stream = stream,
                // Finished just now.
                Err(RecordingError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            self.skip = self.read;
            return self.poll_stream();
        }
        self.poll_finished()
    }

    /// Reads the samples of the finished file that no poll has returned: all, or those that a resumed run added
    /// meanwhile.
    fn poll_finished(&mut self) -> Result<(), RecordingError> {
        let finished = RecordingFile::at(self.folder.join(file::SAMPLES));
        let version = Version::of(finished.path());
        if version.is_none() || version == self.finished_seen {
            return Ok(());
        }
        if parquet::rows(&finished)? > self.read {
            let expected = self.manifest.checksums.get(file::SAMPLES).map(String::as_str);
            let mut skip = self.read;
            parquet::for_each_batch(&finished, expected, |_, batch| {
                let new = without_first(&batch, &mut skip);
                self.read += new.rows();
                add(&mut self.news.samples, &new);
                Ok(())
            })?;
            self.news.samples.sort();
        }
        self.finished_seen = version;
        Ok(())
    }

    /// Reads the whole batches that were added to the open stream.
    fn poll_stream(&mut self) -> Result<(), RecordingError> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        stream.refresh()?;
        while let Some(batch) = stream.next_batch()? {
            let new = without_first(&batch, &mut self.skip);
            self.read += new.rows();
            add(&mut self.news.samples, &new);
        }
        self.news.samples.sort();
        Ok(())
    }
}

/// `batch` without the first of the samples that are to be passed over.
fn without_first(batch: &Batch, skip: &mut usize) -> Batch {
    let passed = batch.rows().min(*skip);
    *skip -= passed;
    batch.slice(passed..batch.rows())
}

fn add(samples: &mut Samples, batch: &Batch) {
    if batch.rows() == 0 {
        return;
    }
    if samples.is_empty() {
        *samples = Samples::default();
        samples.declare(batch.schema.value_names());
    }
    samples.append(batch);
}

#[derive(Debug, Clone, Copy)]
enum Ended {
    Finished,
    CutShort,
}

/// Identifies the content of a file that writers replace whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl Version {
    /// The version of a file, if it is there.
    fn of(path: &Path) -> Option<Version> {
        let metadata = fs::metadata(path).ok()?;
        Some(Version {
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// The unread rest of a file of JSON lines.
#[derive(Debug)]
struct Tail<T> {
    place: RecordingFile,
    /// Whole lines that were read, and their bytes.
    lines: usize,
    offset: u64,
    kind: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Tail<T> {
    fn new(place: RecordingFile) -> Self {
        Tail {
            place,
            lines: 0,
            offset: 0,
            kind: std::marker::PhantomData,
        }
    }

    /// The documents on the whole lines that were added. A torn last line waits.
    fn poll(&mut self) -> Result<Vec<T>, RecordingError> {
        // It is made after the manifest.
        let Some(mut file) = open_if_there(&self.place)? else {
            return Ok(Vec::new());
        };
        file.seek(SeekFrom::Start(self.offset))
            .map_err(|source| RecordingError::io("read", self.place.path(), source))?;
        let read = lines::parse(self.place.path(), BufReader::new(file), self.lines)?;
        self.lines += read.count;
        self.offset += read.whole;
        Ok(read.documents)
    }
}
