//! Building a pager. It parses the line `Seccomp` itself, as a program that links the pager shall not get `plimsoll-proc`
//! and its dependencies for one line.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_os::Errno;

use crate::driver::{DriverOptions, FaultMode, OpenError};
use crate::engine::{Engine, EngineError, Funds, LEAST_GRANT, LEAST_RAM};
use crate::error::{BuildError, too_old};
use crate::manager::{ThrashControl, WINDOW};
use crate::page::{CHUNK_PAGES, PAGE_SIZE};
use crate::page_file::{NewFile, PageFileOptions};
use crate::pager::Pager;
#[cfg(not(loom))]
use crate::pool::Member;
use crate::saved::{FilePlan, FileTier, SavedCopies};
#[cfg(not(loom))]
use crate::share;
use crate::store;

/// The arena begins at a multiple of this number of bytes.
const ARENA_ALIGNMENT: usize = CHUNK_PAGES as usize * PAGE_SIZE;

/// Options of a [`Pager`]; [`Pager::builder`] makes them.
#[derive(Debug)]
#[must_use]
pub struct PagerBuilder {
    ram: u64,
    most_ram: u64,
    #[cfg(not(loom))]
    member: Option<Member>,
    #[cfg(not(loom))]
    forks_outside: Option<u64>,
    address_space: u64,
    copies: CopiesOptions,
    driver: DriverOptions,
    ageing: Option<Duration>,
    thrash_control: ThrashControl,
}

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
            most_ram: 0,
            #[cfg(not(loom))]
            member: None,
            #[cfg(not(loom))]
            forks_outside: None,
            address_space: 64 << 30,
            copies: CopiesOptions::default(),
            driver: DriverOptions::default(),
            ageing: Some(WINDOW),
            thrash_control: ThrashControl::default(),
        }
    }

    /// The budget, in bytes: pages of regions, the compressed store and all metadata together. By default 1 GiB.
    pub fn ram(mut self, bytes: u64) -> PagerBuilder {
        self.ram = bytes;
        self
    }

    /// The largest budget that [`Pager::set_ram`] will set, in bytes: the compressed store reserves addresses for that. By
    /// default that of [`PagerBuilder::ram`].
    pub fn most_ram(mut self, bytes: u64) -> PagerBuilder {
        self.most_ram = bytes;
        self
    }

    /// Takes the budget from a pool: the grants of `member` instead of [`PagerBuilder::ram`]. The member leaves the pool with
    /// the end of the pager. Its minimum must hold the store's tables and some pages: at least [`LEAST_GRANT`].
    #[cfg(not(loom))]
    pub fn pool(mut self, member: Member) -> PagerBuilder {
        self.member = Some(member);
        self
    }

    /// Gives a child of [`Pager::fork`] that cannot join its parent's pool a fixed budget of `bytes`, at least 4 MiB, beside that of the
    /// pool. By default such a child does not have the regions.
    #[cfg(not(loom))]
    pub fn forks_outside_of_pool(mut self, bytes: u64) -> PagerBuilder {
        self.forks_outside = Some(bytes.max(LEAST_RAM));
        self
    }

    /// The addresses that the pager reserves for regions, in bytes; they cost nothing while untouched. By default 64 GiB.
    pub fn address_space(mut self, bytes: u64) -> PagerBuilder {
        self.address_space = bytes;
        self
    }

    /// Places regions from `address` on, a multiple of 2 MiB, where nothing may be mapped: for a library that manages the
    /// address space of the program that loads it. The first region begins there. By default the kernel picks an address.
    ///
    /// ```
    /// use plimsoll_pager::Pager;
    ///
    /// let pager = Pager::builder().ram(8 << 20).arena_at(0x1000_0000_0000).build()?;
    /// let region = pager.map(1 << 20)?;
    /// assert_eq!(region.as_ptr() as usize, 0x1000_0000_0000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn arena_at(mut self, address: usize) -> PagerBuilder {
        self.driver.arena = Some(address);
        self
    }

    /// The codec of saved copies. By default LZ4.
    pub fn codec(mut self, codec: Codec) -> PagerBuilder {
        self.copies.codec = codec;
        self
    }

    /// The most bytes of the compressed store, at least 1 MiB (NT's policy: 512 MiB for one kind of program). Beyond it
    /// copies move to the page file, those that were idle longest first. Without a page file, pages then keep their frames:
    /// trims stop, and the budget is exceeded if no other frame can be released. By default as much as the budget allows.
    pub fn store_cap(mut self, bytes: u64) -> PagerBuilder {
        self.copies.store_cap = Some(bytes);
        self
    }

    /// A page file of up to `bytes`, 1 MiB to 4 TiB, for copies that the store cannot hold: in a folder on a disk, or at a path
    /// where nothing is. It is encrypted, has no name, and its blocks return to the file system when the process ends.
    pub fn page_file(mut self, path: impl Into<PathBuf>, bytes: u64) -> PagerBuilder {
        self.copies.page_file = Some((path.into(), bytes));
        self
    }

    /// The means that the page file may use. By default all.
    pub fn page_file_options(mut self, options: PageFileOptions) -> PagerBuilder {
        self.copies.page_file_options = options;
        self
    }

    /// Defers the creation of the page file until the pager first writes to it, for programs that usually end earlier.
    /// [`PagerBuilder::build`] only opens the file: it refuses an unusable folder or size, and tests no write. The process may
    /// change its root or user afterwards. If the creation fails later, for example because the disk is full, the pages stay in
    /// RAM, above the budget if necessary, and [`Stats::page_file`] has the error. The pager writes a deferred file by
    /// `pwrite(2)` and ignores [`PageFileOptions::ring`]. By default, `build` creates the file, and tests a write and a read.
    ///
    /// [`Stats::page_file`]: crate::Stats::page_file
    pub fn defer_page_file(mut self) -> PagerBuilder {
        self.copies.is_file_deferred = true;
        self
    }

    /// The thread that resolves faults. By default the faulting thread itself, in a handler of SIGBUS.
    pub fn fault_mode(mut self, mode: FaultMode) -> PagerBuilder {
        self.driver.fault_mode = mode;
        self
    }

    /// Copies pages instead of moving them, as on a kernel without `UFFDIO_MOVE` (before Linux 6.8): for tests of a program
    /// that has to run there. Trims and soft faults cost a copy of the page then, and a range that a device writes to has to
    /// be pinned ([`Region::pin`](crate::Region::pin)).
    pub fn without_move(mut self) -> PagerBuilder {
        self.driver.without_move = true;
        self
    }

    /// The shortest window of ageing, by default 5 s: while pages are trimmed, the pager looks once a window which chunks of
    /// 2 MiB the program accessed, and trims the coldest first. A window is longer if the looks would take more than 1% of a
    /// CPU. `None`: chunks are trimmed in turn.
    pub fn ageing(mut self, window: Option<Duration>) -> PagerBuilder {
        self.ageing = window;
        self
    }

    /// The rule of thrash control. By default the pager detects thrashing and reports it ([`Stats::thrash_step`]), and does
    /// nothing about it. With [`ThrashControl::On`] it may delay the thread with the most faults, by 10 ms at each of them at
    /// most, locks of the program that the thread holds included.
    ///
    /// [`Stats::thrash_step`]: crate::Stats::thrash_step
    pub fn thrash_control(mut self, rule: ThrashControl) -> PagerBuilder {
        self.thrash_control = rule;
        self
    }

    /// Builds the pager, and installs the process's handler of SIGBUS if no pager did, unless a thread resolves the faults. Signals for other addresses go to
    /// the handler that was installed before; a handler that is installed later must do the same.
    ///
    /// # Errors
    /// [`BuildError`]; nothing is left behind.
    pub fn build(self) -> Result<Pager, BuildError> {
        let page = plimsoll_os::page_size();
        if page != PAGE_SIZE {
            return Err(BuildError::PageSize(page));
        }
        let (address_space, driver, ageing) = (self.address_space, self.driver, self.ageing);
        if let Some(address) = driver.arena
            && (address == 0 || !address.is_multiple_of(ARENA_ALIGNMENT))
        {
            return Err(BuildError::ArenaAddress { address });
        }
        let thrash_control = self.thrash_control;
        let copies = self.copies.clone();
        let funds = self.funds()?;
        let no_addresses = |errno| BuildError::AddressSpace {
            bytes: address_space,
            errno,
        };
        let pages = u32::try_from(address_space.div_ceil(PAGE_SIZE as u64))
            .ok()
            .filter(|pages| *pages > 0 && *pages < u32::MAX - 2 * CHUNK_PAGES)
            .ok_or(no_addresses(Errno::INVAL))?;
        let backing = copies.make(&funds, &no_addresses)?;
        let engine = Engine::funded(pages, funds, backing, driver).map_err(|error| match error {
            EngineError::Driver(OpenError::Refused(errno)) => refusal(errno, has_seccomp_filter()),
            EngineError::Driver(OpenError::Lacks(features)) => too_old(features),
            EngineError::Driver(OpenError::Failed(Errno::NOMEM)) => no_addresses(Errno::NOMEM),
            EngineError::Driver(OpenError::Taken) => BuildError::ArenaTaken {
                address: driver.arena.unwrap_or_default(),
                bytes: address_space,
            },
            EngineError::TooManyPagers => BuildError::TooManyPagers,
            EngineError::Driver(OpenError::Failed(errno)) | EngineError::System(errno) => {
                BuildError::System(errno)
            }
        })?;
        if let Some(window) = ageing {
            engine.manager().ageing.start(window);
        }
        engine.manager().thrash.set_rule(thrash_control);
        Ok(Pager::new(Arc::new(engine)))
    }

    /// The budget: a fixed one, or the first grant of the member.
    fn funds(self) -> Result<Funds, BuildError> {
        #[cfg(not(loom))]
        if let Some(mut member) = self.member {
            let least = LEAST_GRANT;
            let given =
                share::first_grant(&mut member, LEAST_RAM, least).map_err(|_| BuildError::Membership)?;
            if given < least {
                return Err(BuildError::GrantTooSmall { given, least });
            }
            return Ok(Funds {
                ram: given,
                most: member.pool().total(),
                member: Some(member),
                forks_outside: self.forks_outside,
            });
        }
        if self.ram < LEAST_RAM {
            return Err(BuildError::TooLittleRam {
                given: self.ram,
                least: LEAST_RAM,
            });
        }
        Ok(Funds {
            ram: self.ram,
            most: self.most_ram.max(self.ram),
            #[cfg(not(loom))]
            member: None,
            #[cfg(not(loom))]
            forks_outside: None,
        })
    }
}

