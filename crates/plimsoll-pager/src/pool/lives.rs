//! The lives of processes (`/proc/PID/stat`), read without a descriptor that the program could meet.
//!
//! `open(2)` returns the lowest free number, and programs rely on it: `close(0)` and `open` replace the standard input. A thread of the
//! pager that opens a file takes that number for a moment. So a thread with a table of descriptors of its own reads the files
//! (`CLOSE_RANGE_UNSHARE`). A process has at most one such thread, which ends with the last [`Reader`].
//!
//! A child of a fork has the parent's desk, perhaps locked by a thread that it lacks: it knows by the number of the process, and makes
//! another one.
#![allow(
    unsafe_code,
    reason = "descriptors of a thread, and a desk that lives as long as its process"
)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use plimsoll_os::{Errno, ProcessLife, process_life, this_process};

use crate::fault::SignalsBlocked;

/// The life of a process, or the error of the read.
pub(super) type Life = Result<ProcessLife, Errno>;

/// The desk of this process, or of the process that forked it. None of them is ever freed.
static DESK: AtomicPtr<Desk> = AtomicPtr::new(ptr::null_mut());

/// The meeting place of the thread and of those that ask it.
struct Desk {
    /// The process that made it.
    process: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    readers: usize,
    /// None without readers, or if it could not start.
    thread: Option<JoinHandle<()>>,
    /// The number of the thread that runs, or of the next one.
    number: u64,
    question: Question,
}

/// One question is open at a time.
#[derive(Default)]
enum Question {
    #[default]
    None,
    Asked(Vec<u32>),
    /// The thread reads.
    Taken,
    Answered(Vec<Life>),
}

/// Has the thread run until it is dropped.
#[derive(Debug)]
pub(crate) struct Reader(());

