//! Moves of pages by copies: on kernels that cannot move them (Linux 5.11 to 6.7), and of pages that no kernel moves, as the
//! program may not write to them.
//!
//! A page on its way out of the arena is write-protected first: a thread that writes to it faults, and waits until the page
//! is not busy any more. Then its copy is complete, and the page is dropped. Reads go on until then.
//!
//! The kernel does not refuse pages that a device has pinned, as it does for a real move: the device then writes to memory
//! that is no page any more. Ranges that a device writes to have to be pinned in the pager too.

use plimsoll_os::Errno;

use super::{Area, Partial};
use crate::page::{PageIndex, PageRange};

/// Pages that have two frames for a short time: few, as the budget has no room for the second ones.
const AT_ONCE: u32 = 4;

/// The steps of a move by copies. The callers hold the pages busy.
pub(super) trait Steps {
    /// Write-protects present pages of the arena, or allows writes again and wakes their writers.
    fn write_protect(&self, pages: PageRange, protect: bool) -> Result<(), Errno>;

    /// Copies `pages` to absent pages of the other area, from the index `to` on. Errors as those of a move.
    fn copy_across(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial;

    /// Makes `pages` absent. After an error, a part of them may be absent.
    fn drop_pages(&self, area: Area, pages: PageRange) -> Result<(), Errno>;

    /// Whether a page of the arena is present.
    fn is_present(&self, page: PageIndex) -> bool;
}

/// Moves `pages` from one area to the other, as [`Driver::move_pages`](super::Driver::move_pages) does.
pub(super) fn move_by_copy(steps: &impl Steps, from: Area, pages: PageRange, to: PageIndex) -> Partial {
    let mut done = 0;
    let mut stopped = None;
    while done < pages.count && stopped.is_none() {
        let piece = PageRange::new(pages.first.plus(done), AT_ONCE.min(pages.count - done));
        let part = match from {
            Area::Arena => move_out(steps, piece, to.plus(done)),
            Area::Shadow => move_back(steps, piece, to.plus(done)),
        };
        done += part.done;
        stopped = part.stopped;
    }
    Partial {
        done,
        stopped: stopped.map(|errno| if done > 0 { Errno::AGAIN } else { errno }),
    }
}

fn move_out(steps: &impl Steps, pages: PageRange, to: PageIndex) -> Partial {
    if let Err(errno) = steps.write_protect(pages, true) {
        // A part may be protected.
        let _ = steps.write_protect(pages, false);
        return Partial {
            done: 0,
            stopped: Some(errno),
        };
    }
    let copied = steps.copy_across(Area::Arena, pages, to);
    let (done, errno) = drop_prefix(steps, PageRange::new(pages.first, copied.done.min(pages.count)));
    if done < copied.done {
        // Those pages stay in the arena. It fails for pages that are locked in RAM, which the next trim finds.
        let _ = steps.drop_pages(Area::Shadow, PageRange::new(to.plus(done), copied.done - done));
    }
    if done < pages.count {
        // If it fails, the fault of a writer allows the write.
        let rest = PageRange::new(pages.first.plus(done), pages.count - done);
        let _ = steps.write_protect(rest, false);
    }
    Partial {
        done,
        stopped: errno.or(copied.stopped),
    }
}

/// Drops pages of the arena from the first one on: returns their number, and the error that kept the next one.
fn drop_prefix(steps: &impl Steps, pages: PageRange) -> (u32, Option<Errno>) {
    if pages.count == 0 || steps.drop_pages(Area::Arena, pages).is_ok() {
        return (pages.count, None);
    }
    // A page that is locked in RAM cannot be dropped; those before it are absent already.
    for (page, done) in pages.pages().zip(0..) {
        if steps.is_present(page)
            && let Err(errno) = steps.drop_pages(Area::Arena, PageRange::new(page, 1))
        {
            return (done, Some(errno));
        }
    }
    (pages.count, None)
}

fn move_back(steps: &impl Steps, pages: PageRange, to: PageIndex) -> Partial {
    let copied = steps.copy_across(Area::Shadow, pages, to);
    if copied.done > 0 {
        // It fails for pages that are locked in RAM alone, and the next trim finds those.
        let _ = steps.drop_pages(Area::Shadow, PageRange::new(pages.first, copied.done));
    }
    copied
}
