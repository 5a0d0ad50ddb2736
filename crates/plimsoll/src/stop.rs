//! Why a run ends before its time: a signal, or the tripwire.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::exit::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// A request to stop, seen by everything that waits.
#[derive(Debug, Default)]
pub struct Stop {
    requested: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    /// The last signal that nobody has taken yet, 0 for none.
    fresh: Arc<AtomicUsize>,
    tripped: Mutex<Option<String>>,
}

/// Who asked for the stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// A signal, by number.
    Signal(i32),
    /// The tripwire, with its reason.
    Tripwire(String),
}

impl Cause {
    /// How the program ends for it.
    pub fn exit(&self) -> Exit {
        match self {
            Cause::Signal(_) => Exit::Killed,
            Cause::Tripwire(_) => Exit::Missing,
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
        }
    }
}

impl Stop {
    /// Takes over SIGINT, SIGTERM, SIGHUP and SIGQUIT for the rest of the process's life. Further signals change nothing:
    /// what is being undone is undone to its end.
    pub fn install() -> std::io::Result<Arc<Stop>> {
        let stop = Arc::new(Stop::default());
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize)?;
            signal_hook::flag::register_usize(signal, Arc::clone(&stop.fresh), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&stop.requested))?;
        }
        Ok(stop)
    }

    /// The flag that waiting code looks at.
    pub fn flag(&self) -> &AtomicBool {
        &self.requested
    }

    /// Whether somebody asked for a stop.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Acquire)
    }

    /// The last signal that came since this was last asked: for who passes signals on.
    pub fn next_signal(&self) -> Option<i32> {
        let number = self.fresh.swap(0, Ordering::AcqRel);
        (number != 0).then_some(number as i32)
    }

    /// Asks for a stop to protect the machine.
    pub fn trip(&self, reason: String) {
        self.tripped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(reason);
        self.requested.store(true, Ordering::Release);
    }

    /// Who asked, if anybody did.
    pub fn cause(&self) -> Option<Cause> {
        if !self.requested() {
            return None;
        }
        let tripped = self.tripped.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match tripped.as_ref() {
            Some(reason) => Cause::Tripwire(reason.clone()),
            None => Cause::Signal(self.signal.load(Ordering::Acquire) as i32),
        })
    }
}
