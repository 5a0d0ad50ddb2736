//! ssh: GNU parallel starts `ssh-task.sh` for each task, which copies the program to the task's host, runs it there and fetches the
//! result.
//!
//! | event | reaction |
//! |---|---|
//! | a task fails | its attempts and its log are fetched; parallel starts it again, up to the plan's retries |
//! | the connection breaks | the task runs on; the next try waits for the host, and for the task |
//! | the host reboots | the next try waits for the host, and starts the task again in the same folder |
//! | the host was never reached | each try fails after 10 s |
//! | the plan's number of failed tasks | parallel starts no other task; running tasks end |
//! | the end of `submit` by a signal | tasks run on; the next submission fetches their results |
//!
//! Each task is pinned to its host: parallel's own `--sshloginfile` with `--hostgroups` and `--retries` does not end when a host
//! cannot be reached. Tasks of one host run one after the other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use plimsoll_model::sanitize::{sanitize, shorten};
use plimsoll_proc::TrustedFolder;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::hosts::Host;
use crate::plan::{Engine, Plan, TASKS, Task, TaskId};
use crate::task::TaskFolder;
use crate::{Cancelled, FleetError, Folder, Submitted, script};

const TASK_LIST: &str = "tasks.tsv";
const TASK: &str = "ssh-task.sh";
const HOST: &str = "ssh-host.sh";
const SUBMIT: &str = "submit.sh";
const CANCEL: &str = "cancel.sh";
const LOGS: &str = "logs";
/// Messages of parallel, and of the last try of each failed task. No log of a task has this suffix.
const MESSAGES: &str = "parallel.txt";
/// The processes of a submission hold it.
const LOCK: &str = "submit.lock";
/// Longest time of creation in the names of folders on hosts.
const MOST_CREATED_LETTERS: usize = 32;
const MOST_REASON_LETTERS: usize = 300;

/// Writes the files of the engine.
///
/// # Errors
/// Those of [`Folder::write`]; [`FleetError::Refused`] for a plan of another engine, or a task without a host of the plan.
pub fn write(plan: &Plan, folder: &Path) -> Result<(), FleetError> {
    let hosts = hosts(plan)?;
    let mut tasks = String::new();
    for task in &plan.tasks {
        tasks.push_str(&format!("{}\t{}\n", task.id, host_of(task, hosts)?.address()));
    }
    let jobs = usize::try_from(plan.at_most).map_or(hosts.len(), |most| most.min(hosts.len()));
    let halt = plan
        .stop_after
        .map(|failures| format!(" --halt soon,fail={failures}"));
    let submit = [
        ("JOBS", jobs.to_string()),
        // parallel counts the first try.
        ("TRIES", plan.retries.saturating_add(1).to_string()),
        ("HALT", halt.unwrap_or_default()),
    ];
    let transport = [
        ("PREFIX", prefix(plan)),
        ("PROGRAM_SHA256", plan.binary.sha256.clone()),
        ("SCENARIO_SHA256", plan.scenario.sha256.clone()),
    ];
    let folder = Folder::open(folder)?;
    folder.make_folder(LOGS)?;
    script::write_task(plan, &folder)?;
    script::write(&folder, TASK_LIST, &tasks)?;
    script::write(&folder, TASK, &filled(include_str!("ssh-task.sh"), &transport))?;
    script::write(&folder, HOST, include_str!("ssh-host.sh"))?;
    script::write(&folder, SUBMIT, &filled(include_str!("submit.sh"), &submit))?;
    script::write(&folder, CANCEL, include_str!("cancel.sh"))
}

fn filled(template: &str, values: &[(&str, String)]) -> String {
    let values: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    script::fill(template, &values)
}

fn hosts(plan: &Plan) -> Result<&[Host], FleetError> {
    match &plan.engine {
        Engine::Ssh { hosts } => Ok(hosts),
        other => Err(FleetError::refused(
            format!("the engine of the plan is {}, not ssh", other.name()),
            "submit it to that engine",
        )),
    }
}

