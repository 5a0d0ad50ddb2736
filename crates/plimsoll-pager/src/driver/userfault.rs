//! The real driver: ioctls of a userfaultfd on two ranges of this process's memory.
#![allow(
    unsafe_code,
    reason = "the areas of an arena, mapped, moved and released by system calls"
)]

mod forked;
mod opening;

use std::fs::File;
use std::io::{BufReader, Seek};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;

use plimsoll_os::{
    Advice, Errno, Fd, Origin, RegisterMode, UffdMode, UffdProgress, address_space, own_page, uffd_copy,
    uffd_move, uffd_register, uffd_unregister, uffd_wake, uffd_write_protect,
};

pub(crate) use forked::Registered;
pub(crate) use opening::OpenError;
use opening::{Opened, ThisKernel, open};

use super::by_copy::{Steps, move_by_copy};
use super::pagemap::Pagemap;
use super::uncounted::with_uncounted;
use super::{Accesses, Area, Driver, DriverOptions, Partial, accesses};
use crate::page::{CHUNK_PAGES, PAGE_SIZE, Page, PageIndex, PageRange};

/// Both areas begin at a multiple of a chunk, so that a page table page belongs to one chunk.
const ALIGNMENT: usize = CHUNK_PAGES as usize * PAGE_SIZE;

/// The memory of this process as a file.
const OWN_MEMORY: &str = "/proc/self/mem";
const OWN_ACCESSES: &str = "/proc/self/smaps";

/// Two areas of equal size, and the userfaultfds that they are registered with.
///
/// Invariant: `arena..arena + bytes` and `shadow..shadow + bytes` are mapped, belong to this value alone, and are not in
/// children of a fork, but for surrendered pages of the arena. Core dumps leave the shadow out. The contents of the arena are
/// the program's, and change by its accesses alone as it sees them. The program may have changed the rights to parts of the
/// arena (`mprotect(2)`).
#[derive(Debug)]
pub(crate) struct Userfault {
    uffd: Fd,
    /// The userfaultfd of the shadow, where `uffd` has faults inside system calls as well: another process that reads an absent
    /// page of the shadow gets an error from this one.
    of_shadow: Option<Fd>,
    arena: usize,
    shadow: usize,
    bytes: usize,
    pagemap: Pagemap,
    /// Whether the kernel moves pages; if not, they are copied.
    moves: bool,
    options: DriverOptions,
    /// Whether faults inside system calls come to the pager too.
    serves_system_calls: bool,
    /// `/proc/self/mem`: a read of it never waits for a fault, and heeds no right of the program.
    memory: File,
    /// `/proc/self/smaps`. One caller reads it at a time. To open it each time would take a number that the program may expect.
    accesses: File,
    /// The process that made it: in a child of a fork the areas are not mapped, and `uffd` acts on the parent's.
    origin: Origin,
}

impl Userfault {
    /// Opens a userfaultfd and reserves the areas: addresses alone.
    pub(crate) fn new(pages: u32, options: DriverOptions) -> Result<Userfault, OpenError> {
        let Opened {
            uffd,
            of_shadow,
            moves,
            mode,
        } = open(&ThisKernel, options)?;
        let bytes = (pages as usize * PAGE_SIZE).next_multiple_of(ALIGNMENT);
        let failed = |error: std::io::Error| {
            OpenError::Failed(Errno::of_number(error.raw_os_error().unwrap_or(libc::ENOENT)))
        };
        let pagemap = Pagemap::own().map_err(failed)?;
        let serves_system_calls = mode == UffdMode::Full;
        let memory = File::open(OWN_MEMORY).map_err(failed)?;
        let accesses = File::open(OWN_ACCESSES).map_err(failed)?;
        let origin = Origin::here().map_err(OpenError::Failed)?;
        let arena = match options.arena {
            Some(address) => reserve_at(address, bytes),
            None => reserve(bytes),
        };
        let arena = arena.map_err(|errno| match (errno, options.arena) {
            (Errno::EXIST, Some(_)) => OpenError::Taken,
            _ => OpenError::Failed(errno),
        })?;
        let shadow = reserve(bytes).map_err(|errno| {
            // SAFETY: reserved a moment ago, and no other code knows it.
            let _ = unsafe { address_space::unmap(arena, bytes) };
            OpenError::Failed(errno)
        })?;
        // A core dump would have as many bytes as the area has addresses. It has no use for frames: they are at other addresses than
        // the program's pages. If the kernel refuses, dumps are larger, and nothing else changes.
        let _ = address_space::advise(shadow, bytes, Advice::DontDump);
        Ok(Userfault {
            uffd,
            of_shadow,
            arena,
            shadow,
            bytes,
            pagemap,
            moves,
            options,
            serves_system_calls,
            memory,
            accesses,
            origin,
        })
    }

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

