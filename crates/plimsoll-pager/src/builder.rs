//! Building a pager.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_os::Errno;

use crate::driver::OpenError;
use crate::engine::{Engine, EngineError};
use crate::error::{BuildError, too_old};
use crate::page::PAGE_SIZE;
use crate::page_file::{PageFile, PageFileOptions};
use crate::pager::Pager;
use crate::saved::{FileTier, SavedCopies};
use crate::store;

/// The smallest budget: the store's tables and buffers, and some pages.
const LEAST_RAM: u64 = 4 << 20;

/// Options of a [`Pager`]; [`Pager::builder`] makes them.
#[derive(Debug, Clone)]
#[must_use]
pub struct PagerBuilder {
    ram: u64,
    address_space: u64,
    codec: Codec,
    store_cap: Option<u64>,
    page_file: Option<(PathBuf, u64)>,
    page_file_options: PageFileOptions,
}

/// The largest page file that saved copies can be in.
const LARGEST_PAGE_FILE: u64 = 4 << 40;

/// The codec of saved copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Codec {
    /// LZ4: fast.
    #[default]
    Lz4,
    /// Zstandard: dense.
    Zstd,
    /// LZ4 at first; the balance-set manager compresses idle copies again by Zstandard, those that were idle longest with
    /// their neighbours in groups of 16 KiB.
    Auto,
}

impl Pager {
    /// Options of a new pager.
    pub fn builder() -> PagerBuilder {
        PagerBuilder::new()
    }
}

impl PagerBuilder {
    fn new() -> PagerBuilder {
        PagerBuilder {
            ram: 1 << 30,
            address_space: 64 << 30,
            codec: Codec::default(),
            store_cap: None,
            page_file: None,
            page_file_options: PageFileOptions::default(),
        }
    }

    /// The budget, in bytes: pages of regions, the compression store and all metadata together. By default 1 GiB.
    pub fn ram(mut self, bytes: u64) -> PagerBuilder {
        self.ram = bytes;
        self
    }

    /// The addresses that the pager reserves for regions, in bytes; they cost nothing while untouched. By default 64 GiB.
    pub fn address_space(mut self, bytes: u64) -> PagerBuilder {
        self.address_space = bytes;
        self
    }

    /// The codec of saved copies. By default LZ4.
    pub fn codec(mut self, codec: Codec) -> PagerBuilder {
        self.codec = codec;
        self
    }

    /// The most bytes of the compression store, at least 1 MiB (NT's policy: 512 MiB for one kind of program). Beyond it
    /// copies move to the page file, those that were idle longest first. Without a page file, pages then keep their frames:
    /// trims stop, and the budget is exceeded if no other frame can be released. By default as much as the budget allows.
    pub fn store_cap(mut self, bytes: u64) -> PagerBuilder {
        self.store_cap = Some(bytes);
        self
    }

    /// A page file of up to `bytes`, 1 MiB to 4 TiB, for copies that the store cannot hold: in a folder on a disk, or at a path
    /// where nothing is. It is encrypted, has no name, and its blocks return to the file system when the process ends.
    pub fn page_file(mut self, path: impl Into<PathBuf>, bytes: u64) -> PagerBuilder {
        self.page_file = Some((path.into(), bytes));
        self
    }

    /// The means that the page file may use. By default all.
    pub fn page_file_options(mut self, options: PageFileOptions) -> PagerBuilder {
        self.page_file_options = options;
        self
    }