/// The host that a task names, with its port or without.
fn host_of<'a>(task: &Task, hosts: &'a [Host]) -> Result<&'a Host, FleetError> {
    let named = task.host.as_deref().unwrap_or_default();
    let with_port = hosts.iter().find(|host| host.address() == named);
    let mut without = hosts.iter().filter(|host| host.destination == named);
    match (with_port, without.next(), without.next()) {
        (Some(host), _, _) | (None, Some(host), None) => Ok(host),
        _ => Err(FleetError::refused(
            format!(
                "the host `{}` of the task {} is not one host of the plan",
                sanitize(named),
                task.id
            ),
            "write the plan again with `plimsoll fleet plan --hosts`",
        )),
    }
}

/// The names of folders on hosts begin with it: a later plan of the same name has others.
fn prefix(plan: &Plan) -> String {
    let created = plan.created.chars().filter(char::is_ascii_alphanumeric);
    let created: String = created.take(MOST_CREATED_LETTERS).collect();
    format!("plimsoll-fleet-{}-{created}", plan.run)
}

/// Runs `submit.sh` to its end, which is the end of the last task. A later one goes on with the tasks without a result.
///
/// # Errors
/// [`FleetError::Refused`] without GNU parallel or ssh, or while another submission runs, whose files stay as they are;
/// [`FleetError::Untrusted`] for root, if another user could write to the folder; [`FleetError::Unfinished`] if tasks have no
/// result.
pub fn submit(plan: &Plan, folder: &Path) -> Result<Submitted, FleetError> {
    hosts(plan)?;
    require_programs()?;
    trust(folder)?;
    let logs = Folder::open(folder)?.make_folder(LOGS)?;
    let lock = lock(&logs, folder)?;
    set_damaged_aside(plan, folder)?;
    let mut submission = start(folder, &logs, lock)?;
    let submitted = Submitted::now(plan.engine.name(), submission.id());
    // Before the end, which a signal may keep this process from seeing.
    submitted.write(folder)?;
    submission
        .wait()
        .map_err(|source| FleetError::io("wait for", &folder.join(SUBMIT), source))?;
    let missing = missing(plan, folder)?;
    if missing.is_empty() {
        return Ok(submitted);
    }
    Submitted::remove(folder)?;
    let advice = format!(
        "{} has the reasons; submit again to run these tasks, or run {} to remove the files that are left on hosts",
        folder.join(LOGS).join(MESSAGES).display(),
        folder.join(CANCEL).display()
    );
    Err(FleetError::Unfinished {
        missing,
        tasks: plan.tasks.len(),
        advice,
    })
}

/// Refuses a host of the submission without the programs of the engine.
fn require_programs() -> Result<(), FleetError> {
    let missing = |what: &str, advice: &str| {
        Err(FleetError::refused(
            format!("cannot submit by ssh: {what}"),
            advice,
        ))
    };
    // moreutils has another program of this name.
    match script::output(Command::new("parallel").args(["--plain", "--version"])) {
        Ok(version) if version.starts_with("GNU parallel") => {}
        Ok(_) => {
            return missing(
                "the program `parallel` is not GNU parallel",
                "install the package `parallel`",
            );
        }
        Err(_) => return missing("GNU parallel is missing", "install the package `parallel`"),
    }
    match Command::new("ssh").arg("-V").stdin(Stdio::null()).output() {
        Ok(_) => Ok(()),
        Err(_) => missing("ssh is missing", "install the package `openssh-client`"),
    }
}

fn trust(folder: &Path) -> Result<(), FleetError> {
    if rustix::process::geteuid().is_root() {
        TrustedFolder::own(folder)?;
    }
    Ok(())
}

/// Takes the lock of a submission.
///
/// # Errors
/// [`FleetError::Refused`] while processes of another one live.
fn lock(logs: &Folder, folder: &Path) -> Result<File, FleetError> {
    let path = logs.path().join(LOCK);
    let mut options = File::options();
    options.read(true).append(true).create(true).mode(0o600);
    let file = options
        .open(&path)
        .map_err(|source| FleetError::io("open", &path, source))?;
    let shown = folder.display();
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(FleetError::refused(
            format!("cannot submit {shown}: an earlier submission still runs"),
            format!("wait for its end, or run `plimsoll fleet cancel {shown}`"),
        )),
        Err(errno) => Err(FleetError::io("lock", &path, errno)),
    }
}

