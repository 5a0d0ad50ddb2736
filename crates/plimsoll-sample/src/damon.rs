//! What DAMON's schemes say that they did.
//!
//! The kernel refreshes these files only when somebody writes `update_schemes_stats` to `state`, which changes the
//! system and is not the sampler's to do, or by itself every `refresh_ms` milliseconds (Linux 6.17). Otherwise they
//! stand still, at 0 from the start, however much memory DAMON pages out, so they count as not there.
//!
//! What always moves is the CPU time of the `kdamond` threads ([`super::kernel_threads`]). What DAMON pages out shows
//! in no `pgscan` or `pgsteal` counter: refaults (`workingset_refault_*`) that grow while those stand still are its mark.

use std::fs;
use std::path::{Path, PathBuf};

use super::fields::number;
use super::kept_file::KeptFile;
use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// The kept-open files of every scheme that keeps them alive.
pub(crate) struct Damon(Box<[Scheme]>);

struct Scheme {
    sz_applied: KeptFile,
    nr_applied: KeptFile,
}

impl Damon {
    /// Finds and opens them.
    pub(crate) fn open() -> Self {
        let schemes = numbered(Path::new(KDAMONDS))
            .filter(|kdamond| refreshes(kdamond))
            .flat_map(|kdamond| numbered(&kdamond.join("contexts")))
            .flat_map(|context| numbered(&context.join("schemes")))
            .map(|scheme| Scheme {
                sz_applied: KeptFile::open(scheme.join("stats/sz_applied")),
                nr_applied: KeptFile::open(scheme.join("stats/nr_applied")),
            })
            .collect();
        Damon(schemes)
    }

    /// Where the list lies, for locking.
    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

    /// Reads them into `row`.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for scheme in &self.0 {
            if let Some(bytes) = scheme.sz_applied.read(buffer).and_then(number) {
                row.add(col::DAMON_SZ_APPLIED, bytes);
            }
            if let Some(regions) = scheme.nr_applied.read(buffer).and_then(number) {
                row.add(col::DAMON_NR_APPLIED, regions);
            }
        }
    }
}

/// Whether the kernel itself brings the statistics of this kdamond up to date.
fn refreshes(kdamond: &Path) -> bool {
    fs::read(kdamond.join("refresh_ms"))
        .ok()
        .and_then(|text| number(&text))
        .is_some_and(|ms| ms > 0)
}

/// The folders 0, 1, 2, ... of `folder`.
fn numbered(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let folder = folder.to_owned();
    (0..)
        .map(move |number: u32| folder.join(number.to_string()))
        .take_while(|path| path.is_dir())
}
