//! `plimsoll run` with the workload `command`: programs of the user in a real cgroup, on real zram and swap files.

mod shared;

use std::hint::black_box;
use std::path::{Path, PathBuf};

use plimsoll_model::scenario::workloads::command::Status;
use plimsoll_os::{UsageScope, resource_usage};
use plimsoll_proc::cgroup::Hierarchy;
use rustix::process::Signal;
use serde_json::Value;

use super::refusals::unprivileged;
use super::{
    Ended, PLIMSOLL, Run, ends_soon, failure_codes, has_laboratory, metric, phase_names, phase_value, phases,
    undo_killed,
};
use shared::{FAILED, GOOD, OUTLIVED, SECOND_RUNS, Shared, script};

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;

/// A scenario of one program, in a folder in which the program can leave files.
pub(super) struct Programs {
    folder: tempfile::TempDir,
    pub(super) run: Run,
}

impl Programs {
    /// The program is `command`; `keys` are lines of the scenario.
    fn new(command: &[&str], keys: &str) -> Programs {
        Programs::in_folder(tempfile::tempdir().expect("a folder"), command, keys)
    }

    fn in_folder(folder: tempfile::TempDir, command: &[&str], keys: &str) -> Programs {
        let command = toml::Value::from(command.to_vec());
        let text = format!(
            "[scenario]\nname = \"mine\"\n[global]\nworkload = \"command\"\nrun-time = 1\nrepeat = 1\ncommand = {command}\n{keys}"
        );
        let file = folder.path().join("mine.toml");
        std::fs::write(&file, text).expect("write");
        let run = Run::of(file.to_str().expect("UTF-8"), &[]);
        Programs { folder, run }
    }

