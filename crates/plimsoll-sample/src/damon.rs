//! Counters of DAMON's schemes.
//!
//! The kernel refreshes these files only when a process writes `update_schemes_stats` to `state`, which changes the
//! system and is not the sampler's to do, or by itself every `refresh_ms` milliseconds (Linux 6.17). Otherwise they
//! stand still, at 0 from the start, however much memory DAMON pages out, so they count as not there.
//!
//! The CPU time of the `kdamond` threads ([`super::kernel_threads`]) always moves. Pages that DAMON pages out show
//! in no `pgscan` or `pgsteal` counter: refaults (`workingset_refault_*`) that grow while those stand still are its
//! mark.

use plimsoll_proc::fields::number;
use plimsoll_proc::{KeptFile, Tree, damon};

use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

/// The kept-open files of every scheme that keeps them alive.
pub(crate) struct Damon(Box<[Scheme]>);

struct Scheme {
    sz_applied: KeptFile,
    nr_applied: KeptFile,
}

impl Damon {
    pub(crate) fn open() -> Self {
        let tree = Tree::live();
        let schemes = damon::kdamonds(&tree)
            .into_iter()
            .filter(|kdamond| damon::refreshes_statistics(&tree, kdamond))
            .flat_map(|kdamond| damon::contexts(&tree, &kdamond))
            .flat_map(|context| damon::schemes(&tree, &context))
            .map(|scheme| Scheme {
                sz_applied: KeptFile::open(tree.path(&format!("{scheme}/stats/sz_applied"))),
                nr_applied: KeptFile::open(tree.path(&format!("{scheme}/stats/nr_applied"))),
            })
            .collect();
        Damon(schemes)
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.0)
    }

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
