//! Releases reclaimable cache of the whole machine: page cache and slab that no working set holds (Windows: the standby
//! list).
//!
//! The kernel reclaims these caches by itself on demand, so a release makes nothing faster: dropped pages must be read
//! again. A release shows how much of the used memory was cache, and gives experiments the same start.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::machine::Machine;
use plimsoll_model::quantity::{bytes, change_of_bytes, seconds};

use plimsoll_proc::sysctl::{Caches, DROP_CACHES, drop_caches};

/// A step of a release. The variants are in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Writes dirty file pages to their files, since only clean ones can be dropped.
    Sync,
    /// Drops clean page cache that no process maps.
    PageCache,
    /// Drops cached inodes, directory entries and other kernel objects that can be rebuilt.
    Slab,
}

impl Action {
    pub fn interface(self) -> &'static str {
        match self {
            Action::Sync => "sync(2)",
            Action::PageCache => "1 into /proc/sys/vm/drop_caches",
            Action::Slab => "2 into /proc/sys/vm/drop_caches",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Step {
    pub action: Action,
    /// Most bytes that the step can release.
    pub bytes: u64,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = bytes(self.bytes as f64);
        match self.action {
            Action::Sync => write!(f, "write {size} of dirty pages to their files"),
            Action::PageCache => write!(
                f,
                "drop at most {size} of page cache; pages in use must be read again"
            ),
            Action::Slab => write!(f, "drop at most {size} of cached inodes and directory entries"),
        }?;
        write!(f, " ({})", self.action.interface())
    }
}

/// Plans a release. It leaves swap, compressed or not, and the memory of programs alone.
pub fn plan() -> Vec<Step> {
    let machine = Machine::now();
    let step = |action, level: i64| Step {
        action,
        bytes: level.max(0) as u64,
    };
    vec![
        step(Action::Sync, machine.dirty),
        step(Action::PageCache, machine.page_cache),
        step(Action::Slab, machine.reclaimable),
    ]
}

/// Result of a step: changes of the machine in bytes, including the activity of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StepReport {
    pub action: Action,
    pub seconds: f64,
    /// Change of dirty pages and pages under writeback.
    pub dirty: i64,
    /// Change of the page cache, without shared memory.
    pub page_cache: i64,
    /// Change of reclaimable kernel objects.
    pub reclaimable: i64,
    /// Change of free memory.
    pub free: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleaseReport {
    pub steps: Vec<StepReport>,
    /// Change of free memory over all steps, in bytes.
    pub free: i64,
    /// Whether `stop` ended the release between two steps.
    pub interrupted: bool,
}

/// One line for a log.
impl fmt::Display for ReleaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum =
            |level: fn(&StepReport) -> i64| change_of_bytes(self.steps.iter().map(level).sum::<i64>() as f64);
        write!(
            f,
            "released: free {}, page cache {}, reclaimable slab {}, dirty {}, in {}; dropped pages must be read again",
            change_of_bytes(self.free as f64),
            sum(|step| step.page_cache),
            sum(|step| step.reclaimable),
            sum(|step| step.dirty),
            seconds(self.steps.iter().map(|step| step.seconds).sum()),
        )?;
        if self.interrupted {
            f.write_str("; stopped before its end")?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// This user may not write the file.
    #[error(
        "cannot release reclaimable cache through {file}: {source}; only root may write it, and most containers mount it read-only: run \
         as root on the host"
    )]
    Denied { file: String, source: io::Error },
}

/// Executes `steps` in order. Checks `stop` between two steps: a running step cannot be stopped, and writing out much
/// dirty memory takes long.
///
/// # Errors
///
/// [`ReleaseError::Denied`] if this user may not. No step is then executed.
pub fn carry_out(steps: &[Step], stop: &AtomicBool) -> Result<ReleaseReport, ReleaseError> {
    carry_out_by(Path::new(DROP_CACHES), steps, stop)
}

fn carry_out_by(file: &Path, steps: &[Step], stop: &AtomicBool) -> Result<ReleaseReport, ReleaseError> {
    let denied = |source| ReleaseError::Denied {
        file: file.display().to_string(),
        source,
    };
    // Checked first, so that a release executes either all steps or none.
    OpenOptions::new().write(true).open(file).map_err(denied)?;
    let first = Machine::now();
    let mut report = ReleaseReport {
        steps: Vec::with_capacity(steps.len()),
        free: 0,
        interrupted: false,
    };
    let mut before = first;
    for step in steps {
        if stop.load(Ordering::Acquire) {
            report.interrupted = true;
            break;
        }
        let start = Instant::now();
        match step.action {
            Action::Sync => rustix::fs::sync(),
            Action::PageCache => drop_caches(file, Caches::Pages).map_err(denied)?,
            Action::Slab => drop_caches(file, Caches::Slab).map_err(denied)?,
        }
        let after = Machine::now();
        report.steps.push(StepReport {
            action: step.action,
            seconds: start.elapsed().as_secs_f64(),
            dirty: after.dirty - before.dirty,
            page_cache: after.page_cache - before.page_cache,
            reclaimable: after.reclaimable - before.reclaimable,
            free: after.free - before.free,
        });
        report.free = after.free - first.free;
        before = after;
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan without its sync, which would stall the whole machine.
    fn drops() -> Vec<Step> {
        let mut steps = plan();
        assert_eq!(steps.remove(0).action, Action::Sync);
        steps
    }

    #[test]
    fn a_release_writes_only_the_planned_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let never = AtomicBool::new(false);
        let steps = drops();
        let report = carry_out_by(file.path(), &steps[..1], &never).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "1");
        assert_eq!(report.steps[0].action, Action::PageCache);
        let report = carry_out_by(file.path(), &steps, &never).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "2");
        assert_eq!((report.steps.len(), report.interrupted), (2, false));
    }

    #[test]
    fn the_line_of_a_release_has_the_sums_of_its_steps() {
        let step = |action, seconds, dirty, page_cache, reclaimable| StepReport {
            action,
            seconds,
            dirty,
            page_cache,
            reclaimable,
            free: 0,
        };
        let mut report = ReleaseReport {
            steps: vec![
                step(Action::Sync, 1.0, -(3 << 20), 1 << 20, 0),
                step(Action::PageCache, 0.5, 1 << 20, -(9 << 20), -(1 << 20)),
                step(Action::Slab, 0.25, 0, 0, -(4 << 20)),
            ],
            free: 12 << 20,
            interrupted: false,
        };
        let line = "released: free +12.0 MiB, page cache \u{2212}8.00 MiB, reclaimable slab \u{2212}5.00 MiB, dirty \u{2212}2.00 MiB, in \
                    1.75 s; dropped pages must be read again";
        assert_eq!(report.to_string(), line);
        report.interrupted = true;
        assert_eq!(report.to_string(), format!("{line}; stopped before its end"));
    }

    #[test]
    fn a_release_stops_and_needs_permission() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let report = carry_out_by(file.path(), &drops(), &AtomicBool::new(true)).unwrap();
        assert!(report.interrupted && report.steps.is_empty());
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
        let ReleaseError::Denied { file, source } =
            carry_out_by(Path::new("/proc/version"), &drops(), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(file, "/proc/version");
        // EACCES, and EIO as root.
        assert!(source.raw_os_error().is_some(), "{source:?}");
    }

    #[test]
    fn a_plan_names_sizes_and_interfaces() {
        let steps = plan();
        assert!(steps.iter().any(|step| step.bytes > 0));
        for step in steps {
            assert!(
                step.to_string()
                    .ends_with(&format!("({})", step.action.interface()))
            );
        }
    }
}
