//! The structures of the header. Members are added at the end alone: `size` says which of them a program has.
#![allow(unsafe_code, reason = "paths in the options of C programs")]

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use plimsoll_pager::pool::{Limits, Pool};
use plimsoll_pager::{
    AgeingState, Codec, FaultMode, Pager, PagerBuilder, Stats, ThrashControl, ThrashStep, page_file,
};

use crate::failure::Failure;

/// `PLIMSOLL_PAGER_NO_AGEING`.
const NO_AGEING: u32 = u32::MAX;

/// `plimsoll_pager_options_t`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    pub size: usize,
    pub ram: u64,
    pub address_space: u64,
    pub codec: u32,
    pub fault_mode: u32,
    pub most_ram: u64,
    pub store_cap: u64,
    pub page_file: *const c_char,
    pub page_file_bytes: u64,
    pub pool: *const c_char,
    pub pool_bytes: u64,
    pub pool_minimum: u64,
    pub pool_maximum: u64,
    pub pool_priority: u32,
    pub without_move: u32,
    pub ageing_ms: u32,
    pub thrash_control: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            size: 0,
            ram: 0,
            address_space: 0,
            codec: 0,
            fault_mode: 0,
            most_ram: 0,
            store_cap: 0,
            page_file: ptr::null(),
            page_file_bytes: 0,
            pool: ptr::null(),
            pool_bytes: 0,
            pool_minimum: 0,
            pool_maximum: 0,
            pool_priority: 0,
            without_move: 0,
            ageing_ms: 0,
            thrash_control: 0,
        }
    }
}

impl Options {
    /// The options of a pager with these members.
    ///
    /// # Safety
    /// `page_file` and `pool` are null or strings that end with a byte 0.
    pub(crate) unsafe fn builder(&self) -> Result<PagerBuilder, Failure> {
        let codec = match self.codec {
            0 => Codec::Lz4,
            1 => Codec::Zstd,
            2 => Codec::Auto,
            other => return Err(cannot_create(format!("codec {other} is unknown"))),
        };
        let fault_mode = match self.fault_mode {
            0 => FaultMode::Signal,
            1 => FaultMode::Thread,
            other => return Err(cannot_create(format!("the fault mode {other} is unknown"))),
        };
        // SAFETY: the caller's premise.
        let (page_file, pool) = unsafe { (path(self.page_file), path(self.pool)) };
        let mut builder = Pager::builder().codec(codec).fault_mode(fault_mode);
        if self.ram > 0 {
            builder = builder.ram(self.ram);
        }
        if self.most_ram > 0 {
            builder = builder.most_ram(self.most_ram);
        }
        if self.address_space > 0 {
            builder = builder.address_space(self.address_space);
        }
        if self.store_cap > 0 {
            builder = builder.store_cap(self.store_cap);
        }
        match page_file {
            Some(path) => builder = builder.page_file(path, self.page_file_bytes),
            None if self.page_file_bytes > 0 => {
                return Err(cannot_create(
                    "`page_file_bytes` is set without `page_file`; set both",
                ));
            }
            None => {}
        }
        if self.without_move != 0 {
            builder = builder.without_move();
        }
        builder = match self.ageing_ms {
            0 => builder,
            NO_AGEING => builder.ageing(None),
            window => builder.ageing(Some(Duration::from_millis(window.into()))),
        };
        builder = builder.thrash_control(match self.thrash_control {
            0 => ThrashControl::default(),
            1 => ThrashControl::Off,
            2 => ThrashControl::On,
            other => return Err(cannot_create(format!("the thrash control {other} is unknown"))),
        });
        match pool {
            Some(path) => self.join(builder, path),
            None if self.has_pool_limits() => Err(cannot_create(
                "limits of a pool are set without `pool`; set its path",
            )),
            None => Ok(builder),
        }
    }

    fn has_pool_limits(&self) -> bool {
        self.pool_bytes | self.pool_minimum | self.pool_maximum | u64::from(self.pool_priority) != 0
    }

