//! The starts of tasks, from `sacct` or `scontrol`.

use super::*;
use crate::accounting::Source;
use crate::slurm::accounting::{indices, of_sacct, of_scontrol, read, start_time};

#[test]
fn accounting_has_every_start() {
    let plan = plan(5);
    let job = Job {
        number: 12,
        cluster: None,
    };
    let text = "12_1|2026-11-30T10:00:30|COMPLETED|h3\n12_0|2026-11-30T10:00:00|COMPLETED|h1\n\
                12_1|2026-11-30T10:00:00|NODE_FAIL|h2\n12_2|Unknown|CANCELLED by 0|None assigned\n\
                12_[3-70%2]|Unknown|PENDING|\n13_0|2026-11-30T10:00:00|FAILED|h1\n12_9|x|FAILED|h1\n12_0|short\n";
    let found = of_sacct(text, &plan, &job);
    let rows: Vec<(String, u32, &str, Vec<&str>)> = found.iter().map(row).collect();
    let expected = [
        ("task-1".to_owned(), 0, "COMPLETED", vec!["h1"]),
        ("task-2".to_owned(), 1, "COMPLETED", vec!["h2", "h3"]),
        ("task-3".to_owned(), 0, "CANCELLED", vec![]),
        ("task-4".to_owned(), 0, "PENDING", vec![]),
        ("task-5".to_owned(), 0, "PENDING", vec![]),
    ];
    assert_eq!(rows, expected);

    let text = "JobId=12 ArrayJobId=12 ArrayTaskId=2 JobState=COMPLETED Reason=None Restarts=0 NodeList=h3 BatchHost=h3\n\
                JobId=14 ArrayJobId=12 ArrayTaskId=1 JobState=RUNNING Restarts=1 ReqNodeList=h9 NodeList=h1\n\
                JobId=12 ArrayJobId=12 ArrayTaskId=3-9:2,x,...%2 JobState=PENDING Restarts=0 NodeList=(null)\n\
                JobId=13 ArrayJobId=12 ArrayTaskId=0 JobState=PENDING Restarts=2 NodeList=(null)\n\nwords\n";
    let found = of_scontrol(text, &plan);
    let rows: Vec<(String, u32, &str, Vec<&str>)> = found.iter().map(row).collect();
    let expected = [
        ("task-1".to_owned(), 2, "PENDING", vec![]),
        ("task-2".to_owned(), 1, "RUNNING", vec!["h1"]),
        ("task-3".to_owned(), 0, "COMPLETED", vec!["h3"]),
        ("task-4".to_owned(), 0, "PENDING", vec![]),
    ];
    assert_eq!(rows, expected);
}

/// Slurm 22.05 after `scancel --state=PENDING` of an array of which two tasks had started.
#[test]
fn cancelled_tasks_that_never_started_are_known() {
    let text = "JobId=1 ArrayJobId=1 ArrayTaskId=4294967294 ArrayTaskThrottle=2 JobState=CANCELLED Restarts=0 NodeList=(null)\n\
                JobId=3 ArrayJobId=1 ArrayTaskId=1 JobState=FAILED Restarts=0 NodeList=h2\n";
    let found = of_scontrol(text, &plan(4));
    let rows: Vec<(String, u32, &str, Vec<&str>)> = found.iter().map(row).collect();
    let expected = [
        ("task-2".to_owned(), 0, "FAILED", vec!["h2"]),
        ("task-3".to_owned(), 0, "CANCELLED", vec![]),
        ("task-4".to_owned(), 0, "CANCELLED", vec![]),
    ];
    assert_eq!(rows, expected);
}

fn row(account: &Accounting) -> (String, u32, &str, Vec<&str>) {
    (
        account.task.to_string(),
        account.restarts,
        account.state.as_str(),
        account.hosts.iter().map(String::as_str).collect(),
    )
}

#[test]
fn accounting_asks_the_controller_without_a_database() {
    let stubs = Stubs::new(&plan(1));
    stubs.command("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
    stubs.command(
        "scontrol",
        "echo 'ArrayTaskId=0 JobState=FAILED Restarts=1 NodeList=h1'",
    );
    let submitted = Submitted::now("slurm", "12");
    let slurm = stubs.slurm(&["SACCT_FORMAT", "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN"]);
    let ask = || read(&slurm, &plan(1), &submitted);
    let found = ask().expect("Slurm");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].source, Source::Scontrol);
    stubs.command("sacct", "echo '12_0|2026-11-30T10:00:00|FAILED|h1'");
    let found = ask().expect("Slurm");
    assert_eq!(found[0].source, Source::Sacct);
    assert!(stubs.calls().contains(" --starttime=now-1"), "{}", stubs.calls());
    let folder = stubs.commands.path().display();
    stubs.command("sacct", &format!("env >{folder}/env"));
    stubs.command(
        "scontrol",
        "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1",
    );
    let forgotten = ask();
    assert!(forgotten.expect("Slurm").is_empty());
    let passed = std::fs::read_to_string(stubs.commands.path().join("env")).expect("a file");
    assert_eq!(names(&passed), BTreeSet::from(["PATH", "SLURM_BITSTR_LEN"]));
    assert!(passed.contains("SLURM_BITSTR_LEN=0\n"), "{passed}");
    stubs.command(
        "scontrol",
        "echo 'Unable to contact slurm controller' >&2; exit 1",
    );
    let failed = ask();
    assert!(matches!(failed, Err(FleetError::Engine { .. })), "{failed:?}");
}

#[test]
fn older_jobs_of_the_same_number_are_left_out_in_every_time_zone() {
    let mut submitted = Submitted::now("slurm", "12");
    submitted.at = "2026-11-30T17:40:00Z".to_owned();
    let option = |now: &str| start_time(&submitted, humantime::parse_rfc3339(now).expect("a time"));
    // An hour, a part of a minute, and ten minutes.
    let expected = "--starttime=now-71minutes";
    assert_eq!(option("2026-11-30T18:40:30Z").as_deref(), Some(expected));
    // The clock was set back.
    let expected = "--starttime=now-10minutes";
    assert_eq!(option("2026-11-30T17:00:00Z").as_deref(), Some(expected));
    submitted.at = "yesterday".to_owned();
    assert_eq!(start_time(&submitted, std::time::SystemTime::now()), None);
}

#[test]
fn lists_of_slurm_are_indices_of_the_plan() {
    let cases: [(&str, &[usize]); 13] = [
        ("7", &[7]),
        ("3-5", &[3, 4, 5]),
        ("8-70%2", &[8, 9]),
        ("1-9:4,2%16", &[1, 5, 9, 2]),
        ("0,2,...", &[0, 2]),
        ("0,2-...%3", &[0]),
        ("10", &[]),
        ("5-3", &[]),
        ("1-9:0", &[]),
        ("-1", &[]),
        ("", &[]),
        ("N/A", &[]),
        ("99999999999999999999", &[]),
    ];
    for (list, expected) in cases {
        assert_eq!(indices(list, 10), expected, "{list}");
    }
    assert!(indices("0-5", 0).is_empty());
}
