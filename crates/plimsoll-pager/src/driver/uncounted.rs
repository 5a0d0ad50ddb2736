//! Pages that the kernel has moved without counting them.
//!
//! `move_pages()` of Linux 6.18 tries a page again after a race with the kernel's own reclaim (`EAGAIN`). The second try moves
//! it, and maybe pages after it, but the function still has the error of the first one: it does not go on behind the moved
//! pages, tries them a third time, finds their destination present, and ends with `EEXIST`. Its result lacks those pages. A
//! caller that believes it takes the only copy of a page for a leftover.

use plimsoll_os::Errno;

use super::Partial;

/// The result of a move of `count` pages with the uncounted ones. `is_moved` looks at the page of a number: whether its
/// source is absent and its destination present, which no page was before the call.
pub(super) fn with_uncounted(
    reported: Partial,
    count: u32,
    mut is_moved: impl FnMut(u32) -> bool,
) -> Partial {
    let may_have_moved = |errno| reported.done > 0 || errno == Errno::EXIST;
    if !reported.stopped.is_some_and(may_have_moved) {
        return reported;
    }
    let uncounted = (reported.done..count).take_while(|&page| is_moved(page)).count() as u32;
    match uncounted {
        0 => reported,
        _ => Partial {
            done: reported.done + uncounted,
            // The rest of the pages is still to be tried.
            stopped: (reported.done + uncounted < count).then_some(Errno::AGAIN),
        },
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn seen(done: u32, stopped: Option<Errno>, moved: &[u32]) -> (u32, Option<Errno>) {
        let counted = with_uncounted(Partial { done, stopped }, 8, |page| moved.contains(&page));
        (counted.done, counted.stopped)
    }

    #[test]
    fn moved_pages_behind_the_counted_ones_are_done() {
        let (again, exist) = (Some(Errno::AGAIN), Some(Errno::EXIST));
        assert_eq!(seen(0, exist, &[0]), (1, again));
        assert_eq!(seen(3, again, &[3, 4]), (5, again));
        assert_eq!(seen(6, again, &[6, 7]), (8, None));
        // Not the next page: nothing was moved.
        assert_eq!(seen(3, again, &[4]), (3, again));
        assert_eq!(seen(0, exist, &[]), (0, exist));
    }

    #[test]
    fn pages_are_looked_at_only_after_a_call_that_may_have_moved_some() {
        assert_eq!(seen(8, None, &[8]), (8, None));
        assert_eq!(seen(0, Some(Errno::NOENT), &[0]), (0, Some(Errno::NOENT)));
        assert_eq!(seen(0, Some(Errno::BUSY), &[0]), (0, Some(Errno::BUSY)));
    }
}
