//! The scheduling of the helper: that of the program's first thread, but never real-time.
//!
//! `clone(2)` gives a new thread the policy, the nice value and the processors of the thread that starts it, which is
//! any thread that frees memory: one with a real-time policy, bound to the processor of its interrupts, with the lowest
//! priority. The helper belongs to none of them. Where a user bound the program as a whole (`taskset`, a cpuset), its
//! first thread is bound, and so is the helper.
#![allow(unsafe_code)]

use crate::raw::system_call;
use crate::restartable::Mask;
use crate::this_process;

/// Has the calling thread run as the process's first thread does, except for a real-time policy.
pub(super) fn settle() {
    leave_real_time();
    take_over_nice_value();
    take_over_processors();
}

fn leave_real_time() {
    // SAFETY: the call takes no memory.
    let policy = unsafe { system_call(libc::SYS_sched_getscheduler, [0; 6]) };
    let policy = policy.map_or(libc::SCHED_OTHER, |policy| {
        policy as i32 & !libc::SCHED_RESET_ON_FORK
    });
    if policy == libc::SCHED_FIFO || policy == libc::SCHED_RR {
        // Its one field is the priority; the policy has that one.
        let parameters = 0_i32;
        let arguments = [
            0,
            libc::SCHED_OTHER as usize,
            (&raw const parameters) as usize,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel reads the number. A thread may always leave a real-time policy.
        let _ = unsafe { system_call(libc::SYS_sched_setscheduler, arguments) };
    }
}

fn take_over_nice_value() {
    // The kernel returns 20 less the nice value, as a negative number would be an error.
    let nice_value = |thread: u32| {
        let arguments = [libc::PRIO_PROCESS as usize, thread as usize, 0, 0, 0, 0];
        // SAFETY: the call takes no memory.
        unsafe { system_call(libc::SYS_getpriority, arguments) }.map(|value| 20 - value as isize)
    };
    let (own, program) = (nice_value(0), nice_value(this_process()));
    if let Ok(program) = program
        && own != Ok(program)
    {
        let arguments = [libc::PRIO_PROCESS as usize, 0, program as usize, 0, 0, 0];
        // SAFETY: the call takes no memory. A lower value may be refused: then the helper keeps its own.
        let _ = unsafe { system_call(libc::SYS_setpriority, arguments) };
    }
}

fn take_over_processors() {
    let (own, program) = (Mask::of_thread(0), Mask::of_thread(this_process()));
    if let (Some(own), Some(program)) = (own, program)
        && own != program
    {
        program.set_for_this_thread();
    }
}
