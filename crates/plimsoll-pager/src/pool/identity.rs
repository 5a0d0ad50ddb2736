//! The name of a process that is never used again: its number and its start.

use std::io;
use std::num::NonZeroU64;

#[cfg(not(loom))]
use plimsoll_os::Errno;
use plimsoll_os::{process_life, this_process};

#[cfg(not(loom))]
use super::lives::{Life, lives_of};

/// Bits of a process number: the kernel's numbers are below 2^22 (`PID_MAX_LIMIT`).
const PID_BITS: u32 = 22;
/// Bits of a start: ticks of 10 ms in 1393 years.
const START_BITS: u32 = u64::BITS - PID_BITS;

/// A process of this machine since its boot, in one word: the number in the low 22 bits, the start in clock ticks above. So
/// one compare-and-swap takes a row and names its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(NonZeroU64);

/// The state of a process as far as a pool looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It runs, or nothing is known of it.
    Runs,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It has ended, and its memory is released. It stays so.
    Ended,
}

impl Identity {
    /// The identity of that process; none if the numbers are not those of a process.
    pub(crate) fn new(pid: u32, start_ticks: u64) -> Option<Identity> {
        if pid == 0 || pid >> PID_BITS != 0 || start_ticks >> START_BITS != 0 {
            return None;
        }
        NonZeroU64::new(u64::from(pid) | start_ticks << PID_BITS).map(Identity)
    }

    /// That of this process.
    ///
    /// # Errors
    /// `/proc` cannot be read, or is that of another PID namespace.
    pub(crate) fn of_this_process() -> io::Result<Identity> {
        let pid = this_process();
        let own = std::fs::read_link("/proc/self")?;
        if own.to_str() != Some(&pid.to_string()) {
            let text = "/proc is that of another PID namespace";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let life = process_life(pid).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
        Identity::new(pid, life.start_ticks)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the process number is out of range"))
    }

    /// The identity in a word of shared memory; none in 0 and in a word that names no process.
    pub(crate) fn from_word(word: u64) -> Option<Identity> {
        let pid = word & ((1 << PID_BITS) - 1);
        Identity::new(pid as u32, word >> PID_BITS)
    }

    /// The word of shared memory for it.
    pub(crate) fn word(self) -> u64 {
        self.0.get()
    }

    /// The number of the process.
    pub fn pid(self) -> u32 {
        (self.0.get() & ((1 << PID_BITS) - 1)) as u32
    }

    /// The start of the process in clock ticks since boot.
    pub fn start_ticks(self) -> u64 {
        self.0.get() >> PID_BITS
    }

    /// Whether no process has the number any more: quickly, and never true of a process that has ended and is not waited for.
    #[cfg(not(loom))]
    pub(crate) fn is_gone(self) -> bool {
        let pid = i32::try_from(self.pid())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
    }

    /// Whether the process runs.
    #[cfg(not(loom))]
    pub(crate) fn condition(self) -> Condition {
        let lives = lives_of(vec![self.pid()]);
        lives
            .first()
            .map_or(Condition::Runs, |life| self.condition_of(*life))
    }

    /// Whether these processes run, in their order. All are read at once.
    #[cfg(not(loom))]
    pub(crate) fn conditions(identities: &[Identity]) -> Vec<Condition> {
        let lives = lives_of(identities.iter().map(|identity| identity.pid()).collect());
        let pairs = identities.iter().zip(lives);
        pairs
            .map(|(identity, life)| identity.condition_of(life))
            .collect()
    }

    /// The condition that this life shows. An error other than "no such process" leaves open whether the process runs: it counts as
    /// running, so that its share is not given out while it may use it.
    #[cfg(not(loom))]
    fn condition_of(self, life: Life) -> Condition {
        match life {
            Ok(life) if life.has_ended || life.start_ticks != self.start_ticks() => Condition::Ended,
            Ok(life) if life.is_stopped => Condition::Stopped,
            Err(errno) if errno == Errno::SRCH || errno.raw() == rustix::io::Errno::NOENT.raw_os_error() => {
                Condition::Ended
            }
            Ok(_) | Err(_) => Condition::Runs,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_one_process() {
        let own = Identity::of_this_process().expect("there is /proc");
        assert_eq!(own.pid(), std::process::id());
        assert_eq!(Identity::from_word(own.word()), Some(own));
        assert_eq!(own.condition(), Condition::Runs);
        let largest = Identity::new((1 << PID_BITS) - 1, (1 << START_BITS) - 1).expect("it fits");
        assert_eq!(Identity::from_word(largest.word()), Some(largest));
        assert_eq!(Identity::new(1 << PID_BITS, 1), None);
        assert_eq!(Identity::new(1, 1 << START_BITS), None);
        assert_eq!(Identity::from_word(0), None);
        assert_eq!(
            Identity::from_word(5 << PID_BITS),
            None,
            "no process has number 0"
        );
    }

    /// A number that is in use again belongs to another process.
    #[test]
    fn a_number_with_another_start_has_ended() {
        let own = Identity::of_this_process().expect("there is /proc");
        let former = Identity::new(own.pid(), own.start_ticks() - 1).expect("it fits");
        assert_eq!(former.condition(), Condition::Ended);
        let none = Identity::new((1 << PID_BITS) - 1, 1).expect("it fits");
        assert_eq!(none.condition(), Condition::Ended);
    }
}
