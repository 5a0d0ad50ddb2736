//! The real driver: ioctls of a userfaultfd on two ranges of this process's memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use plimsoll_os::{
    Advice, Errno, Fd, RegisterMode, UffdFeatures, UffdMode, UffdProgress, address_space, api_handshake,
    api_handshake_with, open_from_device, open_userfaultfd, uffd_copy, uffd_move, uffd_register,
    uffd_unregister,
};

use super::pagemap::Pagemap;
use super::{Area, Driver, Partial};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange};

/// Both areas begin at a multiple of a chunk, so that a page table page belongs to one chunk.
const ALIGNMENT: usize = CHUNK_PAGES as usize * PAGE_SIZE;

/// The features that the pager cannot do without.
const REQUIRED: UffdFeatures = UffdFeatures::SIGBUS.with(UffdFeatures::MOVE);
/// The features that it uses where the kernel has them.
const WELCOME: UffdFeatures = UffdFeatures::EXACT_ADDRESS;

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
    /// Opens a userfaultfd for faults of user code.
    fn open(&self) -> Result<Fd, Errno>;
    /// The features that its kernel knows.
    fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno>;
}

/// The kernel that runs this process.
struct ThisKernel;

impl Kernel for ThisKernel {
    fn open(&self) -> Result<Fd, Errno> {
        open_userfaultfd(UffdMode::UserModeOnly).or_else(|refusal| {
            // A seccomp filter of the system call does not concern the device.
            let device = File::options().read(true).write(true).open("/dev/userfaultfd");
            let device = device.map_err(|_| refusal)?;
            open_from_device(device.as_raw_fd(), UffdMode::UserModeOnly).map_err(|_| refusal)
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
    /// The process that made it: in a child of a fork the areas are not mapped.
    process: u32,
}

impl Userfault {
    /// Opens a userfaultfd and reserves the areas: addresses alone.
    pub(crate) fn new(pages: u32) -> Result<Userfault, OpenError> {
        let uffd = open(&ThisKernel)?;
        let bytes = (pages as usize * PAGE_SIZE).next_multiple_of(ALIGNMENT);
        let pagemap = Pagemap::own().map_err(|error| {
            OpenError::Failed(Errno::of_number(error.raw_os_error().unwrap_or(libc::ENOENT)))
        })?;
        let arena = reserve(bytes).map_err(OpenError::Failed)?;
        let shadow = reserve(bytes).map_err(|errno| {
            // SAFETY: reserved a moment ago, and nobody else knows it.
            let _ = unsafe { address_space::unmap(arena, bytes) };
            OpenError::Failed(errno)
        })?;
        Ok(Userfault {
            uffd,
            arena,
            shadow,
            bytes,
            pagemap,
            process: plimsoll_os::this_process(),
        })
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

/// Opens a userfaultfd with the features of the pager.
fn open(kernel: &impl Kernel) -> Result<Fd, OpenError> {
    let probe = kernel.open().map_err(OpenError::Refused)?;
    let known = kernel.features(&probe).map_err(OpenError::Failed)?;
    let lacking = UffdFeatures(REQUIRED.0 & !known.0);
    if lacking != UffdFeatures::NONE {
        return Err(OpenError::Lacks(lacking));
    }
    // A descriptor makes one handshake.
    let uffd = kernel.open().map_err(OpenError::Refused)?;
    api_handshake_with(&uffd, REQUIRED.with(WELCOME.and(known))).map_err(OpenError::Failed)?;
    Ok(uffd)
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
        uffd_register(&self.uffd, start, pages.bytes(), RegisterMode::Missing)
    }

    fn move_pages(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        let (source, target) = match from {
            Area::Arena => (Area::Arena, Area::Shadow),
            Area::Shadow => (Area::Shadow, Area::Arena),
        };
        // SAFETY: both ranges are this value's, and the caller holds their pages busy.
        partial(unsafe {
            uffd_move(
                &self.uffd,
                self.at(target, to),
                self.at(source, pages.first),
                pages.bytes(),
            )
        })
    }

    fn copy(&self, page: PageIndex, bytes: &Page) -> Result<(), Errno> {
        let to = self.at(Area::Arena, page);
        // SAFETY: the page is this value's, and the caller, who holds it busy, gives the contents that it has.
        let progress = unsafe { uffd_copy(&self.uffd, to, bytes.as_ptr(), PAGE_SIZE) };
        progress.error.map_or(Ok(()), Err)
    }

    fn discard(&self, area: Area, pages: PageRange) -> Result<(), Errno> {
        // SAFETY: the range is this value's, and the caller, who holds its pages busy, needs the contents no more.
        unsafe { address_space::discard(self.at(area, pages.first), pages.bytes()) }
    }

    fn present(&self, area: Area, pages: PageRange, present: &mut [bool]) -> Result<(), Errno> {
        let present = &mut present[..pages.count as usize];
        self.pagemap.present(self.at(area, pages.first), present)
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

impl Drop for Userfault {
    fn drop(&mut self) {
        if self.process != plimsoll_os::this_process() {
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
    use plimsoll_os::{Errno, Fd, UffdFeatures};

    use super::{Kernel, OpenError, ThisKernel, open};

    /// This kernel, as an older or a stricter one would answer.
    struct Answers {
        opened: Result<(), Errno>,
        without: UffdFeatures,
    }

    impl Kernel for Answers {
        fn open(&self) -> Result<Fd, Errno> {
            self.opened?;
            ThisKernel.open()
        }

        fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno> {
            let known = ThisKernel.features(uffd)?;
            Ok(UffdFeatures(known.0 & !self.without.0))
        }
    }

    #[test]
    fn a_kernel_without_move_is_refused_before_anything_is_mapped() {
        let old = Answers {
            opened: Ok(()),
            without: UffdFeatures::MOVE,
        };
        assert_eq!(open(&old).err(), Some(OpenError::Lacks(UffdFeatures::MOVE)));
        let strict = Answers {
            opened: Err(Errno::PERM),
            without: UffdFeatures::NONE,
        };
        assert_eq!(open(&strict).err(), Some(OpenError::Refused(Errno::PERM)));
    }

    #[test]
    fn a_kernel_without_welcome_features_will_do() {
        let plain = Answers {
            opened: Ok(()),
            without: super::WELCOME,
        };
        assert!(open(&plain).is_ok());
    }
}
