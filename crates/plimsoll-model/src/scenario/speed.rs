//! Speeds of a machine, to estimate times with.

use super::model::{FillClass, Subject};

/// Speeds to estimate with. The defaults are those of a slow two-core virtual machine; a runner that has
/// calibrated or finished trials replaces them by measured speeds.
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

impl SpeedHints {
    /// Seconds to fill, trim, restore and compare `bytes` of a class once.
    pub(super) fn once_seconds(&self, subject: &Subject, class: &FillClass, bytes: u64) -> f64 {
        self.fill_seconds(bytes) + self.stored_seconds(subject, class, bytes) + self.verify_seconds(bytes)
    }

    pub(super) fn fill_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e9 / self.fill_gb_per_s
    }

    /// Seconds to compare `bytes`.
    pub(super) fn verify_seconds(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e9 / self.verify_gb_per_s
    }

    /// Seconds to write `bytes` to a file and to read them back.
    pub(super) fn disk_seconds(&self, bytes: u64) -> f64 {
        2.0 * bytes as f64 / 1e9 / self.disk_gb_per_s
    }

    /// Seconds to trim and restore `bytes` of a class.
    pub(super) fn stored_seconds(&self, subject: &Subject, class: &FillClass, bytes: u64) -> f64 {
        let gb = bytes as f64 / 1e9;
        let both = |out: f64, back: f64| gb / out + gb / back;
        match subject {
            Subject::Zram(_) | Subject::Pager(_) => both(self.compress_gb_per_s, self.decompress_gb_per_s),
            // zswap compresses, and in the worst case writes to the file behind it as well.
            Subject::Zswap(_) => {
                let miss = class.stored_share();
                both(self.compress_gb_per_s, self.decompress_gb_per_s)
                    + miss * both(self.disk_gb_per_s, self.disk_gb_per_s)
            }
            Subject::SwapFile => self.disk_seconds(bytes),
            Subject::NoSwap | Subject::Allocator(_) => 0.0,
        }
    }
}

impl FillClass {
    /// The share of its size that the class takes when compressed, roughly, as zram and zswap do it page by page.
    pub(super) fn stored_share(&self) -> f64 {
        match self {
            FillClass::Random | FillClass::File(_) => 1.0,
            FillClass::Runs20 => 0.25,
            FillClass::Constant => 0.01,
            FillClass::Ratio(ratio) => 1.0 / ratio,
        }
    }
}