    /// A shell script, which finds the path of a file of its own in `$FILE`.
    pub(super) fn shell(script: &str, keys: &str) -> Programs {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        let script = format!("FILE={}; {script}", file.display());
        Programs::in_folder(folder, &["sh", "-c", &script], keys)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// The process whose number the program has written to its file.
    pub(super) fn written_pid(&self) -> u32 {
        number_in(&self.file()).expect("the program has written its number")
    }

    fn finish(&self) -> Ended {
        self.run.finish()
    }
}

fn number_in(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn status(point: &Value) -> Status {
    Status::of_number(phase_value(point, "status")).expect("a status")
}

/// The statuses of the points of a trial, in their order.
fn statuses(trial: &Value) -> Vec<Status> {
    phases(trial).iter().map(status).collect()
}

fn message(trial: &Value) -> &str {
    let failures = trial["failures"].as_array().expect("failures");
    failures[0]["message"].as_str().expect("a message")
}

/// The program of the known answers, in a process of its own: it touches so many bytes once, and then goes round and round
/// over the first of them. It prints the cost of a visit to a page, counted: a hard fault costs ten visits. Other programs
/// slow a time by more than the tolerance; they change no count.
#[test]
fn hot_set_role() {
    let Some(role) = plimsoll_testkit::role() else {
        return;
    };
    let numbers: Vec<usize> = role
        .split(':')
        .skip(1)
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [total, hot, rounds] = numbers[..] else {
        panic!("{role} is no role of this test")
    };
    let mut memory = plimsoll_os::Region::map(plimsoll_os::Pages::Anonymous, total).expect("memory");
    // A smaller limit splits huge pages.
    memory.huge_pages(false).expect("small pages");
    memory.touch(PAGE, 1);
    let faults = || resource_usage(UsageScope::Process).major_faults;
    let round = || {
        (0..hot / PAGE).for_each(|page| {
            black_box(memory.word(page * PAGE / 8));
        });
    };
    // The first rounds bring back the pages that the touch of the others drove out.
    (0..2).for_each(|_| round());
    let before = faults();
    (0..rounds).for_each(|_| round());
    let visits = (rounds * hot / PAGE) as f64;
    let cost = (visits + 10.0 * (faults() - before) as f64) / visits;
    println!("cost of a page: {cost:.6}");
}

/// The search for the need of a program with `hot` bytes of `total` in use, on a subject.
fn sized(subject: &str, total: u64, hot: u64) -> Ended {
    let program = std::env::current_exe().expect("this program has a path");
    let role = format!("PLIMSOLL_TEST_ROLE=hot:{total}:{hot}:3");
    let command = [
        "env",
        &role,
        program.to_str().expect("UTF-8"),
        "run::command::hot_set_role",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ];
    let limit = total + 64 * MIB;
    let keys = format!(
        "subject = \"{subject}\"\nsearch = true\nlimit = {limit}\nmetric = \"cost of a page: ([0-9.]+)\"\n"
    );
    let ended = Programs::new(&command, &keys).finish();
    ended.assert_went_well();
    ended
}

#[test]
fn without_swap_the_need_is_all_that_was_touched() {
    if !has_laboratory() {
        return;
    }
    let (total, hot) = (224 * MIB, 96 * MIB);
    let ended = sized("none", total, hot);
    let trial = &ended.trials()[0];
    let needed = metric(trial, "needed_bytes");
    assert!(
        needed >= total as f64 && needed < 1.1 * total as f64,
        "{needed}: {trial:#}"
    );
    let killed = metric(trial, "oom_killed_limit_bytes");
    assert!(killed < needed && killed > 0.9 * total as f64, "{killed}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    if !has_laboratory() {
        return;
    }
    let ended = Programs::new(&["no-such-program-anywhere"], "subject = \"none\"\n").finish();
    ended.assert_failed(3, "program-start");
    assert!(message(&ended.trials()[0]).contains("no-such-program-anywhere"));
}

#[test]
fn a_program_that_fails_at_once_is_quoted() {
    if !has_laboratory() {
        return;
    }
    let ended = FAILED.of_test("fails-");
    ended.assert_failed(2, "program-failed");
    let [exit, signal, metric, terminal] = ended.trials() else {
        panic!("{:#}", ended.results)
    };
    // The program without a metric ends with exit code 0: its failure has neither an exit code nor a signal.
    for (trial, exit_code, killed_by) in [
        (exit, Some(3), None),
        (signal, None, Some(6)),
        (metric, None, None),
    ] {
        let failure = &trial["failures"][0];
        let end = (failure["exit_code"].as_i64(), failure["signal"].as_i64());
        assert_eq!(end, (exit_code, killed_by), "{trial:#}");
    }
    // The shell chooses the exit code of a failed redirection.
    assert!(
        terminal["failures"][0]["exit_code"].as_i64() > Some(0),
        "{terminal:#}"
    );
    // The message quotes the last lines of stderr, or the pattern of the missing metric.
    for (trial, quoted) in [
        (exit, "no input file"),
        (metric, "ops: ([0-9]+)"),
        (terminal, "/dev/tty"),
    ] {
        assert!(message(trial).contains(quoted), "{quoted}: {trial:#}");
    }
}

/// One process stays in the group of the program, and one has left it.
#[test]
fn processes_that_outlive_the_program_are_counted_and_ended() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("outlived-");
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2);
    for (section, trial) in OUTLIVED.iter().zip(ended.trials()) {
        assert_eq!(phase_value(&phases(trial)[0], "left_processes"), 1.0, "{trial:#}");
        assert_eq!(GOOD.gone.get(*section), Some(&true), "{trial:#}");
    }
}

#[test]
fn a_program_that_leaves_its_cgroup_fails_the_trial_and_is_ended() {
    if !has_laboratory() {
        return;
    }
    let own = Hierarchy::of_this_process()
        .expect("a hierarchy")
        .own
        .join("cgroup.procs");
    let script = format!("echo $$ > $FILE; echo $$ > {}; exec sleep 1000", own.display());
    let programs = Programs::shell(&script, "subject = \"none\"\nlimit = \"64M\"\n");
    programs.finish().assert_failed(2, "program-moved");
    assert!(ends_soon(programs.written_pid()));
}

#[test]
fn a_program_that_reads_has_no_input() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("reads");
    ended.assert_went_well();
    assert_eq!(phase_value(&phases(&ended.trials()[0])[0], "output_bytes"), 0.0);
}

#[test]
fn a_limit_below_the_start_of_a_program_is_a_status() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("starts");
    ended.assert_went_well();
    let trial = &ended.trials()[0];
    assert_eq!(statuses(trial), [Status::Done, Status::Killed, Status::Killed]);
    assert_eq!(phase_names(trial), ["limit 64M", "limit 12M", "limit 512K"]);
    assert_eq!(metric(trial, "needed_bytes"), 64.0 * MIB as f64);
    assert_eq!(metric(trial, "oom_killed_limit_bytes"), 12.0 * MIB as f64);
}

#[test]
fn another_exit_code_another_output_and_no_metric_are_statuses() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("second-");
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), SECOND_RUNS.len());
    for (trial, (then, more, expected)) in ended.trials().iter().zip(SECOND_RUNS) {
        assert_eq!(statuses(trial), [Status::Done, expected], "{then} {more}");
    }
}

