//! Resource limits of the process. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// The soft limit of a resource (`getrlimit(2)`); none if it is unlimited.
pub(crate) fn current(resource: usize) -> Option<u64> {
    let mut limit = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let arguments = [0, resource, 0, &raw mut limit as usize, 0, 0];
    // SAFETY: the kernel writes the limit, which outlives the call.
    let got = unsafe { system_call(libc::SYS_prlimit64, arguments) };
    (got.is_ok() && limit.rlim_cur != libc::RLIM64_INFINITY).then_some(limit.rlim_cur)
}
