//! What a plan will take: stated before a run, and the start of its ETA.

use super::heap::{Heap, HeapLoad};
use super::model::{FillClass, Plan, Settings, Subject, TrialPlan};
use super::workloads::{GiveBack, Left, Loadline, Map, Workload, Wscap};

/// Bytes that allocators take for each live one, at most as a rule.
const TAKEN_FOR_LIVE: u64 = 2;
/// How often the fragmentation load allocates what is live.
const FRAGMENTATION_TURNS: f64 = 20.0;

/// Speeds to estimate with. The defaults are those of a slow two-core virtual machine; a runner that has
/// calibrated or finished trials puts in what it measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedHints {
    /// First touch and fill, GB/s.
    pub fill_gb_per_s: f64,
    /// Trim into compressed RAM, GB/s.
    pub compress_gb_per_s: f64,
    /// Restore from compressed RAM, GB/s.
    pub decompress_gb_per_s: f64,
    /// Writing to and reading from a swap file, GB/s.
    pub disk_gb_per_s: f64,
    /// Comparing with the regenerated data, GB/s.
    pub verify_gb_per_s: f64,
    /// Setting up and undoing a trial's environment, seconds.
    pub setup_s: f64,
    /// The same of a trial that needs no swap, seconds.
    pub heap_setup_s: f64,
    /// Starting and ending a worker process, seconds.
    pub process_s: f64,
    /// From the end of a thrashing load until the machine is as before, seconds.
    pub recovery_s: f64,
}

impl Default for SpeedHints {
    fn default() -> Self {
        SpeedHints {
            fill_gb_per_s: 1.5,
            compress_gb_per_s: 0.35,
            decompress_gb_per_s: 0.45,
            disk_gb_per_s: 0.15,
            verify_gb_per_s: 2.0,
            setup_s: 0.7,
            heap_setup_s: 0.1,
            process_s: 0.03,
            recovery_s: 2.0,
        }
    }
}

/// What a plan will take, roughly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanEstimate {
    /// Most memory at any time: what the worker holds and what the store holds of it.
    pub peak_memory_bytes: u64,
    /// Most that swap files and mapped files take; the recording is not counted.
    pub disk_bytes: u64,
    /// Seconds in all.
    pub seconds: f64,
}

impl SpeedHints {
    /// Seconds of a trial that do not depend on its size.
    pub(super) fn rest_seconds(&self, settings: &Settings) -> f64 {
        match &settings.workload {
            Workload::Thrash(thrash) => {
                let processes = f64::from(thrash.consumers) * self.process_s;
                self.setup_s + processes + settings.hold + thrash.seconds() + self.recovery_s
            }
            Workload::Heap(_) => self.heap_setup_s + self.process_s + settings.hold,
            _ => self.setup_s + 2.0 * settings.hold,
        }
    }

    /// Seconds that one trial takes.
    pub fn trial_seconds(&self, settings: &Settings) -> f64 {
        match &settings.workload {
            // What its consumers do ends at a time, not with a number of bytes.
            Workload::Thrash(_) => self.rest_seconds(settings),
            Workload::Loadline(loadline) => self.loadline_seconds(settings, loadline),
            Workload::Map(map) => self.map_seconds(settings, map),
            Workload::Contention(_) => self.contention_seconds(settings),
            Workload::Wscap(wscap) => self.wscap_seconds(settings, wscap),
            Workload::Heap(heap) => self.heap_seconds(settings, heap),
            Workload::Compression => self.once(settings),
        }
    }

    /// Each way maps and touches twice, is checked once, and rests while lazy ways give nothing back.
    fn map_seconds(&self, settings: &Settings, map: &Map) -> f64 {
        let gb = settings.size as f64 / 1e9;
        let swap = settings.subject.has_swap();
        let ways = GiveBack::ALL
            .into_iter()
            .filter(|way| way.fits(map.mapping, swap));
        let each = ways.map(|way| {
            let lazy = way.leaves(map.mapping) == Left::Either
                || (map.mapping.has_file() && !matches!(way, GiveBack::Punch | GiveBack::Exit));
            let rest = if lazy { settings.hold } else { 0.0 };
            2.0 * gb / self.fill_gb_per_s + gb / self.verify_gb_per_s + rest
        });
        self.setup_s + each.sum::<f64>()
    }

    /// Blocks are allocated and freed once besides what is measured, and every thread is started.
    fn heap_seconds(&self, settings: &Settings, heap: &Heap) -> f64 {
        /// Seconds a block, allocated and freed by the slowest of allocators.
        const BLOCK_S: f64 = 0.1e-6;
        /// Seconds a thread, and of the generator's own cost that is measured besides.
        const THREAD_S: f64 = 100e-6;
        const OWN_S: f64 = 0.1;
        let blocks = heap.live() as f64 / heap.sizes.mean().max(1) as f64;
        let measured = match heap.load {
            HeapLoad::Aggressive => blocks * BLOCK_S,
            // Many times as much is allocated as is live.
            HeapLoad::Fragmentation => FRAGMENTATION_TURNS * blocks * BLOCK_S,
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Scaling => heap.duration,
        };
        self.rest_seconds(settings) + OWN_S + f64::from(heap.threads) * THREAD_S + blocks * BLOCK_S + measured
    }

