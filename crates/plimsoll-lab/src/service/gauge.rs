//! Readings of a service: its memory, its stalls, its refaults.

use std::io;
use std::time::{Duration, Instant};

use plimsoll_model::recording::service::PressureSignal;
use plimsoll_proc::cgroup::{CgroupVersion, Field, MemoryCgroup, MemoryStat};
use plimsoll_proc::{ControlError, meminfo, psi};

use super::controller::Reading;

/// Time in which a page that comes back stalls a task, at least: from zram.
const LEAST_FAULT: Duration = Duration::from_micros(10);
/// And at most, where only the machine's PSI is known, which has the stalls of other programs too: from a solid-state disk.
const MOST_FAULT: Duration = Duration::from_micros(100);

/// Counters of the kernel at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    /// Time in which tasks stalled, of the cgroup or of the machine.
    stalled: Option<Duration>,
    /// Refaulted pages.
    refaults: u64,
    /// Allocations that met the limit (v1); `None` while the kernel does not count them.
    limit_hits: Option<u64>,
}

pub(super) struct Gauge {
    group: MemoryCgroup,
    signal: PressureSignal,
    page: u64,
    start: Instant,
    before: Counters,
    stalled: Duration,
}

impl Gauge {
    /// # Errors
    /// When the files of the cgroup cannot be read.
    pub(super) fn new(group: MemoryCgroup) -> Result<Gauge, ControlError> {
        let signal = match group.version() {
            CgroupVersion::V2 if group.stalled_us().is_some() => PressureSignal::Cgroup,
            CgroupVersion::V1 if machine_stalled().is_some() => PressureSignal::Machine,
            _ => PressureSignal::Refaults,
        };
        let mut gauge = Gauge {
            group,
            signal,
            page: rustix::param::page_size() as u64,
            start: Instant::now(),
            before: Counters::default(),
            stalled: Duration::ZERO,
        };
        let stat = gauge.group.stat()?;
        gauge.before = gauge.counters(&stat);
        Ok(gauge)
    }

    pub(super) fn signal(&self) -> PressureSignal {
        self.signal
    }

    /// # Errors
    /// When the files of the cgroup cannot be read.
    pub(super) fn read(&mut self) -> Result<Reading, ControlError> {
        let stat = self.group.stat()?;
        let now = self.counters(&stat);
        self.stalled += stall(self.signal, &self.before, &now);
        self.before = now;
        Ok(Reading {
            at: self.start.elapsed(),
            usage: self.group.usage()?,
            stalled: self.stalled,
            refaulted: now.refaults.saturating_mul(self.page),
            unreclaimable: unreclaimable(&stat, self.swap_room()),
            waiting: match self.group.version() {
                CgroupVersion::V1 => self.group.oom_control()?.waiting,
                CgroupVersion::V2 => false,
            },
        })
    }

    fn counters(&self, stat: &MemoryStat) -> Counters {
        let field = |field| stat.get(field).unwrap_or(0);
        Counters {
            stalled: match self.signal {
                PressureSignal::Cgroup => self.group.stalled_us().map(Duration::from_micros),
                PressureSignal::Machine => machine_stalled(),
                _ => None,
            },
            refaults: field(Field::RefaultsAnon).saturating_add(field(Field::RefaultsFile)),
            limit_hits: match self.group.version() {
                CgroupVersion::V1 => self.group.limit_hits().ok().flatten(),
                CgroupVersion::V2 => None,
            },
        }
    }

    /// Bytes that its pages may take in swap besides those that they take now.
    fn swap_room(&self) -> u64 {
        if self.group.forbids_swap() {
            return 0;
        }
        let free = std::fs::read(meminfo::PATH)
            .ok()
            .and_then(|text| meminfo::bytes(&text, "SwapFree"))
            .unwrap_or(0);
        let own = self.group.swap_limit().map_or(u64::MAX, |limit| {
            let used = self.group.swap().ok().flatten().unwrap_or(0);
            limit.saturating_sub(used)
        });
        free.min(own)
    }
}

