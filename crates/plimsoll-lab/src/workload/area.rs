//! One mapping of a worker's memory, and the pager of such memory.

use std::path::PathBuf;
use std::time::Duration;

use plimsoll_model::scenario::workloads::finding;
use plimsoll_model::scenario::{PagerCodec, PagerOptions, PagerTrim};
use plimsoll_os::{Errno, Mapping};
use plimsoll_pager::page::{PAGE_SIZE, PageState};
use plimsoll_pager::{BuildError, Codec, Pager, RamError, Region, Stats, ThrashControl, TrimMode};
use serde::{Deserialize, Serialize};

use super::cost::Findings;
use super::pool::{JoinError, PoolRequest};

/// Addresses of a pager, as a multiple of the bytes that it holds: each mapping begins at a chunk of its own.
const ADDRESSES: u64 = 2;
/// All faults of a pager in a stretch.
pub(crate) const PAGER_FAULTS: &str = "pager_faults";

/// Pause between two looks at a budget that shrinks, and the most of them.
const SHRINK_PAUSE: Duration = Duration::from_millis(10);
const SHRINK_LOOKS: u32 = 3000;

/// A pager may exceed its budget by this share for a moment, as a divisor (2%).
const TOLERATED: u64 = 50;
/// The fewest addresses of a pager, in bytes.
const FEWEST_ADDRESSES: u64 = 1 << 30;

/// A pager that the worker's memory belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PagerRequest {
    pub budget: PagerBudget,
    /// Bytes of its mappings in all, at most.
    pub bytes: u64,
    pub options: PagerOptions,
    /// The folder of its page file, if it has one.
    pub folder: PathBuf,
}

/// The budget of a worker's pager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PagerBudget {
    /// So many bytes, of this pager alone.
    Own(u64),
    /// A share of the pool of the trial.
    Pool(PoolRequest),
}

/// The reason why a worker has no pager.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PagerError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Join(#[from] JoinError),
}

impl PagerRequest {
    /// Builds the pager, and joins the pool of the trial if its budget is a share of that.
    pub(crate) fn build(&self) -> Result<Pager, PagerError> {
        let addresses = self.bytes.saturating_mul(ADDRESSES).max(FEWEST_ADDRESSES);
        let builder = Pager::builder().address_space(addresses);
        let builder = match &self.budget {
            PagerBudget::Own(bytes) => builder.ram(*bytes),
            PagerBudget::Pool(pool) => builder.pool(pool.join()?),
        };
        let builder = match self.options.codec {
            Some(PagerCodec::Lz4) => builder.codec(Codec::Lz4),
            Some(PagerCodec::Zstd) => builder.codec(Codec::Zstd),
            Some(PagerCodec::Auto) => builder.codec(Codec::Auto),
            None => builder,
        };
        let builder = match self.options.page_file_bytes(self.bytes) {
            Some(most) => builder.page_file(&self.folder, most),
            None => builder,
        };
        let builder = match self.options.store_cap {
            Some(cap) => builder.store_cap(cap),
            None => builder,
        };
        let builder = match self.options.controls_thrash {
            true => builder.thrash_control(ThrashControl::On),
            false => builder.thrash_control(ThrashControl::Off),
        };
        let pager = builder.build()?;
        pager.set_trim_mode(match self.options.trim {
            PagerTrim::BalanceSet => TrimMode::BalanceSet,
            PagerTrim::PerFault => TrimMode::PerFault,
        });
        Ok(pager)
    }
}

/// Bytes of a pager's pages in RAM as they are: of the working set, modified and standby.
pub(crate) fn in_frames(pager: &Pager) -> u64 {
    let snapshot = pager.snapshot();
    let states = [PageState::Active, PageState::Modified, PageState::Standby];
    let pages: u64 = states.into_iter().map(|state| snapshot.pages_in(state)).sum();
    pages * PAGE_SIZE as u64
}