impl Reader {
    /// Starts the thread, if it does not run.
    pub(crate) fn start() -> Reader {
        let desk = Desk::of_this_process();
        let mut state = desk.state();
        state.readers += 1;
        if state.readers == 1 {
            // The thread inherits the mask: no handler of the program runs on it.
            let blocked = SignalsBlocked::new();
            let thread = thread::Builder::new().name("pager-proc".to_owned());
            // Without the thread, those that ask read by themselves.
            let number = state.number;
            state.thread = thread.spawn(move || desk.serve(number)).ok();
            drop(blocked);
        }
        Reader(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(desk) = Desk::existing() else { return };
        let mut state = desk.state();
        state.readers = state.readers.saturating_sub(1);
        if state.readers == 0
            && let Some(thread) = state.thread.take()
        {
            state.number += 1;
            desk.changed.notify_all();
            drop(state);
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}

/// The lives of processes, in their order.
pub(super) fn lives_of(processes: Vec<u32>) -> Vec<Life> {
    match Desk::existing() {
        Some(desk) => desk.ask(processes),
        None => read(&processes),
    }
}

fn read(processes: &[u32]) -> Vec<Life> {
    processes.iter().map(|process| process_life(*process)).collect()
}

impl Desk {
    /// That of this process, if it has one.
    fn existing() -> Option<&'static Desk> {
        // SAFETY: null, or a desk that is never freed.
        let desk = unsafe { DESK.load(Ordering::Acquire).as_ref() };
        desk.filter(|desk| desk.process == this_process())
    }

    fn of_this_process() -> &'static Desk {
        loop {
            if let Some(desk) = Desk::existing() {
                return desk;
            }
            let former = DESK.load(Ordering::Acquire);
            let new = Box::into_raw(Box::new(Desk {
                process: this_process(),
                state: Mutex::default(),
                changed: Condvar::new(),
            }));
            let exchanged = DESK.compare_exchange(former, new, Ordering::AcqRel, Ordering::Relaxed);
            if exchanged.is_err() {
                // SAFETY: it is this call's own: no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `is_so` of the state.
    fn until<'a>(
        &self,
        state: MutexGuard<'a, State>,
        is_so: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_while(state, |state| !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, processes: Vec<u32>) -> Vec<Life> {
        let is_free = |state: &State| matches!(state.question, Question::None) || state.thread.is_none();
        let mut state = self.until(self.state(), is_free);
        if state.thread.is_none() {
            drop(state);
            return read(&processes);
        }
        state.question = Question::Asked(processes);
        self.changed.notify_all();
        let has_answer = |state: &State| !matches!(state.question, Question::Asked(_) | Question::Taken);
        let mut state = self.until(state, has_answer);
        let answer = std::mem::take(&mut state.question);
        self.changed.notify_all();
        match answer {
            Question::Answered(lives) => lives,
            _ => unreachable!("the thread answers before it ends, and those that ask take their own answer"),
        }
    }

    /// The work of the thread with this number. It answers an open question before it ends.
    fn serve(&self, number: u64) {
        // A kernel without the call (before 5.9), or a filter, leaves it the table of the program.
        // SAFETY: this thread uses no descriptor that was open before.
        let _ = unsafe { plimsoll_os::unshare_descriptors() };
        loop {
            let has_work =
                |state: &State| state.number != number || matches!(state.question, Question::Asked(_));
            let mut state = self.until(self.state(), has_work);
            let Question::Asked(processes) = &mut state.question else {
                return;
            };
            let processes = std::mem::take(processes);
            state.question = Question::Taken;
            drop(state);
            let lives = read(&processes);
            self.state().question = Question::Answered(lives);
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders of the threads with the name of the reader.
    fn threads() -> Vec<std::path::PathBuf> {
        let tasks = std::fs::read_dir("/proc/self/task").expect("there is /proc");
        let paths = tasks.filter_map(|task| Some(task.ok()?.path()));
        let is_reader = |path: &std::path::PathBuf| {
            let name = std::fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.trim() == "pager-proc")
        };
        paths.filter(is_reader).collect()
    }

    /// Many threads ask while readers come and go, as pagers of other tests of this process do. Each gets its own answers.
    #[test]
    fn each_question_has_its_answer() {
        const MOST: u32 = (1 << 22) - 1;
        let own = this_process();
        let start = |life: &Life| life.map(|life| life.start_ticks);
        let expected = process_life(own).expect("it runs").start_ticks;
        let ask = || {
            for count in 0..200 {
                let numbers = (0..count % 5).map(|at| if at % 2 == 0 { own } else { MOST });
                let numbers: Vec<u32> = numbers.collect();
                let lives = lives_of(numbers.clone());
                assert_eq!(lives.len(), numbers.len());
                for (number, life) in numbers.iter().zip(&lives) {
                    match *number == own {
                        true => assert_eq!(start(life), Ok(expected)),
                        false => assert!(life.is_err(), "{life:?}"),
                    }
                }
            }
        };
        let come_and_go = || {
            for _ in 0..200 {
                drop((Reader::start(), Reader::start()));
            }
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(ask);
            }
            scope.spawn(come_and_go);
            scope.spawn(come_and_go);
        });
        let _reader = Reader::start();
        // It has its name by the time it answers.
        assert!(lives_of(vec![own]).iter().all(Result::is_ok));
        assert!(!threads().is_empty());
    }

    /// A thread that forks has copies of all locks, also of those that other threads hold: the child asks without them.
    #[test]
    fn a_child_has_a_desk_of_its_own() {
        let reader = Reader::start();
        let desk = Desk::existing().expect("it was made");
        let held = desk.state();
        // SAFETY: the child makes a desk, and ends by a signal if it waits for the lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the calls take no memory.
            unsafe { libc::alarm(20) };
            let before = lives_of(vec![this_process()]);
            let reader = Reader::start();
            let with = lives_of(vec![this_process()]);
            drop(reader);
            let are_right = [before, with].iter().all(|lives| matches!(lives[..], [Ok(_)]));
            // SAFETY: the child ends without the parent's handlers.
            unsafe { libc::_exit(i32::from(!are_right)) };
        }
        drop(held);
        let mut status = -1;
        // SAFETY: the kernel writes the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(reader);
    }

    /// Its files have numbers of its own table: the lowest of this process stays free.
    #[test]
    fn the_thread_has_a_table_of_its_own() {
        let reader = Reader::start();
        lives_of(vec![this_process()]);
        // That of an earlier test may be about to end.
        let tables: Vec<usize> = threads()
            .iter()
            .filter_map(|thread| Some(std::fs::read_dir(thread.join("fd")).ok()?.count()))
            .collect();
        // At most the file that it reads for another test.
        assert!(tables.iter().any(|descriptors| *descriptors <= 1), "{tables:?}");
        drop(reader);
    }
}
