//! The real driver: ioctls of a userfaultfd on two ranges of this process's memory.
#![allow(
    unsafe_code,
    reason = "the areas of an arena, mapped, moved and released by system calls"
)]

use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use plimsoll_os::{
    Advice, Errno, Fd, Origin, RegisterMode, UffdFeatures, UffdMode, UffdProgress, address_space,
    api_handshake, api_handshake_with, open_from_device, open_userfaultfd, uffd_copy, uffd_move,
    uffd_register, uffd_unregister, uffd_write_protect,
};

use super::by_copy::{Steps, move_by_copy};
use super::pagemap::Pagemap;
use super::uncounted::with_uncounted;
use super::{Accesses, Area, Driver, DriverOptions, FaultMode, Partial, accesses};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange};

/// Both areas begin at a multiple of a chunk, so that a page table page belongs to one chunk.
const ALIGNMENT: usize = CHUNK_PAGES as usize * PAGE_SIZE;

/// The features that it uses where the kernel has them.
const WELCOME: UffdFeatures = UffdFeatures::EXACT_ADDRESS.with(UffdFeatures::THREAD_ID);

/// The reason why no userfaultfd can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The call was refused.
    Refused(Errno),
    /// The kernel lacks features: these bits.
    Lacks(UffdFeatures),
    /// Another call of the set-up failed.
    Failed(Errno),
}

/// The calls that open a userfaultfd, so that tests can refuse them.
trait Kernel {
    /// Opens a userfaultfd.
    fn open(&self, mode: UffdMode) -> Result<Fd, Errno>;
    /// The features that its kernel knows.
    fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno>;
}

/// The kernel that runs this process.
struct ThisKernel;

impl Kernel for ThisKernel {
    fn open(&self, mode: UffdMode) -> Result<Fd, Errno> {
        open_userfaultfd(mode).or_else(|refusal| {
            // A seccomp filter of the system call does not concern the device.
            let device = File::options().read(true).write(true).open("/dev/userfaultfd");
            let device = device.map_err(|_| refusal)?;
            open_from_device(device.as_raw_fd(), mode).map_err(|_| refusal)
        })
    }

    fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno> {
        api_handshake(uffd).map(|api| UffdFeatures(api.features))
    }
}

/// Two areas of equal size, and the userfaultfd that both are registered with.
///
/// Invariant: `arena..arena + bytes` and `shadow..shadow + bytes` are mapped, belong to this value alone, and are not in
/// children of a fork. The contents of the arena are the program's, and change by its accesses alone as it sees them.
#[derive(Debug)]
pub(crate) struct Userfault {
    uffd: Fd,
    arena: usize,
    shadow: usize,
    bytes: usize,
    pagemap: Pagemap,
    /// Whether the kernel moves pages; if not, they are copied.
    moves: bool,
    options: DriverOptions,
    /// Whether faults inside system calls come to the pager too.
    serves_system_calls: bool,
    /// `/proc/self/mem`, if pages are copied while faults inside system calls wait: a read of it never waits.
    memory: Option<File>,
    /// The process that made it: in a child of a fork the areas are not mapped, and `uffd` acts on the parent's.
    origin: Origin,
}

impl Userfault {
    /// Opens a userfaultfd and reserves the areas: addresses alone.
    pub(crate) fn new(pages: u32, options: DriverOptions) -> Result<Userfault, OpenError> {
        let Opened { uffd, moves, mode } = open(&ThisKernel, options)?;
        let bytes = (pages as usize * PAGE_SIZE).next_multiple_of(ALIGNMENT);
        let failed = |error: std::io::Error| {
            OpenError::Failed(Errno::of_number(error.raw_os_error().unwrap_or(libc::ENOENT)))
        };
        let pagemap = Pagemap::own().map_err(failed)?;
        let serves_system_calls = mode == UffdMode::Full;
        let memory = (serves_system_calls && !moves)
            .then(|| File::open("/proc/self/mem").map_err(failed))
            .transpose()?;
        let origin = Origin::here().map_err(OpenError::Failed)?;
        let arena = reserve(bytes).map_err(OpenError::Failed)?;
        let shadow = reserve(bytes).map_err(|errno| {
            // SAFETY: reserved a moment ago, and no other code knows it.
            let _ = unsafe { address_space::unmap(arena, bytes) };
            OpenError::Failed(errno)
        })?;
        Ok(Userfault {
            uffd,
            arena,
            shadow,
            bytes,
            pagemap,
            moves,
            options,
            serves_system_calls,
            memory,
            origin,
        })
    }

