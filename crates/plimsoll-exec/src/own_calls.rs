//! Results of system calls that the library makes for itself. Those of the program keep their `EINTR`.

use plimsoll_os::{Errno, repeat_interrupted};

/// The result of a call of the kernel, which is made again while a signal interrupts it.
pub(crate) fn repeated(mut call: impl FnMut() -> isize) -> isize {
    let result = repeat_interrupted(|| result_of(call()));
    result.map_or_else(|errno| -(errno.raw() as isize), |value| value as isize)
}

/// The value that the kernel returned, or the error.
pub(crate) fn result_of(returned: isize) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| Errno::of_number(-returned as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interrupted look at a program on another file system counted as an answer.
    #[test]
    fn an_interrupted_call_is_made_again_and_another_result_is_its_own() {
        const INTERRUPTED: isize = -(libc::EINTR as isize);
        for last in [0, 20, -(libc::ENODATA as isize)] {
            let mut results = [INTERRUPTED, INTERRUPTED, last].into_iter();
            assert_eq!(repeated(|| results.next().expect("a result is left")), last);
        }
        assert_eq!(repeated(|| INTERRUPTED), INTERRUPTED);
    }
}