/// The counters of a pager after a trim.
pub(crate) fn after_trim(pager: &Pager) -> Findings {
    let stats = pager.stats();
    let saved = (stats.compressed_pages + stats.page_file_pages) * PAGE_SIZE as u64;
    let mut findings = Findings::default();
    findings.set(finding::PAGER_SAVED, saved as f64);
    findings.set(finding::PAGER_STORE, stats.store_bytes as f64);
    findings.set(finding::PAGER_METADATA, stats.metadata_bytes as f64);
    if let Some(file) = stats.page_file {
        findings.set(finding::PAGER_FILE, file.used_bytes as f64);
    }
    findings
}

/// The reason why a budget was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BudgetError {
    #[error(transparent)]
    Refused(#[from] RamError),
    #[error(
        "cannot shrink the pager's budget to {asked} bytes: it stays at {ram}; stop other programs, or raise the cap"
    )]
    Stays { asked: u64, ram: u64 },
}

/// Changes a pager's budget, and waits until it is in force.
pub(crate) fn set_budget(pager: &Pager, bytes: u64) -> Result<(), BudgetError> {
    pager.set_ram(bytes)?;
    for _ in 0..SHRINK_LOOKS {
        if pager.stats().ram == bytes {
            return Ok(());
        }
        std::thread::sleep(SHRINK_PAUSE);
    }
    let ram = pager.stats().ram;
    Err(BudgetError::Stays { asked: bytes, ram })
}

/// Bytes of a pager's resident ones that are above its budget and the tolerated share of it.
pub(crate) fn above_budget(resident: u64, budget: u64) -> u64 {
    resident.saturating_sub(budget.saturating_add(budget / TOLERATED))
}

/// The counters of a pager since `before`, for a stretch of visits.
pub(crate) fn since(before: &Stats, pager: &Pager, findings: &mut Findings) {
    let now = pager.stats();
    let faults = now.hard_faults.saturating_sub(before.hard_faults);
    findings.set(finding::PAGER_HARD_FAULTS, faults as f64);
    let all = |stats: &Stats| stats.hard_faults + stats.soft_faults + stats.zero_faults;
    findings.set(PAGER_FAULTS, all(&now).saturating_sub(all(before)) as f64);
    findings.set(
        finding::PAGER_STORE,
        (now.store_bytes + now.metadata_bytes) as f64,
    );
    let over = above_budget(now.resident_bytes(), now.ram);
    if over > 0 {
        findings.set(finding::OVER_BUDGET, over as f64);
    }
}

/// One mapping.
#[derive(Debug)]
pub(crate) enum Area {
    /// Whose pages the kernel trims.
    Kernel(Mapping),
    Pager(Region),
}

impl Area {
    pub(crate) fn len(&self) -> usize {
        match self {
            Area::Kernel(mapping) => mapping.len(),
            Area::Pager(region) => region.len(),
        }
    }

    pub(crate) fn address(&self) -> usize {
        match self {
            Area::Kernel(mapping) => mapping.address(),
            Area::Pager(region) => region.as_ptr() as usize,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Area::Kernel(mapping) => mapping.bytes(),
            Area::Pager(region) => region.bytes(),
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Area::Kernel(mapping) => mapping.bytes_mut(),
            Area::Pager(region) => region.bytes_mut(),
        }
    }

    /// The mapping; `None` of a pager's.
    pub(crate) fn kernel(&self) -> Option<&Mapping> {
        match self {
            Area::Kernel(mapping) => Some(mapping),
            Area::Pager(_) => None,
        }
    }

    /// The region; `None` of the kernel's.
    pub(crate) fn region(&self) -> Option<&Region> {
        match self {
            Area::Kernel(_) => None,
            Area::Pager(region) => Some(region),
        }
    }

    pub(crate) fn unmap(self) -> Result<(), Errno> {
        match self {
            Area::Kernel(mapping) => mapping.unmap(),
            Area::Pager(region) => {
                drop(region);
                Ok(())
            }
        }
    }
}