    /// The descriptor of the faults.
    pub(crate) fn faults(&self) -> &Fd {
        &self.uffd
    }

    /// Whether faults inside system calls come to the pager too.
    pub(crate) fn serves_system_calls(&self) -> bool {
        self.serves_system_calls
    }

    /// Whether this process is a child of the one that made the driver, without its memory.
    pub(crate) fn is_forked(&self) -> bool {
        !self.origin.shares_memory()
    }

    /// Lets the next children of this process have copies of the areas, or no longer.
    pub(crate) fn share_with_children(&self, is_shared: bool) -> Result<(), Errno> {
        let advice = match is_shared {
            true => Advice::DoFork,
            false => Advice::DontFork,
        };
        address_space::advise(self.arena, self.bytes, advice)?;
        address_space::advise(self.shadow, self.bytes, advice)
    }

    /// Makes the copies of the areas in this process, a child of a fork, those of a pager of its own. `pages` are the runs of
    /// the arena that belong to regions, each with the mode of its registration.
    ///
    /// Until the last step succeeds, [`Userfault::is_forked`] stays true.
    pub(crate) fn become_own(
        &self,
        runs: impl Iterator<Item = (PageRange, Registered)>,
    ) -> Result<(), Errno> {
        let failed = |error: std::io::Error| Errno::of_number(error.raw_os_error().unwrap_or(libc::ENOENT));
        let opened = open(&ThisKernel, self.options).map_err(|error| match error {
            OpenError::Refused(errno) | OpenError::Failed(errno) => errno,
            OpenError::Lacks(_) => Errno::OPNOTSUPP,
        })?;
        if opened.moves != self.moves || (opened.mode == UffdMode::Full) != self.serves_system_calls {
            return Err(Errno::OPNOTSUPP);
        }
        let pagemap = File::open("/proc/self/pagemap").map_err(failed)?;
        let mut own = vec![
            (opened.uffd.raw(), self.uffd.raw()),
            (pagemap.as_raw_fd(), self.pagemap.as_raw_fd()),
        ];
        let memory = self
            .memory
            .as_ref()
            .map(|former| (former, File::open("/proc/self/mem")));
        let memory = memory
            .map(|(former, own)| own.map(|own| (former, own)))
            .transpose();
        let memory = memory.map_err(failed)?;
        own.extend(
            memory
                .as_ref()
                .map(|(former, own)| (own.as_raw_fd(), former.as_raw_fd())),
        );
        for (own, former) in own {
            // SAFETY: the former descriptor is this value's, and acts on the parent's memory until here.
            unsafe { plimsoll_os::renumber(own, former) }?;
        }
        for (pages, registered) in runs {
            let frames = self.at(Area::Shadow, pages.first);
            uffd_register(&self.uffd, frames, pages.bytes(), RegisterMode::Missing)?;
            match registered {
                Registered::Not => {}
                Registered::Plain => self.register(pages)?,
                Registered::Apart => self.set_apart(pages)?,
            }
        }
        self.share_with_children(false)?;
        self.origin.renew();
        Ok(())
    }

    /// Unmaps the areas in a child of a fork that cannot use them: it would see zeros where its parent has data.
    pub(crate) fn forget(&self) {
        for start in [self.arena, self.shadow] {
            // SAFETY: the areas are this value's, and it stays forked: nothing uses them but the program, which has lost them.
            let _ = unsafe { address_space::unmap(start, self.bytes) };
        }
    }