    /// Builds the pager, and installs the process's handler of SIGBUS if no pager did. Signals for other addresses go to
    /// the handler that was installed before; a handler that is installed later must do the same.
    ///
    /// # Errors
    /// [`BuildError`]; nothing is left behind.
    pub fn build(self) -> Result<Pager, BuildError> {
        let page = plimsoll_os::page_size();
        if page != PAGE_SIZE {
            return Err(BuildError::PageSize(page));
        }
        if self.ram < LEAST_RAM {
            return Err(BuildError::TooLittleRam {
                given: self.ram,
                least: LEAST_RAM,
            });
        }
        let no_addresses = |errno| BuildError::AddressSpace {
            bytes: self.address_space,
            errno,
        };
        let pages = u32::try_from(self.address_space.div_ceil(PAGE_SIZE as u64))
            .ok()
            .filter(|pages| *pages > 0 && *pages < u32::MAX - 2 * crate::page::CHUNK_PAGES)
            .ok_or(no_addresses(Errno::INVAL))?;
        let copies = self.saved_copies(no_addresses(Errno::NOMEM))?;
        let engine = Engine::new(pages, self.ram, copies).map_err(|error| match error {
            EngineError::Driver(OpenError::Refused(errno)) => refusal(errno, has_seccomp_filter()),
            EngineError::Driver(OpenError::Lacks(features)) => too_old(features),
            EngineError::Driver(OpenError::Failed(Errno::NOMEM)) => no_addresses(Errno::NOMEM),
            EngineError::TooManyPagers => BuildError::TooManyPagers,
            EngineError::Driver(OpenError::Failed(errno)) | EngineError::System(errno) => {
                BuildError::System(errno)
            }
        })?;
        Ok(Pager::new(Arc::new(engine)))
    }

    /// The store, and the page file.
    fn saved_copies(&self, no_addresses: BuildError) -> Result<SavedCopies, BuildError> {
        let cap = self.store_cap.unwrap_or(self.ram).min(self.ram);
        if cap < store::LEAST_LIMIT {
            return Err(BuildError::StoreCap {
                given: cap,
                least: store::LEAST_LIMIT,
            });
        }
        let store = store::Store::new(&store::StoreOptions {
            most: self.ram,
            limit: cap,
            first: match self.codec {
                Codec::Lz4 | Codec::Auto => store::FirstCodec::Lz4,
                Codec::Zstd => store::FirstCodec::Zstd,
            },
        });
        let mut copies = SavedCopies::new(store.map_err(|_| no_addresses.clone())?);
        if self.codec == Codec::Auto {
            copies = copies.with_recompression();
        }
        if let Some((path, bytes)) = &self.page_file {
            let bytes = (*bytes).min(LARGEST_PAGE_FILE);
            let (file, writer) = PageFile::create(path, bytes, self.page_file_options)?;
            let tier = FileTier::new(file, writer, self.ram).map_err(|_| no_addresses)?;
            copies = copies.with_file(tier);
        }
        Ok(copies)
    }
}

/// The cause of a refusal to open a userfaultfd.
fn refusal(errno: Errno, has_filter: bool) -> BuildError {
    match errno {
        // The flag for faults of user code alone is newer than the call.
        Errno::INVAL => BuildError::KernelTooOld {
            missing: "UFFD_USER_MODE_ONLY",
            since: "5.11",
        },
        _ if has_filter => BuildError::Seccomp(errno),
        Errno::NOSYS => BuildError::NotBuilt,
        Errno::PERM => BuildError::Sysctl(errno),
        _ => BuildError::System(errno),
    }
}

/// Whether a seccomp filter is on for this thread.
fn has_seccomp_filter() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use plimsoll_os::Errno;

    use super::{PagerBuilder, refusal};
    use crate::error::BuildError;

    #[test]
    fn a_refusal_names_its_cause() {
        let perm = Errno::PERM;
        assert_eq!(refusal(perm, true), BuildError::Seccomp(perm));
        assert_eq!(refusal(Errno::NOSYS, true), BuildError::Seccomp(Errno::NOSYS));
        assert_eq!(refusal(perm, false), BuildError::Sysctl(perm));
        assert_eq!(refusal(Errno::NOSYS, false), BuildError::NotBuilt);
        assert!(matches!(
            refusal(Errno::INVAL, false),
            BuildError::KernelTooOld { since: "5.11", .. }
        ));
    }

    #[test]
    fn impossible_options_are_refused() {
        let small = PagerBuilder::new().ram(1000).build();
        assert!(matches!(small, Err(BuildError::TooLittleRam { given: 1000, .. })));
        let wide = PagerBuilder::new().address_space(1 << 60).build();
        assert!(matches!(wide, Err(BuildError::AddressSpace { .. })));
    }
}
