mod accounting;
mod job;

use std::collections::BTreeSet;
use std::ffi::OsString;

use plimsoll_testkit::write_script;
use tempfile::TempDir;

use super::*;
use crate::plan::{Binary, PlannedScenario, Task, VERSION};

fn plan(count: u32) -> Plan {
    Plan {
        version: VERSION,
        run: "nightly".parse().expect("a name"),
        created: "2026-11-30T17:40:00Z".to_owned(),
        scenario: PlannedScenario {
            name: "thrash".to_owned(),
            sha256: "0".repeat(64),
        },
        changes: vec!["thrash.size=[1G, 2G]".to_owned(), "seed=it's $(date)".to_owned()],
        quick: true,
        binary: Binary {
            sha256: "1".repeat(64),
            bytes: 1,
            version: "0.1.0".to_owned(),
        },
        engine: Engine::Slurm {
            partition: "big".to_owned(),
            time_limit_minutes: 90,
        },
        at_most: 4,
        stop_after: Some(2),
        retries: 1,
        privileges: Vec::new(),
        tasks: (1..=count)
            .map(|repeat| Task {
                id: format!("task-{repeat}").parse().expect("an id"),
                host: None,
                repeat,
            })
            .collect(),
    }
}

/// A folder with a plan's files, and a folder of commands in place of those of Slurm.
struct Stubs {
    folder: TempDir,
    commands: TempDir,
}

impl Stubs {
    fn new(plan: &Plan) -> Stubs {
        let folder = tempfile::tempdir().expect("a folder");
        write(plan, folder.path()).expect("the files");
        let commands = tempfile::tempdir().expect("a folder");
        Stubs { folder, commands }
    }

    /// A command that logs its arguments, a line a call, before it runs `text`.
    fn command(&self, name: &str, text: &str) {
        let log = self.log();
        let text = format!("#!/bin/sh\necho \"{name} $*\" >>{}\n{text}\n", log.display());
        write_script(self.commands.path().join(name), &text);
    }

    fn log(&self) -> std::path::PathBuf {
        self.commands.path().join("log")
    }