    /// All is filled once and read twice, and what is over the limit goes to swap and comes back both times. A rest
    /// follows each ask.
    fn contention_seconds(&self, settings: &Settings) -> f64 {
        let total = settings.total();
        let asks = (total - settings.size) / settings.request.max(1);
        let over = Settings {
            size: total.saturating_sub(settings.limit),
            hold: 0.0,
            ..settings.clone()
        };
        let filled = total as f64 / 1e9;
        3.0 * self.once(&over)
            + filled / self.fill_gb_per_s
            + filled / self.verify_gb_per_s
            + settings.hold * (asks + 1) as f64
    }

    /// Memory that is filled, trimmed and restored once.
    fn once(&self, settings: &Settings) -> f64 {
        let gb = settings.size as f64 / 1e9;
        self.rest_seconds(settings)
            + gb / self.fill_gb_per_s
            + self.stored_seconds(settings, gb)
            + gb / self.verify_gb_per_s
    }

    /// Seconds in which so many gigabytes leave and come back.
    fn stored_seconds(&self, settings: &Settings, gb: f64) -> f64 {
        let both = |out: f64, back: f64| gb / out + gb / back;
        match &settings.subject {
            Subject::Zram(_) => both(self.compress_gb_per_s, self.decompress_gb_per_s),
            // zswap compresses, and in the worst case writes to the file behind it as well.
            Subject::Zswap(_) => {
                let miss = incompressible_share(&settings.class);
                both(self.compress_gb_per_s, self.decompress_gb_per_s)
                    + miss * both(self.disk_gb_per_s, self.disk_gb_per_s)
            }
            Subject::SwapFile => both(self.disk_gb_per_s, self.disk_gb_per_s),
            Subject::NoSwap | Subject::Allocator(_) => 0.0,
        }
    }

    /// A sweep of the load: each point fills its memory, sets and checks all pages, which at more than the limit moves
    /// them out and back each time, warms up and measures.
    fn loadline_seconds(&self, settings: &Settings, loadline: &Loadline) -> f64 {
        /// Starting and ending a worker.
        const WORKER_S: f64 = 0.3;
        let point = |load: f64| {
            let gb = load * settings.limit as f64 / 1e9;
            let moved = 2.0 * self.stored_seconds(settings, if load > 1.0 { gb } else { 0.0 });
            WORKER_S + 1.5 * loadline.duration + gb / self.fill_gb_per_s + moved
        };
        self.setup_s + loadline.usual_loads().map(point).sum::<f64>()
    }

    /// Three measured stretches; the working set goes out under the cap and once more when it is emptied.
    fn wscap_seconds(&self, settings: &Settings, wscap: &Wscap) -> f64 {
        let gb = settings.size as f64 / 1e9;
        let stretches = match settings.subject {
            Subject::NoSwap | Subject::Allocator(_) => wscap.duration,
            _ => 3.0 * wscap.duration + 2.0 * self.stored_seconds(settings, gb),
        };
        self.rest_seconds(settings) + gb / self.fill_gb_per_s + gb / self.verify_gb_per_s + stretches
    }
}

/// The share of its size that a class takes when compressed, roughly, as zram and zswap do it page by page.
fn incompressible_share(class: &FillClass) -> f64 {
    match class {
        FillClass::Random | FillClass::File(_) => 1.0,
        FillClass::Runs20 => 0.25,
        FillClass::Constant => 0.01,
        FillClass::Ratio(ratio) => 1.0 / ratio,
    }
}

impl TrialPlan {
    /// Most memory that the trial takes at any time: the worker's and the store's.
    fn peak_memory(&self) -> u64 {
        let settings = &self.settings;
        if let Workload::Heap(_) = settings.workload {
            return settings.size.saturating_mul(TAKEN_FOR_LIVE).min(settings.limit);
        }
        let total = settings.total();
        let worker = total.min(settings.limit);
        let stored = match settings.subject {
            // Pages of the consumers are resident or stored, and in the end random in every byte.
            Subject::Zram(_) | Subject::Zswap(_) if matches!(settings.workload, Workload::Thrash(_)) => {
                settings.size - worker
            }
            Subject::Zram(_) | Subject::Zswap(_) => {
                let stored = match settings.workload {
                    // Only what does not fit under the limit is stored.
                    Workload::Contention(_) => total.saturating_sub(settings.limit),
                    _ => total,
                };
                (stored as f64 * incompressible_share(&settings.class)) as u64
            }
            Subject::SwapFile | Subject::NoSwap | Subject::Allocator(_) => 0,
        };
        worker.saturating_add(stored)
    }

    /// Bytes of the trial's swap file, and of the file that it maps.
    fn disk(&self) -> u64 {
        let of = |is: bool, bytes: u64| if is { bytes } else { 0 };
        let settings = &self.settings;
        of(settings.has_swap_file(), settings.swap_size)
            .saturating_add(of(settings.maps_file(), settings.size))
    }
}

impl Plan {
    /// What the plan will take, roughly: calibration, start and report not counted.
    pub fn estimate(&self, hints: &SpeedHints) -> PlanEstimate {
        PlanEstimate {
            peak_memory_bytes: self.trials.iter().map(TrialPlan::peak_memory).max().unwrap_or(0),
            disk_bytes: self.trials.iter().map(TrialPlan::disk).max().unwrap_or(0),
            seconds: self
                .trials
                .iter()
                .map(|trial| hints.trial_seconds(&trial.settings))
                .sum(),
        }
    }
}
