//! The steps of a move by copies, on the model of memory.

use plimsoll_os::Errno;

use super::Simulated;
use crate::driver::by_copy::Steps;
use crate::driver::{Area, Partial};
use crate::page::{PageIndex, PageRange};

pub(super) fn other(area: Area) -> Area {
    match area {
        Area::Arena => Area::Shadow,
        Area::Shadow => Area::Arena,
    }
}

/// Each step is under the lock by itself: accesses of the program come between them.
impl Steps for Simulated {
    fn write_protect(&self, pages: PageRange, protect: bool) -> Result<(), Errno> {
        let mut state = self.state();
        let errno = state.injection.draw(&[("EAGAIN of a protection", Errno::AGAIN)]);
        for page in pages.pages() {
            // An error comes after a part of the pages.
            if let Some(errno) = errno
                && state.injection.random().is_multiple_of(2)
            {
                return Err(errno);
            }
            // Only present pages can be protected.
            state.protected[page.index()] = protect && state.arena[page.index()];
        }
        errno.map_or(Ok(()), Err)
    }

    fn copy_across(&self, from: Area, pages: PageRange, to: PageIndex) -> Partial {
        let mut state = self.state();
        for (page, done) in pages.pages().zip(0..) {
            let to = to.plus(done);
            let injected = state.injection.draw(&[
                ("ENOMEM of a move by copy", Errno::NOMEM),
                ("EAGAIN of a move by copy", Errno::AGAIN),
            ]);
            let stopped = if injected.is_some() {
                injected
            } else if !state.present(from)[page.index()] {
                Some(Errno::NOENT)
            } else if state.present(other(from))[to.index()] {
                Some(Errno::EXIST)
            } else {
                None
            };
            if let Some(errno) = stopped {
                return Partial {
                    done,
                    stopped: Some(if done > 0 { Errno::AGAIN } else { errno }),
                };
            }
            self.copy_page(&mut state, from, page, to);
            state.make_present(other(from), to);
        }
        state.most = state.most.max(state.resident());
        Partial {
            done: pages.count,
            stopped: None,
        }
    }

    /// Drops pages until an injected error, which locked pages stand for: in the arena alone.
    fn drop_pages(&self, area: Area, pages: PageRange) -> Result<(), Errno> {
        let mut state = self.state();
        for page in pages.pages() {
            if area == Area::Arena
                && let Some(errno) = state.injection.draw(&[("EINVAL of a drop", Errno::INVAL)])
            {
                return Err(errno);
            }
            if area == Area::Arena && state.injection.draw(&[("write at a drop", ())]).is_some() {
                self.race(&mut state, page);
            }
            self.drop_one(&mut state, area, page);
        }
        Ok(())
    }

    fn is_present(&self, page: PageIndex) -> bool {
        self.state().arena[page.index()]
    }
}
