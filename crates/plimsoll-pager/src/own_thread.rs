//! A thread of the pager, started by the C library alone.
//!
//! `std::thread` takes memory from the C library: for the handle of a thread, and for the list of its destructors
//! (`__cxa_thread_atexit_impl`). That memory comes from the `malloc` of the program. The threads of a forked child start before the
//! program's handlers of `pthread_atfork(3)`, while the program may hold the locks of its `malloc`: such a thread would wait for the
//! forking thread, and the forking thread waits for it. Here, the closure is memory of this library's allocator, and the C library
//! uses the stack, with its thread-local storage, of a thread of the parent.
//!
//! So the code of such a thread uses no thread-local value with a destructor, `std::thread::current` included. Checked by
//! `a_program_with_an_allocator_of_its_own_forks`.
#![allow(unsafe_code, reason = "threads of the C library")]

use std::ffi::{CStr, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_os::Errno;

use crate::signals_blocked::SignalsBlocked;

/// As of the standard library. All threads have the same size, so that those of a forked child find the parent's stacks.
const STACK: usize = 2 << 20;

/// A thread on which no handler of the program runs. It goes on if this value is dropped.
#[derive(Debug)]
pub(crate) struct OwnThread {
    /// A `pthread_t`: an integer or a pointer, by the C library.
    thread: usize,
    is_over: Arc<AtomicBool>,
}

struct Start {
    name: &'static CStr,
    work: Box<dyn FnOnce() + Send>,
    is_over: Arc<AtomicBool>,
}

impl OwnThread {
    pub(crate) fn start(
        name: &'static CStr,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<OwnThread, Errno> {
        let is_over = Arc::new(AtomicBool::new(false));
        let start = Box::into_raw(Box::new(Start {
            name,
            work: Box::new(work),
            is_over: is_over.clone(),
        }));
        // The thread inherits the mask.
        let blocked = SignalsBlocked::new();
        let created = create(start.cast());
        drop(blocked);
        match created {
            Ok(thread) => Ok(OwnThread { thread, is_over }),
            Err(error) => {
                // SAFETY: no thread has it.
                drop(unsafe { Box::from_raw(start) });
                Err(Errno::of_number(error))
            }
        }
    }

    /// Whether the work has ended. The thread may still run for a moment.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Waits for the end of the thread.
    pub(crate) fn join(self) {
        let mut ended = ManuallyDrop::new(self);
        // SAFETY: the thread is joined once, and not detached: the drop of the value does not run. Its flag is dropped once too.
        unsafe {
            libc::pthread_join(ended.thread as libc::pthread_t, null_mut());
            ptr::drop_in_place(&raw mut ended.is_over);
        }
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        // SAFETY: the thread of this value, neither joined nor detached before.
        unsafe { libc::pthread_detach(self.thread as libc::pthread_t) };
    }
}

fn create(start: *mut c_void) -> Result<usize, i32> {
    let result = |code| match code {
        0 => Ok(()),
        error => Err(error),
    };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the first call initialises the attributes, and the third one the thread if it succeeds. `start` is for the thread alone.
    unsafe {
        result(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        // It fails for a size below the least of the machine, with large thread-local storage: then the C library's default.
        let _ = libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let mut created = libc::pthread_create(thread.as_mut_ptr(), attributes.as_ptr(), run, start);
        if created == libc::EINVAL {
            created = libc::pthread_create(thread.as_mut_ptr(), null(), run, start);
        }
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        result(created)?;
        Ok(thread.assume_init() as usize)
    }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: the value that `OwnThread::start` passed to this thread.
    let start = unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: a string that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, start.name.as_ptr()) };
    let Start { work, is_over, .. } = *start;
    // A panic has reported itself.
    let _ = catch_unwind(AssertUnwindSafe(work));
    is_over.store(true, Ordering::Release);
    null_mut()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_has_its_name_and_ends_after_its_work() {
        let (send, receive) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let thread = OwnThread::start(c"pager-of-a-test", move || {
            let name = std::fs::read_to_string("/proc/thread-self/comm");
            send.send(name).expect("the test waits");
            let _ = wait.recv();
        })
        .expect("a thread");
        let name = receive.recv().expect("a name").expect("there is /proc");
        assert_eq!(name.trim_end(), "pager-of-a-test");
        assert!(!thread.is_finished());
        go.send(()).expect("the thread waits");
        let is_over = thread.is_over.clone();
        thread.join();
        assert!(is_over.load(Ordering::Acquire));
    }

    #[test]
    fn a_panic_ends_the_work_alone() {
        let thread = OwnThread::start(c"panics", || panic!("of a test")).expect("a thread");
        let is_over = thread.is_over.clone();
        thread.join();
        assert!(is_over.load(Ordering::Acquire));
    }
}
