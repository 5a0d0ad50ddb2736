//! A run that never happened, computed second by second: memory, swap, faults and pressure as experiments make them.

use std::collections::BTreeMap;

use plimsoll_model::recording::Levels;
use plimsoll_model::recording::model::{Phase, Trial, TrialStatus};
use plimsoll_report::analysis::gauges::Panel;
use plimsoll_report::{Series, Timeline};

pub(super) const MIB: f64 = 1048576.0;
pub(crate) const MEM_TOTAL: f64 = 24.0 * 1024.0 * MIB;

/// Data that does not repeat itself over a run and is the same in every run of the test.
pub(crate) struct Noise(pub u64);

impl Noise {
    /// Uniform from 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normal: mean 0, deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Length and effect of the run's parts.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Repeats of each class.
    pub repeats: u32,
    /// Seconds a trial.
    pub trial_s: f64,
    /// Buckets of the overview.
    pub overview: usize,
    /// Buckets of a trial's timeline.
    pub detail: usize,
    /// Bytes of the target.
    pub size: f64,
}

/// A minute at 10 Hz.
pub(crate) const QUICK: Shape = Shape {
    repeats: 3,
    trial_s: 4.0,
    overview: 400,
    detail: 40,
    size: 256.0 * MIB,
};
/// An hour at 100 Hz, which is 360 000 samples, in the buckets that such a run is reduced to.
pub(crate) const HOUR: Shape = Shape {
    repeats: 30,
    trial_s: 40.0,
    overview: 2000,
    detail: 180,
    size: 4096.0 * MIB,
};

struct Class {
    name: &'static str,
    ratio: f64,
    fill: f64,
    trim: f64,
    restore: f64,
}

/// Speeds are shares of a trial.
const CLASSES: [Class; 3] = [
    Class {
        name: "random",
        ratio: 1.0,
        fill: 0.08,
        trim: 0.20,
        restore: 0.17,
    },
    Class {
        name: "runs20",
        ratio: 3.91,
        fill: 0.06,
        trim: 0.14,
        restore: 0.12,
    },
    Class {
        name: "constant",
        ratio: 215.0,
        fill: 0.03,
        trim: 0.06,
        restore: 0.05,
    },
];

