//! The lives of processes (`/proc/PID/stat`), read without a descriptor in the program's table.
//!
//! `open(2)` returns the lowest free number, and programs rely on it: `close(0)` and `open` replace the standard input. A thread of the
//! pager that opens a file takes that number for a moment. So a thread with a table of descriptors of its own reads the files
//! (`CLOSE_RANGE_UNSHARE`). A process has at most one such thread, which ends with the last [`Reader`]. If it cannot start, callers read
//! the files themselves. If the kernel refuses it a table of its own, it uses that of the program.
//!
//! The table lacks the pager's descriptors, so the thread cannot resolve a fault: it must not touch managed memory. An embedder keeps its
//! global allocator off the pager's memory, as for the other threads of the pager.
//!
//! A child of a fork has a copy of the parent's [`Exchange`], which a thread that the child lacks may have locked. The exchange knows
//! that it is a copy, and the child makes its own.
#![allow(
    unsafe_code,
    reason = "descriptors of a thread, and an exchange that lives as long as its process"
)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use plimsoll_os::{Errno, Origin, ProcessLife, process_life};

use crate::own_thread::OwnThread;

/// The life of a process, or the error of the read.
pub(super) type Life = Result<ProcessLife, Errno>;

/// That of this process, or of the process that forked it. None is ever freed.
static EXCHANGE: AtomicPtr<Exchange> = AtomicPtr::new(ptr::null_mut());

/// The questions to the thread and its answers.
struct Exchange {
    /// The process that made it.
    origin: Origin,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    readers: usize,
    /// None while there are no readers, or if it could not start.
    thread: Option<OwnThread>,
    /// The number of the thread that runs, or of the next one.
    number: u64,
    /// Whether the thread has its table: it may hold copies of the program's open files before.
    has_table: bool,
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

/// Keeps the thread running until this value is dropped.
#[derive(Debug)]
pub(crate) struct Reader(());

impl Reader {
    /// Starts the thread, if it does not run.
    ///
    /// # Errors
    /// The process has no room for a mapping.
    pub(crate) fn start() -> Result<Reader, Errno> {
        let exchange = Exchange::of_this_process()?;
        let mut state = exchange.state();
        state.readers += 1;
        if state.thread.is_none() {
            state.has_table = false;
            let number = state.number;
            state.thread = OwnThread::start(c"pager-proc", move || exchange.serve(number)).ok();
        }
        Ok(Reader(()))
    }

    /// Waits until the thread has its table. A file that the program closes before then may stay open for a moment: a peer would see the
    /// end of a pipe late, and an `execve(2)` of a file just written could fail with `ETXTBSY`.
    pub(crate) fn wait(&self) {
        if let Some(exchange) = Exchange::existing() {
            let is_ready = |state: &State| state.has_table || state.thread.is_none();
            drop(exchange.until(exchange.state(), is_ready));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(exchange) = Exchange::existing() else {
            return;
        };
        let mut state = exchange.state();
        state.readers = state.readers.saturating_sub(1);
        if state.readers == 0
            && let Some(thread) = state.thread.take()
        {
            state.number += 1;
            exchange.changed.notify_all();
            drop(state);
            thread.join();
        }
    }
}

/// The lives of processes, in their order.
pub(super) fn lives_of(processes: Vec<u32>) -> Vec<Life> {
    match Exchange::existing() {
        Some(exchange) => exchange.ask(processes),
        None => read(&processes),
    }
}

fn read(processes: &[u32]) -> Vec<Life> {
    processes.iter().map(|process| process_life(*process)).collect()
}

impl Exchange {
    /// That of this process, if it has one.
    fn existing() -> Option<&'static Exchange> {
        // SAFETY: null, or one that is never freed.
        let exchange = unsafe { EXCHANGE.load(Ordering::Acquire).as_ref() };
        exchange.filter(|exchange| exchange.origin.is_here())
    }