    /// Addresses of the arena.
    pub(crate) fn arena(&self) -> std::ops::Range<usize> {
        self.arena..self.arena + self.bytes
    }

    /// The address of the shadow area.
    pub(crate) fn shadow(&self) -> usize {
        self.shadow
    }

    fn at(&self, area: Area, page: PageIndex) -> usize {
        debug_assert!(page.offset() < self.bytes);
        page.offset()
            + match area {
                Area::Arena => self.arena,
                Area::Shadow => self.shadow,
            }
    }

    fn set_access(&self, pages: PageRange, access: address_space::Access) -> Result<(), Errno> {
        for area in [Area::Arena, Area::Shadow] {
            // SAFETY: the range is this value's; the caller opens it, or has no user of it any more.
            unsafe { address_space::set_access(self.at(area, pages.first), pages.bytes(), access) }?;
        }
        Ok(())
    }
}

/// The registration of a chunk of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The kernel resolves its faults.
    Not,
    /// As [`Driver::register`] does.
    Plain,
    /// As [`Driver::set_apart`] does.
    Apart,
}

/// A userfaultfd with the features of the pager.
struct Opened {
    uffd: Fd,
    moves: bool,
    mode: UffdMode,
}

/// Opens a userfaultfd. In the mode of a thread, it delivers faults inside system calls too where the user may have them.
fn open(kernel: &impl Kernel, options: DriverOptions) -> Result<Opened, OpenError> {
    let mut mode = UffdMode::UserModeOnly;
    let mut probe = Err(Errno::PERM);
    if options.fault_mode == FaultMode::Thread {
        mode = UffdMode::Full;
        probe = kernel.open(mode);
    }
    let probe = probe.or_else(|_| {
        mode = UffdMode::UserModeOnly;
        kernel.open(mode)
    });
    let probe = probe.map_err(OpenError::Refused)?;
    let known = kernel.features(&probe).map_err(OpenError::Failed)?;
    let moves = known.has(UffdFeatures::MOVE) && !options.without_move;
    let mut required = match options.fault_mode {
        FaultMode::Signal => UffdFeatures::SIGBUS,
        FaultMode::Thread => UffdFeatures::NONE,
    };
    required = required.with(match moves {
        true => UffdFeatures::MOVE,
        false => UffdFeatures::WRITE_PROTECT,
    });
    let lacking = UffdFeatures(required.0 & !known.0);
    if lacking != UffdFeatures::NONE {
        return Err(OpenError::Lacks(lacking));
    }
    // A descriptor makes one handshake.
    let uffd = kernel.open(mode).map_err(OpenError::Refused)?;
    api_handshake_with(&uffd, required.with(WELCOME.and(known))).map_err(OpenError::Failed)?;
    Ok(Opened { uffd, moves, mode })
}

/// Reserves addresses that begin at a multiple of [`ALIGNMENT`].
fn reserve(bytes: usize) -> Result<usize, Errno> {
    let length = bytes.checked_add(ALIGNMENT).ok_or(Errno::NOMEM)?;
    let start = address_space::reserve(length)?;
    let aligned = start.next_multiple_of(ALIGNMENT);
    for (edge, bytes) in [
        (start, aligned - start),
        (aligned + bytes, start + length - aligned - bytes),
    ] {
        if bytes > 0 {
            // SAFETY: an end of the range that was reserved a moment ago.
            unsafe { address_space::unmap(edge, bytes) }?;
        }
    }
    // Refused by a kernel without huge pages.
    let _ = address_space::advise(aligned, bytes, Advice::NoHugePage);
    address_space::advise(aligned, bytes, Advice::DontFork)?;
    Ok(aligned)
}

fn partial(progress: UffdProgress) -> Partial {
    Partial {
        done: (progress.bytes / PAGE_SIZE) as u32,
        stopped: progress.error,
    }
}

