//! The protocol between the runner and a worker process: one JSON document a line, commands on the worker's
//! standard input, replies on its standard output. A worker ends when its input ends.

use serde::{Deserialize, Serialize};

use std::fmt;
use std::path::PathBuf;

use super::area::PagerRequest;
use super::cost::{Cost, Findings};
use super::probe::Probe;
use plimsoll_model::recording::model::Calibration;
use plimsoll_model::scenario::{Backing, FillClass, ThpMode, WorkloadKind};

/// Store and threads of filled memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    pub memory: Backing,
    /// Threads that fill, trim and read it, each a part of its own.
    pub threads: u32,
    /// Folder for the files of [`Backing::File`] and for that beside the memory.
    pub folder: PathBuf,
    /// Of the filled bytes, so many at their end are those of a file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub file_bytes: u64,
    /// The pager that the memory belongs to; without one it is the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pager: Option<PagerRequest>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl Default for Placement {
    /// Anonymous, and of one thread.
    fn default() -> Self {
        Placement {
            memory: Backing::Anonymous,
            threads: 1,
            folder: PathBuf::new(),
            file_bytes: 0,
            pager: None,
        }
    }
}

impl Placement {
    fn is_default(&self) -> bool {
        *self == Placement::default()
    }
}

/// Bytes of filled memory in RAM: mapped, in the page cache, or in the swap cache.
pub const IN_CORE: &str = "in_core_bytes";

/// A command of the runner to a worker. Each but the last has exactly one [`Reply`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// Map `bytes` in requests of `request` bytes and fill them with the seeded stream of `class`.
    Fill {
        bytes: u64,
        /// Bytes of one mapping.
        request: u64,
        class: FillClass,
        seed: u64,
        thp: ThpMode,
        #[serde(default, skip_serializing_if = "Placement::is_default")]
        placement: Placement,
    },
    /// `madvise(MADV_PAGEOUT)` on all filled memory; memory of a pager goes to its store.
    Trim,
    /// Write the dirty pages of filled files to the disk.
    WriteBack,
    /// Answer with the bytes of filled memory that are in RAM: [`IN_CORE`]. A pager adds the values that it has after a trim.
    InCore,
    /// Read every byte (timed, checksummed), then compare every byte with the regenerated stream (not timed).
    Restore,
    Release,
    /// Answer with the mappings, for trimming from outside.
    Mappings,
    /// Map `bytes` more and fill them with the stream's next bytes, after a `Fill`.
    Grow {
        /// Bytes of the new mapping.
        bytes: u64,
    },
    /// Carry out a request that one workload alone has.
    Work {
        workload: String,
        /// The request, of a type of the workload's own.
        request: serde_json::Value,
    },
    /// Begin to probe in a thread of its own. Answered at once, by `Done`.
    Probe(Probe),
    /// Answer with the probe's findings since its start or the last `ProbeLap`, and go on.
    ProbeLap,
    /// End the probe, and answer with its findings since its start or the last `ProbeLap`.
    ProbeEnd,
    /// Calibrate the idle machine; takes about half a second and 256 MiB.
    Calibrate,
    /// Leave. Answered by the end of the output.
    Quit,
}

impl Command {
    /// A request that one workload alone has.
    pub fn work(workload: WorkloadKind, request: &impl Serialize) -> Command {
        Command::Work {
            workload: workload.name().to_owned(),
            // The worker refuses `null`.
            request: serde_json::to_value(request).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The worker is up; sent once, unasked.
    Ready {
        pid: u32,
    },
    Done {
        cost: Cost,
        /// After `Restore`.
        verification: Option<Verification>,
    },
    /// The command was carried out, and found something besides its cost.
    Found {
        cost: Cost,
        findings: Findings,
    },
    /// The mappings, as address and length.
    Mappings {
        /// Start address and length in bytes of each.
        ranges: Vec<(u64, u64)>,
    },
    /// The command was carried out, and found a name.
    Named {
        name: String,
    },
    Calibration {
        calibration: Calibration,
    },
    /// The command failed; the worker goes on.
    Failed {
        code: RefusalCode,
        /// Action, cause and remedy.
        message: String,
    },
}

/// The reason why a worker did not carry out a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RefusalCode {
    NotACommand,
    NothingFilled,
    /// The worker's memory is filled already.
    FilledAlready,
    /// The command is for 0 bytes.
    ZeroBytes,
    /// The machine has less RAM and swap.
    TooMuch,
    TooManyRequests,
    /// The kernel refused a mapping.
    Map,
    /// The file of the memory cannot be made, written back or examined.
    File,
    /// The kernel refused an advice.
    Advise,
    /// The kernel refused to unmap.
    Unmap,
    /// The pager cannot be built, or refused a call.
    Pager,
    /// The threads of the work could not be started.
    Threads,
    /// The file of a class of data is empty or unreadable.
    Data,
    NoProbe,
    ProbeRuns,
    /// The probe failed.
    Probe,
    /// The calibration failed.
    Calibration,
    /// No workload of that name has requests.
    UnknownWorkload,
    /// The request does not match the workload.
    Request,
    /// The work of a workload failed.
    Workload,
}

/// Result of the byte-for-byte comparison after a restore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    pub bytes: u64,
    /// Bytes that differ from the fill.
    pub wrong_bytes: u64,
    /// Offset in the fill of the first that differs.
    pub first_wrong: Option<u64>,
    /// Checksum (xxh3) of the timed restore's bytes.
    pub checksum: u64,
    /// Checksum of the regenerated stream; equal if the restore read the fill.
    pub expected_checksum: u64,
    /// Seconds the comparison took (outside the timed restore).
    pub seconds: f64,
}

