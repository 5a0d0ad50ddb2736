//! Protection of the rest of the machine: safe sizes before a run, and a tripwire during it.
//!
//! Pure functions of numbers; nothing here reads the system.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use plimsoll_model::quantity::bytes;
use plimsoll_model::scenario::{Level, Machine, Settings, Subject};

const MIB: u64 = 1 << 20;

/// Least memory that the rest of the machine keeps.
const RESERVE_LEAST: u64 = 512 * MIB;
/// Share of RAM that the rest of the machine keeps at least, as a divisor (5 %).
const RESERVE_DIVISOR: u64 = 20;
/// Bytes that a worker and the runner need besides the fill: code, stacks, buffers, page tables of the recording.
const PROCESSES: u64 = 64 * MIB;
/// Page tables: 8 bytes a 4 KiB page.
const PAGE_TABLE_DIVISOR: u64 = 512;
/// A store of data that does not compress is larger than the data by its own bookkeeping; 1/16 covers zsmalloc's
/// size classes and handles.
const STORE_GROWTH_DIVISOR: u64 = 16;
/// zram's table (up to 32 bytes a 4 KiB page) and the kernel's swap map.
const ZRAM_TABLE_DIVISOR: u64 = 64;
/// A pager's page table and staging (1% of its memory).
const PAGER_TABLE_DIVISOR: u64 = 100;
/// The kernel's swap map and swap cgroup records (up to 8 bytes a page).
const SWAP_MAP_DIVISOR: u64 = 512;
/// zswap's pool limit in percent where the scenario does not set it: the kernel's default.
const ZSWAP_POOL_PERCENT: u64 = 20;

/// Bytes of memory that the rest of a machine with `ram` bytes keeps: 512 MiB or 5 %, whichever is more.
pub fn memory_reserve(ram: u64) -> u64 {
    (ram / RESERVE_DIVISOR).max(RESERVE_LEAST)
}

/// A trial that does not fit this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot run a size of {} on this machine: {why}; {}", bytes(*asked as f64), largest_clause(*largest, keys))]
pub struct TooLarge {
    pub asked: u64,
    /// The keys that the size follows from.
    pub keys: &'static [&'static str],
    /// Largest size in bytes that is safe, with `limit` and `swap_size` shrunk in proportion. 0 when none is.
    pub largest: u64,
    pub why: Misfit,
}

/// The requirement of a trial that a machine cannot meet. All numbers are bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misfit {
    #[error(
        "with `{subject}` it can take {} of memory, and {} stay reserved for the rest of the machine, but only {} are \
         available", bytes(*needed as f64), bytes(*reserve as f64), bytes(*available as f64)
    )]
    Memory {
        /// The subject, whose store takes RAM too.
        subject: Subject,
        /// The most that the trial can take.
        needed: u64,
        /// Reserve for the rest of the machine.
        reserve: u64,
        /// MemAvailable.
        available: u64,
    },
    /// The limit of our own cgroup.
    #[error(
        "{} of it would be resident, but the limit of plimsoll's own cgroup is {}",
        bytes(*resident as f64), bytes(*limit as f64)
    )]
    Cgroup { resident: u64, limit: u64 },
    /// The disk of the trial's files.
    #[error(
        "{takers} {} in {}, where {} are free besides the reserve",
        bytes(*needed as f64), folder.display(), bytes(*free as f64)
    )]
    Disk {
        /// The files, and their verb.
        takers: &'static str,
        /// The bytes of all of them.
        needed: u64,
        folder: PathBuf,
        /// Free bytes besides the reserve.
        free: u64,
    },
}

fn largest_clause(largest: u64, keys: &[&str]) -> String {
    let size = bytes(largest as f64);
    match (largest, keys) {
        (0, _) => "no size is safe now: free some memory first".to_owned(),
        (_, ["size"]) => format!(
            "the largest safe size is {size} (`--set size={}MiB`)",
            largest / MIB
        ),
        _ => format!(
            "the largest safe size is {size}: lower {}, from which it follows",
            keys.iter()
                .map(|key| format!("`{key}`"))
                .collect::<Vec<_>>()
                .join(" or ")
        ),
    }
}

