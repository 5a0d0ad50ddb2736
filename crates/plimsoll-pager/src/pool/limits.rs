//! The bounds of a member's grant.

use super::balance::HIGHEST_PRIORITY;
use super::error::PoolError;
use super::layout::PAGE;
use super::table::Entry;

/// Priority of a member that states none.
const DEFAULT_PRIORITY: u8 = 5;

/// The bounds of a member's grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the member always gets: promised when it joins, granted as soon as others have freed them.
    pub minimum: u64,
    /// The most bytes that it gets. More than the total counts as the total.
    pub maximum: u64,
    /// 0 to 7; a higher one counts as 7. Each step doubles the weight of the member's stall.
    pub priority: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            minimum: 0,
            maximum: u64::MAX,
            priority: DEFAULT_PRIORITY,
        }
    }
}

/// Whole pages that hold these bytes.
pub(super) fn pages_up(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE)
}

/// Limits in pages of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) minimum: u64,
    pub(super) maximum: u64,
    priority: u8,
}

impl Bounds {
    pub(super) fn of(limits: Limits, total: u64) -> Result<Bounds, PoolError> {
        let minimum = pages_up(limits.minimum);
        let maximum = (limits.maximum / PAGE).min(total);
        if minimum > maximum {
            return Err(PoolError::LimitsOutOfOrder {
                minimum: limits.minimum,
                maximum: maximum * PAGE,
            });
        }
        Ok(Bounds {
            minimum,
            maximum,
            priority: limits.priority.min(HIGHEST_PRIORITY),
        })
    }

    /// Whether the minimum can be promised beside those of others.
    pub(super) fn check_minima(&self, others: u64, total: u64) -> Result<(), PoolError> {
        let left = total.saturating_sub(others);
        if self.minimum > left {
            return Err(PoolError::MinimumTooLarge {
                minimum: self.minimum * PAGE,
                left: left * PAGE,
            });
        }
        Ok(())
    }

    pub(super) fn set(&self, entry: &mut Entry) {
        entry.minimum = self.minimum;
        entry.maximum = self.maximum;
        entry.priority = self.priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_whole_pages_of_the_pool() {
        let limits = Limits {
            minimum: 1,
            maximum: 3 * PAGE - 1,
            priority: 99,
        };
        let bounds = Bounds::of(limits, 10).expect("they are in order");
        assert_eq!((bounds.minimum, bounds.maximum, bounds.priority), (1, 2, 7));
        assert_eq!(
            Bounds::of(Limits::default(), 10)
                .map(|bounds| bounds.maximum)
                .ok(),
            Some(10)
        );
        let above = Limits {
            minimum: 11 * PAGE,
            ..limits
        };
        assert!(matches!(
            Bounds::of(above, 10),
            Err(PoolError::LimitsOutOfOrder { .. })
        ));
        assert!(bounds.check_minima(9, 10).is_ok());
        assert!(matches!(
            bounds.check_minima(10, 10),
            Err(PoolError::MinimumTooLarge {
                minimum: PAGE,
                left: 0
            })
        ));
    }
}
