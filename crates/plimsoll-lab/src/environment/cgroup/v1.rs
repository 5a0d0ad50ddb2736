//! The memory controller of cgroup v1.

use std::path::Path;

use super::super::control_file::{read_field, read_number, write};
use super::super::error::EnvironmentError;
use super::{CgroupSettings, Patience, stepwise};

pub(super) const USAGE: &str = "memory.usage_in_bytes";
pub(super) const LIMIT: &str = "memory.limit_in_bytes";
const MEMORY_AND_SWAP_LIMIT: &str = "memory.memsw.limit_in_bytes";

/// Limits from here on mean "no limit": the kernel shows the largest multiple of the page size.
const UNLIMITED: u64 = i64::MAX as u64 - (1 << 20);

/// Attempts at lowering the limit that bring nothing before reclaim is over.
const FRUITLESS_ATTEMPTS: u32 = 3;

pub(super) fn configure(cgroup: &Path, settings: CgroupSettings) -> Result<(), EnvironmentError> {
    set(cgroup, LIMIT, settings.limit)?;
    // Kernels booted with `swapaccount=0` have no such limit.
    if !settings.swap && cgroup.join(MEMORY_AND_SWAP_LIMIT).exists() {
        set(cgroup, MEMORY_AND_SWAP_LIMIT, settings.limit)?;
    }
    if let Some(swappiness) = settings.swappiness {
        set(cgroup, "memory.swappiness", u64::from(swappiness))?;
    }
    Ok(())
}

pub(super) fn limit(cgroup: &Path) -> Result<Option<u64>, EnvironmentError> {
    let bytes = get(cgroup, LIMIT)?;
    Ok((bytes < UNLIMITED).then_some(bytes))
}

/// Sets the limit, which makes the kernel reclaim what is above it. False where it could not reclaim enough: the limit
/// is then as it was.
pub(super) fn set_limit(
    cgroup: &Path,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<bool, EnvironmentError> {
    lower(cgroup, bytes, patience)
}

pub(super) fn swap(cgroup: &Path) -> Result<Option<u64>, EnvironmentError> {
    let path = cgroup.join("memory.stat");
    read_field(&path, "swap").map_err(|source| EnvironmentError::reading(&path, source))
}

pub(super) fn oom_kills(cgroup: &Path) -> Result<u64, EnvironmentError> {
    let path = cgroup.join("memory.oom_control");
    let kills = read_field(&path, "oom_kill").map_err(|source| EnvironmentError::reading(&path, source))?;
    Ok(kills.unwrap_or(0))
}

/// Lowers the limit step by step by as much as is to go, which makes the kernel reclaim, and puts it back. The kernel refuses
/// (EBUSY) a limit that it cannot reach, having reclaimed what it could.
pub(super) fn reclaim(
    cgroup: &Path,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    let path = cgroup.join(LIMIT);
    let before = get(cgroup, LIMIT)?;
    let lowered = stepwise(bytes.min(used), patience, |step| {
        lower(cgroup, used - step.end, patience)
    });
    write(&path, &before.to_string())
        .map_err(|source| EnvironmentError::writing(&path, &before.to_string(), source))?;
    Ok((lowered?, LIMIT))
}

/// True when the limit was reached, false when the kernel could reclaim no more.
fn lower(cgroup: &Path, target: u64, patience: &Patience<'_>) -> Result<bool, EnvironmentError> {
    let limit = cgroup.join(LIMIT);
    let mut least = u64::MAX;
    let mut fruitless = 0;
    loop {
        match write(&limit, &target.to_string()) {
            Ok(()) => return Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EINTR)) => {}
            Err(source) => return Err(EnvironmentError::writing(&limit, &target.to_string(), source)),
        }
        patience.check()?;
        let used = get(cgroup, USAGE)?;
        fruitless = if used < least { 0 } else { fruitless + 1 };
        least = least.min(used);
        if fruitless >= FRUITLESS_ATTEMPTS {
            return Ok(false);
        }
    }
}

fn get(cgroup: &Path, name: &str) -> Result<u64, EnvironmentError> {
    let path = cgroup.join(name);
    read_number(&path).map_err(|source| EnvironmentError::reading(&path, source))
}

fn set(cgroup: &Path, name: &str, value: u64) -> Result<(), EnvironmentError> {
    let path = cgroup.join(name);
    write(&path, &value.to_string())
        .map_err(|source| EnvironmentError::writing(&path, &value.to_string(), source))
}