    /// Joins the pool in the file `path`.
    fn join(&self, builder: PagerBuilder, path: &Path) -> Result<PagerBuilder, Failure> {
        if self.ram > 0 || self.most_ram > 0 {
            return Err(cannot_create(
                "the budget of a member of a pool is its grant; leave `ram` and `most_ram` 0",
            ));
        }
        let pool = match self.pool_bytes {
            0 => Pool::existing(path)?,
            total => Pool::at(path, total)?,
        };
        let default = Limits::default();
        let member = pool.join(Limits {
            minimum: self.pool_minimum,
            maximum: match self.pool_maximum {
                0 => default.maximum,
                maximum => maximum,
            },
            priority: match self.pool_priority {
                0 => default.priority,
                priority => u8::try_from(priority).unwrap_or(u8::MAX),
            },
        })?;
        Ok(builder.pool(member))
    }
}

fn cannot_create(reason: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!("cannot create a pager: {reason}"))
}

/// A path of the program.
///
/// # Safety
/// `text` is null or a string that ends with a byte 0 and outlives the result.
unsafe fn path<'t>(text: *const c_char) -> Option<&'t Path> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's premise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// `plimsoll_pager_stats_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Statistics {
    pub size: usize,
    pub ram: u64,
    pub resident_bytes: u64,
    pub store_bytes: u64,
    pub metadata_bytes: u64,
    pub native_pages: u64,
    pub active_pages: u64,
    pub modified_pages: u64,
    pub standby_pages: [u64; 8],
    pub compressed_pages: u64,
    pub page_file_pages: u64,
    pub pinned_pages: u64,
    pub forced_frames: u64,
    pub zero_faults: u64,
    pub soft_faults: u64,
    pub hard_faults: u64,
    pub stream_pages: u64,
    pub trimmed_pages: u64,
    pub saved_pages: u64,
    pub direct_reclaims: u64,
    pub refaults: u64,
    pub stall_us: u64,
    pub suspended_pages: u64,
    pub page_file_state: u64,
    pub page_file_bytes: u64,
    pub page_file_used_bytes: u64,
    pub page_file_written_bytes: u64,
    pub page_file_read_bytes: u64,
    pub ageing_state: u64,
    pub ageing_windows: u64,
    pub ageing_us: u64,
    pub heat_chunks: [u64; 8],
    pub thrash_step: u64,
    pub thrash_us: [u64; ThrashStep::ALL.len()],
    pub throttled_us: u64,
    pub worst_faulter_percent: u64,
    pub thrash_trials: u64,
    pub kept_trials: u64,
}

impl Statistics {
    pub(crate) fn new(stats: &Stats, size: usize) -> Statistics {
        let file = stats.page_file;
        Statistics {
            size,
            ram: stats.ram,
            resident_bytes: stats.resident_bytes(),
            store_bytes: stats.store_bytes,
            metadata_bytes: stats.metadata_bytes,
            native_pages: stats.native_pages,
            active_pages: stats.active_pages,
            modified_pages: stats.modified_pages,
            standby_pages: stats.standby_pages,
            compressed_pages: stats.compressed_pages,
            page_file_pages: stats.page_file_pages,
            pinned_pages: stats.pinned_pages,
            forced_frames: stats.forced_frames,
            zero_faults: stats.zero_faults,
            soft_faults: stats.soft_faults,
            hard_faults: stats.hard_faults,
            stream_pages: stats.stream_pages,
            trimmed_pages: stats.trimmed_pages,
            saved_pages: stats.saved_pages,
            direct_reclaims: stats.direct_reclaims,
            refaults: stats.refaults,
            stall_us: stats.stall_us,
            suspended_pages: stats.suspended_pages,
            page_file_state: match file.map(|file| file.state) {
                None => 0,
                Some(page_file::State::Writable) => 1,
                Some(page_file::State::Limited { .. }) => 2,
                Some(_) => 3,
            },
            page_file_bytes: file.map_or(0, |file| file.bytes),
            page_file_used_bytes: file.map_or(0, |file| file.used_bytes),
            page_file_written_bytes: file.map_or(0, |file| file.written_bytes),
            page_file_read_bytes: file.map_or(0, |file| file.read_bytes),
            ageing_state: match stats.ageing {
                AgeingState::Off => 0,
                AgeingState::On => 1,
                _ => 2,
            },
            ageing_windows: stats.ageing_windows,
            ageing_us: stats.ageing_us,
            heat_chunks: stats.heat_chunks,
            thrash_step: stats.thrash_step as u64,
            thrash_us: stats.thrash_us,
            throttled_us: stats.throttled_us,
            worst_faulter_percent: stats.worst_faulter_percent,
            thrash_trials: stats.thrash_trials,
            kept_trials: stats.kept_trials,
        }
    }
}
