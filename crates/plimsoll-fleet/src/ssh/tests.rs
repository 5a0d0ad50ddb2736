//! The scripts run with an `ssh` whose hosts are folders of this machine, and with a program that stands for Plimsoll.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;
use crate::plan::{Binary, PlannedScenario, VERSION};

const FAKE_SSH: &str = include_str!("tests/ssh");
const PROGRAM: &str = include_str!("tests/plimsoll");
const SCENARIO_TEXT: &str = "workload = \"thrash\"\n";
const NO_CONNECTION: Option<i32> = Some(75);
const BAD_RESULT: Option<i32> = Some(76);

fn sha256(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn plan(hosts: &str) -> Plan {
    let hosts = crate::hosts::parse(hosts).unwrap();
    let tasks = hosts.iter().enumerate().map(|(index, host)| Task {
        id: format!("t.{index}").parse().unwrap(),
        host: Some(host.address()),
        repeat: 1,
    });
    Plan {
        version: VERSION,
        run: "nightly".parse().unwrap(),
        created: "2026-11-30T17:40:00Z".to_owned(),
        scenario: PlannedScenario {
            name: "thrash".to_owned(),
            sha256: sha256(SCENARIO_TEXT),
        },
        changes: Vec::new(),
        quick: true,
        binary: Binary {
            sha256: sha256(PROGRAM),
            bytes: PROGRAM.len() as u64,
            version: "0.1.0".to_owned(),
        },
        tasks: tasks.collect(),
        engine: Engine::Ssh { hosts },
        at_most: 8,
        stop_after: None,
        retries: 2,
        privileges: Vec::new(),
    }
}

/// A fleet's folder, and a folder for the disk of the host.
struct Fleet {
    root: TempDir,
}

impl Fleet {
    fn new() -> Fleet {
        let fleet = Fleet {
            root: tempfile::tempdir().unwrap(),
        };
        for folder in ["fleet", "bin", "disk"] {
            fs::create_dir(fleet.path(folder)).unwrap();
        }
        for (path, text) in [
            ("bin/ssh", FAKE_SSH),
            ("fleet/plimsoll", PROGRAM),
            ("fleet/scenario.toml", SCENARIO_TEXT),
        ] {
            fs::write(fleet.path(path), text).unwrap();
            fs::set_permissions(fleet.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        write(&plan("host"), &fleet.path("fleet")).unwrap();
        fleet
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn set(&self, event: &str, value: &str) {
        fs::write(self.path(event), value).unwrap();
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = plimsoll_testkit::command(program);
        command
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("FAKE_ROOT", self.root.path())
            .env("PLIMSOLL_FLEET_WAIT", "0");
        command
    }

    fn script(&self, name: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(self.path("fleet").join(name));
        command.args(arguments).output().unwrap()
    }

    /// Runs the task `t.0`.
    fn task(&self) -> Option<i32> {
        let output = self.script(TASK, &["t.0", "host"]);
        print!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.code()
    }

    /// The attempt that the result of the task `t.0` is of.
    fn attempt(&self) -> u32 {
        let tasks = Folder::open(&self.path("fleet/tasks")).unwrap();
        let task = TaskFolder::of(&tasks, &"t.0".parse().unwrap());
        task.done().unwrap().expect("a whole result").attempt
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path("fleet").join(path)).unwrap()
    }

    fn has(&self, path: &str) -> bool {
        self.path("fleet").join(path).exists()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn assert_no_leftover(&self) {
        assert_eq!(self.names("disk"), [""; 0], "on the host");
        let hidden = self
            .names("fleet/tasks")
            .into_iter()
            .filter(|name| name.starts_with('.'));
        assert_eq!(hidden.collect::<Vec<_>>(), [""; 0], "in tasks/");
    }
}

#[test]
fn the_task_list_has_a_line_for_each_task_with_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan {
        stop_after: Some(3),
        at_most: 2,
        ..plan("me@a:2022 class=x\nb\n10.0.0.1")
    };
    write(&plan, folder.path()).unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read(TASK_LIST), "t.0\tme@a:2022\nt.1\tb\nt.2\t10.0.0.1\n");
    let submit = read(SUBMIT);
    for words in [" --jobs 2 ", " --retries 3 ", " --halt soon,fail=3 "] {
        assert!(submit.contains(words), "{words}: {submit}");
    }
    for name in [SUBMIT, CANCEL, TASK, HOST] {
        assert!(!read(name).contains("@HALT@"));
        let mode = fs::metadata(folder.path().join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }
}

#[test]
fn at_most_hosts_is_limited_by_the_hosts() {
    let folder = tempfile::tempdir().unwrap();
    write(&plan("a\nb"), folder.path()).unwrap();
    let submit = fs::read_to_string(folder.path().join(SUBMIT)).unwrap();
    assert!(
        submit.contains(" --jobs 2 ") && !submit.contains("--halt"),
        "{submit}"
    );
}

#[test]
fn a_task_needs_one_host_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    for named in [None, Some("c"), Some("a")] {
        let mut plan = plan("a:1\na:2");
        plan.tasks[0].host = named.map(str::to_owned);
        let error = write(&plan, folder.path()).unwrap_err();
        assert!(matches!(error, FleetError::Refused { .. }), "{named:?}: {error}");
    }
    let mut plan = plan("a:1\nb");
    plan.tasks[0].host = Some("a".to_owned());
    write(&plan, folder.path()).unwrap();
    let tasks = fs::read_to_string(folder.path().join(TASK_LIST)).unwrap();
    assert_eq!(tasks, "t.0\ta:1\nt.1\tb\n", "the port of the host is added");
}

#[test]
fn a_result_is_fetched_and_the_folder_on_the_host_removed() {
    let fleet = Fleet::new();
    assert_eq!(fleet.task(), Some(0));
    assert_eq!(fleet.attempt(), 1);
    assert_eq!(fleet.read("tasks/t.0.attempts/1/attempt.json"), "done\n");
    assert_eq!(
        fleet.read("logs/t.0.log"),
        "attempt 1 [31mred\n",
        "escape sequences lose their escape"
    );
    fleet.assert_no_leftover();
    fs::remove_file(fleet.path("calls")).unwrap();
    assert_eq!(fleet.task(), Some(0), "a finished task ends at once");
    assert!(!fleet.path("calls").exists(), "without a connection");
}

#[test]
fn a_failed_task_has_its_exit_code_and_the_next_try_the_next_number() {
    let fleet = Fleet::new();
    fleet.set("fail", "3");
    assert_eq!(fleet.task(), Some(3));
    assert!(!fleet.has("tasks/t.0"));
    fleet.assert_no_leftover();
    fs::remove_file(fleet.path("fail")).unwrap();
    assert_eq!(fleet.task(), Some(0));
    assert_eq!(fleet.names("fleet/tasks/t.0.attempts"), ["1", "2"]);
    assert_eq!(fleet.attempt(), 2);
    fleet.assert_no_leftover();
}

#[test]
fn a_result_stays_on_a_host_until_the_next_try_fetches_it() {
    // The connection breaks before the task ends, before the result is fetched, and as the folder is removed.
    for action in ["run", "pack"] {
        let fleet = Fleet::new();
        fleet.set("break", action);
        assert_eq!(fleet.task(), NO_CONNECTION, "{action}");
        assert!(!fleet.has("tasks/t.0"));
        assert_eq!(fleet.names("disk").len(), 1);
        assert_eq!(fleet.task(), Some(0), "{action}");
        assert_eq!(fleet.attempt(), 1, "the task ran once");
        fleet.assert_no_leftover();
    }
}

/// A login shell that printed a line made the result look damaged: its only copy was removed, and the task ran in full again.
#[test]
fn startup_files_of_the_login_shell_may_print_lines() {
    let fleet = Fleet::new();
    let noise = b"Welcome\nplimsoll-fleet-result too\n\x1b[2J\0\xff\n";
    fs::write(fleet.path("noise"), [&noise[..], &[b'x'; 5000], b"\n"].concat()).unwrap();
    assert_eq!(fleet.task(), Some(0));
    assert_eq!(fleet.attempt(), 1);
    fleet.assert_no_leftover();
}

/// A full disk of this machine passed for a damaged result.
#[test]
fn a_result_stays_on_its_host_while_this_machine_cannot_store_it() {
    // The disk is full as tar extracts the files. The host has a tar of its own.
    let fleet = Fleet::new();
    let tar = fleet.path("bin/tar");
    let text = "#!/bin/sh\n[ \"$1\" != -xf ] || { echo 'tar: No space left on device' >&2; exit 2; }\n\
                PATH=${PATH#*:}\nexec tar \"$@\"\n";
    plimsoll_testkit::write_script(&tar, text);
    assert_eq!(fleet.task(), NO_CONNECTION);
    assert_eq!(fleet.names("disk").len(), 1);
    fs::remove_file(tar).unwrap();
    assert_eq!((fleet.task(), fleet.attempt()), (Some(0), 1));
    fleet.assert_no_leftover();

    // It is full as the result arrives: a tar has at least 10,240 bytes.
    let fleet = Fleet::new();
    let limited = "ulimit -f 8 && exec \"$0\" t.0 host";
    let script = fleet.path("fleet").join(TASK);
    let mut command = fleet.command("sh");
    let output = command.args(["-c", limited]).arg(script).output().unwrap();
    assert_eq!(output.status.code(), NO_CONNECTION);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("cannot store the result"), "{errors}");
    assert_eq!(fleet.names("disk").len(), 1);
    assert_eq!((fleet.task(), fleet.attempt()), (Some(0), 1));
    fleet.assert_no_leftover();
}

#[test]
fn files_that_did_not_all_arrive_are_sent_again() {
    let fleet = Fleet::new();
    fleet.set("break", "tar");
    assert_eq!(fleet.task(), NO_CONNECTION);
    assert_eq!(fleet.task(), Some(0));
    fleet.assert_no_leftover();
}

#[test]
fn a_task_that_was_killed_with_its_host_starts_again_in_its_folder() {
    let fleet = Fleet::new();
    fleet.set("power", "off");
    assert_eq!(fleet.task(), NO_CONNECTION);
    fs::remove_file(fleet.path("power")).unwrap();
    assert_eq!(fleet.task(), Some(0));
    assert_eq!(fleet.names("fleet/tasks/t.0.attempts"), ["1", "2"]);
    fleet.assert_no_leftover();
}

#[test]
fn a_host_out_of_reach_fails_each_try() {
    let fleet = Fleet::new();
    fleet.set("down", "");
    assert_eq!(fleet.task(), NO_CONNECTION);
    assert_eq!(fleet.task(), NO_CONNECTION);
    fleet.assert_no_leftover();
    fs::remove_file(fleet.path("down")).unwrap();
    assert_eq!((fleet.task(), fleet.task()), (Some(0), Some(0)));
    // A task that is done is not tried.
    let tries = fleet.read("logs/tries.tsv");
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let tries: Vec<Vec<String>> = tries.lines().map(fields).collect();
    let codes: Vec<&str> = tries.iter().map(|fields| fields[3].as_str()).collect();
    assert_eq!(codes, ["75", "75", "0"]);
    for fields in &tries {
        assert_eq!((&*fields[1], &*fields[2], fields.len()), ("t.0", "host", 5));
        assert!(humantime::parse_rfc3339(&fields[0]).is_ok(), "{fields:?}");
        assert!(fields[4].parse::<u32>().is_ok(), "{fields:?}");
    }
    // Whatever the user's configuration says.
    let calls = fs::read_to_string(fleet.path("calls")).unwrap();
    for option in [
        "RemoteCommand=none",
        "RequestTTY=no",
        "ControlMaster=no",
        "ControlPath=none",
    ] {
        let option = format!("-o {option} ");
        assert!(
            calls.lines().all(|call| call.contains(&option)),
            "{option}: {calls}"
        );
    }
}

/// `submit` took a damaged result for a result, while `collect` refused it.
#[test]
fn a_damaged_result_is_set_aside_and_its_task_runs_again() {
    let fleet = Fleet::new();
    assert_eq!(fleet.task(), Some(0));
    let plan = plan("host\nb\nc\nd");
    let tasks = fleet.path("fleet/tasks");
    fs::create_dir(tasks.join("t.1")).unwrap();
    fs::write(tasks.join("t.2"), "no folder").unwrap();
    let set_aside = || {
        set_damaged_aside(&plan, &fleet.path("fleet")).unwrap();
        let names = fleet.names("fleet/tasks").into_iter();
        names.filter(|name| name.starts_with('.')).collect::<Vec<_>>()
    };
    assert_eq!(set_aside(), [".t.1.damaged", ".t.2.damaged"]);
    let missing = |plan: &Plan| {
        let missing = missing(plan, &fleet.path("fleet")).unwrap();
        missing.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(missing(&plan), ["t.1", "t.2", "t.3"]);
    for _ in 0..2 {
        fs::write(tasks.join("t.0/recording/samples.parquet"), "damaged").unwrap();
        assert_eq!(missing(&plan)[0], "t.0");
        assert_eq!(set_aside(), [".t.0.damaged", ".t.1.damaged", ".t.2.damaged"]);
        assert_eq!(fleet.task(), Some(0));
    }
    assert_eq!(fleet.attempt(), 3);
}

#[test]
fn a_program_other_than_the_plans_never_runs() {
    let fleet = Fleet::new();
    let program = fleet.path("fleet/plimsoll");
    fs::write(program, format!("{PROGRAM}\n")).unwrap();
    let code = fleet.task();
    assert!(code.is_some_and(|code| code != 0), "{code:?}");
    assert!(!fleet.has("tasks/t.0.attempts"));
    fleet.assert_no_leftover();
}

#[test]
fn hostile_names_of_hosts_and_tasks_reach_no_command() {
    let fleet = Fleet::new();
    for host in [
        "-oProxyCommand=touch${IFS}x",
        "a;touch x",
        "a b",
        "$(id)",
        "",
        "a@-b",
        "-l@a",
        "a:0x1",
        "a@b@c",
        "a\nb",
    ] {
        let output = fleet.script(TASK, &["t.0", host]);
        assert_eq!(output.status.code(), Some(1), "{host}");
    }
    for task in [
        "../x",
        "a/b",
        "",
        "-x",
        "a..b",
        "a.attempts",
        "A",
        "a b",
        "--cancel ",
    ] {
        let output = fleet.script(TASK, &[task, "host"]);
        assert_eq!(output.status.code(), Some(1), "{task}");
    }
    assert!(!fleet.path("calls").exists());
}

/// Makes the host answer with a tar of `tree`, with GNU tar's options.
fn hostile(fleet: &Fleet, options: &[&str], make: impl Fn(&Path)) {
    let tree = fleet.path("tree");
    fs::create_dir_all(tree.join("tasks/t.0")).unwrap();
    fs::write(tree.join("tasks/t.0/result.json"), "{}").unwrap();
    make(&tree);
    let status = plimsoll_testkit::command("tar")
        .arg("-cPf")
        .arg(fleet.path("pack.tar"))
        .args(options)
        .args(["--exclude=./log", "-C"])
        .arg(&tree)
        .arg("tasks")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn hostile_results_are_refused() {
    type Make = fn(&Path);
    let nothing: Make = |_| {};
    let cases: [(&str, &[&str], Make); 9] = [
        ("link", &[], |tree| {
            symlink("/etc/passwd", tree.join("tasks/t.0/x")).unwrap()
        }),
        ("hard link", &[], |tree| {
            fs::hard_link(tree.join("tasks/t.0/result.json"), tree.join("tasks/t.0/x")).unwrap();
        }),
        ("pipe", &[], |tree| {
            let status = plimsoll_testkit::command("mkfifo")
                .arg(tree.join("tasks/t.0/x"))
                .status()
                .unwrap();
            assert!(status.success());
        }),
        ("parent", &["--transform=s,result.json,../../../x,"], nothing),
        (
            "absolute",
            &["--transform=s,^tasks/t.0/result.json,/tmp/plimsoll-hostile,"],
            nothing,
        ),
        ("other task", &["--transform=s,t\\.0,t.1,"], nothing),
        ("pattern", &["--transform=s,t\\.0,txy,"], nothing),
        (
            "other file",
            &["--transform=s,^tasks/t.0/result.json,task.sh,"],
            nothing,
        ),
        ("line feed", &[], |tree| {
            fs::write(tree.join("tasks/t.0/a\nb"), "").unwrap()
        }),
    ];
    for (name, options, make) in cases {
        let fleet = Fleet::new();
        hostile(&fleet, options, make);
        assert_eq!(fleet.task(), BAD_RESULT, "{name}");
        assert!(!fleet.has("tasks/t.0"), "{name}");
        assert!(!Path::new("/tmp/plimsoll-hostile").exists());
        fleet.assert_no_leftover();
    }
}

#[test]
fn hostile_results_of_any_size_are_refused() {
    // A sparse file is small in a tar, and a stream has no end.
    let fleet = Fleet::new();
    hostile(&fleet, &["--sparse"], |tree| {
        let file = File::create(tree.join("tasks/t.0/x")).unwrap();
        file.set_len((1 << 30) + 1).unwrap();
    });
    assert_eq!(fleet.task(), BAD_RESULT);
    fleet.assert_no_leftover();

    let fleet = Fleet::new();
    fleet.set("pack.tar", "damaged");
    assert_eq!(fleet.task(), BAD_RESULT);
    fleet.assert_no_leftover();
}

#[test]
fn hostile_answers_are_refused() {
    for answer in [
        "",
        "folder ready /var/tmp/a;id",
        "folder ready ../x",
        "\u{1b}[2J",
        "folder new /a\nx",
    ] {
        let fleet = Fleet::new();
        fleet.set("answer", answer);
        assert_eq!(fleet.task(), BAD_RESULT, "{answer:?}");
        assert!(!fleet.has("tasks/t.0"));
    }
}

#[test]
fn a_cancel_ends_the_task_on_the_host_and_removes_its_folder() {
    let fleet = Fleet::new();
    fleet.set("break", "run");
    fleet.set("hang", "");
    assert_eq!(fleet.task(), NO_CONNECTION);
    let output = fleet.script(CANCEL, &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "host\t1\t1\n");
    assert!(output.status.success());
    assert_eq!(fs::read_to_string(fleet.path("ended")).unwrap(), "SIGTERM\n");
    fleet.assert_no_leftover();
    let output = fleet.script(CANCEL, &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "host\t0\t0\n");

    // One that ignores SIGTERM is killed. Dead runs of others on the host are not this fleet's business.
    fleet.set("break", "run");
    fleet.set("deaf", "");
    fs::remove_file(fleet.path("started")).unwrap();
    assert_eq!(fleet.task(), NO_CONNECTION);
    let output = fleet.script(CANCEL, &[]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "host\t1\t1\n");
    let commands = fs::read_to_string(fleet.path("commands")).unwrap();
    assert_eq!(commands, "cleanup --tasks\n");
    fleet.assert_no_leftover();

    // A host out of reach does not keep the others from their cancel.
    fleet.set("down", "");
    fs::write(fleet.path("fleet").join(TASK_LIST), "t.0\thost\nt.1\tother\n").unwrap();
    let output = fleet.script(CANCEL, &[]);
    assert!(!output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("all on host: cannot cancel: no connection") && errors.contains("all on other: "),
        "{errors}"
    );
}

#[test]
fn a_folder_of_another_fleet_or_user_stays() {
    let fleet = Fleet::new();
    let prefix = prefix(&plan("host"));
    let other = prefix.replace("nightly", "other");
    // A folder that others can write to, a link, and folders of other fleets.
    for name in [
        format!("{prefix}-t.0.AAAAAAAAAA"),
        format!("{other}-t.0.AAAAAAAAAA"),
        "plimsoll".to_owned(),
    ] {
        let path = fleet.path("disk").join(&name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    symlink(
        fleet.path("bin"),
        fleet.path("disk").join(format!("{prefix}-t.0.BBBBBBBBBB")),
    )
    .unwrap();
    assert_eq!(fleet.task(), Some(0));
    fleet.script(CANCEL, &[]);
    assert_eq!(fleet.names("disk").len(), 4);
    assert_eq!(fleet.names("bin"), ["ssh"]);
}

#[test]
fn hosts_that_do_not_answer_a_cancel_are_left() {
    let hosts = ["a", "b", "c", "d"].map(str::to_owned).into();
    let lines = "a\t1\t2\nb\t0\t0\nc\tx\t1\nd\n";
    let cancelled = cancelled(&hosts, lines, "noise\nall on c: no \u{1b}[2Jconnection\n");
    assert_eq!(cancelled.stopped.len(), 1);
    assert!(cancelled.stopped[0].starts_with("a: "));
    assert_eq!(cancelled.left.len(), 2);
    assert!(cancelled.left[0].starts_with("c: ") && !cancelled.left[0].contains('\u{1b}'));
    assert!(cancelled.left[1].starts_with("d: "));
}
