//! Real programs on the engine pager, as a user without rights: their output equals that of a run without it, and their
//! processes stay in their RAM.
//!
//! Each case names two budgets: about a half and about a quarter of the most memory that its largest process has
//! without a limit, or more where the time limit of the program's own tests needs it. `--nocapture` prints the measured memory and times.

mod compilers;
mod databases;
pub(crate) mod killed;
mod memory;
mod python;
mod runtimes;
mod tools;
mod trees;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use memory::Peak;
use plimsoll_testkit::{capability, copy_program};
use tempfile::TempDir;

use super::{PLIMSOLL, text};
use crate::heap::NOBODY;

const MIB: u64 = 1 << 20;

/// Folders of programs. The caller's own may be closed to user nobody.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The longest run of a program. The machine may be several times slower than that of the benchmark.
const PATIENCE: Duration = Duration::from_secs(300);

/// The time between two looks for the end of a program.
const POLL: Duration = Duration::from_millis(5);

/// Whether all these programs are in [`PATH`].
pub(super) fn installed(programs: &[&str]) -> bool {
    programs.iter().all(|program| {
        let available = PATH
            .split(':')
            .any(|folder| Path::new(folder).join(program).exists());
        capability(program, available, "there is no such program in /usr/bin")
    })
}

/// A source file of these tests.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// A program, and the files that it reads and writes.
#[derive(Clone, Copy, Default)]
struct Case<'a> {
    name: &'a str,
    arguments: &'a [&'a str],
    variables: &'a [(&'a str, &'a str)],
    /// Source files of these tests that the program reads.
    sources: &'a [&'a str],
    /// Commands of a shell that make its other input, without a limit.
    before: &'a str,
    /// Commands of a shell after it, without a limit. Their output counts as that of the program.
    after: &'a str,
    /// Whether it runs as the caller: its files may be closed to others.
    keeps_user: bool,
    /// Whether its processes may have more than their budget for a moment, as after a fork with much memory.
    exceeds_briefly: bool,
}

/// The end of a run.
struct Ended {
    status: ExitStatus,
    output: String,
    errors: String,
    peak: Peak,
    time: Duration,
}

/// A folder for one run, whose owner is the user of the program: nobody, where the caller is root.
pub(super) struct Place {
    folder: TempDir,
    /// Whether the program runs as the caller, root too.
    keeps_user: bool,
}

impl Place {
    pub(super) fn new() -> Place {
        Place::of(false)
    }

    /// As [`Place::new`], for a program that runs as the caller.
    fn of_caller() -> Place {
        Place::of(true)
    }

