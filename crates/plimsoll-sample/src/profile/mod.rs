//! Where a process spends its CPU time in the kernel: samples of its clock with their chains of callers, by perf
//! events.

mod records;

use std::collections::HashMap;
use std::io;
use std::ops::Range;

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag};

pub use plimsoll_proc::kallsyms::Symbols;
use records::{Entry, entry};

/// Nanoseconds of CPU time between two samples: about a thousand a second, and no multiple of the timer's period, so
/// that samples do not fall into step with it.
const PERIOD_NS: u64 = 1_003_001;
/// Bytes of the buffer that the kernel writes samples to: a second of the longest chains, and no more than users
/// without privileges may lock (`kernel.perf_event_mlock_kb`).
const BUFFER: usize = 256 << 10;
/// Functions that a profile names.
const NAMED: usize = 12;
/// Functions that handle a fault from its beginning, on x86 and arm64.
const FAULT_ENTRIES: &[&str] = &[
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_page_fault",
    "do_mem_abort",
    "handle_mm_fault",
];

/// Why no CPU time can be told apart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("cannot read /proc/kallsyms: {0}; mount /proc; the kernel needs CONFIG_KALLSYMS")]
    NoSymbols(io::Error),
    #[error(
        "cannot read /proc/kallsyms: the kernel hides its addresses; run as root, or set `sysctl kernel.kptr_restrict=0`"
    )]
    Hidden,
    /// Sampling the kernel is not allowed.
    #[error(
        "cannot sample the kernel (kernel.perf_event_paranoid is {paranoid}): {source}; run as root, or set \
         `sysctl kernel.perf_event_paranoid=1`"
    )]
    NotAllowed {
        /// The value of the sysctl.
        paranoid: String,
        source: io::Error,
    },
    /// There are no such events.
    #[error("cannot open a perf event: {0}; the kernel needs CONFIG_PERF_EVENTS")]
    Unavailable(io::Error),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// Samples, each of the same CPU time.
    pub samples: u64,
    /// Samples that the kernel dropped, and records that could not be read.
    pub lost: u64,
    /// Samples in the handling of a fault, in percent of all; absent without samples, or where the kernel's functions
    /// have other names.
    pub fault_path_percent: Option<f64>,
    /// The functions of the kernel in which most samples were, with their share of all in percent, largest first.
    pub functions: Vec<(String, f64)>,
}

/// Samples of one thread while they are taken.
pub struct Profiler {
    sampler: perf_event::Sampler,
    counts: Counts,
}

/// The functions of the running kernel.
///
/// # Errors
/// [`ProfileError::NoSymbols`] and [`ProfileError::Hidden`].
pub fn kernel_symbols() -> Result<Symbols, ProfileError> {
    Symbols::read()
        .map_err(ProfileError::NoSymbols)?
        .ok_or(ProfileError::Hidden)
}

impl Profiler {
    /// Samples the CPU time of the main thread of process `pid` from now on.
    ///
    /// # Errors
    /// [`ProfileError::NotAllowed`] and [`ProfileError::Unavailable`].
    pub fn start(pid: u32, symbols: &Symbols) -> Result<Profiler, ProfileError> {
        let opened = Builder::new(Software::CPU_CLOCK)
            // A process id is positive and far below 2^31.
            .observe_pid(pid as i32)
            .any_cpu()
            .include_kernel()
            .exclude_callchain_user(true)
            .sample_period(PERIOD_NS)
            .sample(SampleFlag::IP | SampleFlag::CALLCHAIN)
            .build()
            .and_then(|counter| counter.sampled(BUFFER))
            .and_then(|mut sampler| sampler.enable().map(|()| sampler));
        let sampler = opened.map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => ProfileError::NotAllowed {
                paranoid: plimsoll_proc::Tree::live()
                    .read(plimsoll_proc::sysctl::PERF_EVENT_PARANOID)
                    .unwrap_or_else(|| "unknown".to_owned()),
                source,
            },
            _ => ProfileError::Unavailable(source),
        })?;
        Ok(Profiler {
            sampler,
            counts: Counts {
                faults: FAULT_ENTRIES
                    .iter()
                    .filter_map(|name| symbols.range(name))
                    .collect(),
                ..Counts::default()
            },
        })
    }

    /// Takes over the samples since the last time. The buffer holds about a second.
    pub fn drain(&mut self) {
        while let Some(record) = self.sampler.next_record() {
            self.counts.add(record.ty(), &record.to_contiguous());
        }
    }

    pub fn finish(mut self, symbols: &Symbols) -> Profile {
        // Later samples do not count, so that an error here changes nothing.
        let _ = self.sampler.disable();
        self.drain();
        self.counts.profile(symbols)
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// Where the functions are that handle a fault.
    faults: Vec<Range<u64>>,
    samples: u64,
    in_fault: u64,
    lost: u64,
    /// Samples by the address at which the thread was in the kernel.
    at: HashMap<u64, u64>,
}

