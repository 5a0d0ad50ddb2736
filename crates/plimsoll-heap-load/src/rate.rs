//! How fast a load went.

use std::time::{Duration, Instant};

use crate::clock;
use crate::error::LoadError;
use crate::value::Values;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// After this long, and at least a batch of operations, so that each thread takes part.
    Elapsed(Duration),
    /// After this many operations a thread.
    Count(u64),
}

/// Operations between two looks at the clock, where each takes some ten nanoseconds.
pub(crate) const BATCH: u64 = 256;

/// The work of one thread in the timed part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stint {
    pub(crate) count: u64,
    cpu: Duration,
    began: Instant,
    ended: Instant,
}

impl Stint {
    /// Repeats `operation` until the end; looks at the clock once in `batch` times.
    #[inline(always)]
    pub(crate) fn repeat(
        until: Until,
        batch: u64,
        mut operation: impl FnMut() -> Result<(), LoadError>,
    ) -> Result<Stint, LoadError> {
        Stint::of(|| {
            let mut count = 0;
            match until {
                Until::Count(wanted) => {
                    while count < wanted {
                        operation()?;
                        count += 1;
                    }
                }
                Until::Elapsed(time) => {
                    let end = Instant::now() + time;
                    while count == 0 || Instant::now() < end {
                        for _ in 0..batch {
                            operation()?;
                        }
                        count += batch;
                    }
                }
            }
            Ok(count)
        })
    }

    /// The same stint, with its operations counted otherwise.
    pub(crate) fn counting(self, count: u64) -> Stint {
        Stint { count, ..self }
    }

    /// Times a task that returns its number of operations.
    #[inline(always)]
    pub(crate) fn of(task: impl FnOnce() -> Result<u64, LoadError>) -> Result<Stint, LoadError> {
        let (cpu, began) = (clock::thread_cpu(), Instant::now());
        let count = task()?;
        let ended = Instant::now();
        Ok(Stint {
            count,
            cpu: clock::thread_cpu() - cpu,
            began,
            ended,
        })
    }
}

/// How fast all threads went together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Operations done, of all threads.
    pub count: u64,
    /// CPU time of the threads in their timed parts.
    pub cpu: Duration,
    /// From the first thread's begin to the last one's end.
    pub wall: Duration,
}

impl Rate {
    pub(crate) fn of(stints: &[Stint]) -> Rate {
        let began = stints.iter().map(|stint| stint.began).min();
        let ended = stints.iter().map(|stint| stint.ended).max();
        Rate {
            count: stints.iter().map(|stint| stint.count).sum(),
            cpu: stints.iter().map(|stint| stint.cpu).sum(),
            wall: began
                .zip(ended)
                .map_or(Duration::ZERO, |(began, ended)| ended - began),
        }
    }

    /// CPU nanoseconds an operation.
    pub fn cpu_nanoseconds(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.count as f64
    }

    /// Operations a second on the wall.
    pub fn per_second(&self) -> f64 {
        self.count as f64 / self.wall.as_secs_f64()
    }

    /// Adds `NAME_count`, `NAME_cpu_ns` and `NAME_per_second`.
    pub(crate) fn values(&self, name: &str, into: &mut Values) {
        into.count(&format!("{name}_count"), self.count);
        into.real(&format!("{name}_cpu_ns"), self.cpu_nanoseconds());
        into.real(&format!("{name}_per_second"), self.per_second());
    }
}