impl Driver for Userfault {
    fn open(&self, pages: PageRange) -> Result<(), Errno> {
        let frames = self.at(Area::Shadow, pages.first);
        self.set_access(pages, address_space::Access::Write)
            .and_then(|()| uffd_register(&self.uffd, frames, pages.bytes(), RegisterMode::Missing))
            .inspect_err(|_| {
                let _ = self.set_access(pages, address_space::Access::None);
            })
    }

    fn close(&self, pages: PageRange) -> Result<(), Errno> {
        for area in [Area::Arena, Area::Shadow] {
            self.discard(area, pages)?;
            // Ranges that were never registered may be unregistered.
            uffd_unregister(&self.uffd, self.at(area, pages.first), pages.bytes())?;
        }
        self.set_access(pages, address_space::Access::None)
    }

    fn register(&self, pages: PageRange) -> Result<(), Errno> {
        let start = self.at(Area::Arena, pages.first);
        let mode = match self.moves {
            true => RegisterMode::Missing,
            false => RegisterMode::MissingAndWriteProtect,
        };
        uffd_register(&self.uffd, start, pages.bytes(), mode)
    }

    fn move_pages(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        if !self.moves {
            return move_by_copy(self, from, pages, to);
        }
        let (source, target) = match from {
            Area::Arena => (Area::Arena, Area::Shadow),
            Area::Shadow => (Area::Shadow, Area::Arena),
        };
        // SAFETY: both ranges are this value's, and the caller holds their pages busy.
        let reported = partial(unsafe {
            uffd_move(
                &self.uffd,
                self.at(target, to),
                self.at(source, pages.first),
                pages.bytes(),
            )
        });
        with_uncounted(reported, pages.count, |page| {
            self.presence(source, pages.first.plus(page)) == Some(false)
                && self.presence(target, to.plus(page)) == Some(true)
        })
    }

    fn unblock(&self, page: PageIndex) {
        if !self.moves {
            // It does not fail for a range that is registered.
            let _ = self.write_protect(PageRange::new(page, 1), false);
        }
    }

    fn unshare(&self, pages: PageRange) -> Result<(), Errno> {
        // A page that the program dropped meanwhile would be a fault inside this call, which waits for its own thread.
        if self.serves_system_calls {
            return Err(Errno::BUSY);
        }
        address_space::advise(
            self.at(Area::Arena, pages.first),
            pages.bytes(),
            Advice::PopulateWrite,
        )
    }

    fn copy_run(&self, first: PageIndex, pages: &[Page]) -> Partial {
        let to = self.at(Area::Arena, first);
        let bytes = pages.as_flattened();
        // SAFETY: the pages are this value's, and the caller, who holds them busy, gives the contents that they have.
        partial(unsafe { uffd_copy(&self.uffd, to, bytes.as_ptr(), bytes.len()) })
    }

    fn unlock(&self, pages: PageRange) {
        for area in [Area::Arena, Area::Shadow] {
            // Refused for pages that are not mapped alone.
            let _ = address_space::unlock(self.at(area, pages.first), pages.bytes());
        }
    }

    fn discard(&self, area: Area, pages: PageRange) -> Result<(), Errno> {
        // SAFETY: the range is this value's, and the caller, who holds its pages busy, needs the contents no more.
        unsafe { address_space::discard(self.at(area, pages.first), pages.bytes()) }
    }

    fn present(&self, area: Area, pages: PageRange, present: &mut [bool]) -> Result<(), Errno> {
        let present = &mut present[..pages.count as usize];
        self.pagemap.present(self.at(area, pages.first), present)
    }

    /// Neighbours with equal modes of registration would be one mapping. Nothing write-protects pages in this mode.
    fn set_apart(&self, pages: PageRange) -> Result<(), Errno> {
        if !self.moves {
            return Err(Errno::OPNOTSUPP);
        }
        let start = self.at(Area::Arena, pages.first);
        uffd_register(
            &self.uffd,
            start,
            pages.bytes(),
            RegisterMode::MissingAndWriteProtect,
        )
    }

