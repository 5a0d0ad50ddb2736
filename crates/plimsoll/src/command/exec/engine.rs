//! The choice of the engine.

use std::path::PathBuf;

use super::document::{self, EngineName, Event};
use super::{Engine, MULTIPLE, SPACE_FOLDER};
use crate::cli::{Exec, ExecEngine, SwapKind};
use plimsoll_lab::confined::{self, Unavailable};
use plimsoll_lab::environment::{OwnSwap, disk_free, machine};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::bytes;

/// The reason for the choice of an engine.
#[derive(Debug, thiserror::Error)]
pub(super) enum Reason {
    #[error("--engine names it")]
    Requested,
    #[error("--page-file and --codec are options of the pager")]
    PagerOption,
    #[error("--swap is an option of this engine")]
    SwapOption,
    /// This many bytes of swap are free.
    #[error("this user may create a memory cgroup, and {} of swap is free", bytes(*.0 as f64))]
    SwapFree(u64),
    /// The engine kernel cannot run the program.
    #[error(transparent)]
    Unavailable(Unavailable),
}

impl Reason {
    /// The stable name in JSON.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Reason::Requested => "requested",
            Reason::PagerOption => "pager-option",
            Reason::SwapOption => "swap-option",
            Reason::SwapFree(_) => "swap-free",
            Reason::Unavailable(unavailable) => unavailable.code(),
        }
    }
}

/// The engine that the options and the machine allow, for a budget of `ram` bytes.
pub(super) fn choose(options: &Exec, ram: u64) -> Result<Engine, Failure> {
    let of_pager = options.page_file.is_some() || options.codec.is_some();
    let swap = own_swap(options, ram)?;
    match options.engine {
        ExecEngine::Pager if swap.is_some() => {
            Err(usage("--swap with --engine pager: the pager uses no swap"))
        }
        ExecEngine::Pager => Ok(Engine::Pager {
            reason: Reason::Requested,
        }),
        ExecEngine::Kernel if of_pager => Err(usage(
            "--page-file or --codec with --engine kernel: they are options of the pager",
        )),
        ExecEngine::Kernel => kernel(options, swap, Reason::Requested),
        ExecEngine::Auto if of_pager => Ok(Engine::Pager {
            reason: Reason::PagerOption,
        }),
        ExecEngine::Auto if swap.is_some() => kernel(options, swap, Reason::SwapOption),
        ExecEngine::Auto => Ok(automatic()),
    }
}

fn usage(what: &str) -> Failure {
    Failure::message(Exit::Usage, format_args!("cannot use {what}; omit one of them"))
}

fn kernel(options: &Exec, swap: Option<OwnSwap>, reason: Reason) -> Result<Engine, Failure> {
    match confined::supply(swap.as_ref()) {
        Ok(supply) => Ok(Engine::Kernel { supply, swap, reason }),
        Err(unavailable) => {
            if options.json {
                document::print(&Event::Refused {
                    engine: EngineName::Kernel,
                    reason: unavailable.code(),
                    text: unavailable.to_string(),
                });
            }
            Err(Failure::message(
                Exit::Missing,
                format_args!(
                    "cannot use --engine kernel: {unavailable}; {}, or use --engine pager",
                    unavailable.remedy()
                ),
            ))
        }
    }
}

fn automatic() -> Engine {
    match confined::supply(None) {
        Ok(supply) => Engine::Kernel {
            supply,
            swap: None,
            reason: Reason::SwapFree(supply.swap),
        },
        Err(unavailable) => Engine::Pager {
            reason: Reason::Unavailable(unavailable),
        },
    }
}

/// The swap to turn on. By default it is a multiple of the RAM, at most half of the available RAM (zram) or of the free
/// space (a file).
fn own_swap(options: &Exec, ram: u64) -> Result<Option<OwnSwap>, Failure> {
    let Some(asked) = &options.swap else {
        return Ok(None);
    };
    let usual = ram.saturating_mul(MULTIPLE);
    Ok(Some(match &asked.kind {
        SwapKind::Zram(algorithm) => OwnSwap::Zram {
            algorithm: algorithm.clone(),
            bytes: match asked.bytes {
                Some(bytes) => bytes,
                None => usual.min(machine().or_exit(Exit::Missing)?.available / 2),
            },
        },
        SwapKind::File(folder) => {
            let folder = folder.clone().unwrap_or_else(|| PathBuf::from(SPACE_FOLDER));
            let bytes = match asked.bytes {
                Some(bytes) => bytes,
                None => usual.min(disk_free(&folder).or_exit(Exit::Missing)? / 2),
            };
            OwnSwap::File { folder, bytes }
        }
    }))
}