impl Counts {
    fn add(&mut self, kind: u32, body: &[u8]) {
        match entry(kind, body) {
            Some(Entry::Sample(sample)) => {
                self.samples += 1;
                let mut frames = sample.kernel_frames();
                if let Some(first) = frames.next() {
                    *self.at.entry(first).or_default() += 1;
                    let is_fault = |address: u64| self.faults.iter().any(|range| range.contains(&address));
                    // A caller's address is that after the call, which may be the end of its function.
                    if is_fault(first) || frames.any(|caller| is_fault(caller - 1)) {
                        self.in_fault += 1;
                    }
                }
            }
            Some(Entry::Lost(count)) => self.lost = self.lost.saturating_add(count),
            Some(Entry::Other) => {}
            None => self.lost = self.lost.saturating_add(1),
        }
    }

    fn profile(self, symbols: &Symbols) -> Profile {
        let percent = |count: u64| 100.0 * count as f64 / self.samples as f64;
        let mut by_name: HashMap<&str, u64> = HashMap::new();
        for (address, count) in &self.at {
            *by_name.entry(symbols.name(*address).unwrap_or("?")).or_default() += count;
        }
        let mut functions: Vec<(&str, u64)> = by_name.into_iter().collect();
        functions.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        functions.truncate(NAMED);
        Profile {
            samples: self.samples,
            lost: self.lost,
            fault_path_percent: (self.samples > 0 && !self.faults.is_empty()).then(|| percent(self.in_fault)),
            functions: functions
                .into_iter()
                .map(|(name, count)| (name.to_owned(), percent(count)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: u64 = 0x5555_0000_1000;

    fn symbols() -> Symbols {
        Symbols::parse(
            "ffffffff81000000 T exc_page_fault\nffffffff81000100 T do_swap_page\nffffffff81000200 t lz4\n\
             ffffffff81000300 T read\n",
        )
        .unwrap()
    }

    fn sample(ip: u64, chain: &[u64]) -> Vec<u8> {
        let words = [ip, chain.len() as u64].into_iter().chain(chain.iter().copied());
        words.flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn shares_are_of_all_samples_and_lost_samples_are_counted() {
        let symbols = symbols();
        let mut counts = Counts {
            faults: symbols.range("exc_page_fault").into_iter().collect(),
            ..Counts::default()
        };
        let kernel = |offset: u64| 0xffff_ffff_8100_0000 + offset;
        let marker = (-128_i64) as u64;
        // Twice in lz4 below a fault, of which one returns to the very end of its function; once in read; once in
        // user code.
        counts.add(
            9,
            &sample(
                kernel(0x210),
                &[marker, kernel(0x210), kernel(0x180), kernel(0x20)],
            ),
        );
        counts.add(9, &sample(kernel(0x220), &[marker, kernel(0x220), kernel(0x100)]));
        counts.add(9, &sample(kernel(0x310), &[marker, kernel(0x310)]));
        counts.add(9, &sample(USER, &[]));
        counts.add(2, &[0; 16]);
        counts.add(2, &[1_u64.to_ne_bytes(), 7_u64.to_ne_bytes()].concat());
        counts.add(9, &[1, 2, 3]);
        counts.add(5, &[]);
        let profile = counts.profile(&symbols);
        assert_eq!((profile.samples, profile.lost), (4, 8));
        assert_eq!(profile.fault_path_percent, Some(50.0));
        assert_eq!(
            profile.functions,
            [("lz4".to_owned(), 50.0), ("read".to_owned(), 25.0)]
        );
    }

    #[test]
    fn a_profile_without_samples_is_empty() {
        assert_eq!(Counts::default().profile(&symbols()), Profile::default());
    }
}