    fn forget_accesses(&self, pages: PageRange) -> Result<(), Errno> {
        let start = self.at(Area::Arena, pages.first);
        address_space::advise(start, pages.bytes(), Advice::Cold)
    }

    fn accesses(&self, each: &mut dyn FnMut(PageRange, Accesses)) -> Result<(), Errno> {
        let failed = |error: std::io::Error| Errno::of_number(error.raw_os_error().unwrap_or(libc::EIO));
        let smaps = File::open("/proc/self/smaps").map_err(failed)?;
        let smaps = BufReader::with_capacity(64 << 10, smaps);
        accesses::read(smaps, &self.arena(), &mut |range, accesses| {
            let first = ((range.start - self.arena) / PAGE_SIZE) as u32;
            let count = (range.len() / PAGE_SIZE) as u32;
            each(PageRange::new(PageIndex::new(first), count), accesses);
        })
        .map_err(failed)
    }

    fn populate(&self, pages: PageRange) {
        for page in pages.pages() {
            let address = self.at(Area::Arena, page) as *const u8;
            // SAFETY: the page is mapped; if it is absent, the kernel or the handler of this pager makes it present.
            unsafe { address.read_volatile() };
        }
    }

    fn address(&self, area: Area, page: PageIndex) -> NonNull<Page> {
        NonNull::new(self.at(area, page) as *mut Page).unwrap_or(NonNull::dangling())
    }
}

impl Steps for Userfault {
    fn write_protect(&self, pages: PageRange, protect: bool) -> Result<(), Errno> {
        let start = self.at(Area::Arena, pages.first);
        uffd_write_protect(&self.uffd, start, pages.bytes(), protect)
    }

    fn copy_across(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        let (source, target) = match from {
            Area::Arena => (self.at(from, pages.first), self.at(Area::Shadow, to)),
            Area::Shadow => (self.at(from, pages.first), self.at(Area::Arena, to)),
        };
        let copied = match (&self.memory, from) {
            (Some(memory), Area::Arena) => self.copy_through(memory, source, target, pages.count),
            // SAFETY: both ranges are this value's, and the caller holds their pages busy.
            _ => partial(unsafe { uffd_copy(&self.uffd, target, source as *const u8, pages.bytes()) }),
        };
        Partial {
            stopped: copied.stopped.map(|errno| match errno {
                // The program dropped the page.
                Errno::FAULT | Errno::IO => Errno::NOENT,
                other => other,
            }),
            ..copied
        }
    }

    fn drop_pages(&self, area: Area, pages: PageRange) -> Result<(), Errno> {
        self.discard(area, pages)
    }

    fn is_present(&self, page: PageIndex) -> bool {
        self.presence(Area::Arena, page) == Some(true)
    }
}

impl Userfault {
    /// Copies pages of the arena by reads of `memory`, which fail for a page that the program dropped. A copy by its address
    /// would wait for this very thread, as faults inside system calls come to the pager.
    fn copy_through(&self, memory: &File, source: usize, target: usize, count: u32) -> Partial {
        let mut page = [0; PAGE_SIZE];
        for done in 0..count {
            let offset = done as usize * PAGE_SIZE;
            let stopped = match memory.read_exact_at(&mut page, (source + offset) as u64) {
                // SAFETY: the page is this value's, and the caller holds it busy.
                Ok(()) => unsafe { uffd_copy(&self.uffd, target + offset, page.as_ptr(), PAGE_SIZE) }.error,
                Err(_) => Some(Errno::NOENT),
            };
            if stopped.is_some() {
                return Partial { done, stopped };
            }
        }
        Partial {
            done: count,
            stopped: None,
        }
    }
}