/// Checks that a trial fits: the worst case of its memory (data that does not compress, stored while the rest is
/// still resident) and the reserve in MemAvailable, its resident part in the limit of the cgroups above, and its
/// swap file and the file that it maps in `disk_free` bytes (see [`disk_free`](super::disk_free); `None` skips that check).
///
/// # Errors
/// [`TooLarge`], with the largest size that fits.
pub fn safe_size(machine: &Machine, disk_free: Option<u64>, settings: &Settings) -> Result<(), TooLarge> {
    let total = settings.total();
    let ask = Ask {
        size: total,
        limit: settings.limit,
        swap: settings.swap_size,
    };
    let Err(why) = fits(machine, disk_free, settings, ask) else {
        return Ok(());
    };
    // A larger size does not fit either: bisect in MiB.
    let (mut low, mut high) = (0, total / MIB);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(machine, disk_free, settings, ask.scaled(middle * MIB)).is_ok() {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    // The size may fit with a smaller limit and swap, but the user set these. The total shrinks with the size.
    let share = u128::from(low) * u128::from(settings.size()) / u128::from(total.max(1));
    Err(TooLarge {
        asked: settings.size(),
        keys: settings.size_keys(),
        largest: u64::try_from(share).unwrap_or(low) * MIB,
        why,
    })
}

#[derive(Debug, Clone, Copy)]
struct Ask {
    size: u64,
    limit: u64,
    swap: u64,
}

impl Ask {
    /// The same with another size, and the others in proportion.
    fn scaled(self, size: u64) -> Ask {
        let scale = |value: u64| {
            let scaled = u128::from(value) * u128::from(size) / u128::from(self.size.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        Ask {
            size,
            limit: scale(self.limit),
            swap: scale(self.swap),
        }
    }

    fn resident(self) -> u64 {
        self.size.min(self.limit)
    }

    /// Most bytes of RAM that the trial can take.
    fn worst_memory(self, machine: &Machine, settings: &Settings) -> u64 {
        let grown = |bytes: u64| bytes.saturating_add(bytes / STORE_GROWTH_DIVISOR);
        let pages = match settings.subject {
            // A page is resident or in the store; for a moment both, which the growth covers.
            Subject::Zram(_) => grown(self.size).min(self.resident().saturating_add(grown(self.swap))),
            Subject::Zswap(_) => {
                let percent = settings
                    .zswap_pool_percent
                    .map_or(ZSWAP_POOL_PERCENT, u64::from)
                    .min(100);
                let pool = machine.ram / 100 * percent;
                grown(self.size).min(self.resident().saturating_add(pool))
            }
            // Pages that cannot be compressed stay in RAM.
            Subject::Pager(_) => grown(self.size),
            Subject::SwapFile | Subject::NoSwap | Subject::Allocator(_) => self.resident(),
        };
        let table = match settings.subject {
            Subject::Zram(_) => self.swap / ZRAM_TABLE_DIVISOR,
            Subject::Zswap(_) | Subject::SwapFile => self.swap / SWAP_MAP_DIVISOR,
            Subject::Pager(_) => self.size / PAGER_TABLE_DIVISOR,
            Subject::NoSwap | Subject::Allocator(_) => 0,
        };
        pages
            .saturating_add(table)
            .saturating_add(self.size / PAGE_TABLE_DIVISOR)
            .saturating_add(PROCESSES)
    }
}

fn fits(machine: &Machine, disk_free: Option<u64>, settings: &Settings, ask: Ask) -> Result<(), Misfit> {
    let reserve = memory_reserve(machine.ram);
    let needed = ask.worst_memory(machine, settings);
    let available = match settings.background {
        // Other levels make way for the trial.
        Some(level @ Level::Bytes(_)) => level.leaves(machine.ram, machine.available),
        _ => machine.available,
    };
    if needed.saturating_add(reserve) > available {
        return Err(Misfit::Memory {
            subject: settings.subject.clone(),
            needed,
            reserve,
            available,
        });
    }
    let resident = ask.resident().saturating_add(PROCESSES);
    if let Some(limit) = machine.cgroup_limit.filter(|&limit| resident > limit) {
        return Err(Misfit::Cgroup { resident, limit });
    }
    let swap = settings.has_swap_file().then_some(ask.swap);
    let mapped = settings.maps_file().then_some(ask.size);
    // A pager maps no file and has no swap.
    let (takers, needed) = match (swap, mapped) {
        (Some(swap), Some(mapped)) => (
            "its swap file and the file that it maps take",
            swap.saturating_add(mapped),
        ),
        (Some(swap), None) => ("its swap file takes", swap),
        (None, Some(mapped)) => ("the file that it maps takes", mapped),
        (None, None) => {
            let pager = settings.subject.pager();
            let page_file = pager.and_then(|pager| pager.page_file_bytes(ask.size));
            ("its page file takes", page_file.unwrap_or(0))
        }
    };
    match disk_free.filter(|&free| needed > free) {
        Some(free) => Err(Misfit::Disk {
            takers,
            needed,
            folder: settings.swap_dir.clone(),
            free,
        }),
        None => Ok(()),
    }
}

/// Aborts a run that starts to harm the rest of the machine.
///
/// It trips when MemAvailable is under the reserve; or when all tasks stalled for memory (PSI `full`) more than 60 %
/// of the last five seconds while MemAvailable is under twice the reserve. The second condition has two parts since
/// the system's PSI includes the pressure inside the run's own cgroup: high PSI with plenty of available memory is
/// the experiment itself.
#[derive(Debug, Clone)]
pub struct Tripwire {
    reserve: u64,
    /// Readings of the last seconds: time and PSI `full` total in microseconds.
    readings: VecDeque<(Duration, u64)>,
}

/// The cause of a stop that protects the machine; sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Trip {
    #[error(
        "only {} of memory are available, less than the reserve of {}",
        bytes(*available as f64), bytes(*reserve as f64)
    )]
    Reserve { available: u64, reserve: u64 },
    /// `share` of the last seconds, 0 to 1, was a stall of all tasks.
    #[error(
        "all tasks stalled for memory {:.0} % of the last {} s with only {} available (reserve {})",
        share * 100.0, Tripwire::WINDOW.as_secs(), bytes(*available as f64), bytes(*reserve as f64)
    )]
    Stalled {
        share: f64,
        available: u64,
        reserve: u64,
    },
}

