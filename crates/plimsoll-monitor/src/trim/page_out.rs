//! Pages processes out, mapping by mapping, in steps between which it can stop.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_os::{Errno, Range};

use super::error::TrimError;
use super::holdings::Holdings;
use super::process::{Process, errno_as_error};

/// Bytes of one `process_madvise(2)` call, which blocks until the kernel has tried: about a second on a slow device.
const STEP: u64 = 64 << 20;
/// The same under a limit, which is checked after every step.
const STEP_TO_LIMIT: u64 = 2 << 20;

/// Result of paging out several processes.
pub(super) struct Pass {
    pub(super) done: Vec<Trimmed>,
    pub(super) failed: Vec<TrimError>,
    /// Bytes of address space passed to the kernel.
    pub(super) advised: u64,
    pub(super) interrupted: bool,
}

pub(super) struct Trimmed {
    pub(super) process: Process,
    pub(super) before: Holdings,
    pub(super) after: Holdings,
}

/// Pages the processes out one by one until `limit` bytes have left or `stop` becomes true.
pub(super) fn pass(processes: Vec<Process>, limit: Option<u64>, stop: &AtomicBool) -> Pass {
    let mut pass = Pass {
        done: Vec::new(),
        failed: Vec::new(),
        advised: 0,
        interrupted: false,
    };
    let mut budget = limit;
    for process in processes {
        if stop.load(Ordering::Acquire) {
            pass.interrupted = true;
            break;
        }
        if budget == Some(0) {
            break;
        }
        match one(&process, budget, stop, &mut pass.advised) {
            Ok((before, after)) => {
                let left = before.resident.saturating_sub(after.resident);
                budget = budget.map(|budget| budget.saturating_sub(left));
                pass.done.push(Trimmed {
                    process,
                    before,
                    after,
                });
            }
            Err(error) => pass.failed.push(error),
        }
    }
    pass.interrupted |= stop.load(Ordering::Acquire);
    pass
}

/// Pages one process out. Returns its holdings before and after.
fn one(
    process: &Process,
    limit: Option<u64>,
    stop: &AtomicBool,
    advised: &mut u64,
) -> Result<(Holdings, Holdings), TrimError> {
    let before = process.holdings()?;
    let mut ended = Ok(());
    let enough = |process: &Process| match limit {
        None => Ok(false),
        Some(limit) => Ok(before.resident.saturating_sub(process.resident()?) >= limit),
    };
    let mut proceed = || {
        !stop.load(Ordering::Acquire)
            && match enough(process) {
                Ok(enough) => !enough,
                Err(error) => {
                    ended = Err(error);
                    false
                }
            }
    };
    let step = if limit.is_some() { STEP_TO_LIMIT } else { STEP };
    for mapping in process.mappings()? {
        if !advise(process, mapping, step, &mut proceed, advised)? {
            break;
        }
    }
    ended?;
    Ok((before, process.holdings()?))
}

/// Advises on one mapping. Returns whether to continue with the next.
fn advise(
    process: &Process,
    mapping: Range,
    step: u64,
    proceed: &mut impl FnMut() -> bool,
    advised: &mut u64,
) -> Result<bool, TrimError> {
    let end = mapping.start + mapping.length;
    let mut start = mapping.start;
    while start < end {
        let range = Range {
            start,
            length: end - start,
        };
        match process.pidfd().page_out(&[range], step, |_| proceed()) {
            Ok(bytes) => {
                *advised += bytes;
                return Ok(bytes == range.length);
            }
            // The process has unmapped the range; the kernel has continued behind the hole.
            Err(error) if error.errno == Errno::NOMEM => {
                *advised += error.advised;
                start += error.advised + step;
            }
            // Locked memory, hugetlbfs pages and device memory cannot be reclaimed.
            Err(error) if error.errno == Errno::INVAL => {
                *advised += error.advised;
                return Ok(true);
            }
            Err(error) => {
                let source = errno_as_error(error.errno);
                return Err(TrimError::of_process(process.pid(), "page out", source));
            }
        }
    }
    Ok(true)
}
