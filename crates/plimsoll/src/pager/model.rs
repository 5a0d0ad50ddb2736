//! The document of `plimsoll pager stat --json`; the text has the same source.

use plimsoll_pager::page::PAGE_SIZE;
use plimsoll_pager::page_file::State;
use plimsoll_pager::published::Mapped;
use plimsoll_pager::{PageFileUse, Stats};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::rows::ROWS;

/// Schema version of [`PagerSurvey`].
pub const PAGER_SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PagerSurvey {
    pub schema: u32,
    pub pid: u32,
    pub name: String,
    pub page_bytes: u64,
    pub pagers: Vec<PagerReport>,
    /// Duration of the read in microseconds; the process ran meanwhile.
    pub took_us: u64,
}

impl PagerSurvey {
    pub(super) fn new(pid: u32, name: String) -> PagerSurvey {
        PagerSurvey {
            schema: PAGER_SCHEMA,
            pid,
            name,
            page_bytes: PAGE_SIZE as u64,
            pagers: Vec::new(),
            took_us: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PagerReport {
    /// Address of its record.
    pub record: u64,
    /// Address of the first byte that regions may have.
    pub arena: u64,
    /// Bytes of addresses for regions.
    pub address_space_bytes: u64,
    /// Standby pages by priority, 0 to 7.
    pub standby_pages_by_priority: [u64; 8],
    /// The step of thrash control: `calm`, `thrashing`, `grown-standby`, `no-read-ahead` or `throttle`.
    pub thrash_step: String,
    #[serde(flatten)]
    pub values: Values,
    pub page_file: Option<PageFileReport>,
    /// The result of `--validate`.
    pub validation: Option<PagerValidation>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PageFileReport {
    /// `writable`, `limited`, `failed` or `of-parent`.
    pub state: String,
    /// The error that limits it, or ended its writes.
    pub problem: Option<String>,
    /// The most bytes of the file.
    pub bytes: u64,
    /// Bytes of segments in the file.
    pub used_bytes: u64,
    /// Bytes of the disk.
    pub allocated_bytes: u64,
    /// Bytes written and read since the start.
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub write_failures: u64,
    pub read_failures: u64,
}

impl PageFileReport {
    pub(super) fn new(file: &PageFileUse) -> PageFileReport {
        let (state, problem) = match file.state {
            State::Writable => ("writable", None),
            State::Limited { errno, .. } => ("limited", Some(errno.to_string())),
            State::Failed(failure) => ("failed", Some(failure.to_string())),
            State::OfParent => ("of-parent", None),
            _ => ("unknown", None),
        };
        PageFileReport {
            state: state.to_owned(),
            problem,
            bytes: file.bytes,
            used_bytes: file.used_bytes,
            allocated_bytes: file.allocated_bytes,
            written_bytes: file.written_bytes,
            read_bytes: file.read_bytes,
            write_failures: file.write_failures,
            read_failures: file.read_failures,
        }
    }
}

/// The counters of a pager; [`ROWS`] names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Values {
    pub stats: Stats,
    pub mapped: Mapped,
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(ROWS.len()))?;
        for row in ROWS {
            map.serialize_entry(row.key, &(row.value)(&self.stats, &self.mapped))?;
        }
        map.end()
    }
}

/// The result of a check of every page.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct PagerValidation {
    /// Chunks (2 MiB) of all regions.
    pub all_chunks: u64,
    /// Chunks checked.
    pub chunks: u64,
    /// Chunks that changed whenever they were read, without a verdict.
    pub unsettled_chunks: u64,
    /// Pages checked.
    pub pages: u64,
    /// Whether the presence of pages was compared with their states.
    pub presence_checked: bool,
    /// Whether the check ended early, or left out saved copies.
    pub partial: bool,
    pub violations: Vec<String>,
}
