//! All sources, read one after the other into a row.

use std::path::PathBuf;

use plimsoll_proc::BUFFER;

use super::SampleError;
use super::cgroup::{Cgroup, CgroupFiles};
use super::damon::Damon;
use super::held::{HeldLevel, HeldPost};
use super::kernel_threads::KernelThreads;
use super::meminfo::{self, Meminfo};
use super::pagers::Pagers;
use super::process::{Statm, Workers, set_process_cpu};
use super::psi::Psi;
use super::residency::{Span, span_of};
use super::stat::Stat;
use super::swaps::{OwnDevice, SlotHistory, Swaps};
use super::vmstat::Vmstat;
use super::zram::Zram;
use plimsoll_model::columns::{Row, col};

/// Sources besides those of the whole machine. One that is absent, or ends, has no values; that is no error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Process ids of the workers. The first four have a column each.
    pub workers: Vec<u32>,
    /// Their memory cgroup.
    pub cgroup: Option<CgroupFiles>,
    /// Name of the zram device they swap to ("zram1").
    pub zram: Option<String>,
    /// The swap device that was made for them: all others are of other programs.
    pub swap_device: Option<PathBuf>,
    /// The level that this process holds.
    pub held: Option<HeldPost>,
}

/// The sources that come and go with a target: its own, and kernel threads and DAMON's schemes, which a change of the
/// environment may start.
pub(crate) struct Attached {
    workers: Workers,
    pagers: Pagers,
    cgroup: Option<Cgroup>,
    zram: Option<Zram>,
    own_device: Option<OwnDevice>,
    held: Option<HeldLevel>,
    kernel_threads: KernelThreads,
    damon: Damon,
}

impl Attached {
    /// Finds and opens them. Takes about a millisecond: not for a tick.
    pub(crate) fn open(target: Option<&Target>) -> Box<Self> {
        Box::new(Attached {
            workers: Workers::open(target.map_or(&[], |target| &target.workers)),
            pagers: Pagers::open(target.map_or(&[], |target| &target.workers)),
            cgroup: target.and_then(|target| target.cgroup.as_ref()).map(Cgroup::open),
            zram: target.and_then(|target| target.zram.as_deref()).map(Zram::open),
            own_device: target.map(|target| OwnDevice::new(target.swap_device.as_deref())),
            held: target.and_then(|target| target.held.as_ref()).map(HeldLevel::of),
            kernel_threads: KernelThreads::open(),
            damon: Damon::open(),
        })
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let held = self.held.as_ref().map(HeldLevel::span);
        let own = [
            span_of(self),
            self.workers.span(),
            self.pagers.span(),
            self.kernel_threads.span(),
            self.damon.span(),
        ];
        own.into_iter().chain(held).collect()
    }

    fn read(&mut self, buffer: &mut [u8], sources: Sources, row: &mut Row) {
        self.workers.read(buffer, row);
        self.pagers.read(row);
        if let Some(cgroup) = &mut self.cgroup {
            cgroup.read(buffer, row);
        }
        if let Some(zram) = &self.zram {
            zram.read(buffer, row);
        }
        if let Some(held) = &mut self.held {
            held.read(row);
        }
        if sources == Sources::All {
            self.kernel_threads.read(buffer, row);
        }
        self.damon.read(buffer, row);
    }
}

/// Columns of the sources that [`Sources::Frequent`] leaves out.
pub(crate) const RARE_COLUMNS: [usize; 5] = [
    col::KSWAPD_CPU_US,
    col::KCOMPACTD_CPU_US,
    col::KDAMOND_CPU_US,
    col::KERNEL_THREADS_CPU_US,
    col::RUNNER_RESIDENT,
];

/// The sources that a read covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sources {
    All,
    /// Without those of [`RARE_COLUMNS`], which stay empty.
    Frequent,
}

/// Reads a sample when asked: the same sources as the [`super::Sampler`]'s, without its thread.
pub struct Reader {
    own: Box<Own>,
    attached: Box<Attached>,
}

/// Open files and buffers of a reader, in one piece so that one call locks them.
struct Own {
    buffer: [u8; BUFFER],
    meminfo: Meminfo,
    vmstat: Vmstat,
    stat: Stat,
    psi: Psi,
    swaps: Swaps,
    runner: Statm,
}

impl Reader {
    /// Opens the sources, with no target.
    ///
    /// # Errors
    /// [`SampleError::Meminfo`] when not even that can be read. Any other source that is missing has no values.
    pub fn open() -> Result<Self, SampleError> {
        let mut reader = Reader {
            own: Box::new(Own {
                buffer: [0; BUFFER],
                meminfo: Meminfo::open(),
                vmstat: Vmstat::open(),
                stat: Stat::open(),
                psi: Psi::open(),
                swaps: Swaps::open(),
                runner: Statm::own(),
            }),
            attached: Attached::open(None),
        };
        let own = &mut *reader.own;
        if !own.meminfo.read(&mut own.buffer, &mut Row::empty(0)) {
            return Err(SampleError::Meminfo {
                path: meminfo::PATH,
                source: std::fs::File::open(meminfo::PATH).err(),
            });
        }
        Ok(reader)
    }

    /// Watches `target` from the next sample on.
    pub fn set_target(&mut self, target: Option<&Target>) {
        self.attached = Attached::open(target);
    }

    /// Reads every source now and replaces all values of `row` but its time. Columns of the sampler's own clock
    /// stay empty.
    pub fn read(&mut self, row: &mut Row) {
        self.read_sources(Sources::All, row);
    }

    /// As [`Reader::read`], of some sources.
    pub(crate) fn read_sources(&mut self, sources: Sources, row: &mut Row) {
        let own = &mut *self.own;
        row.clear();
        own.meminfo.read(&mut own.buffer, row);
        own.vmstat.read(&mut own.buffer, row);
        // Before the target's cgroup: pages on their way out meanwhile then count as the cgroup's, and not as foreign.
        let own_device = self.attached.own_device.as_ref();
        own.swaps.read(&mut own.buffer, own_device, row);
        self.attached.read(&mut own.buffer, sources, row);
        own.stat.read(&mut own.buffer, row);
        own.psi.read(&mut own.buffer, row);
        if sources == Sources::All {
            own.runner.read_runner(&mut own.buffer, row);
        }
        set_process_cpu(row);
    }

    /// Devices behind the `swapN_*` columns by slot, as far as they were seen; several of one slot with commas between.
    pub fn swap_slots(&self) -> Vec<String> {
        self.own.swaps.history().labels()
    }

    pub(crate) fn slot_history(&self) -> &SlotHistory {
        self.own.swaps.history()
    }

    /// Replaces the attached sources and returns the previous ones: opens, closes and frees nothing.
    pub(crate) fn attach(&mut self, attached: Box<Attached>) -> Box<Attached> {
        std::mem::replace(&mut self.attached, attached)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans = self.attached.spans();
        spans.push(span_of(&*self.own));
        spans
    }
}
