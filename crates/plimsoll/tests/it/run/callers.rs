//! Runs whose caller leaves them signals, file descriptors or a umask that differ from a login shell's.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use rustix::process::Signal;

use super::{Ended, PLIMSOLL, Run, has_laboratory};

/// The command of `run` as `starter` executes it.
fn started_by(starter: &[&str], run: &Run) -> Command {
    let plain = run.command();
    let mut command = plimsoll_testkit::command(starter[0]);
    command
        .args(&starter[1..])
        .arg(plain.get_program())
        .args(plain.get_args());
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// A signal set of `/proc/PID/status`, without the signals that glibc keeps for itself.
fn signals(pid: u32, set: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(set));
    let found = u64::from_str_radix(line.expect("the set").trim(), 16).expect("hexadecimal digits");
    found & !(0b11 << 31)
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A run whose caller leaves it ignored and blocked signals and no standard files, for several tests.
struct Observed {
    /// Those of [`IGNORED_BY_CALLER`] that the run ignores.
    ignored: u64,
    /// The signals that each worker ignores and blocks.
    of_workers: Vec<[u64; 2]>,
    /// The files of the first three file descriptors.
    files: [PathBuf; 3],
    /// The end; the results are those of the recording.
    ended: Ended,
}

/// The signals that the caller ignores.
const IGNORED_BY_CALLER: u64 = bit(libc::SIGHUP) | bit(libc::SIGINT);

static OBSERVED: LazyLock<Observed> = LazyLock::new(|| {
    let run = Run::new(&["--set", "class=constant", "--set", "hold=1"]);
    let nohup = ["env", "--ignore-signal=HUP,INT", "--block-signal=USR1"];
    let closed = ["sh", "-c", "umask 077; exec \"$@\" <&- >&- 2>&-", "sh"];
    let mut started = run.start_by(started_by(&[&nohup[..], &closed].concat(), &run));
    started.await_event("phase-end", "fill");
    let pid = started.pid();
    let ignored = signals(pid, "SigIgn:") & IGNORED_BY_CALLER;
    let workers = started.children().into_iter();
    let of_workers = workers.map(|worker| ["SigIgn:", "SigBlk:"].map(|set| signals(worker, set)));
    let of_workers = of_workers.collect();
    let files = [0, 1, 2].map(|fd| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).expect("a file"));
    started.signal(Signal::HUP);
    started.signal(Signal::INT);
    let mut ended = started.finish();
    ended.results = serde_json::from_slice(&report(&run).stdout).unwrap_or_default();
    Observed {
        ignored,
        of_workers,
        files,
        ended,
    }
});

/// `plimsoll report --json` of a run's recording.
fn report(run: &Run) -> Output {
    plimsoll_testkit::command(PLIMSOLL)
        .arg("report")
        .arg(run.recording().unwrap_or_default())
        .arg("--json")
        .output()
        .expect("plimsoll starts")
}

/// `nohup plimsoll run ... &` in a script: the run took SIGHUP over, and the terminal's end ended it.
#[test]
fn a_run_under_nohup_ignores_the_signals_of_its_caller() {
    if !has_laboratory() {
        return;
    }
    assert_eq!(OBSERVED.ignored, IGNORED_BY_CALLER);
    for worker in &OBSERVED.of_workers {
        // Rust's runtime ignores SIGPIPE in every program.
        assert_eq!(*worker, [bit(libc::SIGPIPE), 0]);
    }
    OBSERVED.ended.assert_went_well();
}

/// A launcher that blocks SIGTERM leaves a run that only SIGKILL would end, and one that ignores SIGCHLD a run that
/// cannot wait for its workers.
#[test]
fn a_run_is_stopped_where_its_caller_blocked_the_signal() {
    if !has_laboratory() {
        return;
    }
    let run = Run::new(&["--set", "hold=600"]);
    let blocked = started_by(&["env", "--ignore-signal=CHLD", "--block-signal=TERM,INT"], &run);
    let mut started = run.start_by(blocked);
    started.await_event("phase-end", "fill");
    started.signal(Signal::TERM);
    started.finish().assert_stopped(5, "signal", "SIGTERM");
}