/// Every limit but that of the base looked too small: the program needed a tenth more than its peak.
#[test]
fn an_output_that_differs_by_itself_is_not_compared() {
    if !has_laboratory() {
        return;
    }
    let ended = FAILED.of_test("differs");
    ended.assert_failed(2, "program-failed");
    let trial = &ended.trials()[0];
    assert!(message(trial).contains("same-output"), "{trial:#}");
}

#[test]
fn a_run_that_takes_too_long_is_ended_with_a_status() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("late");
    ended.assert_went_well();
    assert_eq!(statuses(&ended.trials()[0]), [Status::Done, Status::Timeout]);
    assert_eq!(GOOD.gone.get("late"), Some(&true));
}

#[test]
fn a_metric_counts_in_its_direction() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("counts-");
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2);
    for (trial, slowdown) in ended.trials().iter().zip([1.0, -0.5]) {
        assert_eq!(metric(trial, "base_metric"), 100.0);
        let found = phase_value(&phases(trial)[1], "slowdown");
        assert!((found - slowdown).abs() < 1e-9, "{found}: {trial:#}");
    }
}

#[test]
fn endless_output_ends_with_the_phase() {
    if !has_laboratory() {
        return;
    }
    let keys = "phase-timeout = 1.5\nmetric = \"ops: ([0-9]+)\"";
    // Without a line feed too.
    let sections = [("lines", "exec yes"), ("line", "exec cat /dev/zero")];
    let ended = Shared::of(&sections.map(|(name, program)| script(name, program, keys))).ended;
    ended.assert_failed(2, "phase-timeout");
    assert_eq!(ended.trials().len(), 2);
}

#[test]
fn a_signal_at_any_moment_ends_the_program_and_undoes_everything() {
    if !has_laboratory() {
        return;
    }
    for (kind, phase) in [
        ("environment", ""),
        ("phase-start", "limit 64M"),
        ("phase-end", "limit 64M"),
    ] {
        let programs = Programs::shell(
            "echo $$ > $FILE; sleep 1",
            "subject = \"zram\"\nlimits = [\"64M\", \"48M\", \"32M\", \"24M\"]\n",
        );
        let mut started = programs.run.start();
        started.await_event(kind, phase);
        started.signal(Signal::INT);
        started.finish().assert_stopped(5, "signal", "SIGINT");
        if programs.file().exists() {
            assert!(ends_soon(programs.written_pid()), "{kind} {phase}");
        }
    }
}

/// The program's own process dies with the runner; the others that it started are ended by `cleanup`.
#[test]
fn a_killed_runner_leaves_no_process_of_the_program() {
    if !has_laboratory() {
        return;
    }
    let script = "setsid sleep 1000 & echo $! > $FILE.new; mv $FILE.new $FILE; wait";
    let programs = Programs::shell(script, "subject = \"zram\"\nlimit = \"64M\"\n");
    let mut started = programs.run.start();
    started.await_event("phase-start", "limit 64M");
    while !programs.file().exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let program = started.worker();
    started.signal(Signal::KILL);
    started.wait();
    let name = programs.run.name().expect("a recording");
    undo_killed(&name);
    programs.run.assert_nothing_left();
    assert!(ends_soon(program) && ends_soon(programs.written_pid()));
}

#[test]
fn a_list_of_limits_without_a_search_sweeps_by_trial() {
    if !has_laboratory() {
        return;
    }
    let ended = GOOD.of_test("sweep");
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 8);
    for trial in ended.trials() {
        assert!(metric(trial, "base_wall_s") > 0.0);
        assert_eq!(trial["params"]["command"], "true");
        assert!(
            trial["metrics"]["knee_bytes"].is_null(),
            "one limit has no knee: {trial:#}"
        );
        let warm = trial["params"]["cache"] == "warm";
        assert_eq!(phase_names(trial).first() == Some(&"warm-up"), warm, "{trial:#}");
    }
}