    fn of_this_process() -> Result<&'static Exchange, Errno> {
        loop {
            if let Some(exchange) = Exchange::existing() {
                return Ok(exchange);
            }
            let former = EXCHANGE.load(Ordering::Acquire);
            let new = Box::into_raw(Box::new(Exchange {
                origin: Origin::here()?,
                state: Mutex::default(),
                changed: Condvar::new(),
            }));
            let exchanged = EXCHANGE.compare_exchange(former, new, Ordering::AcqRel, Ordering::Relaxed);
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
        // Kernels before 5.9 lack the call, and a filter may refuse it.
        // SAFETY: this thread uses no descriptor that was open before: it touches no managed memory.
        let _ = unsafe { plimsoll_os::unshare_descriptors() };
        {
            let mut state = self.state();
            state.has_table |= state.number == number;
        }
        self.changed.notify_all();
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
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::thread;

    use plimsoll_os::this_process;

    use super::*;

    /// Above all numbers of processes.
    const NONE: u32 = 1 << 22;

    /// The folders in `/proc` of the threads with the reader's name.
    fn threads() -> Vec<PathBuf> {
        let tasks = fs::read_dir("/proc/self/task").expect("there is /proc");
        let paths = tasks.filter_map(|task| Some(task.ok()?.path()));
        let is_reader = |path: &PathBuf| {
            let name = fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.trim() == "pager-proc")
        };
        paths.filter(is_reader).collect()
    }

    /// Many threads ask while readers come and go. Each gets the answers to its own question.
    #[test]
    fn each_question_has_its_answer() {
        let own = this_process();
        let expected = process_life(own).expect("it runs").start_ticks;
        let ask = || {
            for count in 0..200 {
                let numbers = (0..count % 5).map(|at| if at % 2 == 0 { own } else { NONE });
                let numbers: Vec<u32> = numbers.collect();
                let lives = lives_of(numbers.clone());
                assert_eq!(lives.len(), numbers.len());
                for (number, life) in numbers.iter().zip(&lives) {
                    let start = life.map(|life| life.start_ticks);
                    match *number == own {
                        true => assert_eq!(start, Ok(expected)),
                        false => assert!(start.is_err(), "{life:?}"),
                    }
                }
            }
        };
        let come_and_go = || {
            for _ in 0..200 {
                let readers = [Reader::start(), Reader::start()];
                assert!(readers.iter().all(Result::is_ok));
            }
        };
        let all = |with_ends: bool| {
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(ask);
                }
                if with_ends {
                    scope.spawn(come_and_go);
                    scope.spawn(come_and_go);
                }
            });
        };
        all(true);
        let _reader = Reader::start().expect("there is room");
        all(false);
    }

    /// The child of a fork has copies of all locks, also of those that other threads hold: it asks without them.
    #[test]
    fn a_child_makes_its_own_exchange() {
        let _reader = Reader::start().expect("there is room");
        let exchange = Exchange::existing().expect("it was made");
        let held = exchange.state();
        let child = plimsoll_testkit::fork(20, || {
            let before = lives_of(vec![this_process()]);
            let reader = Reader::start();
            let with = lives_of(vec![this_process()]);
            let are_right = [before, with].iter().all(|lives| matches!(lives[..], [Ok(_)]));
            i32::from(!are_right || reader.is_err())
        });
        drop(held);
        let mut status = -1;
        // SAFETY: the kernel writes the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }

    /// The thread had files of the program open, or the program those of the thread.
    #[test]
    fn the_thread_has_none_of_the_programs_files() {
        let files: Vec<File> = (0..10)
            .map(|_| File::open("/dev/null").expect("there is one"))
            .collect();
        let reader = Reader::start().expect("there is room");
        reader.wait();
        let counts = || -> Vec<usize> {
            let open = |thread: &PathBuf| Some(fs::read_dir(thread.join("fd")).ok()?.count());
            threads().iter().filter_map(open).collect()
        };
        // That of an earlier test may be about to end, and has no files then.
        let counts = (0..1000).find_map(|_| {
            thread::yield_now();
            let counts = counts();
            (counts.len() == 1).then_some(counts)
        });
        // At most the file that it reads for another test.
        assert!(counts.as_ref().is_some_and(|counts| counts[0] <= 1), "{counts:?}");
        drop(files);
    }
}
