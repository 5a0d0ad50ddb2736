//! Mappings in the arena that are not the pager's: files, shared memory, and special ones that the program puts there.
#![allow(unsafe_code, reason = "mappings of the program")]

use plimsoll_os::Errno;

use super::{Request, failure, kernel};
use crate::addresses::{Addresses, Pages, Use};
use crate::arena::{ARENA, Arena, address_of, errno_of, offsets};
use crate::trampoline::check;

/// The foreign parts of a range.
pub(super) fn parts(addresses: &Addresses, pages: Pages) -> Vec<Pages> {
    let parts = addresses.parts(pages);
    parts
        .filter_map(|(part, used)| (used == Use::Foreign).then_some(part))
        .collect()
}

/// Makes foreign pages ordinary ones of the pager, which hold nothing and are inaccessible.
pub(super) fn reclaim(arena: &Arena, foreign: &[Pages]) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    for pages in foreign {
        let range = offsets(pages);
        let access = libc::PROT_NONE as usize;
        let arguments = [
            ARENA + range.start,
            range.len(),
            access,
            flags as usize,
            usize::MAX,
            0,
        ];
        // SAFETY: the program has given the mapping up, and no thread accesses the new one, which is inaccessible.
        unsafe {
            check(kernel(libc::SYS_mmap, arguments))?;
            arena.region.reclaim(range)
        }
        .map_err(|error| errno_of(&error))?;
    }
    Ok(())
}

/// Maps at `pages` something that the pager does not manage. The pager gives the pages up.
pub(super) fn map(arena: &Arena, request: &Request, pages: Pages, is_new: bool) -> isize {
    let foreign = {
        let mut table = arena.table();
        if is_new && !table.addresses.is_free(pages.clone()) {
            return failure(Errno::EXIST);
        }
        let foreign = parts(&table.addresses, pages.clone());
        table.addresses.set(pages.clone(), Use::Foreign);
        foreign
    };
    // All of the range is the pager's for a moment, and then none.
    let surrendered = reclaim(arena, &foreign).and_then(|()| arena.surrender(&pages));
    if let Err(errno) = surrendered {
        return failure(errno);
    }
    let mut fixed = *request;
    fixed.flags = request.flags & !libc::MAP_FIXED_NOREPLACE | libc::MAP_FIXED;
    // SAFETY: the program's own request, at addresses that the pager does not use any more.
    let mapped = unsafe { kernel(libc::SYS_mmap, fixed.arguments(address_of(pages.start))) };
    if mapped < 0 {
        // The range is of no use to the program either way.
        let _ = reclaim(arena, std::slice::from_ref(&pages));
        arena.table().addresses.set(pages, Use::Free);
    }
    mapped
}
