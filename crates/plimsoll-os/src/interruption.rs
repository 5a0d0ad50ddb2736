//! System calls that a signal interrupts before they have an effect.

use crate::Errno;

/// Interrupted tries in a row after which the error is returned: signals that come faster than the call ends would repeat it
/// for ever.
const MOST_TRIES: usize = 100;

/// Makes a call again while it returns [`Errno::INTR`], up to 100 times.
///
/// For a call that has no effect if it is interrupted, and that does not wait for an event: a signal ends such a wait more often
/// than that. Not for `close(2)`, which has closed the descriptor, nor for a call of a program, whose `EINTR` is the program's.
/// It may be used in a signal handler.
///
/// # Errors
/// That of the call; [`Errno::INTR`] if signals interrupt each try.
pub fn repeat_interrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 1..MOST_TRIES {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, and the tries, of a call that signals interrupt `interrupts` times.
    fn repeated(interrupts: usize, last: Result<u8, Errno>) -> (Result<u8, Errno>, usize) {
        let mut tries = 0;
        let result = repeat_interrupted(|| {
            tries += 1;
            if tries <= interrupts {
                Err(Errno::INTR)
            } else {
                last
            }
        });
        (result, tries)
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        for interrupts in [0, 1, MOST_TRIES - 1] {
            assert_eq!(repeated(interrupts, Ok(7)), (Ok(7), interrupts + 1));
            let full = Err(Errno::NOSPC);
            assert_eq!(repeated(interrupts, full), (full, interrupts + 1));
        }
    }

    /// A timer of the program that is shorter than the call would hold its thread for ever.
    #[test]
    fn a_call_that_signals_always_interrupt_ends() {
        assert_eq!(repeated(usize::MAX, Ok(7)), (Err(Errno::INTR), MOST_TRIES));
    }
}
