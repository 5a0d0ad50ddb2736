//! Why a run ends before its time: a signal, the tripwire, its time limit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_model::exit::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

/// A request to stop, seen by everything that waits.
#[derive(Debug, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    /// The last signal that no caller has taken, 0 for none.
    fresh: Arc<AtomicUsize>,
    /// The cause of the stop, if not a signal.
    from_within: Mutex<Option<Cause>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A signal, by number.
    Signal(i32),
    /// The tripwire, with its reason.
    Tripwire(String),
    /// The run took longer than this.
    TimeLimit(Duration),
}

impl Cause {
    /// How the program ends for it.
    pub fn exit(&self) -> Exit {
        match self {
            Cause::Signal(_) => Exit::Killed,
            Cause::Tripwire(_) => Exit::Missing,
            Cause::TimeLimit(_) => Exit::WorkloadFailed,
        }
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cause::Signal(number) => {
                let name = signal_hook::low_level::signal_name(*number).unwrap_or("a signal");
                write!(f, "stopped by {name}")
            }
            Cause::Tripwire(reason) => write!(f, "stopped to protect the machine: {reason}"),
            Cause::TimeLimit(limit) => write!(
                f,
                "stopped after its time limit of {} s; raise `time-limit`, or ask for less",
                limit.as_secs_f64()
            ),
        }
    }
}

impl Stop {
    /// The signals that [`Stop::install`] takes over.
    pub const SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

    /// Takes over SIGINT, SIGTERM, SIGHUP and SIGQUIT for the rest of the process's life. Further signals change
    /// nothing: cleanup that has begun runs to its end.
    ///
    /// A signal that this process ignores stays ignored, by the convention of Unix: `nohup` ignores SIGHUP and a shell
    /// without job control ignores SIGINT and SIGQUIT for a background job, so that the job outlives its terminal.
    pub fn install() -> std::io::Result<Arc<Stop>> {
        let stop = Arc::new(Stop::default());
        for signal in Stop::SIGNALS {
            if plimsoll_os::is_ignored(signal) {
                continue;
            }
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize)?;
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.fresh), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&stop.requested))?;
        }
        Ok(stop)
    }

    /// Ignores Ctrl-Z: a command that has stopped other processes must not be stopped itself.
    ///
    /// # Errors
    /// An error of the system.
    pub fn outlast_terminal(&self) -> std::io::Result<()> {
        signal_hook::flag::register(SIGTSTP, Arc::default()).map(drop)
    }

    /// The flag that waiting code looks at.
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// Takes the last signal since the previous call, for a caller that forwards signals.
    pub fn next_signal(&self) -> Option<i32> {
        let number = self.fresh.swap(0, Ordering::AcqRel);
        (number != 0).then_some(number as i32)
    }

    /// Asks for a stop to protect the machine.
    pub fn trip(&self, reason: String) {
        self.ask(Cause::Tripwire(reason));
    }

    /// Asks for a stop since the run takes longer than `limit`.
    pub fn expire(&self, limit: Duration) {
        self.ask(Cause::TimeLimit(limit));
    }

    fn ask(&self, cause: Cause) {
        self.from_within
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(cause);
        self.requested.store(true, Ordering::Release);
    }

    pub fn cause(&self) -> Option<Cause> {
        if !self.requested() {
            return None;
        }
        let from_within = self.from_within.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match from_within.as_ref() {
            Some(cause) => cause.clone(),
            None => Cause::Signal(self.signal.load(Ordering::Acquire) as i32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_is_named_with_its_remedy() {
        let stop = Stop::default();
        assert_eq!(stop.cause(), None);
        stop.expire(Duration::from_millis(1500));
        stop.trip("too late".to_owned());
        let cause = stop.cause().unwrap();
        assert_eq!((cause.exit(), stop.requested()), (Exit::WorkloadFailed, true));
        assert_eq!(cause, Cause::TimeLimit(Duration::from_millis(1500)));
        let said = cause.to_string();
        assert!(said.contains("1.5 s") && said.contains("`time-limit`"), "{said}");
    }
}
