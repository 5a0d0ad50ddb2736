//! Slurm: an array job with one exclusive host for each task.
//!
//! | event | reaction |
//! |---|---|
//! | a task fails | `job.sbatch` requeues it, up to the plan's retries |
//! | a host fails | Slurm requeues the task; such a start counts as a retry, as the task may have caused the failure |
//! | the time limit | Slurm sends SIGTERM, which `job.sbatch` passes on: the run undoes its changes and fails; 30 s later, SIGKILL |
//! | the plan's number of failed tasks | the task that reaches it cancels the waiting tasks; running tasks finish |

mod accounting;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::TrustedFolder;

use crate::accounting::Accounting;
use crate::plan::{Engine, Plan};
use crate::{Cancelled, FleetError, Folder, Submitted, script, text};

const JOB: &str = "job.sbatch";
const SUBMIT: &str = "submit.sh";
const TASK_IDS: &str = "tasks.tsv";
const LOGS: &str = "logs";
/// Error of sbatch for an index of `MaxArraySize`, by default 1001, or above.
const TOO_LARGE: &str = "Invalid job array specification";
/// Time for cancelled tasks to undo their changes: Slurm's `KillWait`, 30 s, and some.
const MOST_CANCEL_TIME: Duration = Duration::from_secs(60);
const CANCEL_POLL: Duration = Duration::from_millis(500);
/// Variables of the user that the commands of Slurm get. Others change their meaning: `SQUEUE_STATES` hides tasks, `SCANCEL_STATE`
/// spares them, and `SACCT_FORMAT` changes the output.
const VARIABLES: [&str; 3] = ["PATH", "HOME", "SLURM_CONF"];
/// Variables that a submission gets besides, as in `submit.sh`: options of sbatch that a site may require.
const SUBMISSION_VARIABLES: [&str; 4] = [
    "SBATCH_ACCOUNT",
    "SBATCH_CONSTRAINT",
    "SBATCH_QOS",
    "SBATCH_RESERVATION",
];

/// Writes the files of the engine.
///
/// # Errors
/// Those of [`Folder::write`]; [`FleetError::Refused`] for a plan of another engine.
pub fn write(plan: &Plan, folder: &Path) -> Result<(), FleetError> {
    let job = job_script(plan)?;
    let folder = Folder::open(folder)?;
    let mut ids = String::new();
    for task in &plan.tasks {
        ids.push_str(&task.id.to_string());
        ids.push('\n');
    }
    folder.make_folder(LOGS)?;
    script::write_task(plan, &folder)?;
    script::write(&folder, TASK_IDS, &ids)?;
    script::write(&folder, JOB, &job)?;
    script::write(&folder, SUBMIT, include_str!("submit.sh"))
}

fn job_script(plan: &Plan) -> Result<String, FleetError> {
    let Engine::Slurm {
        partition,
        time_limit_minutes,
    } = &plan.engine
    else {
        return Err(FleetError::refused(
            format!("the engine of the plan is {}, not slurm", plan.engine.name()),
            "submit it to that engine",
        ));
    };
    let count = u32::try_from(plan.tasks.len()).unwrap_or(u32::MAX);
    let values = [
        ("RUN", plan.run.to_string()),
        ("PARTITION", partition.clone()),
        ("LAST", count.saturating_sub(1).to_string()),
        ("AT_MOST", plan.at_most.min(count).to_string()),
        ("MINUTES", time_limit_minutes.to_string()),
        ("RETRIES", plan.retries.to_string()),
        ("STOP_AFTER", plan.stop_after.unwrap_or(0).to_string()),
    ];
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    Ok(script::fill(include_str!("job.sbatch"), &values))
}

/// Runs `submit.sh`.
///
/// # Errors
/// [`FleetError::Untrusted`] for root, if another user could write to the folder; [`FleetError::Engine`] if Slurm refuses the job.
pub fn submit(_: &Plan, folder: &Path) -> Result<Submitted, FleetError> {
    Slurm::default().submit(folder)
}

/// Cancels the waiting tasks, ends the running ones, and waits until they have undone their changes.
///
/// # Errors
/// [`FleetError::Engine`].
pub fn cancel(_: &Plan, _: &Path, submitted: &Submitted) -> Result<Cancelled, FleetError> {
    Slurm::default().cancel(&submitted.job.parse()?)
}

/// Asks Slurm for its record of the tasks of a submitted job, and adds the answer to the records in the folder.
///
/// # Errors
/// [`FleetError::Engine`] if the controller does not answer; the system's.
pub fn keep_accounting(plan: &Plan, folder: &Path, submitted: &Submitted) -> Result<(), FleetError> {
    crate::accounting::add(folder, &submitted.job, accounting(plan, submitted)?)
}

