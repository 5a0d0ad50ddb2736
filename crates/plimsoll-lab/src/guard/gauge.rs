//! Readings of the scope: stalls and refaults since the reading before, and the room for the candidates.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_proc::cgroup::{CgroupVersion, Field, MemoryCgroup};
use plimsoll_proc::{ControlError, Tree, meminfo, psi, vmstat};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::detector::Pressure;
use super::error::GuardError;
use super::members::Look;
use super::order::GroupId;
use super::scope::Scope;

/// The kernel wakes the guard after 0.2 s of stalls within 2 s. Without CAP_SYS_RESOURCE only windows of whole 2 s are allowed.
const TRIGGER: &str = "some 200000 2000000";
/// Stall of one refault, where the kernel counts no stalls.
const FAULT: f64 = 100e-6;

#[derive(Debug)]
pub(super) struct Gauge {
    group: Option<MemoryCgroup>,
    /// The file with the stalls; `None` where the kernel counts none.
    stalls: Option<PathBuf>,
    /// A pressure file with a trigger; `None` where the kernel gives none.
    trigger: Option<File>,
    before: Option<Counters>,
    /// Refaults of the throttled cgroups at the last reading.
    throttled: BTreeMap<GroupId, u64>,
    /// Whether the cgroup may have processes that the scope has not.
    is_shared: bool,
}

#[derive(Debug, Clone, Copy)]
struct Counters {
    at: Instant,
    stalled_us: Option<u64>,
    refaults: u64,
}

impl Gauge {
    pub(super) fn new(scope: &Scope) -> Result<Gauge, GuardError> {
        let group = scope.group().cloned();
        // v1 counts stalls for the machine alone; the refaults of the cgroup then tell its own.
        let own = group
            .as_ref()
            .and_then(|group| Some(group.file(group.version().pressure_file()?)));
        let stalls = own.unwrap_or_else(|| PathBuf::from(psi::MEMORY));
        let stalls = Some(stalls).filter(|path| stalled_us(path).is_some());
        let mut gauge = Gauge {
            trigger: stalls.as_deref().and_then(arm),
            group,
            stalls,
            before: None,
            throttled: BTreeMap::new(),
            is_shared: scope.is_tree(),
        };
        gauge.read(BTreeMap::new())?;
        Ok(gauge)
    }

    /// The pressure since the reading before. The refaults of throttled cgroups, by their folders, do not count: they are the
    /// work of the guard.
    pub(super) fn read(&mut self, throttled: BTreeMap<GroupId, PathBuf>) -> Result<Pressure, GuardError> {
        let refaults = |folder| refaults_of(&MemoryCgroup::new(folder, CgroupVersion::V2)).ok();
        let throttled = throttled
            .into_iter()
            .filter_map(|(id, folder)| Some((id, refaults(folder)?)));
        let throttled: BTreeMap<GroupId, u64> = throttled.collect();
        let grown = |(id, now): (&GroupId, &u64)| Some(now.saturating_sub(*self.throttled.get(id)?));
        let own: u64 = throttled.iter().filter_map(grown).sum();
        if let Some(before) = &mut self.before {
            before.refaults = before.refaults.saturating_add(own);
        }
        self.throttled = throttled;
        let now = Counters {
            at: Instant::now(),
            stalled_us: self.stalls.as_deref().and_then(stalled_us),
            refaults: self.refaults()?,
        };
        let pressure = self.before.map(|before| pressure(&before, &now));
        self.before = Some(now);
        Ok(pressure.unwrap_or_default())
    }

    fn refaults(&self) -> Result<u64, GuardError> {
        let Some(group) = &self.group else {
            return Ok(vmstat::refaults(&Tree::live()).unwrap_or(0));
        };
        refaults_of(group).map_err(unreadable)
    }

