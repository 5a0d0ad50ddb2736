//! The recording: every written entry is read, at every moment, after any cut or damage.

mod damage;
mod documents;
mod older_formats;
mod reported;
mod round_trip;
mod swapped;

use std::path::Path;

use plimsoll_model::recording::Recording;

pub(crate) use plimsoll_testkit::other_readers::read_by_others;
pub(crate) use plimsoll_testkit::recordings::{event, manifest, plan, results, rows, trial};

/// The samples of the recording in `folder` as CSV, for comparison with the values that another program reads.
pub(crate) fn csv_of(folder: &Path) -> Vec<u8> {
    let mut csv = Vec::new();
    plimsoll_report::export::csv(&Recording::open(folder).unwrap(), &mut csv).unwrap();
    csv
}

/// Whether stored recordings and tables of documents are written anew: `PLIMSOLL_BLESS=1`.
fn bless() -> bool {
    std::env::var_os("PLIMSOLL_BLESS").is_some_and(|value| value == "1")
}