/// Options of saved copies.
#[derive(Debug, Clone, Default)]
struct CopiesOptions {
    codec: Codec,
    store_cap: Option<u64>,
    page_file: Option<(PathBuf, u64)>,
    page_file_options: PageFileOptions,
    /// Whether the page file is created on first use.
    is_file_deferred: bool,
}

impl CopiesOptions {
    /// The store, and the page file.
    fn make(
        &self,
        funds: &Funds,
        no_addresses: &dyn Fn(Errno) -> BuildError,
    ) -> Result<SavedCopies, BuildError> {
        let cap = self.store_cap.unwrap_or(u64::MAX);
        if cap < store::LEAST_LIMIT {
            return Err(BuildError::StoreCap {
                given: cap,
                least: store::LEAST_LIMIT,
            });
        }
        let store = store::Store::new(&store::StoreOptions {
            most: funds.most,
            limit: funds.ram.min(cap),
            first: match self.codec {
                Codec::Lz4 | Codec::Auto => store::FirstCodec::Lz4,
                Codec::Zstd => store::FirstCodec::Zstd,
            },
        });
        let store = store.map_err(|_| no_addresses(Errno::NOMEM))?;
        let mut copies = SavedCopies::new(store, funds.most.min(cap));
        if self.codec == Codec::Auto {
            copies = copies.with_recompression();
        }
        if let Some((path, bytes)) = &self.page_file {
            copies = copies.with_file(self.create_file(path, *bytes, funds.ram, no_addresses)?);
        }
        Ok(copies)
    }

