//! Two lanes of jobs that run beside each other.
//!
//! The first lane starts with the tests that hold the machine, the second with the longest others. A free lane takes the
//! next job. The output of a job is printed whole when it ends, followed by the longest waits for a line of it: in the lane
//! whose tests run one after another, these are the slowest tests.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::{Job, Jobs};

/// A wait for a line of output that is worth a note.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// Runs the jobs. All of them run, even after a failure. The closing line of a run that passed ends with `note`.
pub(crate) fn run(jobs: Jobs, note: &str) -> ExitCode {
    let start = Instant::now();
    let others = Mutex::new(jobs.others);
    let failed = Mutex::new(Vec::new());
    let run_one = |job: Job| {
        let name = job.name.clone();
        match finish(job) {
            Ok(true) => {}
            Ok(false) => push(&failed, name),
            Err(error) => push(&failed, format!("{name}: {error}")),
        }
    };
    let lane = |first: Option<Job>| {
        let mut next = first.or_else(|| take(&others));
        while let Some(job) = next {
            run_one(job);
            next = take(&others);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(jobs.machine));
        lane(None);
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = start.elapsed().as_secs();
    if failed.is_empty() {
        println!("\nAll tests passed in {seconds} s{note}");
        return ExitCode::SUCCESS;
    }
    println!("\nFailed, after {seconds} s:");
    for name in failed {
        println!("    {name}");
    }
    ExitCode::from(101)
}

fn take(jobs: &Mutex<VecDeque<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn push(failed: &Mutex<Vec<String>>, name: String) {
    failed.lock().unwrap_or_else(PoisonError::into_inner).push(name);
}

/// Runs a job, prints its output, and returns whether it passed.
fn finish(mut job: Job) -> io::Result<bool> {
    println!("     Started {}", job.name);
    let start = Instant::now();
    let (output, writer) = io::pipe()?;
    job.command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = job.command.spawn()?;
    // The command owns the last writers of this process: without them, the output ends with the child.
    drop(job.command);
    let (text, mut waits) = read(BufReader::new(output), LONG_WAIT)?;
    let status = child.wait()?;
    let mut terminal = io::stdout().lock();
    writeln!(
        terminal,
        "\n     Running {} ({} s, {status})",
        job.name,
        start.elapsed().as_secs()
    )?;
    terminal.write_all(&text)?;
    waits.sort_by_key(|(wait, _)| std::cmp::Reverse(*wait));
    for (wait, line) in waits {
        writeln!(terminal, "{:6.1} s before: {line}", wait.as_secs_f64())?;
    }
    terminal.flush()?;
    Ok(status.success())
}

/// A line that came late, and the wait for it.
type Wait = (Duration, String);

/// Reads to the end. Returns the text, and the lines that came after a wait of at least `long`.
fn read(mut output: impl BufRead, long: Duration) -> io::Result<(Vec<u8>, Vec<Wait>)> {
    let (mut text, mut waits) = (Vec::new(), Vec::new());
    loop {
        let (since, start) = (Instant::now(), text.len());
        if output.read_until(b'\n', &mut text)? == 0 {
            return Ok((text, waits));
        }
        let wait = since.elapsed();
        if wait >= long {
            let line = String::from_utf8_lossy(&text[start..]);
            waits.push((wait, line.trim_end().to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(jobs: Jobs) -> ExitCode {
        super::run(jobs, "")
    }
    use plimsoll_testkit::command;

    fn job(script: &str) -> Job {
        let mut shell = command("sh");
        shell.args(["-c", script]);
        Job {
            name: script.to_owned(),
            command: shell,
        }
    }

    #[test]
    fn a_job_passes_if_its_command_does() {
        assert!(finish(job("echo out; echo error >&2")).expect("sh starts"));
        assert!(!finish(job("exit 3")).expect("sh starts"));
        assert!(!finish(job("kill -9 $$")).expect("sh starts"));
    }

    #[test]
    fn only_lines_that_come_late_are_noted() {
        let (text, waits) = read(&b"one\ntwo"[..], Duration::from_secs(3600)).expect("memory is read");
        assert_eq!((text.as_slice(), waits.len()), (&b"one\ntwo"[..], 0));
        let long = Duration::from_millis(200);
        let (output, mut writer) = io::pipe().expect("a pipe");
        let (_, waits) = thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(long);
                writer.write_all(b"late\n").expect("written");
            });
            read(BufReader::new(output), long / 2).expect("a pipe is read")
        });
        assert_eq!(waits.len(), 1, "{waits:?}");
        assert_eq!(waits[0].1, "late");
    }

    #[test]
    fn one_failure_in_either_lane_fails_the_run_after_all_jobs() {
        let folder = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        let touch = format!("touch {}", folder.display());
        let failed = run(Jobs {
            machine: Some(job("exit 1")),
            others: [job("true"), job(&touch)].into(),
        });
        assert_eq!(failed, ExitCode::from(101));
        std::fs::remove_file(&folder).expect("the job after the failure ran");
        let failed = run(Jobs {
            machine: Some(job("true")),
            others: [job("false")].into(),
        });
        assert_eq!(failed, ExitCode::from(101));
        let failed = run(Jobs {
            machine: None,
            others: [job("false")].into(),
        });
        assert_eq!(failed, ExitCode::from(101));
        let missing = Job {
            name: "missing".into(),
            command: command("/missing/program"),
        };
        let failed = run(Jobs {
            machine: Some(missing),
            others: VecDeque::new(),
        });
        assert_eq!(failed, ExitCode::from(101));
        let passed = run(Jobs {
            machine: Some(job("true")),
            others: [job("true")].into(),
        });
        assert_eq!(passed, ExitCode::SUCCESS);
    }
}
