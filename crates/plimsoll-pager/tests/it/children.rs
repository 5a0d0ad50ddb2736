//! Forked children of a test, and words that they share with it.
//!
//! A test that forks runs in a process of its own (`plimsoll_testkit::again`), so that its children are those of no other
//! test.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_os::SharedWords;

/// The user without privileges that tests of root become.
const NOBODY: u32 = 65534;

/// The folder of a pool, in which a process that starts with [`alone_as_nobody`] is.
const FOLDER: &str = "PLIMSOLL_TEST_POOL_FOLDER";

/// The name in that folder of a copy of this program, if nobody may not execute the original.
const COPY: &str = "program";

pub(crate) fn is_root() -> bool {
    // SAFETY: takes no memory.
    unsafe { libc::geteuid() == 0 }
}

/// A folder of the user nobody, if this is root; else of this user.
pub(crate) fn folder_of_nobody() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    if is_root() {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
    }
    folder
}

/// Becomes the user nobody, if this is root.
pub(crate) fn become_nobody() {
    if is_root() {
        // SAFETY: these take numbers.
        unsafe {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
            // The change made /proc/self/fd root's.
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
        }
    }
}

/// Runs `work` with the folder of a pool in a new process of `test`, as nobody if this is root. Children that `work` leaves are
/// waited for by this new process, whose parent they get.
pub(crate) fn alone_as_nobody(test: &str, work: impl FnOnce(&Path)) {
    if plimsoll_testkit::role().is_some() {
        become_nobody();
        // SAFETY: takes numbers.
        let done = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        assert_eq!(done, 0);
        return work(&folder_of_test());
    }
    let folder = folder_of_nobody();
    let program = std::env::current_exe().expect("this program has a path");
    let mode = program.metadata().expect("it is there").mode();
    // As built under umask 077, for `this_program_again`.
    if is_root() && mode & 1 == 0 {
        plimsoll_testkit::copy_program(program, folder.path().join(COPY));
    }
    let status = plimsoll_testkit::again(test, "alone")
        .env(FOLDER, folder.path())
        .status()
        .expect("the test program starts");
    assert!(status.success(), "{status}");
}

/// A command that runs `test` in this program again, in the role that this process has. The user may have no right to the
/// folder of the program, or to the program itself.
pub(crate) fn this_program_again(test: &str) -> Command {
    let copy = folder_of_test().join(COPY);
    let program = if copy.exists() {
        &copy
    } else {
        Path::new("/proc/self/exe")
    };
    let mut command = plimsoll_testkit::command(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// The folder that [`alone_as_nobody`] made.
pub(crate) fn folder_of_test() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("the test sets it"))
}

/// A forked child. It ends by SIGKILL at the latest when the value is dropped.
pub(crate) struct Child(Option<i32>);

impl Child {
    /// Forks a child that does `work` and ends with code 0, or 101 after a panic.
    pub(crate) fn fork(work: impl FnOnce()) -> Child {
        // This process has no other thread that matters to the child: the C library's allocator handles forks.
        let pid = plimsoll_testkit::fork(600, || {
            work();
            0
        });
        Child(Some(pid))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.expect("it was not waited for") as u32
    }

    pub(crate) fn send(&self, signal: i32) {
        // SAFETY: the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, signal) }, 0);
    }

    /// The wait status of the child after its end.
    pub(crate) fn wait(mut self) -> i32 {
        wait(self.0.take().expect("once"))
    }

    /// Kills the child, and checks that it lived until then.
    pub(crate) fn kill(self) {
        self.send(libc::SIGKILL);
        let status = self.wait();
        assert!(
            libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL,
            "the child ended before: {status:#x}"
        );
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            // SAFETY: as in `send`.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            wait(pid);
        }
    }
}

/// A program that a test started. It ends by SIGKILL at the latest when the value is dropped, also by a panic.
pub(crate) struct Started(pub(crate) std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        // One that has ended needs neither.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a child, also one that another process left.
pub(crate) fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

/// Words that forked children share with the test.
pub(crate) struct Shared(SharedWords);

impl Shared {
    pub(crate) fn new(folder: &Path) -> Shared {
        let file = tempfile::tempfile_in(folder).expect("the folder is this user's");
        file.set_len(4096).expect("there is space");
        Shared(SharedWords::map(file.as_raw_fd(), 512).expect("the file can be mapped"))
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.0.words()[at]
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::SeqCst);
        self.0.wake(at);
    }

    /// Sleeps until the word may have changed, for a while at most.
    pub(crate) fn rest(&self, at: usize, limit: Duration) {
        self.0.wait(at, self.get(at), limit);
    }

    /// Waits until the word is at least `value`.
    pub(crate) fn wait_for(&self, at: usize, value: u64) {
        loop {
            let now = self.get(at);
            if now >= value {
                return;
            }
            self.0.wait(at, now, Duration::from_millis(100));
        }
    }
}

/// Resident anonymous bytes of a process; 0 if it has ended.
pub(crate) fn resident_of(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.map_or(0, |kib| kib.trim().parse::<u64>().expect("a number") << 10)
}

/// Random numbers (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