    /// The page file, or the open file that becomes one.
    fn create_file(
        &self,
        path: &Path,
        bytes: u64,
        ram: u64,
        no_addresses: &dyn Fn(Errno) -> BuildError,
    ) -> Result<FileTier, BuildError> {
        let no_memory = |_| no_addresses(Errno::NOMEM);
        let options = self.page_file_options;
        let new = NewFile::open(path, bytes, options)?;
        let plan = FilePlan {
            // A child of a fork may have another working directory.
            folder: std::path::absolute(new.folder()).ok(),
            bytes,
            options,
        };
        if self.is_file_deferred {
            return FileTier::deferred(new.at_own_number()?, plan, ram).map_err(no_memory);
        }
        let (file, writer) = new.create(bytes, options.ring)?;
        let tier = FileTier::new(file, writer, ram).map_err(no_memory)?;
        Ok(tier.with_plan(plan))
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
        // The process or the system has reached a limit. Filters of container engines return none of these errors.
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => BuildError::System(errno),
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
        assert_eq!(refusal(Errno::MFILE, true), BuildError::System(Errno::MFILE));
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
        for address in [0, 4096, (2 << 20) + 4096] {
            let odd = PagerBuilder::new().arena_at(address).build();
            assert_eq!(odd.err(), Some(BuildError::ArenaAddress { address }));
        }
    }
}