fn machine_stalled() -> Option<Duration> {
    let text = std::fs::read(psi::MEMORY).ok()?;
    let (some, _) = psi::totals(&text);
    some.map(|us| Duration::from_micros(us.unsigned_abs()))
}

/// Time in which tasks of the cgroup stalled between two readings.
///
/// A refault stalls a task for a while, also where PSI counts nothing. The PSI of the machine bounds the stalls of the
/// cgroup from above, and so does the number of its events.
fn stall(signal: PressureSignal, before: &Counters, now: &Counters) -> Duration {
    let grown = |before: u64, now: u64| u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
    let refaults = grown(before.refaults, now.refaults);
    // Below a lowered limit the kernel begins to count.
    let hits = before.limit_hits.zip(now.limit_hits);
    let events = refaults.saturating_add(hits.map_or(0, |(before, now)| grown(before, now)));
    let counted = now
        .stalled
        .zip(before.stalled)
        .map(|(now, before)| now.saturating_sub(before));
    let most = MOST_FAULT.saturating_mul(events);
    let stalled = match (signal, counted) {
        (PressureSignal::Machine, Some(counted)) => counted.min(most),
        (_, Some(counted)) => counted,
        (_, None) => most,
    };
    stalled.max(LEAST_FAULT.saturating_mul(refaults))
}

/// Bytes that the kernel cannot reclaim while swap takes no more than `room`.
fn unreclaimable(stat: &MemoryStat, room: u64) -> u64 {
    let field = |field| stat.get(field).unwrap_or(0);
    let swappable = field(Field::Anon).saturating_add(field(Field::Shmem));
    field(Field::Unevictable).max(swappable.saturating_sub(room))
}

/// True for the error of a removed cgroup.
pub(super) fn is_gone(error: &ControlError) -> bool {
    error.io().kind() == io::ErrorKind::NotFound || error.errno() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(stalled_us: Option<u64>, refaults: u64, limit_hits: u64) -> Counters {
        Counters {
            stalled: stalled_us.map(Duration::from_micros),
            refaults,
            limit_hits: Some(limit_hits),
        }
    }

    /// Other programs stall for long: the cgroup that met no limit has no share in it.
    #[test]
    fn stalls_of_other_programs_are_not_the_services() {
        use PressureSignal::{Cgroup, Machine, Refaults};
        let us = Duration::from_micros;
        let start = counters(Some(0), 0, 0);
        for (signal, now, expected) in [
            (Machine, counters(Some(900_000), 0, 0), us(0)),
            (Machine, counters(Some(900_000), 3, 0), us(300)),
            (Machine, counters(Some(900_000), 0, 2), us(200)),
            (Machine, counters(Some(50), 3, 2), us(50)),
            (Machine, counters(Some(0), 3, 2), us(30)),
            (Cgroup, counters(Some(900_000), 0, 0), us(900_000)),
            (Cgroup, counters(Some(0), 3, 0), us(30)),
            (Refaults, counters(None, 3, 1), us(400)),
        ] {
            assert_eq!(stall(signal, &start, &now), expected, "{signal:?} {now:?}");
        }
        // The hits of the past became known when the cap sank: a spike, in each attempt.
        for (signal, counted) in [(Machine, Some(900_000)), (Refaults, None)] {
            let known = counters(counted, 0, 1_000_000);
            let unknown = Counters {
                limit_hits: None,
                ..counters(counted.map(|_| 0), 0, 0)
            };
            assert_eq!(stall(signal, &unknown, &known), us(0), "{signal:?}");
            assert_eq!(stall(signal, &known, &unknown), us(0), "{signal:?}");
        }
        let later = counters(Some(100), 10, 10);
        assert_eq!(stall(Machine, &later, &start), us(0), "counters that went back");
    }

    #[test]
    fn memory_without_room_in_swap_cannot_be_reclaimed() {
        let text = b"anon 1000\nshmem 500\nfile 900\nunevictable 300\n";
        let stat = MemoryStat::parse(text, CgroupVersion::V2);
        for (room, expected) in [(0, 1500), (600, 900), (1400, 300), (u64::MAX, 300)] {
            assert_eq!(unreclaimable(&stat, room), expected, "room {room}");
        }
    }
}