impl Tripwire {
    /// Share of time stalled that is too much.
    const STALLED: f64 = 0.6;
    /// Time over which the share is taken.
    const WINDOW: Duration = Duration::from_secs(5);
    /// Readings closer together than this are not kept: the window then holds few enough of them.
    const SPACING: Duration = Duration::from_millis(100);

    /// A tripwire for a machine with `ram` bytes.
    pub fn new(ram: u64) -> Tripwire {
        Tripwire::with_reserve(memory_reserve(ram))
    }

    /// A tripwire that keeps `reserve` bytes.
    pub fn with_reserve(reserve: u64) -> Tripwire {
        Tripwire {
            reserve,
            readings: VecDeque::with_capacity(64),
        }
    }

    /// Looks at the machine at time `now` (any steady clock): MemAvailable in bytes, and the `total` of the `full`
    /// line of `/proc/pressure/memory` in microseconds, if any. Returns the cause to stop the run.
    pub fn check(
        &mut self,
        now: Duration,
        mem_available: u64,
        psi_full_total_us: Option<u64>,
    ) -> Option<Trip> {
        let stalled = psi_full_total_us.and_then(|total| self.stalled(now, total));
        if mem_available < self.reserve {
            return Some(Trip::Reserve {
                available: mem_available,
                reserve: self.reserve,
            });
        }
        let share = stalled.filter(|&share| share > Self::STALLED)?;
        (mem_available < 2 * self.reserve).then_some(Trip::Stalled {
            share,
            available: mem_available,
            reserve: self.reserve,
        })
    }

    /// Share of the window that was stalled, once a whole window has been seen.
    fn stalled(&mut self, now: Duration, total: u64) -> Option<f64> {
        // The oldest reading kept is the last one that is a whole window old.
        while self
            .readings
            .get(1)
            .is_some_and(|(time, _)| now.saturating_sub(*time) >= Self::WINDOW)
        {
            self.readings.pop_front();
        }
        let oldest = self.readings.front().copied();
        if self
            .readings
            .back()
            .is_none_or(|(time, _)| now.saturating_sub(*time) >= Self::SPACING)
        {
            self.readings.push_back((now, total));
        }
        let (time, before) = oldest?;
        let span = now.saturating_sub(time);
        (span >= Self::WINDOW).then(|| total.saturating_sub(before) as f64 / span.as_micros() as f64)
    }
}
