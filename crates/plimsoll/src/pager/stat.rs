//! Reads the pagers of a running process.

use std::time::Instant;

use plimsoll_monitor::processes::{Depth, Process};
use plimsoll_os::MemoryError;
use plimsoll_pager::page::PAGE_SIZE;
use plimsoll_pager::published::{OpenError, Pagemap, PublishedPager};
use plimsoll_proc::process_memory::{FindError, Snapshot};
use plimsoll_sample::pagers;

use super::error::PagerStatError;
use super::model::{PageFileReport, PagerReport, PagerSurvey, PagerValidation, Values};

/// Reads the pagers of one process while it runs; checks every page of them if `check` is set.
///
/// # Errors
/// [`PagerStatError`] if the process does not exist, has no pager, or is unreadable.
pub fn stat(pid: u32, check: bool) -> Result<PagerSurvey, PagerStatError> {
    let name = Process::read(pid, Depth::Counters)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => PagerStatError::NoSuchProcess { pid },
            std::io::ErrorKind::PermissionDenied => PagerStatError::Denied { pid },
            _ => PagerStatError::Proc {
                path: format!("/proc/{pid}"),
                source,
            },
        })?
        .name;
    let records = pagers::records(pid).map_err(|error| find_error(pid, error))?;
    let start = Instant::now();
    let memory = Snapshot::new(pid);
    let mut survey = PagerSurvey::new(pid, name);
    for record in records {
        let pager = match PublishedPager::open(&memory, record) {
            Ok(pager) => pager,
            // The process has dropped it.
            Err(OpenError::NotAPager | OpenError::Memory(MemoryError::Unreadable { .. })) => continue,
            Err(error) => return Err(open_error(pid, &survey.name, record, error)),
        };
        let report = read(pid, &pager, check).map_err(|error| memory_error(pid, error))?;
        survey.pagers.push(report);
    }
    if survey.pagers.is_empty() {
        let name = survey.name;
        return Err(PagerStatError::NoPager { pid, name });
    }
    survey.took_us = start.elapsed().as_micros() as u64;
    Ok(survey)
}

fn read(pid: u32, pager: &PublishedPager<'_, Snapshot>, check: bool) -> Result<PagerReport, MemoryError> {
    let stats = pager.stats()?;
    let mapped = pager.mapped()?;
    let validation = match check {
        true => Some(validation(pid, pager)?),
        false => None,
    };
    Ok(PagerReport {
        record: pager.address() as u64,
        arena: pager.arena(),
        address_space_bytes: pager.address_space_pages().saturating_mul(PAGE_SIZE as u64),
        standby_pages_by_priority: stats.standby_pages,
        thrash_step: stats.thrash_step.name().to_owned(),
        values: Values { stats, mapped },
        page_file: stats.page_file.as_ref().map(PageFileReport::new),
        validation,
    })
}

fn validation(pid: u32, pager: &PublishedPager<'_, Snapshot>) -> Result<PagerValidation, MemoryError> {
    // Without it, states alone are checked.
    let pagemap = Pagemap::of(pid).ok();
    let found = pager.validate(pagemap.as_ref())?;
    Ok(PagerValidation {
        all_chunks: found.all_chunks,
        chunks: found.chunks,
        unsettled_chunks: found.unsettled_chunks,
        pages: found.pages,
        presence_checked: found.presence_checked,
        partial: found.partial,
        violations: found.violations.iter().map(ToString::to_string).collect(),
    })
}

fn find_error(pid: u32, error: FindError) -> PagerStatError {
    match error {
        FindError::NoProcess => PagerStatError::NoSuchProcess { pid },
        FindError::Ended => PagerStatError::Ended { pid },
        FindError::Denied => PagerStatError::Denied { pid },
        FindError::Unreadable(source) => PagerStatError::Unreadable { pid, source },
        FindError::Proc { path, source } => PagerStatError::Proc { path, source },
        error => PagerStatError::Proc {
            path: format!("/proc/{pid}/maps"),
            source: std::io::Error::other(error),
        },
    }
}

fn open_error(pid: u32, name: &str, record: usize, error: OpenError) -> PagerStatError {
    let name = name.to_owned();
    match error {
        OpenError::Memory(error) => memory_error(pid, error),
        OpenError::OtherLayout { found } => PagerStatError::OtherLayout { pid, name, found },
        source => PagerStatError::Damaged {
            pid,
            name,
            record,
            source,
        },
    }
}

fn memory_error(pid: u32, error: MemoryError) -> PagerStatError {
    match error {
        MemoryError::NoProcess => PagerStatError::Ended { pid },
        MemoryError::Denied => PagerStatError::Denied { pid },
        source => PagerStatError::Unreadable { pid, source },
    }
}
