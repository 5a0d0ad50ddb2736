//! Requirements of a cgroup with swap on this machine.

use std::fs;
use std::path::PathBuf;

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, HierarchyError, MemoryCgroup};
use plimsoll_proc::meminfo;

use crate::environment::{Missing, MissingKind, OwnSwap, cgroup_missing};

/// The means of a machine on which a program can be confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Supply {
    pub version: CgroupVersion,
    /// Bytes of swap that are free, or that are turned on for it.
    pub swap: u64,
}

/// Why no program can be confined here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    #[error("{} is missing", .0.what)]
    Missing(Missing),
    #[error(transparent)]
    Hierarchy(#[from] HierarchyError),
    #[error("no swap is on")]
    NoSwap,
    #[error("the swap is full")]
    SwapFull,
    #[error("the cgroup {} may not use swap", .0.display())]
    SwapForbidden(PathBuf),
}

impl Unavailable {
    /// The stable name in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Unavailable::Missing(missing) => match missing.kind {
                MissingKind::Cgroup => "no-cgroup",
                MissingKind::Privilege => "no-privilege",
                _ => "swap-unavailable",
            },
            Unavailable::Hierarchy(_) => "no-cgroup",
            Unavailable::NoSwap => "no-swap",
            Unavailable::SwapFull => "swap-full",
            Unavailable::SwapForbidden(_) => "swap-forbidden",
        }
    }

    pub fn remedy(&self) -> &str {
        match self {
            Unavailable::Missing(missing) => &missing.how,
            Unavailable::Hierarchy(_) => "boot with the memory controller enabled",
            Unavailable::NoSwap | Unavailable::SwapFull => {
                "turn more swap on (`swapon`) as root, or use --swap"
            }
            Unavailable::SwapForbidden(_) => "allow it swap (v2: memory.swap.max, v1: memory.swappiness)",
        }
    }
}

/// The means to confine a program here, with swap of its own or that of the machine. Changes nothing.
///
/// # Errors
/// [`Unavailable`].
pub fn supply(own: Option<&OwnSwap>) -> Result<Supply, Unavailable> {
    let swap = match own {
        Some(own) => turned_on(own)?,
        None => free()?,
    };
    if let Some(missing) = cgroup_missing() {
        return Err(Unavailable::Missing(missing));
    }
    let hierarchy = Hierarchy::of_this_process()?;
    match forbidding(&hierarchy) {
        Some(path) => Err(Unavailable::SwapForbidden(path)),
        None => Ok(Supply {
            version: hierarchy.version,
            swap,
        }),
    }
}

/// Bytes of the swap that can be turned on.
fn turned_on(own: &OwnSwap) -> Result<u64, Unavailable> {
    match own.missing().into_iter().next() {
        Some(missing) => Err(Unavailable::Missing(missing)),
        None => Ok(own.bytes()),
    }
}

/// Free bytes of the machine's swap.
fn free() -> Result<u64, Unavailable> {
    let text = fs::read(meminfo::PATH).unwrap_or_default();
    let field = |name: &str| meminfo::bytes(&text, name).unwrap_or(0);
    match (field("SwapTotal"), field("SwapFree")) {
        (0, _) => Err(Unavailable::NoSwap),
        (_, 0) => Err(Unavailable::SwapFull),
        (_, free) => Ok(free),
    }
}

/// The cgroup on the way to the root that keeps the pages of its children out of swap. A child of v1 takes its parent's
/// swappiness at its making.
fn forbidding(hierarchy: &Hierarchy) -> Option<PathBuf> {
    let own = match hierarchy.version {
        CgroupVersion::V1 => 1,
        CgroupVersion::V2 => usize::MAX,
    };
    let mut above = hierarchy.ancestors().take(own);
    let found = above.find(|path| MemoryCgroup::new(*path, hierarchy.version).forbids_swap())?;
    Some(found.to_owned())
}