    pub(crate) fn arena(&self) -> std::ops::Range<usize> {
        self.arena..self.arena + self.bytes
    }

    /// The address of the shadow area.
    pub(crate) fn shadow(&self) -> usize {
        self.shadow
    }

    /// The userfaultfd of an area.
    fn uffd(&self, area: Area) -> &Fd {
        match area {
            Area::Arena => &self.uffd,
            Area::Shadow => self.of_shadow.as_ref().unwrap_or(&self.uffd),
        }
    }

    /// Registers the frames of `pages`.
    fn register_shadow(&self, pages: PageRange) -> Result<(), Errno> {
        let start = self.at(Area::Shadow, pages.first);
        uffd_register(
            self.uffd(Area::Shadow),
            start,
            pages.bytes(),
            RegisterMode::Missing,
        )
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
    advise(aligned, bytes)?;
    Ok(aligned)
}

/// Reserves the addresses from `start` on, a multiple of [`ALIGNMENT`].
fn reserve_at(start: usize, bytes: usize) -> Result<usize, Errno> {
    // No kernel has room for a range that overflows.
    start.checked_add(bytes).ok_or(Errno::NOMEM)?;
    address_space::map_unused(start, bytes, address_space::Access::None)?;
    advise(start, bytes).inspect_err(|_| {
        // SAFETY: mapped a moment ago, and no other code knows it.
        let _ = unsafe { address_space::unmap(start, bytes) };
    })?;
    Ok(start)
}

/// Has the kernel use base pages in a range, and leave it out of children of a fork.
fn advise(start: usize, bytes: usize) -> Result<(), Errno> {
    // Refused by a kernel without huge pages.
    let _ = address_space::advise(start, bytes, Advice::NoHugePage);
    address_space::advise(start, bytes, Advice::DontFork)
}

fn partial(progress: UffdProgress) -> Partial {
    Partial {
        done: (progress.bytes / PAGE_SIZE) as u32,
        stopped: progress.error,
    }
}

impl Driver for Userfault {
    fn open(&self, pages: PageRange) -> Result<(), Errno> {
        self.set_access(pages, address_space::Access::Write)
            .and_then(|()| self.register_shadow(pages))
            .inspect_err(|_| {
                let _ = self.set_access(pages, address_space::Access::None);
            })
    }

