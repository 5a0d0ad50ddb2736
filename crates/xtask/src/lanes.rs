//! Two lanes of jobs that run beside each other.
//!
//! The first lane starts with the tests that hold the machine, the second with the longest others. A free lane takes the
//! next job. The output of a job is printed whole when it ends.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::process::{ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::plan::{Job, Jobs};

/// Runs the jobs. All of them run, even after a failure.
pub(crate) fn run(jobs: Jobs) -> ExitCode {
    let start = Instant::now();
    let others = Mutex::new(jobs.others);
    let failed = Mutex::new(Vec::new());
    let lane = |first: Option<Job>| {
        let mut next = first.or_else(|| take(&others));
        while let Some(job) = next {
            let name = job.name.clone();
            match finish(job) {
                Ok(true) => {}
                Ok(false) => push(&failed, name),
                Err(error) => push(&failed, format!("{name}: {error}")),
            }
            next = take(&others);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| lane(Some(jobs.machine)));
        lane(None);
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seconds = start.elapsed().as_secs();
    if failed.is_empty() {
        println!("\nAll tests passed in {seconds} s");
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
    let (mut output, writer) = io::pipe()?;
    job.command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = job.command.spawn()?;
    // The command owns the last writers of this process: without them, the output ends with the child.
    drop(job.command);
    let mut text = Vec::new();
    output.read_to_end(&mut text)?;
    let status = child.wait()?;
    let mut terminal = io::stdout().lock();
    writeln!(
        terminal,
        "\n     Running {} ({} s, {status})",
        job.name,
        start.elapsed().as_secs()
    )?;
    terminal.write_all(&text)?;
    terminal.flush()?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn one_failure_in_either_lane_fails_the_run_after_all_jobs() {
        let folder = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        let touch = format!("touch {}", folder.display());
        let failed = run(Jobs {
            machine: job("exit 1"),
            others: [job("true"), job(&touch)].into(),
        });
        assert_eq!(failed, ExitCode::from(101));
        std::fs::remove_file(&folder).expect("the job after the failure ran");
        let failed = run(Jobs {
            machine: job("true"),
            others: [job("false")].into(),
        });
        assert_eq!(failed, ExitCode::from(101));
        let missing = Job {
            name: "missing".into(),
            command: command("/missing/program"),
        };
        let failed = run(Jobs {
            machine: missing,
            others: VecDeque::new(),
        });
        assert_eq!(failed, ExitCode::from(101));
        let passed = run(Jobs {
            machine: job("true"),
            others: [job("true")].into(),
        });
        assert_eq!(passed, ExitCode::SUCCESS);
    }
}