/// Starts `submit.sh`, to which the lock passes: it ends with the last process that inherits the open file.
fn start(folder: &Path, logs: &Folder, lock: File) -> Result<Child, FleetError> {
    logs.remove(MESSAGES)?;
    let messages = logs.create(MESSAGES)?;
    let copy = |file: &File| {
        file.try_clone()
            .map_err(|source| FleetError::io("open", &logs.path().join(MESSAGES), source))
    };
    Command::new("sh")
        .args([SUBMIT, "--locked"])
        .current_dir(folder)
        .stdin(lock)
        .stdout(copy(&messages)?)
        .stderr(messages)
        .spawn()
        .map_err(|source| FleetError::io("run", &folder.join(SUBMIT), source))
}

/// Renames the entries of `tasks/` that are no whole results: the scripts take any other entry for a result.
fn set_damaged_aside(plan: &Plan, folder: &Path) -> Result<(), FleetError> {
    let Some(tasks) = Folder::open(folder)?.folder(TASKS)? else {
        return Ok(());
    };
    for task in &plan.tasks {
        let id = task.id.as_str();
        if tasks.has(id) && lacks_result(&tasks, &task.id) {
            let aside = format!(".{id}.damaged");
            tasks.remove(&aside)?;
            tasks
                .rename(id, &tasks, &aside)
                .map_err(|source| FleetError::io("rename", &tasks.path().join(id), source))?;
        }
    }
    Ok(())
}

/// The tasks without a result.
fn missing(plan: &Plan, folder: &Path) -> Result<Vec<TaskId>, FleetError> {
    let tasks = Folder::open(folder)?.folder(TASKS)?;
    let ids = plan.tasks.iter().map(|task| &task.id);
    let missing = ids.filter(|id| tasks.as_ref().is_none_or(|tasks| lacks_result(tasks, id)));
    Ok(missing.cloned().collect())
}

/// Whether a task has to run: it has no result, or a damaged or failed one. A result that this program cannot read is left to
/// `collect`.
fn lacks_result(tasks: &Folder, id: &TaskId) -> bool {
    matches!(TaskFolder::of(tasks, id).done(), Ok(None))
}

/// Runs `cancel.sh`: ends parallel, then the tasks on all hosts, and removes their folders. It finds them by the name of the run,
/// also those of an interrupted submission.
///
/// # Errors
/// [`FleetError::Untrusted`] for root, if another user could write to the folder; [`FleetError::Io`]. A host that cannot be reached
/// is in [`Cancelled::left`].
pub fn cancel(plan: &Plan, folder: &Path, _: &Submitted) -> Result<Cancelled, FleetError> {
    let hosts = hosts(plan)?;
    let used: Result<BTreeSet<String>, FleetError> = plan
        .tasks
        .iter()
        .map(|task| Ok(host_of(task, hosts)?.address()))
        .collect();
    let used = used?;
    trust(folder)?;
    let output = Command::new("sh")
        .arg(CANCEL)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| FleetError::io("run", &folder.join(CANCEL), source))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(cancelled(&used, &text(&output.stdout), &text(&output.stderr)))
}

/// Sorts the hosts by the lines of `cancel.sh`: a host without a line was not reached, or something is left on it.
fn cancelled(hosts: &BTreeSet<String>, lines: &str, errors: &str) -> Cancelled {
    let mut cancelled = Cancelled::default();
    for host in hosts {
        match counts(host, lines) {
            Some((0, 0)) => {}
            Some((tasks, folders)) => {
                let line = format!("{host}: {tasks} tasks ended, {folders} folders removed");
                cancelled.stopped.push(line);
            }
            None => {
                let prefix = format!("all on {host}: ");
                let reason = errors.lines().find_map(|line| line.strip_prefix(&prefix));
                let reason = sanitize(reason.unwrap_or("it did not answer")).into_owned();
                cancelled
                    .left
                    .push(format!("{host}: {}", shorten(&reason, MOST_REASON_LETTERS)));
            }
        }
    }
    cancelled
}

/// Ended tasks and removed folders of a host: its line is `HOST<TAB>TASKS<TAB>FOLDERS`.
fn counts(host: &str, lines: &str) -> Option<(u32, u32)> {
    lines.lines().find_map(|line| {
        let (tasks, folders) = line.strip_prefix(host)?.strip_prefix('\t')?.split_once('\t')?;
        Some((tasks.parse().ok()?, folders.parse().ok()?))
    })
}
