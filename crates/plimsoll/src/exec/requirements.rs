//! Requirements of the pager on this machine, checked before the program starts.

use plimsoll_model::exit::Exit;
use plimsoll_model::quantity;
use plimsoll_pager::{BuildError, Pager};
use plimsoll_proc::Tree;
use plimsoll_proc::resource_limits::Limits;

use super::settings::{self, Settings};

/// Bytes of addresses of the program's arena.
const ARENA: u64 = 256 << 30;

/// Bytes of addresses that the library reserves in the program, rounded up: the arena, its second mapping, its tables, and the
/// compressed store, which is larger than the budget.
fn addresses(ram: u64) -> u64 {
    (2 * ARENA + ARENA / 8).saturating_add(ram.saturating_mul(2))
}

/// Bytes of addresses of the trial pager.
const SMALL: u64 = 8 << 20;

/// A reason that no program can be managed here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Lack {
    #[error(
        "this plimsoll has no library for programs of glibc on x86-64; use a build for x86_64-unknown-linux-gnu"
    )]
    Target,
    #[error(
        "cannot reserve {} of addresses: RLIMIT_AS is {}; raise it (`ulimit -v unlimited`)",
        quantity::bytes(*.needed as f64), quantity::bytes(*.limit as f64)
    )]
    AddressSpace { needed: u64, limit: u64 },
    #[error(transparent)]
    Pager(#[from] BuildError),
}

impl Lack {
    /// The stable name in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Lack::Target => "target",
            Lack::AddressSpace { .. } | Lack::Pager(BuildError::AddressSpace { .. }) => "address-space",
            Lack::Pager(BuildError::Seccomp(_)) => "seccomp",
            Lack::Pager(BuildError::Sysctl(_)) => "sysctl",
            Lack::Pager(BuildError::NotBuilt) => "no-userfaultfd",
            Lack::Pager(BuildError::KernelTooOld { .. }) => "old-kernel",
            Lack::Pager(BuildError::TooLittleRam { .. }) => "ram-too-small",
            Lack::Pager(BuildError::PageFile(_)) => "page-file",
            Lack::Pager(_) => "pager",
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Lack::Target => Exit::Unsupported,
            Lack::Pager(BuildError::TooLittleRam { .. }) => Exit::Usage,
            _ => Exit::Missing,
        }
    }
}

/// Checks that a pager with these settings can be built here.
///
/// # Errors
/// [`Lack`].
pub fn check(settings: &Settings) -> Result<(), Lack> {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        return Err(Lack::Target);
    }
    let limits = Limits::parse(&Tree::live().bytes("proc/self/limits").unwrap_or_default());
    let limit = limits.address_space.and_then(|limit| limit.bytes());
    let needed = addresses(settings.ram);
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        return Err(Lack::AddressSpace { needed, limit });
    }
    let codec = match settings.codec {
        settings::Codec::Lz4 => plimsoll_pager::Codec::Lz4,
        settings::Codec::Zstd => plimsoll_pager::Codec::Zstd,
        settings::Codec::Auto => plimsoll_pager::Codec::Auto,
    };
    let mut pager = Pager::builder()
        .ram(settings.ram)
        .address_space(SMALL)
        .codec(codec);
    if let Some(file) = &settings.page_file {
        pager = pager.page_file(&file.path, file.bytes);
    }
    pager.build()?;
    Ok(())
}
