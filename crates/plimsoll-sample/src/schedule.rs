//! When ticks are due, and the account of those that were late or missed.

/// Ticks at a fixed rate from a first one on, without drift. Times are nanoseconds of one clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    start_ns: u64,
    hz: u64,
    /// Number of the tick that is due next.
    next: u64,
    /// Whether the last tick that was taken is in another second than the one before it.
    second_began: bool,
    /// Ticks that were taken more than half a period late.
    pub(crate) late: u64,
    /// Ticks that were never taken, since the one after them was due already.
    pub(crate) missed: u64,
}

impl Schedule {
    /// `hz` ticks a second, the first one at `start_ns`.
    pub(crate) fn new(hz: u32, start_ns: u64) -> Self {
        Schedule {
            start_ns,
            hz: u64::from(hz),
            next: 0,
            second_began: true,
            late: 0,
            missed: 0,
        }
    }

    /// When the next tick is due.
    pub(crate) fn deadline_ns(&self) -> u64 {
        self.start_ns + self.next * 1_000_000_000 / self.hz
    }

    /// Whether the tick that was taken last is the first one taken in its second since the start.
    pub(crate) fn begins_second(&self) -> bool {
        self.second_began
    }

    /// Takes the tick at `now_ns`, which is not before its deadline, and returns how late it is. A tick that is late
    /// by whole periods stands for the last one that was due; those before it are missed.
    pub(crate) fn take(&mut self, now_ns: u64) -> u64 {
        let mut due = self.next;
        while self.start_ns + (due + 1) * 1_000_000_000 / self.hz <= now_ns {
            due += 1;
        }
        self.missed += due - self.next;
        // The tick before may be several seconds back.
        let before = self.next.checked_sub(1);
        self.second_began = before.is_none_or(|before| before / self.hz != due / self.hz);
        self.next = due;
        let late_ns = now_ns.saturating_sub(self.deadline_ns());
        if late_ns * self.hz > 500_000_000 {
            self.late += 1;
        }
        self.next += 1;
        late_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn ticks_do_not_drift() {
        let mut schedule = Schedule::new(30, 5);
        for _ in 0..300 {
            let due = schedule.deadline_ns();
            assert_eq!(schedule.take(due + 100), 100);
        }
        assert_eq!(schedule.deadline_ns(), 5 + 10_000 * MS);
        assert_eq!((schedule.late, schedule.missed), (0, 0));
    }

    #[test]
    fn one_tick_of_each_second_begins_it_also_after_a_stall() {
        let mut schedule = Schedule::new(4, 0);
        let mut began = Vec::new();
        // The stall misses ticks 6 to 9, the first one of the third second among them.
        for at_ms in [0, 250, 500, 750, 1000, 1250, 2500, 2750, 3000] {
            schedule.take(at_ms * MS);
            began.push(schedule.begins_second());
        }
        assert_eq!(began, [true, false, false, false, true, false, true, false, true]);
    }

    #[test]
    fn late_begins_after_half_a_period() {
        let mut schedule = Schedule::new(100, 0);
        schedule.take(5 * MS);
        assert_eq!(schedule.late, 0);
        schedule.take(15 * MS + 1);
        assert_eq!((schedule.late, schedule.missed), (1, 0));
    }

    #[test]
    fn a_stall_misses_the_ticks_it_covers_and_no_more() {
        let mut schedule = Schedule::new(10, 0);
        schedule.take(0);
        // Ticks 1, 2 and 3 were due at 100, 200 and 300 ms: the third is taken.
        assert_eq!(schedule.take(320 * MS), 20 * MS);
        assert_eq!((schedule.late, schedule.missed), (0, 2));
        assert_eq!(schedule.deadline_ns(), 400 * MS);
    }
}
