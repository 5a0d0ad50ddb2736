//! The memory controller of cgroup v1.

use plimsoll_proc::cgroup::MemoryCgroup;

use super::super::error::EnvironmentError;
use super::patience::{Patience, stepwise};

/// Attempts at lowering the limit that bring nothing before reclaim is over.
const FRUITLESS_ATTEMPTS: u32 = 3;

/// Sets the limit, which makes the kernel reclaim the memory above it. False if it cannot reclaim enough: the limit
/// then stays.
pub(super) fn set_limit(
    cgroup: &MemoryCgroup,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<bool, EnvironmentError> {
    lower(cgroup, bytes, patience)
}

/// Lowers the limit step by step, which makes the kernel reclaim, and restores it. The kernel refuses (EBUSY) a limit
/// that it cannot reach, after a partial reclaim.
pub(super) fn reclaim(
    cgroup: &MemoryCgroup,
    used: u64,
    bytes: u64,
    patience: &Patience<'_>,
) -> Result<(bool, &'static str), EnvironmentError> {
    let before = cgroup.limit()?;
    let lowered = stepwise(bytes.min(used), patience, |step| {
        lower(cgroup, used - step.end, patience)
    });
    cgroup.restore_limit(before)?;
    Ok((lowered?, cgroup.version().limit_file()))
}

/// True when the limit was reached, false when the kernel could reclaim no more.
fn lower(cgroup: &MemoryCgroup, target: u64, patience: &Patience<'_>) -> Result<bool, EnvironmentError> {
    let mut least = u64::MAX;
    let mut fruitless = 0;
    loop {
        match cgroup.set_limit(target) {
            Ok(()) => return Ok(true),
            Err(error) if matches!(error.errno(), Some(libc::EBUSY | libc::EINTR)) => {}
            Err(error) => return Err(error.into()),
        }
        patience.check()?;
        let used = cgroup.usage()?;
        fruitless = if used < least { 0 } else { fruitless + 1 };
        least = least.min(used);
        if fruitless >= FRUITLESS_ATTEMPTS {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use plimsoll_proc::cgroup::CgroupVersion;

    use super::super::Cgroup;
    use super::*;

    /// A limit on memory alone would let the pages above it go to the swap of other programs.
    #[test]
    fn without_swap_the_limit_of_memory_and_swap_together_follows() {
        const LIMIT: &str = CgroupVersion::V1.limit_file();
        const BOTH: &str = "memory.memsw.limit_in_bytes";
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [
            (LIMIT, "1000"),
            (BOTH, "1000"),
            (CgroupVersion::V1.usage_file(), "0"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let cgroup = Cgroup::of(MemoryCgroup::new(folder.path(), CgroupVersion::V1));
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let go_on = AtomicBool::new(false);
        for limit in ["4000", "2000"] {
            cgroup
                .set_limit_without_swap(limit.parse().unwrap(), Duration::from_secs(1), &go_on)
                .unwrap();
            assert_eq!((read(LIMIT).as_str(), read(BOTH).as_str()), (limit, limit));
        }
    }
}