    fn of(keeps_user: bool) -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("opened");
        let place = Place { folder, keeps_user };
        for own in [place.work(), place.temporary(), place.cache()] {
            fs::create_dir(&own).expect("made");
            if place.changes_user() {
                chown(&own, Some(NOBODY), Some(NOBODY)).expect("given");
            }
        }
        place
    }

    fn changes_user(&self) -> bool {
        is_root() && !self.keeps_user
    }

    /// The working directory of the program.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Copies a source of a test into the working directory, for the user of the program.
    fn copy(&self, name: &str) {
        let work = self.work();
        let copy = work.join(name);
        fs::create_dir_all(copy.parent().expect("a folder")).expect("made");
        fs::copy(source(name), &copy).expect("copied");
        if self.changes_user() {
            for own in copy.ancestors().take_while(|own| *own != work) {
                chown(own, Some(NOBODY), Some(NOBODY)).expect("given");
            }
        }
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("temporary")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// A program without a limit.
    pub(super) fn native(&self, program: &str) -> Command {
        let mut command = plimsoll_testkit::command(program);
        command
            .current_dir(self.work())
            .env("PATH", PATH)
            .env("HOME", self.work())
            .env("TMPDIR", self.temporary())
            .env("XDG_CACHE_HOME", self.cache())
            .process_group(0);
        if self.changes_user() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// A copy of the command: user nobody may lack access to the folder of the original.
    pub(super) fn plimsoll(&self) -> PathBuf {
        let plimsoll = self.folder.path().join("plimsoll");
        if !plimsoll.exists() {
            copy_program(PLIMSOLL, &plimsoll);
        }
        plimsoll
    }

    /// `plimsoll exec` on the pager, without the program that follows.
    fn managed(&self, ram: u64) -> Command {
        let mut command = self.native(self.plimsoll().to_str().expect("text"));
        command.args(["exec", "--engine", "pager", "--ram", &ram.to_string()]);
        command.arg("--");
        command
    }

    /// Runs a command to its end, and samples the memory of its processes meanwhile.
    fn run(&self, command: &mut Command) -> Ended {
        let [output, errors] = ["output", "errors"].map(|name| self.folder.path().join(name));
        let create = |path| File::create(path).expect("a file for the output");
        let start = Instant::now();
        let mut group = Group::start(command.stdout(create(&output)).stderr(create(&errors)));
        let (status, peak) = group.sampled();
        let time = start.elapsed();
        let read = |path| text(&fs::read(path).expect("it is there"));
        Ended {
            status,
            output: read(output),
            errors: read(errors),
            peak,
            time,
        }
    }

    /// Runs commands of a shell without a limit. Returns their output.
    fn shell(&self, commands: &str) -> String {
        let ended = self.run(self.native("sh").args(["-e", "-c", commands]));
        assert!(ended.status.success(), "{commands}: {}", ended.errors);
        ended.output
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The process group of a program, which ends when dropped.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Group {
        Group(command.spawn().expect("the program starts"))
    }

    /// Waits for the program.
    fn sampled(&mut self) -> (ExitStatus, Peak) {
        let mut peak = Peak::default();
        let start = Instant::now();
        let mut next = start;
        loop {
            if Instant::now() >= next {
                peak.sample(self.0.id());
                next = Instant::now() + memory::INTERVAL;
            }
            if let Some(status) = self.0.try_wait().expect("a child of this process") {
                return (status, peak);
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end");
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        // A program that ended well left none.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Runs a case in a folder of its own, with a limit or without. Returns its end and all of its output.
fn run(case: &Case<'_>, ram: Option<u64>) -> (Ended, String) {
    let place = Place::of(case.keeps_user);
    for name in case.sources {
        place.copy(name);
    }
    place.shell(case.before);
    let mut command = match ram {
        Some(ram) => place.managed(ram),
        None => place.native(case.arguments[0]),
    };
    let words = if ram.is_some() {
        case.arguments
    } else {
        &case.arguments[1..]
    };
    let ended = place.run(command.args(words).envs(case.variables.iter().copied()));
    assert!(
        ended.status.success(),
        "{} with {ram:?}: {}\n{}{}",
        case.name,
        ended.status,
        ended.output,
        ended.errors
    );
    let all = format!("{}{}{}", ended.output, ended.errors, place.shell(case.after));
    (ended, all)
}

/// Checks that a case has the same output with each of two budgets in MiB as without a limit, and stays in its RAM.
/// Returns the output.
fn as_without_a_limit(case: &Case<'_>, budgets: [u64; 2]) -> String {
    let (native, expected) = run(case, None);
    let seconds = native.time.as_secs_f64();
    eprintln!("{}: no limit: {} in {seconds:.1} s", case.name, native.peak);
    for mib in budgets {
        assert_eq!(within(case, mib), expected, "{} with {mib} MiB", case.name);
    }
    expected
}

/// Checks that a case succeeds and stays in its RAM of so many MiB. Returns the output.
fn within(case: &Case<'_>, mib: u64) -> String {
    let (ended, output) = run(case, Some(mib * MIB));
    let seconds = ended.time.as_secs_f64();
    eprintln!("{}: {mib} MiB: {} in {seconds:.1} s", case.name, ended.peak);
    match case.exceeds_briefly {
        true => ended.peak.assert_usually_within(case.name, mib * MIB),
        false => ended.peak.assert_tree_within(case.name, mib * MIB),
    }
    output
}
