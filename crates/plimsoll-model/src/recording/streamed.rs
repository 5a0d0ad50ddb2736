//! The documents of a recording of another machine, read with limits: a recording that was forged must not fill the memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::folder::RecordingFile;
use super::model::{RECORDING_SCHEMA, RESULTS_SCHEMA, RunStatus, Trial, file};
use super::open::open;
use super::{CopyError, RecordingError, RecordingFolder, parquet, stream};

/// Most bytes of `results.json`: 10,000 trials, the most of a plan, have about 300 MB.
const RESULTS_MAX: u64 = 1 << 30;
/// Most bytes of a trial, ten times those of one with 10,000 phases but for their histograms.
const TRIAL_MAX: u64 = 8 << 20;
const MANIFEST_MAX: u64 = 64 << 20;
/// Most bytes of a file of samples: a day at 100 Hz.
const SAMPLES_MAX: u64 = 8 << 30;

const RESULTS_ADVICE: &str = "restore it from a copy, or run the task again";
const MANIFEST_ADVICE: &str = "restore the file from a copy; the recording does not open without it";

/// The head of a manifest.
#[derive(Debug, Deserialize)]
struct Head {
    schema: u32,
    #[serde(default)]
    checksums: BTreeMap<String, String>,
}

/// `results.json` without its trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultsHead {
    pub run: String,
    pub scenario: String,
    pub status: RunStatus,
}

/// Copies the samples of a recording into the empty file `output` after they were read to their end, and returns the number of
/// rows. A file that has the layout of this version is copied byte for byte; samples of another version and of a recording that was
/// cut short get that layout. Memory use is a group of rows.
///
/// # Errors
/// Those of [`super::Recording::open`] for its samples, and those of `output`.
pub fn copy_samples(folder: &RecordingFolder, output: &mut File) -> Result<u64, CopyError> {
    let head = read_head(folder)?;
    let finished = folder.file(file::SAMPLES);
    if finished.exists() {
        let source = open_within(&finished, SAMPLES_MAX)?;
        let expected = head.checksums.get(file::SAMPLES).map(String::as_str);
        return parquet::copy_verified(source, finished.path(), expected, output);
    }
    let live = folder.file(file::SAMPLES_LIVE);
    drop(open_within(&live, SAMPLES_MAX)?);
    let mut batches = stream::Reader::open(&live)?;
    parquet::encode(batches.as_mut(), io::BufWriter::new(&mut *output))?;
    parquet::rows_of_file(output, live.path())
}

fn read_head(folder: &RecordingFolder) -> Result<Head, RecordingError> {
    let manifest = folder.file(file::MANIFEST);
    let path = manifest.path();
    let mut content = Vec::new();
    open_within(&manifest, MANIFEST_MAX)?
        .take(MANIFEST_MAX)
        .read_to_end(&mut content)
        .map_err(|source| RecordingError::io("read", path, source))?;
    let head: Head =
        serde_json::from_slice(&content).map_err(|error| corrupt(&manifest, &error, MANIFEST_ADVICE))?;
    known(&manifest, head.schema, RECORDING_SCHEMA)?;
    Ok(head)
}

/// Hands over the trials of `results.json` one by one, and returns the rest of it.
///
/// # Errors
/// Those of [`super::Recording::read_results`], also for a missing file; those of `each`.
pub fn for_each_trial<E: From<RecordingError>>(
    folder: &RecordingFolder,
    mut each: impl FnMut(Trial) -> Result<(), E>,
) -> Result<ResultsHead, E> {
    let results = folder.file(file::RESULTS);
    let left = Rc::new(Cell::new(TRIAL_MAX));
    let input = Limited {
        input: BufReader::with_capacity(1 << 16, open_within(&results, RESULTS_MAX)?),
        left: Rc::clone(&left),
    };
    let mut failed = None;
    let mut take = |trial| {
        left.set(TRIAL_MAX);
        each(trial).map_err(|error| failed = Some(error))
    };
    let mut json = serde_json::Deserializer::from_reader(input);
    let read = Document { each: &mut take }
        .deserialize(&mut json)
        .and_then(|read| json.end().map(|()| read));
    if let Some(error) = failed {
        return Err(error);
    }
    let (schema, head) = read.map_err(|error| corrupt(&results, &error, RESULTS_ADVICE))?;
    known(&results, schema, RESULTS_SCHEMA)?;
    Ok(head)
}

fn open_within(file: &RecordingFile, max: u64) -> Result<File, RecordingError> {
    let opened = open(file)?;
    let length = opened.metadata();
    let bytes = length
        .map_err(|source| RecordingError::io("read", file.path(), source))?
        .len();
    match bytes <= max {
        true => Ok(opened),
        false => Err(RecordingError::TooLarge {
            path: file.path().to_owned(),
            bytes,
            max,
        }),
    }
}

fn corrupt(file: &RecordingFile, error: &serde_json::Error, advice: &'static str) -> RecordingError {
    RecordingError::CorruptJson {
        path: file.path().to_owned(),
        line: error.line(),
        reason: error.to_string(),
        advice,
    }
}

fn known(file: &RecordingFile, found: u32, known: u32) -> Result<(), RecordingError> {
    match found <= known {
        true => Ok(()),
        false => Err(RecordingError::NewerSchema {
            path: file.path().to_owned(),
            found,
            known,
        }),
    }
}

/// Ends a document with an error after the bytes of a trial.
struct Limited {
    input: BufReader<File>,
    left: Rc<Cell<u64>>,
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        let left = self.left.get().checked_sub(count as u64);
        self.left
            .set(left.ok_or_else(|| io::Error::other("a trial is longer than that of any run"))?);
        Ok(count)
    }
}

/// A document whose field `trials` goes to `each`.
struct Document<'a, F> {
    each: &'a mut F,
}

impl<'de, F: FnMut(Trial) -> Result<(), ()>> DeserializeSeed<'de> for Document<'_, F> {
    type Value = (u32, ResultsHead);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Trial) -> Result<(), ()>> Visitor<'de> for Document<'_, F> {
    type Value = (u32, ResultsHead);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the results of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut schema, mut run, mut scenario, mut status, mut trials) = (None, None, None, None, None);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "schema" => schema = Some(map.next_value()?),
                "run" => run = Some(map.next_value()?),
                "scenario" => scenario = Some(map.next_value()?),
                "status" => status = Some(map.next_value()?),
                "trials" => trials = Some(map.next_value_seed(Trials { each: self.each })?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        trials.ok_or_else(|| A::Error::missing_field("trials"))?;
        let head = ResultsHead {
            run: run.ok_or_else(|| A::Error::missing_field("run"))?,
            scenario: scenario.ok_or_else(|| A::Error::missing_field("scenario"))?,
            status: status.ok_or_else(|| A::Error::missing_field("status"))?,
        };
        Ok((schema.ok_or_else(|| A::Error::missing_field("schema"))?, head))
    }
}

struct Trials<'a, F> {
    each: &'a mut F,
}

impl<'de, F: FnMut(Trial) -> Result<(), ()>> DeserializeSeed<'de> for Trials<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Trial) -> Result<(), ()>> Visitor<'de> for Trials<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of trials")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(trial) = list.next_element()? {
            (self.each)(trial).map_err(|()| A::Error::custom("a trial was not accepted"))?;
        }
        Ok(())
    }
}