    fn calls(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn path(&self) -> OsString {
        let mut path = OsString::from(self.commands.path());
        path.push(":/usr/bin:/bin");
        path
    }

    /// With these variables of the user, all of the value `a b`.
    fn slurm(&self, names: &[&str]) -> Slurm {
        let variables = names
            .iter()
            .map(|name| (OsString::from(name), OsString::from("a b")));
        let path = (OsString::from("PATH"), self.path());
        Slurm {
            variables: variables.chain([path]).collect(),
        }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect("a file")
    }

    /// Runs `job.sbatch` as Slurm does: the task of this index, its n-th restart.
    fn start(&self, index: u32, restarts: u32) -> Option<i32> {
        let output = self.job(index, restarts).output();
        output.expect("a shell").status.code()
    }

    fn job(&self, index: u32, restarts: u32) -> Command {
        let mut command = plimsoll_testkit::command("sh");
        command
            .arg(JOB)
            .current_dir(self.folder.path())
            .env("PATH", self.path())
            .env("SLURM_ARRAY_JOB_ID", "12")
            .env("SLURM_ARRAY_TASK_ID", index.to_string());
        if restarts > 0 {
            command.env("SLURM_RESTART_COUNT", restarts.to_string());
        }
        command
    }

    /// Replaces `task.sh`.
    fn task(&self, text: &str) {
        std::fs::write(self.folder.path().join("task.sh"), text).expect("a script");
    }

    fn failed(&self) -> Vec<OsString> {
        let names = std::fs::read_dir(self.folder.path().join("logs/failed-12")).expect("a folder");
        let mut names: Vec<OsString> = names.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_job_has_the_limits_of_the_plan() {
    let stubs = Stubs::new(&plan(6));
    let job = stubs.read(JOB);
    let options: Vec<&str> = job
        .lines()
        .filter_map(|line| line.strip_prefix("#SBATCH "))
        .collect();
    for option in [
        "--job-name=plimsoll-nightly",
        "--partition=big",
        "--array=0-5%4",
        "--nodes=1",
        "--exclusive",
        "--mem=0",
        "--time=90",
        "--requeue",
    ] {
        assert!(options.contains(&option), "{option} of {options:?}");
    }
    assert!(
        job.contains("\nretries=1 ") && job.contains("\nmost_failures=2 "),
        "{job}"
    );
    assert!(!job.contains('@'), "an unfilled name: {job}");
    assert_eq!(stubs.read(TASK_IDS).lines().collect::<Vec<_>>()[5], "task-6");
    // As many at a time as there are.
    assert!(job_script(&plan(2)).expect("a job").contains("--array=0-1%2\n"));
}

#[test]
fn a_plan_of_another_engine_is_refused() {
    let mut plan = plan(1);
    plan.engine = Engine::Ssh { hosts: Vec::new() };
    let folder = tempfile::tempdir().expect("a folder");
    let refused = write(&plan, folder.path());
    assert!(matches!(refused, Err(FleetError::Refused { .. })), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// The names of the variables in an output of `env`, without those of the shell that ran it.
fn names(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|line| line.split_once('='));
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    names
        .map(|(name, _)| name)
        .filter(|name| !shell.contains(name))
        .collect()
}

#[test]
fn a_submission_passes_options_of_the_site_and_no_secret() {
    let stubs = Stubs::new(&plan(2));
    stubs.command("sbatch", "env >env; echo 12");
    let expected: BTreeSet<&str> = VARIABLES.into_iter().chain(SUBMISSION_VARIABLES).collect();
    let mut variables: Vec<&str> = expected.iter().copied().collect();
    variables.extend(["TOKEN", "SBATCH_EXPORT", "SBATCH_WRAP"]);
    stubs
        .slurm(&variables)
        .submit(stubs.folder.path())
        .expect("a job");
    let passed = stubs.read("env");
    assert_eq!(names(&passed), expected);
    assert!(passed.contains("SBATCH_CONSTRAINT=a b\n"), "{passed}");

    // A user who runs the script without plimsoll.
    let mut script = plimsoll_testkit::command("sh");
    script.arg(SUBMIT).current_dir(stubs.folder.path());
    script.envs(variables.iter().map(|name| (name, "a b")));
    script.env("PATH", stubs.path());
    assert!(script.output().expect("a shell").status.success());
    assert_eq!(names(&stubs.read("env")), expected);
}

#[test]
fn a_submission_returns_the_job() {
    let stubs = Stubs::new(&plan(2));
    stubs.command("sbatch", "env >env; echo '12;far'");
    let slurm = stubs.slurm(&[]);
    let submitted = slurm.submit(stubs.folder.path()).expect("a job");
    assert_eq!(
        (submitted.engine.as_str(), submitted.job.as_str()),
        ("slurm", "12;far")
    );
    assert_eq!(stubs.calls(), "sbatch --parsable job.sbatch\n");
    assert_eq!(names(&stubs.read("env")), BTreeSet::from(["HOME", "PATH"]));

    stubs.command("sbatch", "echo 'invalid partition \u{1b}[31m' >&2; exit 1");
    match slurm.submit(stubs.folder.path()) {
        Err(FleetError::Engine {
            code: Some(1),
            stderr,
            ..
        }) => assert!(stderr.contains("\u{fffd}[31m"), "{stderr}"),
        other => panic!("{other:?}"),
    }
    stubs.command(
        "sbatch",
        "echo 'sbatch: error: Invalid job array specification' >&2; exit 1",
    );
    let refused = slurm.submit(stubs.folder.path());
    assert!(matches!(refused, Err(FleetError::Refused { .. })), "{refused:?}");
    stubs.command("sbatch", "echo '--all'");
    let refused = slurm.submit(stubs.folder.path());
    assert!(matches!(refused, Err(FleetError::Refused { .. })), "{refused:?}");
}

#[test]
fn root_submits_no_folder_that_others_can_write() {
    use std::os::unix::fs::PermissionsExt;
    if !plimsoll_testkit::capability(
        "root",
        rustix::process::geteuid().is_root(),
        "the test is not root",
    ) {
        return;
    }
    let stubs = Stubs::new(&plan(1));
    stubs.command("sbatch", "echo 12");
    std::fs::set_permissions(stubs.folder.path(), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let refused = stubs.slurm(&[]).submit(stubs.folder.path());
    assert!(matches!(refused, Err(FleetError::Untrusted(_))), "{refused:?}");
    assert_eq!(stubs.calls(), "");
}

#[test]
fn a_cancelled_job_has_ended() {
    let stubs = Stubs::new(&plan(2));
    // The queue is empty at the third call.
    let folder = stubs.commands.path().display();
    let running = "echo '12_0 RUNNING h1'";
    let queue = format!(
        "cd {folder}\nif [ -e two ]; then exit; elif [ -e one ]; then : >two; {running}\n\
         else : >one; echo 'CLUSTER: far'; {running}; echo '12_1 PENDING '; fi"
    );
    stubs.command("squeue", &queue);
    stubs.command("scancel", "");
    let slurm = stubs.slurm(&[]);
    let job: Job = "12;far".parse().expect("a job");
    let cancelled = slurm.cancel(&job).expect("Slurm");
    assert_eq!(cancelled.stopped, ["12_0 RUNNING h1", "12_1 PENDING"]);
    assert_eq!(cancelled.left, Vec::<String>::new());
    assert!(
        stubs.calls().contains("scancel --clusters=far 12\n"),
        "{}",
        stubs.calls()
    );

    // Slurm has forgotten it.
    stubs.command(
        "squeue",
        "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
    );
    assert_eq!(slurm.cancel(&job).expect("Slurm"), Cancelled::default());
    stubs.command("squeue", "echo 'Unable to contact slurm controller' >&2; exit 1");
    let failed = slurm.cancel(&job);
    assert!(matches!(failed, Err(FleetError::Engine { .. })), "{failed:?}");
}

#[test]
fn a_cancel_obeys_no_variable_of_the_user() {
    let stubs = Stubs::new(&plan(1));
    let folder = stubs.commands.path().display();
    let stub = |text: &str| format!("cd {folder}\nenv >>env\n{text}");
    stubs.command("squeue", &stub("[ -e ended ] || echo '12_0 RUNNING h1'"));
    stubs.command("scancel", &stub(": >ended"));
    let slurm = stubs.slurm(&[
        "SLURM_CONF",
        "SLURM_CLUSTERS",
        "SQUEUE_STATES",
        "SQUEUE_USERS",
        "SCANCEL_STATE",
        "SCANCEL_INTERACTIVE",
        "SBATCH_ACCOUNT",
    ]);
    let job: Job = "12".parse().expect("a job");
    let cancelled = slurm.cancel(&job).expect("Slurm");
    assert_eq!(cancelled.stopped, ["12_0 RUNNING h1"]);
    let passed = std::fs::read_to_string(stubs.commands.path().join("env")).expect("a file");
    assert_eq!(names(&passed), BTreeSet::from(["PATH", "SLURM_CONF"]));
}

#[test]
fn only_numbers_are_jobs() {
    for text in ["12", "12;far"] {
        assert_eq!(text.parse::<Job>().expect("a job").to_string(), text);
    }
    for text in [
        "",
        "+1",
        "-1",
        "1 2",
        "12;",
        "12;--all",
        "12;a b",
        "x",
        "99999999999999999999999",
    ] {
        assert!(text.parse::<Job>().is_err(), "{text:?}");
    }
}

#[test]
fn a_task_is_the_program_of_the_plan_with_its_changes() {
    let stubs = Stubs::new(&plan(1));
    let folder = stubs.folder.path();
    write_script(folder.join("plimsoll"), "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    let run = |name: &str| {
        let mut command = plimsoll_testkit::command("sh");
        command.arg(folder.join(name)).arg("task-1").current_dir("/");
        command.output().expect("a shell")
    };
    // The hash of the plan is another.
    assert_eq!(run("task.sh").status.code(), Some(1));
    assert_eq!(run("task.sh").stdout, b"");
    let sum = plimsoll_testkit::command("sha256sum")
        .arg(folder.join("plimsoll"))
        .output();
    let sum = String::from_utf8(sum.expect("sha256sum").stdout).expect("text");
    let (sum, _) = sum.split_once(' ').expect("a hash");
    let mut with_sum = plan(1);
    sum.clone_into(&mut with_sum.binary.sha256);
    write(&with_sum, folder).expect("the files");
    let output = String::from_utf8(run("task.sh").stdout).expect("text");
    let words: Vec<&str> = output.lines().collect();
    let expected = [
        "run",
        "scenario.toml",
        "thrash.size=[1G, 2G]",
        "seed=it's $(date)",
        "--quick",
        "--wait",
        "--task",
        "task-1",
        "--output",
        "tasks",
    ];
    assert_eq!(words, expected);
}