/// The starts of each task: those that `sacct` knows, or without an accounting database those that the controller remembers for
/// some minutes after the end of the job (`MinJobAge`). Empty if neither knows the job any more.
///
/// # Errors
/// [`FleetError::Engine`] if the controller does not answer.
pub fn accounting(plan: &Plan, submitted: &Submitted) -> Result<Vec<Accounting>, FleetError> {
    accounting::read(&Slurm::default(), plan, submitted)
}

/// The commands of Slurm.
struct Slurm {
    /// The environment of the user.
    variables: BTreeMap<OsString, OsString>,
}

impl Default for Slurm {
    fn default() -> Slurm {
        Slurm {
            variables: std::env::vars_os().collect(),
        }
    }
}

impl Slurm {
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        self.pass(&mut command, &VARIABLES);
        command
    }

    fn pass(&self, command: &mut Command, names: &[&str]) {
        for name in names {
            if let Some(value) = self.variables.get(OsStr::new(name)) {
                command.env(name, value);
            }
        }
    }

    fn submit(&self, folder: &Path) -> Result<Submitted, FleetError> {
        if rustix::process::geteuid().is_root() {
            TrustedFolder::own(folder)?;
        }
        let mut command = self.command("sh");
        self.pass(&mut command, &SUBMISSION_VARIABLES);
        let submitted = script::output(command.arg(SUBMIT).current_dir(folder));
        let text = submitted.map_err(|error| match error {
            FleetError::Engine { stderr, .. } if stderr.contains(TOO_LARGE) => FleetError::refused(
                "cannot submit the tasks: Slurm allows no array of this size",
                "plan fewer tasks, or raise MaxArraySize in slurm.conf",
            ),
            error => error,
        })?;
        let job: Job = text.trim().parse()?;
        Ok(Submitted::now("slurm", job))
    }

    fn cancel(&self, job: &Job) -> Result<Cancelled, FleetError> {
        let stopped = self.queue(job)?;
        if stopped.is_empty() {
            return Ok(Cancelled::default());
        }
        script::output(
            self.command("scancel")
                .args(job.clusters())
                .arg(job.number.to_string()),
        )?;
        let end = Instant::now() + MOST_CANCEL_TIME;
        loop {
            let left = self.queue(job)?;
            if left.is_empty() || Instant::now() >= end {
                let stopped = stopped
                    .into_iter()
                    .filter(|line| !left.iter().any(|left| is_same(line, left)));
                return Ok(Cancelled {
                    stopped: stopped.collect(),
                    left,
                });
            }
            std::thread::sleep(CANCEL_POLL);
        }
    }

    /// The waiting and running tasks, one a line: `12_0 RUNNING node7`. None if Slurm has forgotten the job.
    fn queue(&self, job: &Job) -> Result<Vec<String>, FleetError> {
        let mut command = self.command("squeue");
        command.args(job.clusters()).arg(format!("--jobs={}", job.number));
        command.args(["--noheader", "--array", "--format=%i %T %N"]);
        match script::output(&mut command) {
            Ok(text) => {
                let lines = text.lines().map(|line| sanitize(line.trim()).into_owned());
                // squeue names the cluster before its jobs.
                Ok(lines
                    .filter(|line| line.starts_with(|letter: char| letter.is_ascii_digit()))
                    .collect())
            }
            Err(error) if is_forgotten(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Whether Slurm does not know the job any more.
fn is_forgotten(error: &FleetError) -> bool {
    matches!(error, FleetError::Engine { stderr, .. } if stderr.contains("Invalid job id"))
}

/// Whether two lines of the queue have the same first word, the task.
fn is_same(line: &str, other: &str) -> bool {
    line.split(' ').next() == other.split(' ').next()
}

/// A job as `sbatch --parsable` prints it: `NUMBER`, or `NUMBER;CLUSTER` where Slurm has several clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    number: u64,
    cluster: Option<String>,
}

impl Job {
    fn clusters(&self) -> Option<String> {
        self.cluster
            .as_ref()
            .map(|cluster| format!("--clusters={cluster}"))
    }
}

impl FromStr for Job {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Job, FleetError> {
        let (number, cluster) = match text.split_once(';') {
            None => (text, None),
            Some((number, cluster)) => (number, Some(cluster)),
        };
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number);
        match number {
            Some(number) if cluster.is_none_or(text::is_word) => Ok(Job {
                number,
                cluster: cluster.map(str::to_owned),
            }),
            _ => Err(FleetError::refused(
                format!("`{}` is no job of Slurm", sanitize(text)),
                "see `squeue --me` for the number of the job",
            )),
        }
    }
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cluster {
            None => write!(f, "{}", self.number),
            Some(cluster) => write!(f, "{};{cluster}", self.number),
        }
    }
}