/// Start of each event and end of its phase, in seconds of the trial.
fn phases_of(class: &Class, shape: &Shape, factor: f64) -> [(&'static str, f64, f64); 4] {
    let s = shape.trial_s;
    let fill = 0.08 * s;
    let trim = 0.30 * s;
    let restore = 0.62 * s;
    [
        ("fill", fill, class.fill * s * factor),
        ("trim", trim, class.trim * s * factor),
        ("restore", restore, class.restore * s * factor),
        ("release", 0.9 * s, 0.01 * s),
    ]
}

/// Share of the target that is resident and share that is stored, at a second of the trial.
fn level(at: f64, phases: &[(&'static str, f64, f64); 4]) -> (f64, f64) {
    let progress = |index: usize| ((at - phases[index].1) / phases[index].2).clamp(0.0, 1.0);
    let (fill, trim, restore, release) = (progress(0), progress(1), progress(2), progress(3));
    let resident = (fill - trim + restore) * (1.0 - release);
    // zram frees its copies when the restored pages become dirty or free, a little later than the read.
    let stored = (trim - restore * 0.9) * (1.0 - release);
    (resident.max(0.0), stored.max(0.0))
}

/// A run, computed second by second.
pub(crate) struct Simulation {
    shape: Shape,
    /// Class, repeat and slowness of each trial, in order.
    pub order: Vec<(usize, u32, f64)>,
}

impl Simulation {
    pub(crate) fn new(shape: Shape) -> Simulation {
        let mut noise = Noise(7);
        let mut order = Vec::new();
        for repeat in 1..=shape.repeats {
            for place in 0..3 {
                order.push(((place + repeat as usize) % 3, repeat, 0.85 + 0.4 * noise.next()));
            }
        }
        Simulation { shape, order }
    }

    fn id(&self, index: usize) -> String {
        let (class, repeat, _) = self.order[index];
        format!("zram/zram:lzo-rle/{}#{repeat}", CLASSES[class].name)
    }

    pub(super) fn timeline(&self, trial: Option<usize>, buckets: usize) -> Timeline {
        let s = self.shape.trial_s;
        let (from, to) = match trial {
            Some(index) => (index as f64 * s, (index + 1) as f64 * s),
            None => (0.0, self.order.len() as f64 * s),
        };
        let mut noise = Noise(42 + trial.unwrap_or(0) as u64);
        let mut line = Timeline {
            trial: trial.map(|index| self.id(index)),
            ..Timeline::default()
        };
        let mut columns: BTreeMap<&'static str, Vec<Option<f64>>> = BTreeMap::new();
        for bucket in 0..buckets {
            let t = from + (to - from) * bucket as f64 / buckets as f64;
            line.t.push(t);
            let missed = trial.is_none() && bucket % 97 == 60;
            for (key, value) in self.sample(t, &mut noise) {
                columns.entry(key).or_default().push((!missed).then_some(value));
            }
        }
        let mut take = |keys: &[(&'static str, &str)]| -> Vec<Series> {
            let series = |(key, label): &(&'static str, &str)| Series {
                key: key.trim_start_matches("cpu ").to_owned(),
                label: (*label).to_owned(),
                values: columns.remove(key).unwrap_or_default(),
                peaks: Vec::new(),
            };
            keys.iter().map(series).collect()
        };
        line.layers = take(&[
            ("kernel", "kernel"),
            ("target", "target"),
            ("other", "other processes"),
            ("compressed", "compressed"),
            ("swap_cache", "swap cache"),
            ("dirty", "dirty/writeback"),
            ("page_cache", "page cache"),
            ("slab_reclaimable", "reclaimable slab"),
            ("free", "free"),
            ("unaccounted", "unaccounted"),
        ]);
        let io = [
            ("swap-in", "swap in"),
            ("swap-out", "swap out"),
            ("disk-in", "disk in"),
            ("disk-out", "disk out"),
        ];
        let faults = [("minor", "minor"), ("major", "major"), ("refault", "refault")];
        let pressure = [
            ("memory-some", "memory some"),
            ("memory-full", "memory full"),
            ("io-some", "I/O some"),
            ("cpu-some", "CPU some"),
        ];
        let cpu = [
            ("user", "user"),
            ("system", "system"),
            ("iowait", "I/O wait"),
            ("steal", "steal"),
        ];
        line.panels = vec![
            (Panel::Swap, take(&[("zram1", "zram1")])),
            (Panel::Io, take(&io)),
            (Panel::Faults, take(&faults)),
            (Panel::Pressure, take(&pressure)),
            (Panel::Cpu, take(&cpu)),
        ];
        line
    }

    pub(crate) fn sample(&self, t: f64, noise: &mut Noise) -> Vec<(&'static str, f64)> {
        let s = self.shape.trial_s;
        let index = ((t / s) as usize).min(self.order.len() - 1);
        let (class, _, factor) = self.order[index];
        let class = &CLASSES[class];
        let phases = phases_of(class, &self.shape, factor);
        let at = t - index as f64 * s;
        let (resident, stored) = level(at, &phases);
        let busy = phases
            .iter()
            .position(|(_, from, length)| at >= *from && at < from + length);
        let target = resident * self.shape.size;
        let compressed = stored * self.shape.size / class.ratio;
        let page = |value: f64| (value / 4096.0).round() * 4096.0;
        let mut layers = vec![
            ("kernel", page(900.0 * MIB + 4.0 * MIB * noise.next())),
            ("unaccounted", page(310.0 * MIB)),
            ("target", page(target)),
            (
                "other",
                page(3200.0 * MIB + 60.0 * MIB * noise.next() + 200.0 * MIB * (t / 30.0).sin()),
            ),
            ("compressed", page(compressed)),
            (
                "swap_cache",
                page(if busy == Some(1) || busy == Some(2) {
                    14.0 * MIB * noise.next()
                } else {
                    0.0
                }),
            ),
            ("dirty", page(2.0 * MIB * noise.next())),
            ("page_cache", page(6100.0 * MIB)),
            ("slab_reclaimable", page(800.0 * MIB)),
        ];
        let used: f64 = layers.iter().map(|(_, value)| value).sum();
        layers.push(("free", MEM_TOTAL - used));
        let rate = |phase: usize| {
            if busy == Some(phase) {
                self.shape.size / phases[phase].2 * (0.9 + 0.2 * noise_of(t))
            } else {
                0.0
            }
        };
        let (out, back) = (rate(1), rate(2));
        let working = if busy.is_some() { 1.0 } else { 0.0 };
        layers.extend([
            ("zram1", page(stored * self.shape.size)),
            ("swap-in", back),
            ("swap-out", out),
            (
                "disk-in",
                if index.is_multiple_of(4) {
                    0.4 * MIB * noise.next()
                } else {
                    0.0
                },
            ),
            ("disk-out", 1.5 * MIB * noise.next()),
            ("minor", 300.0 + rate(0) / 4096.0),
            ("major", back / 4096.0 / 8.0),
            ("refault", back / 4096.0),
            (
                "memory-some",
                if busy == Some(2) {
                    18.0 + 6.0 * noise.next()
                } else {
                    0.0
                },
            ),
            (
                "memory-full",
                if busy == Some(2) {
                    8.0 + 3.0 * noise.next()
                } else {
                    0.0
                },
            ),
            ("io-some", 0.4 * noise.next()),
            ("cpu-some", 4.0 + 12.0 * working * noise.next()),
            (
                "user",
                6.0 + 3.0 * noise.next() + if busy == Some(0) { 40.0 } else { 0.0 },
            ),
            (
                "system",
                3.0 + 2.0 * noise.next()
                    + if working > 0.0 && busy != Some(0) {
                        42.0
                    } else {
                        0.0
                    },
            ),
            ("iowait", 0.5 * noise.next()),
            ("steal", 1.0 + 2.0 * noise.next()),
        ]);
        layers
    }

    /// A trial as it would have been measured.
    pub(super) fn trial(&self, index: usize) -> Trial {
        let (class_index, repeat, factor) = self.order[index];
        let class = &CLASSES[class_index];
        let start = index as f64 * self.shape.trial_s;
        let phases = phases_of(class, &self.shape, factor);
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let state = |at: f64| -> Levels {
            self.sample(start + at, &mut Noise(3))
                .into_iter()
                .take(10)
                .map(|(key, value)| (key, value as i64))
                .collect()
        };
        let speed = |index: usize| self.shape.size / phases[index].2 / 1e9;
        let list = phases.iter().map(|(name, from, length)| {
            let seconds = length * 1.0;
            Phase {
                name: (*name).to_owned(),
                span_ns: (ns(start + from), ns(start + from + length)),
                seconds,
                bytes: self.shape.size as u64,
                gb_per_s: self.shape.size / seconds / 1e9,
                cpu_user_s: if *name == "fill" {
                    seconds * 0.8
                } else {
                    seconds * 0.05
                },
                cpu_system_s: seconds * 0.4,
                cpu_kernel_threads_s: seconds * 0.02,
                minor_faults: (self.shape.size / 4096.0) as u64,
                major_faults: if *name == "restore" {
                    (self.shape.size / 32768.0) as u64
                } else {
                    0
                },
                before: state(*from - 0.01),
                after: state(from + length + 0.01),
                ..Phase::default()
            }
        });
        Trial {
            id: self.id(index),
            workload: "compression".to_owned(),
            lists: BTreeMap::new(),
            subject: "zram:lzo-rle".to_owned(),
            params: BTreeMap::from([
                ("class".to_owned(), class.name.to_owned()),
                ("size".to_owned(), (self.shape.size as u64).to_string()),
                ("trim".to_owned(), "worker".to_owned()),
            ]),
            repeat,
            status: TrialStatus::Ok,
            reasons: Vec::new(),
            untrustworthy: Default::default(),
            failures: Vec::new(),
            other_programs: Vec::new(),
            verified: true,
            span_ns: (ns(start), ns(start + self.shape.trial_s)),
            phases: list.collect(),
            metrics: BTreeMap::from([
                ("fill_gb_per_s".to_owned(), speed(0)),
                ("trim_gb_per_s".to_owned(), speed(1)),
                ("restore_gb_per_s".to_owned(), speed(2)),
                ("stored_bytes".to_owned(), self.shape.size / class.ratio * 1.02),
                ("compression_ratio".to_owned(), class.ratio),
                ("stored_ratio".to_owned(), class.ratio / 1.02),
                ("trim_to_memcpy_ratio".to_owned(), speed(1) / 11.3),
                ("restore_to_read_ratio".to_owned(), speed(2) / 14.2),
            ]),
        }
    }
}

fn noise_of(t: f64) -> f64 {
    (t * 12.9898).sin().abs()
}
