//! Threads that begin, meet and end together, and allocate nothing by themselves.
//!
//! Rust's own threads free memory when they begin, so that the allocator would set up its part of each thread before
//! the load does. These threads are made by `pthread_create` and run on memory of the first member.
//!
//! Premises of the unsafe code: the first member joins all others before it returns, so their borrows outlive them;
//! each thread has one [`Start`] of its own, which no other thread touches until the thread is joined.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Barrier, Condvar, Mutex};

use crate::error::LoadError;

/// Bytes of a thread's stack. Only its used part becomes resident.
const STACK: usize = 256 << 10;

/// A thread of a crew, as the load's code sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'a> {
    /// 0 for the calling thread.
    pub(crate) index: usize,
    barrier: &'a Barrier,
}

impl Member<'_> {
    /// Waits until every member is here. All must come, also after an error.
    pub(crate) fn meet(self) {
        self.barrier.wait();
    }

    /// Has the first member do something while all others wait.
    pub(crate) fn first<T>(self, task: impl FnOnce() -> T) -> Option<T> {
        self.meet();
        let done = (self.index == 0).then(task);
        self.meet();
        done
    }
}

/// Whether the threads may begin: not before all could be started.
struct Gate {
    open: Mutex<Option<bool>>,
    changed: Condvar,
}

struct Start<'a, R, F> {
    body: &'a F,
    gate: &'a Gate,
    member: Member<'a>,
    result: Option<R>,
}

/// Runs `body` in `members` threads, the calling one among them, so that a crew of one stays a program of one thread.
///
/// Returns the result of each. A panic in any of them aborts the process, as the others would wait for ever.
pub(crate) fn run<R: Send, F: Fn(Member<'_>) -> R + Sync>(
    members: usize,
    body: F,
) -> Result<Vec<R>, LoadError> {
    let barrier = Barrier::new(members);
    let gate = Gate {
        open: Mutex::new(None),
        changed: Condvar::new(),
    };
    let start = |index| Start {
        body: &body,
        gate: &gate,
        member: Member {
            index,
            barrier: &barrier,
        },
        result: None,
    };
    let mut starts: Vec<Start<'_, R, F>> = (0..members).map(start).collect();
    let mut handles = Vec::with_capacity(members);
    let at = starts.as_mut_ptr();
    let mut failed = None;
    for index in 1..members {
        // SAFETY: the start is inside of the vector, which is not touched before the threads are joined.
        match unsafe { create(at.add(index)) } {
            Ok(handle) => handles.push(handle),
            Err(reason) => {
                failed = Some(reason);
                break;
            }
        }
    }
    *gate.open.lock().expect("no thread panics with it") = Some(failed.is_none());
    gate.changed.notify_all();
    enter::<R, F>(at.cast());
    for handle in handles {
        // SAFETY: the thread was created and is joined once.
        let joined = unsafe { libc::pthread_join(handle, std::ptr::null_mut()) };
        assert_eq!(joined, 0, "a thread that exists can be joined");
    }
    match failed {
        Some(reason) => Err(LoadError::Thread {
            wanted: members,
            reason,
        }),
        None => {
            let results = starts.into_iter().map(|start| start.result);
            Ok(results.map(|result| result.expect("the gate was open")).collect())
        }
    }
}

/// Creates the thread of a start.
///
/// # Safety
/// The start outlives the thread, and no other thread touches it until the thread is joined.
unsafe fn create<R: Send, F: Fn(Member<'_>) -> R + Sync>(
    start: *mut Start<'_, R, F>,
) -> io::Result<libc::pthread_t> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut handle = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: the attributes are initialised before they are used and destroyed after; the start is the caller's
    // premise, and `enter` takes a pointer to just such a start.
    let code = unsafe {
        libc::pthread_attr_init(attributes.as_mut_ptr());
        libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), STACK);
        let code = libc::pthread_create(
            handle.as_mut_ptr(),
            attributes.as_ptr(),
            enter::<R, F>,
            start.cast(),
        );
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        code
    };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    // SAFETY: the thread was created, so its handle was written.
    Ok(unsafe { handle.assume_init() })
}

/// The entry of a thread: waits at the gate, then runs the body. Unwinding out of it aborts.
extern "C" fn enter<R: Send, F: Fn(Member<'_>) -> R + Sync>(start: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `run` and `create` pass a start of these types, which is this thread's alone.
    let start = unsafe { &mut *start.cast::<Start<'_, R, F>>() };
    let mut open = start.gate.open.lock().expect("no thread panics with it");
    while open.is_none() {
        open = start.gate.changed.wait(open).expect("no thread panics with it");
    }
    let may_begin = *open == Some(true);
    drop(open);
    if may_begin {
        start.result = Some((start.body)(start.member));
    }
    std::ptr::null_mut()
}
