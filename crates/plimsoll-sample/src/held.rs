//! The course of a level that this process holds: its loop posts each look, and the sampler records the last one.

use std::sync::{Arc, Mutex, PoisonError};

use super::residency::{Span, span_of};
use plimsoll_model::columns::{Row, col};

/// A look at a level; a value that the level does not have is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldLook {
    /// Bytes that are held.
    pub held: Option<u64>,
    /// Bytes that other programs could still take.
    pub available: Option<u64>,
    /// Bytes that the level should be.
    pub goal: Option<u64>,
    /// Share of the time that is a stall, in millionths.
    pub stalled_ppm: Option<u64>,
}

/// The place where a loop posts its looks.
#[derive(Debug, Clone, Default)]
pub struct HeldPost(Arc<Mutex<HeldLook>>);

impl HeldPost {
    pub fn post(&self, look: HeldLook) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = look;
    }
}

/// Two handles of one place are equal.
impl PartialEq for HeldPost {
    fn eq(&self, other: &HeldPost) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HeldPost {}

/// The sampler's side. It never waits: while the loop posts, the look before counts.
pub(crate) struct HeldLevel {
    post: HeldPost,
    last: HeldLook,
}

impl HeldLevel {
    pub(crate) fn of(post: &HeldPost) -> HeldLevel {
        HeldLevel {
            post: post.clone(),
            last: HeldLook::default(),
        }
    }

    pub(crate) fn span(&self) -> Span {
        span_of(&*self.post.0)
    }

    pub(crate) fn read(&mut self, row: &mut Row) {
        if let Ok(look) = self.post.0.try_lock() {
            self.last = *look;
        }
        for (column, value) in [
            (col::HOLD_HELD, self.last.held),
            (col::HOLD_AVAILABLE, self.last.available),
            (col::HOLD_GOAL, self.last.goal),
            (col::HOLD_STALLED_PPM, self.last.stalled_ppm),
        ] {
            if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
                row.set(column, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_look_is_recorded_also_while_the_next_is_posted() {
        let post = HeldPost::default();
        let mut level = HeldLevel::of(&post);
        let mut row = Row::empty(0);
        level.read(&mut row);
        assert_eq!((row.get(col::HOLD_HELD), row.get(col::HOLD_GOAL)), (None, None));
        post.post(HeldLook {
            held: Some(7),
            goal: Some(9),
            // More than a column can have.
            available: Some(u64::MAX),
            stalled_ppm: None,
        });
        level.read(&mut row);
        let posting = post.0.lock().unwrap();
        row.clear();
        level.read(&mut row);
        drop(posting);
        assert_eq!(
            (row.get(col::HOLD_HELD), row.get(col::HOLD_GOAL)),
            (Some(7), Some(9))
        );
        assert_eq!(
            (row.get(col::HOLD_AVAILABLE), row.get(col::HOLD_STALLED_PPM)),
            (None, None)
        );
    }
}