    fn close(&self, pages: PageRange) -> Result<(), Errno> {
        for area in [Area::Arena, Area::Shadow] {
            self.discard(area, pages)?;
            // Ranges that were never registered may be unregistered.
            uffd_unregister(self.uffd(area), self.at(area, pages.first), pages.bytes())?;
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

    fn unregister(&self, pages: PageRange) -> Result<(), Errno> {
        uffd_unregister(&self.uffd, self.at(Area::Arena, pages.first), pages.bytes())
    }

    fn wake(&self, page: PageIndex) {
        // It fails for a range that is not of whole pages alone.
        let _ = uffd_wake(&self.uffd, self.at(Area::Arena, page), PAGE_SIZE);
    }

    fn renew(&self, pages: PageRange, is_apart: bool) -> Result<(), Errno> {
        advise(self.at(Area::Arena, pages.first), pages.bytes())?;
        match is_apart {
            true => self.set_apart(pages),
            false => self.register(pages),
        }
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
                self.uffd(target),
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

    fn copy_out(&self, page: PageIndex) -> Partial {
        let one = PageRange::new(page, 1);
        let start = self.at(Area::Arena, page);
        let mode = RegisterMode::MissingAndWriteProtect;
        // The copy needs it. Without moves, all chunks are registered so.
        let registered = match self.moves {
            true => uffd_register(&self.uffd, start, one.bytes(), mode),
            false => Err(Errno::INVAL),
        };
        match registered {
            Ok(()) => move_by_copy(self, Area::Arena, one, page),
            Err(errno) => Partial {
                done: 0,
                stopped: Some(errno),
            },
        }
    }

    fn unblock(&self, page: PageIndex) {
        // It fails for a range that is not registered for it, which no copy write-protects.
        let _ = self.write_protect(PageRange::new(page, 1), false);
    }

    fn unshare(&self, page: PageIndex) -> Result<(), Errno> {
        own_page(self.at(Area::Arena, page))
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

    fn shared(&self, area: Area, pages: PageRange) -> u64 {
        let shared = self
            .pagemap
            .shared(self.at(area, pages.first), pages.count as usize);
        shared.unwrap_or(0)
    }

    fn moves(&self) -> bool {
        self.moves
    }

    /// Neighbours with equal modes of registration would be one mapping.
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
        let mut file = &self.accesses;
        file.rewind().map_err(failed)?;
        let smaps = BufReader::with_capacity(64 << 10, file);
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

    fn populate_native(&self, pages: PageRange) -> bool {
        let populate = |pages: PageRange| {
            let start = self.at(Area::Arena, pages.first);
            address_space::advise(start, pages.bytes(), Advice::PopulateWrite).is_ok()
        };
        // The call ends at the first page without the right, and Linux before 5.14 does not know it.
        populate(pages)
            || pages.pages().fold(true, |all, page| {
                let is_present =
                    populate(PageRange::new(page, 1)) || self.presence(Area::Arena, page) == Some(true);
                all && is_present
            })
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
        let to_area = match from {
            Area::Arena => Area::Shadow,
            Area::Shadow => Area::Arena,
        };
        let (source, target) = (self.at(from, pages.first), self.at(to_area, to));
        let mut copied = Partial {
            done: 0,
            stopped: Some(Errno::FAULT),
        };
        // Where the kernel moves pages, the program may have no right to read those that are copied out.
        let is_read_by_address = from == Area::Shadow || !(self.serves_system_calls || self.moves);
        if is_read_by_address {
            // SAFETY: both ranges are this value's, and the caller holds their pages busy.
            copied =
                partial(unsafe { uffd_copy(self.uffd(to_area), target, source as *const u8, pages.bytes()) });
        }
        if from == Area::Arena && copied.done == 0 && copied.stopped == Some(Errno::FAULT) {
            copied = self.copy_through(source, target, pages.count);
        }
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
    /// Copies pages of the arena to the shadow by reads of the process's memory, which fail for a page that the program dropped. A copy by
    /// its address would wait for this very thread if faults inside system calls come to the pager.
    fn copy_through(&self, source: usize, target: usize, count: u32) -> Partial {
        let mut page = [0; PAGE_SIZE];
        for done in 0..count {
            let offset = done as usize * PAGE_SIZE;
            let stopped = match self.memory.read_exact_at(&mut page, (source + offset) as u64) {
                Ok(()) => {
                    let uffd = self.uffd(Area::Shadow);
                    // SAFETY: the page is this value's, and the caller holds it busy.
                    unsafe { uffd_copy(uffd, target + offset, page.as_ptr(), PAGE_SIZE) }.error
                }
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