    /// Waits for stalls at most so long. Returns whether there were some; `None` without a trigger, at once.
    pub(super) fn wait_for_stalls(&mut self, most: Duration) -> Option<bool> {
        let trigger = self.trigger.as_ref()?;
        let mut fds = [PollFd::new(trigger, PollFlags::PRI)];
        let timeout = Timespec::try_from(most).ok()?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Some(false),
            Ok(_) if fds[0].revents().contains(PollFlags::ERR) => {
                // The cgroup was removed, or its accounting turned off.
                self.trigger = None;
                None
            }
            Ok(_) => Some(true),
            Err(_) => {
                self.trigger = None;
                None
            }
        }
    }

    /// Bytes of RAM for the candidates: those that they have, and those that are free or easily freed.
    pub(super) fn room(&self, look: &Look) -> Result<u64, GuardError> {
        let held: u64 = look.candidates.iter().map(|one| one.resident).sum();
        let available = meminfo::read(&Tree::live(), "MemAvailable").unwrap_or(0);
        let machine = available.saturating_add(held);
        let Some(group) = &self.group else {
            return Ok(machine);
        };
        let limits = [group.limit().map_err(unreadable)?, group.high().ok().flatten()];
        let Some(limit) = limits.into_iter().flatten().min() else {
            return Ok(machine);
        };
        let stat = group.stat().map_err(unreadable)?;
        let field = |field| stat.get(field).unwrap_or(0);
        let pages = field(Field::Anon).saturating_add(field(Field::File));
        // Page tables and other memory of the kernel.
        let kernel = group.usage().map_err(unreadable)?.saturating_sub(pages);
        let others = match self.is_shared {
            true => field(Field::Anon).saturating_sub(held),
            false => look.exempt_resident,
        };
        let room = limit.saturating_sub(kernel).saturating_sub(others);
        Ok(room.min(machine))
    }
}

/// Refaults of a cgroup and those below it.
fn refaults_of(group: &MemoryCgroup) -> Result<u64, ControlError> {
    let stat = group.stat()?;
    let fields = [Field::RefaultsAnon, Field::RefaultsFile];
    Ok(fields.into_iter().filter_map(|field| stat.get(field)).sum())
}

fn unreadable(error: ControlError) -> GuardError {
    GuardError::Unreadable(error)
}

fn stalled_us(path: &Path) -> Option<u64> {
    let (some, _) = psi::totals(&std::fs::read(path).ok()?);
    some?.try_into().ok()
}

/// Opens the pressure file and sets a trigger.
fn arm(path: &Path) -> Option<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    // The kernel wants the NUL.
    file.write_all(format!("{TRIGGER}\0").as_bytes()).ok()?;
    Some(file)
}

fn pressure(before: &Counters, now: &Counters) -> Pressure {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
    if seconds <= 0.0 {
        return Pressure::default();
    }
    let refaults = now.refaults.saturating_sub(before.refaults) as f64;
    let stalled = match now.stalled_us.zip(before.stalled_us) {
        Some((now, before)) => now.saturating_sub(before) as f64 / 1e6,
        None => FAULT * refaults,
    };
    Pressure {
        stalled: (stalled / seconds).min(1.0),
        refaults_per_s: refaults / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_growth_over_time() {
        let at = Instant::now();
        let counters = |seconds, stalled_us, refaults| Counters {
            at: at + Duration::from_secs(seconds),
            stalled_us,
            refaults,
        };
        let before = counters(1, Some(500), 100);
        let found = pressure(&before, &counters(3, Some(1_000_500), 1100));
        assert_eq!((found.stalled, found.refaults_per_s), (0.5, 500.0));
        let uncounted = pressure(&counters(1, None, 100), &counters(2, None, 5100));
        assert!((uncounted.stalled - 0.5).abs() < 1e-9);
        assert_eq!(pressure(&before, &before), Pressure::default());
        let back = pressure(&before, &counters(2, Some(0), 0));
        assert_eq!(back, Pressure::default(), "counters that went back");
    }

    #[test]
    fn the_machine_has_room_for_what_candidates_hold() {
        let gauge = Gauge::new(&Scope::Machine).unwrap();
        let room = gauge.room(&Look::default()).unwrap();
        let ram = meminfo::read(&Tree::live(), "MemTotal").unwrap();
        assert!(room > 0 && room <= ram);
    }
}
