//! The page file of the pager: the one that the user names, or one in the usual folder if that is on a disk.

use std::path::{Path, PathBuf};

use super::{MULTIPLE, SPACE_FOLDER};
use crate::cli::{Exec, PageFileArgument};
use crate::exec::{self, Lack, PageFile, Settings};
use plimsoll_lab::environment::disk_free;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_pager::BuildError;

/// Smallest and largest page file of a pager.
const LEAST: u64 = 1 << 20;
const MOST: u64 = 4 << 40;
/// A page file that the user did not ask for takes this part of the free space.
const SHARE_OF_FREE: u64 = 8;

/// The page file for a budget of `ram` bytes.
pub(super) fn of(options: &Exec, ram: u64) -> Result<Option<PageFile>, Failure> {
    let usual = ram.saturating_mul(MULTIPLE);
    match &options.page_file {
        Some(PageFileArgument::None) => Ok(None),
        Some(PageFileArgument::At { path, bytes }) => Ok(Some(PageFile {
            path: std::path::absolute(path).or_exit(Exit::Usage)?,
            bytes: bytes.unwrap_or_else(|| usual.clamp(LEAST, MOST)),
            is_required: true,
        })),
        None => {
            // Each process has a file of its own. A folder whose space is unknown is refused with its error later.
            let free = disk_free(Path::new(SPACE_FOLDER)).unwrap_or(0);
            Ok(Some(PageFile {
                path: PathBuf::from(SPACE_FOLDER),
                bytes: usual.min(free / SHARE_OF_FREE).clamp(LEAST, MOST),
                is_required: false,
            }))
        }
    }
}

/// Checks that a pager with these settings can be built here. Removes a page file that the user did not ask for, if it cannot
/// be created, and returns the reason.
pub(super) fn check(settings: &mut Settings) -> Result<Option<BuildError>, Lack> {
    let is_usual = settings.page_file.as_ref().is_some_and(|file| !file.is_required);
    match exec::check(settings) {
        Err(Lack::Pager(error @ BuildError::PageFile(_))) if is_usual => {
            settings.page_file = None;
            exec::check(settings)?;
            Ok(Some(error))
        }
        checked => checked.map(|()| None),
    }
}