impl Drop for Userfault {
    fn drop(&mut self) {
        if self.is_forked() {
            return;
        }
        for start in [self.arena, self.shadow] {
            // SAFETY: the areas are this value's, and it has no user any more.
            let _ = unsafe { address_space::unmap(start, self.bytes) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use plimsoll_os::{Errno, Fd, UffdFeatures, UffdMode};

    use super::{Kernel, OpenError, ThisKernel, open};
    use crate::driver::{DriverOptions, FaultMode};

    /// This kernel, as an older or a stricter one would answer.
    struct Answers {
        opened: Result<(), Errno>,
        full: Result<(), Errno>,
        without: UffdFeatures,
    }

    impl Answers {
        fn without(features: UffdFeatures) -> Answers {
            Answers {
                opened: Ok(()),
                full: Err(Errno::PERM),
                without: features,
            }
        }
    }

    impl Kernel for Answers {
        fn open(&self, mode: UffdMode) -> Result<Fd, Errno> {
            match mode {
                UffdMode::Full => self.full?,
                UffdMode::UserModeOnly => self.opened?,
            }
            ThisKernel.open(UffdMode::UserModeOnly)
        }

        fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno> {
            let known = ThisKernel.features(uffd)?;
            Ok(UffdFeatures(known.0 & !self.without.0))
        }
    }

    const SIGNAL: DriverOptions = DriverOptions {
        fault_mode: FaultMode::Signal,
        without_move: false,
    };
    const THREAD: DriverOptions = DriverOptions {
        fault_mode: FaultMode::Thread,
        without_move: false,
    };

    #[test]
    fn a_kernel_without_move_copies_pages_instead() {
        let old = Answers::without(UffdFeatures::MOVE);
        assert!(open(&old, SIGNAL).is_ok_and(|opened| !opened.moves));
        let new = Answers::without(UffdFeatures::NONE);
        assert!(open(&new, SIGNAL).is_ok_and(|opened| opened.moves));
        let forced = DriverOptions {
            without_move: true,
            ..SIGNAL
        };
        assert!(open(&new, forced).is_ok_and(|opened| !opened.moves));
    }

    #[test]
    fn a_kernel_that_cannot_do_is_refused_before_anything_is_mapped() {
        let neither = UffdFeatures::MOVE.with(UffdFeatures::WRITE_PROTECT);
        let refused = open(&Answers::without(neither), SIGNAL);
        assert_eq!(refused.err(), Some(OpenError::Lacks(UffdFeatures::WRITE_PROTECT)));
        let silent = Answers::without(UffdFeatures::SIGBUS);
        assert_eq!(
            open(&silent, SIGNAL).err(),
            Some(OpenError::Lacks(UffdFeatures::SIGBUS))
        );
        assert!(open(&silent, THREAD).is_ok(), "a thread needs no signal");
        let strict = Answers {
            opened: Err(Errno::PERM),
            ..Answers::without(UffdFeatures::NONE)
        };
        assert_eq!(open(&strict, SIGNAL).err(), Some(OpenError::Refused(Errno::PERM)));
        assert_eq!(open(&strict, THREAD).err(), Some(OpenError::Refused(Errno::PERM)));
    }

    #[test]
    fn a_thread_has_faults_of_system_calls_where_the_user_may() {
        let mode = |full, options| {
            let kernel = Answers {
                full,
                ..Answers::without(UffdFeatures::NONE)
            };
            open(&kernel, options).map(|opened| opened.mode)
        };
        assert_eq!(mode(Ok(()), THREAD), Ok(UffdMode::Full));
        assert_eq!(mode(Err(Errno::PERM), THREAD), Ok(UffdMode::UserModeOnly));
        assert_eq!(mode(Ok(()), SIGNAL), Ok(UffdMode::UserModeOnly));
    }

    #[test]
    fn a_kernel_without_welcome_features_will_do() {
        assert!(open(&Answers::without(super::WELCOME), SIGNAL).is_ok());
    }
}
