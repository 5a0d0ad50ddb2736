//! Threads that work on one thing each, at the same time.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

/// Stack of a thread: address space, of which it touches some pages.
const STACK: usize = 1 << 20;

/// Why the threads for some work could not be started.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start thread {number} of {of}: {source}; lower `threads`, or raise the limit of processes (ulimit -u, pids.max of \
     the cgroup)"
)]
pub struct CrewError {
    number: usize,
    of: usize,
    source: io::Error,
}

/// Does `work` on each of `things` in a thread of its own, on the first in this one, and returns the results in their
/// order. No thread begins before all are there: where one cannot be started, nothing is done.
pub(crate) fn each<T: Send, R: Send>(
    things: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Result<Vec<R>, CrewError> {
    let of = things.len();
    let mut things = things.into_iter();
    let Some(first) = things.next() else {
        return Ok(Vec::new());
    };
    let gate = Gate::default();
    thread::scope(|scope| {
        let (gate, work) = (&gate, &work);
        let mut threads = Vec::with_capacity(of - 1);
        for (index, thing) in things.enumerate() {
            let started = thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, move || gate.opens().then(|| work(thing)));
            match started {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    gate.open(false);
                    let number = index + 2;
                    return Err(CrewError { number, of, source });
                }
            }
        }
        gate.open(true);
        let mut results = vec![work(first)];
        for thread in threads {
            match thread.join() {
                Ok(result) => results.extend(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(results)
    })
}

/// Holds threads back until it is known whether all are there.
#[derive(Default)]
struct Gate {
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

impl Gate {
    fn open(&self, go: bool) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.changed.notify_all();
    }

    /// Waits until it opens; returns whether to go on.
    fn opens(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let open = self.changed.wait_while(open, |open| open.is_none());
        open.unwrap_or_else(PoisonError::into_inner).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::thread::ThreadId;

    #[test]
    fn each_thing_has_a_thread_and_the_results_are_in_order() {
        for count in [0, 1, 2, 17] {
            let ids = Mutex::new(Vec::<ThreadId>::new());
            let doubled = each((0..count).collect(), |number: usize| {
                ids.lock().unwrap().push(thread::current().id());
                2 * number
            });
            let expected: Vec<usize> = (0..count).map(|number| 2 * number).collect();
            assert_eq!(doubled.unwrap(), expected);
            let ids: HashSet<ThreadId> = ids.into_inner().unwrap().into_iter().collect();
            assert_eq!(ids.len(), count);
        }
    }

    #[test]
    fn one_thing_is_done_in_the_calling_thread() {
        let here = each(vec![()], |()| thread::current().id());
        assert_eq!(here.unwrap(), [thread::current().id()]);
    }

    #[test]
    fn a_gate_that_closes_lets_nobody_work() {
        let gate = Gate::default();
        let worked = thread::scope(|scope| {
            let waiting = scope.spawn(|| gate.opens());
            gate.open(false);
            waiting.join().unwrap()
        });
        assert!(!worked);
    }
}
