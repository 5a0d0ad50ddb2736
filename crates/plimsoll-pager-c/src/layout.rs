//! The structures of the header. Members are added at the end alone: `size` says which of them a program has.

use plimsoll_pager::{Codec, Pager, PagerBuilder, Stats};

use crate::failure::Failure;

/// `plimsoll_pager_options_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Options {
    /// Bytes of the structure.
    pub size: usize,
    /// The budget in bytes, 0 for the default.
    pub ram: u64,
    /// Bytes of addresses, 0 for the default.
    pub address_space: u64,
    /// The codec.
    pub codec: u32,
    /// 0.
    pub reserved: u32,
}

impl Options {
    pub(crate) fn builder(&self) -> Result<PagerBuilder, Failure> {
        let codec = match self.codec {
            0 => Codec::Lz4,
            1 => Codec::Zstd,
            other => {
                return Err(Failure::invalid(format!(
                    "cannot create a pager: codec {other} is unknown"
                )));
            }
        };
        if self.reserved != 0 {
            return Err(Failure::invalid(
                "cannot create a pager: `reserved` is not 0; set it to 0",
            ));
        }
        let mut builder = Pager::builder().codec(codec);
        if self.ram > 0 {
            builder = builder.ram(self.ram);
        }
        if self.address_space > 0 {
            builder = builder.address_space(self.address_space);
        }
        Ok(builder)
    }
}

/// `plimsoll_pager_stats_t`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "the header describes the members")]
pub struct Figures {
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
}

impl Figures {
    pub(crate) fn new(stats: &Stats, size: usize) -> Figures {
        Figures {
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
        }
    }
}