/// A file of 32 MiB. Cold, each run reads it from the disk; warm, it stays in the cgroup's cache. Refaults do not tell: the
/// kernel may forget which pages it has reclaimed while it empties the cache (0 refaults of a cold run, once).
#[test]
fn a_warm_cache_stays_and_a_cold_one_is_emptied() {
    if !has_laboratory() {
        return;
    }
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let file = folder.path().join("data");
    let written =
        std::fs::write(&file, vec![7; 32 << 20]).and_then(|()| std::fs::File::open(&file)?.sync_all());
    written.expect("write");
    let file = file.display();
    // With the reads of its children. A cost is not 0.
    let script = format!(
        "dd if={file} of=/dev/null bs=1M 2>/dev/null; awk '/^read_bytes/ {{ print \"read\", $2 + 1 }}' /proc/$$/io"
    );
    let bytes_read = |cache: &str| {
        // Its pages are another cgroup's until they are dropped.
        let dropped = plimsoll_testkit::command("dd")
            .args([&format!("if={file}"), "iflag=nocache", "count=0"])
            .status();
        assert!(dropped.expect("dd starts").success());
        let keys = format!(
            "subject = \"none\"\nlimits = [\"128M\", \"96M\"]\ncache = \"{cache}\"\nmetric = \"read ([0-9]+)\"\n"
        );
        let ended = Programs::new(&["sh", "-c", &script], &keys).finish();
        ended.assert_went_well();
        let last = phases(&ended.trials()[0]).last().expect("a point");
        assert!(
            phase_value(last, "file_peak_bytes") >= 0.9 * (32 * MIB) as f64,
            "{last:#}"
        );
        phase_value(last, "metric")
    };
    let whole = (32 * MIB) as f64;
    let (cold, warm) = (bytes_read("cold"), bytes_read("warm"));
    assert!(
        cold > 0.9 * whole && warm < 0.1 * whole,
        "{cold} cold, {warm} warm"
    );
}

#[test]
fn without_root_the_trial_says_what_is_missing() {
    let programs = Programs::new(&["true"], "subject = \"none\"\n");
    let readable: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let scenario = programs.folder.path().join("mine.toml");
    for path in [programs.folder.path(), &scenario] {
        std::fs::set_permissions(path, readable.clone()).expect("chmod");
    }
    let Some(ended) = unprivileged(&[scenario.to_str().expect("UTF-8")]) else {
        return;
    };
    ended.assert_failed(3, "not-run");
}

#[test]
fn every_format_shows_the_result() {
    if !has_laboratory() {
        return;
    }
    let script = "case $(cat $FILE 2>/dev/null) in xxx*) exit 9;; esac; printf x >> $FILE";
    // The program ends at once: its wall time says nothing.
    let keys = "subject = \"none\"\ntolerate = 100\nlimits = [\"64M\", \"48M\", \"32M\", \"24M\", \"16M\"]\n";
    let programs = Programs::shell(script, keys);
    let ended = programs.finish();
    ended.assert_went_well();
    let needed = metric(&ended.trials()[0], "needed_bytes");
    assert_eq!(needed, 32.0 * MIB as f64);
    let recording = programs.run.recording().expect("a recording");
    let shown = |arguments: &[&str]| shown(&recording, arguments);
    let text = shown(&["report", "--format", "text"]);
    assert!(text.contains("32.0 MiB"), "{text}");
    assert!(shown(&["report", "--format", "csv"]).contains("knee_bytes"));
    assert!(shown(&["report", "--format", "markdown"]).contains("knee"));
    let page = std::fs::read_to_string(recording.join("report.html")).expect("a page");
    for part in ["data-chart=\"slowdown\"", "id=\"command-limits\"", "limit 24M"] {
        assert!(page.contains(part), "{part}");
    }
    let other = Programs::shell(script, keys);
    other.finish().assert_went_well();
    let other = other.run.recording().expect("a recording");
    let compared = shown(&["compare", other.to_str().expect("UTF-8")]);
    assert!(compared.contains("knee"), "{compared}");
}

/// The output of a command about a recording.
fn shown(recording: &Path, arguments: &[&str]) -> String {
    let (command, rest) = arguments.split_first().expect("a command");
    let output = plimsoll_testkit::command(PLIMSOLL)
        .arg(command)
        .arg(recording)
        .args(rest)
        .output()
        .expect("plimsoll starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code().is_some_and(|code| code <= 7 && code != 1),
        "{stderr}"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Both errors are about the same run: the trial's own and the run's.
#[test]
fn a_failed_program_of_one_section_leaves_the_others() {
    if !has_laboratory() {
        return;
    }
    let keys = "subject = \"none\"\n[good]\n[bad]\ncommand = [\"false\"]\n";
    let ended = Programs::new(&["true"], keys).finish();
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    let failed: Vec<&Value> = ended
        .trials()
        .iter()
        .filter(|trial| trial["status"] == "failed")
        .collect();
    assert_eq!((ended.trials().len(), failed.len()), (2, 1));
    assert_eq!(failure_codes(failed[0]), ["program-failed"]);
}