impl Verification {
    /// True if every byte equals the fill.
    pub fn holds(&self) -> bool {
        self.wrong_bytes == 0 && self.checksum == self.expected_checksum
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first_wrong {
            Some(offset) => write!(
                f,
                "{} of {} bytes read back differ from the written ones, the first at offset {offset}",
                self.wrong_bytes, self.bytes
            ),
            None => write!(
                f,
                "the checksum of the restored bytes is {:016x}, that of the written ones {:016x}",
                self.checksum, self.expected_checksum
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    /// Writes and reads a document, which must be one line.
    fn round_trip<T: Serialize + DeserializeOwned>(document: &T) -> T {
        let line = serde_json::to_string(document).unwrap();
        assert!(!line.contains('\n'), "{line}");
        serde_json::from_str(&line).unwrap()
    }

    fn class() -> impl Strategy<Value = FillClass> {
        prop_oneof![
            Just(FillClass::Random),
            Just(FillClass::Runs20),
            Just(FillClass::Constant),
            (4u32..400).prop_map(|quarters| FillClass::Ratio(f64::from(quarters) / 4.0)),
            "/[^\0]{1,20}".prop_map(|path| FillClass::File(path.into())),
        ]
    }

    proptest! {
        #[test]
        fn a_fill_round_trips(
            bytes: u64, request: u64, class in class(), seed: u64, always: bool, threads: u32, folder in "/[a-z]{1,9}",
            file_bytes: u64,
        ) {
            let thp = if always { ThpMode::Always } else { ThpMode::Never };
            let placement = Placement { memory: Backing::File, threads, folder: folder.into(), file_bytes, pager: None };
            let command = Command::Fill { bytes, request, class, seed, thp, placement };
            prop_assert_eq!(round_trip(&command), command);
        }

        #[test]
        fn a_reply_round_trips(
            milliseconds: u32, bytes: u64, wrong_bytes: u64, first_wrong: Option<u64>, checksum: u64, message: String,
            ranges: Vec<(u64, u64)>,
        ) {
            let seconds = f64::from(milliseconds) / 1024.0;
            let cost = Cost { seconds, bytes, cpu_system_s: seconds, ..Cost::default() };
            let expected_checksum = !checksum;
            let verification = Verification { bytes, wrong_bytes, first_wrong, checksum, expected_checksum, seconds };
            for reply in [
                Reply::Done { cost, verification: Some(verification) },
                Reply::Done { cost, verification: None },
                Reply::Failed { code: RefusalCode::Workload, message },
                Reply::Mappings { ranges },
            ] {
                prop_assert_eq!(round_trip(&reply), reply);
            }
        }
    }

    #[test]
    fn the_commands_look_as_documented() {
        let text = |command: Command| serde_json::to_string(&command).unwrap();
        assert_eq!(text(Command::Trim), r#"{"command":"trim"}"#);
        let fill = Command::Fill {
            bytes: 8192,
            request: 4096,
            class: FillClass::Ratio(2.5),
            seed: 1,
            thp: ThpMode::System,
            placement: Placement::default(),
        };
        assert_eq!(
            text(fill),
            r#"{"command":"fill","bytes":8192,"request":4096,"class":"ratio=2.5","seed":1,"thp":"system"}"#
        );
    }
}
