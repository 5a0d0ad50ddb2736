//! The areas of a driver in a child of a fork.
#![allow(
    unsafe_code,
    reason = "areas that are unmapped, and descriptors that get another file"
)]

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

use plimsoll_os::{Advice, Errno, UffdMode, address_space};

use super::opening::{OpenError, ThisKernel, open};
use super::{OWN_ACCESSES, OWN_MEMORY, Userfault};
use crate::driver::{Area, Driver, Pagemap};
use crate::page::{PAGE_SIZE, PageRange};

/// The registration of pages of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registered {
    /// The kernel resolves its faults: a native chunk, or surrendered pages.
    Not,
    /// As [`Driver::register`] does.
    Plain,
    /// As [`Driver::set_apart`] does.
    Apart,
}

/// Gives the descriptor `former`, which acts on the parent's memory, the file behind `own`.
fn replace(former: i32, own: i32) -> Result<(), Errno> {
    // SAFETY: the driver, the caller, owns `former`, and expects the file of its own process there.
    unsafe { plimsoll_os::renumber(own, former) }
}

impl Userfault {
    /// Lets the next children of this process have copies of the areas, or no longer: of `parts` of the arena, which are those
    /// without surrendered pages, and of the shadow.
    pub(crate) fn share_with_children(
        &self,
        is_shared: bool,
        mut parts: impl Iterator<Item = PageRange>,
    ) -> Result<(), Errno> {
        let advice = match is_shared {
            true => Advice::DoFork,
            false => Advice::DontFork,
        };
        parts.try_for_each(|part| {
            let start = self.at(Area::Arena, part.first);
            address_space::advise(start, part.bytes(), advice)
        })?;
        address_space::advise(self.shadow, self.bytes, advice)
    }

    /// Makes the copies of the areas in this process, a child of a fork, those of a pager of its own. `runs` are the pages
    /// of regions, each run with its registration, and `parts` those of [`Userfault::share_with_children`].
    ///
    /// After an error the caller has to [`Userfault::forget`] them.
    pub(crate) fn become_own(
        &self,
        runs: impl Iterator<Item = (PageRange, Registered)>,
        parts: impl Iterator<Item = PageRange>,
    ) -> Result<(), Errno> {
        let failed = |error: std::io::Error| Errno::of_number(error.raw_os_error().unwrap_or(libc::ENOENT));
        let opened = open(&ThisKernel, self.options).map_err(|error| match error {
            OpenError::Refused(errno) | OpenError::Failed(errno) => errno,
            OpenError::Lacks(_) => Errno::OPNOTSUPP,
            OpenError::Taken => Errno::EXIST,
        })?;
        if opened.moves != self.moves || (opened.mode == UffdMode::Full) != self.serves_system_calls {
            return Err(Errno::OPNOTSUPP);
        }
        replace(self.uffd.raw(), opened.uffd.raw())?;
        if let (Some(former), Some(own)) = (&self.of_shadow, &opened.of_shadow) {
            replace(former.raw(), own.raw())?;
        }
        let pagemap = Pagemap::own().map_err(failed)?;
        replace(self.pagemap.as_raw_fd(), pagemap.as_raw_fd())?;
        let memory = File::open(OWN_MEMORY).map_err(failed)?;
        replace(self.memory.as_raw_fd(), memory.as_raw_fd())?;
        let accesses = File::open(OWN_ACCESSES).map_err(failed)?;
        replace(self.accesses.as_raw_fd(), accesses.as_raw_fd())?;
        for (pages, registered) in runs {
            self.register_shadow(pages)?;
            match registered {
                Registered::Not => {}
                Registered::Plain => self.register(pages)?,
                Registered::Apart => self.set_apart(pages)?,
            }
        }
        self.share_with_children(false, parts)?;
        self.origin.renew();
        Ok(())
    }

    /// The present bytes of `addresses`, whole pages of this process, that another process maps too: 0 if the kernel does not
    /// tell.
    pub(crate) fn shared_bytes(&self, addresses: Range<usize>) -> u64 {
        let pages = addresses.len() / PAGE_SIZE;
        self.pagemap.shared(addresses.start, pages).unwrap_or(0) * PAGE_SIZE as u64
    }

    /// The addresses of `pages` in both areas.
    pub(crate) fn addresses(&self, pages: PageRange) -> [Range<usize>; 2] {
        [Area::Arena, Area::Shadow].map(|area| {
            let start = self.at(area, pages.first);
            start..start + pages.bytes()
        })
    }

    /// Unmaps the areas in a child of a fork that cannot use them: it would see zeros where its parent has data.
    /// [`Userfault::is_forked`] is true from then on.
    pub(crate) fn forget(&self) {
        self.origin.disown();
        for start in [self.arena, self.shadow] {
            // SAFETY: the areas are this value's, which does not use them in a child that has lost them.
            let _ = unsafe { address_space::unmap(start, self.bytes) };
        }
    }
}