/// The first files that a program opens would otherwise become its standard input, output and error.
#[test]
fn a_run_without_standard_files_writes_into_its_recording_alone() {
    if !has_laboratory() {
        return;
    }
    for (fd, file) in OBSERVED.files.iter().enumerate() {
        assert_eq!(file.to_str(), Some("/dev/null"), "file descriptor {fd}");
    }
    let Ended { code, results, .. } = &OBSERVED.ended;
    assert!([0, 7].contains(code), "exit {code}");
    assert_eq!(results["trials"].as_array().map(Vec::len), Some(1), "{results:#}");
}

/// A run that was told to open its page in a browser.
pub(super) struct WithBrowser {
    pub(super) ended: Ended,
    has_page: bool,
    /// The address of the page.
    url: String,
    /// The addresses that the browser got.
    urls: Vec<String>,
}

impl WithBrowser {
    fn of(has_browser: bool, hold: &str, limit: &str) -> (Run, WithBrowser) {
        let folder = tempfile::tempdir().expect("a folder");
        let opened = folder.path().join("opened");
        let script = folder.path().join("browser");
        std::fs::write(&script, "printf '%s\n' \"$2\" >>\"$1\"\n").expect("written");
        // Words without a shell: no path here has a space.
        let browser = match has_browser {
            true => format!("sh {} {} %s", script.display(), opened.display()),
            false => "/nonexistent".to_owned(),
        };
        let run = Run::new(&["--set", "class=constant", "--set", hold, "--set", limit, "--open"]);
        let mut command = run.command();
        command.env("BROWSER", browser);
        let ended = run.start_by(command).finish();
        let page = run.recording().unwrap_or_default().join("report.html");
        let opened = WithBrowser {
            ended,
            has_page: page.exists(),
            url: format!("file://{}", page.display()),
            urls: lines_of(&opened),
        };
        (run, opened)
    }
}

/// A run with a browser that its time limit stops, and `plimsoll report` of its recording.
pub(super) static TIME_LIMITED: LazyLock<(WithBrowser, Output)> = LazyLock::new(|| {
    let (run, opened) = WithBrowser::of(true, "hold=600", "time-limit=2");
    (opened, report(&run))
});

/// A browser that does not start is an error of a run that went well, and hides no worse exit code.
#[test]
fn a_run_opens_its_report_and_keeps_its_exit_code() {
    if !has_laboratory() {
        return;
    }
    let (fine, late) = (["hold=0.1", "time-limit=600"], ["hold=600", "time-limit=1"]);
    let opened = |has_browser, [hold, limit]: [&str; 2]| WithBrowser::of(has_browser, hold, limit).1;
    for (opened, has_browser, codes) in [
        (&opened(true, fine), true, [0, 7]),
        (&opened(false, fine), false, [3, 7]),
        (&TIME_LIMITED.0, true, [2, 2]),
        (&opened(false, late), false, [2, 2]),
    ] {
        let ended = &opened.ended;
        let said = format!("{has_browser}: exit {}: {}", ended.code, ended.stderr);
        assert!(codes.contains(&ended.code), "{said}");
        // A machine with other load makes metrics untrustworthy, and that is worse than no browser.
        assert_eq!(
            ended.code == 7,
            ended.results["status"] == "untrustworthy",
            "{said}"
        );
        assert!(opened.has_page, "{said}");
        let expected = has_browser.then(|| opened.url.clone());
        assert_eq!(opened.urls, Vec::from_iter(expected), "{said}");
    }
}

/// The lines of a file; none without the file.
fn lines_of(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Without standard error no message appears: the exit code and the effect of `cleanup` remain.
#[test]
fn cleanup_works_without_standard_files() {
    let script = "umask 077; \"$0\" cleanup <&- >&- 2>&-; echo $?";
    let output = plimsoll_testkit::command("sh")
        .args(["-c", script, PLIMSOLL])
        .output()
        .expect("a shell starts");
    let code = String::from_utf8_lossy(&output.stdout);
    // 3: another test's run holds the machine, or this user is not root.
    assert!(["0", "3"].contains(&code.trim()), "{code}");
}
