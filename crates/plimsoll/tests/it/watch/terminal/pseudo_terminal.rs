//! The program on a real pseudo-terminal: its screen, and that it restores the terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use plimsoll_testkit::capability;

use plimsoll_lab::environment::Environment;
use plimsoll_proc::cgroup::{Hierarchy, PROCESSES};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::machine::{alone, settings};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const PATIENCE: Duration = Duration::from_secs(120);

/// A session of its own with the terminal, so that signals of the terminal reach the program.
pub(crate) const OWNED: &[&str] = &["setsid", "--ctty"];

/// A terminal with a program on it.
pub(crate) struct Terminal {
    master: Option<Arc<File>>,
    /// Kept open, so that its settings can be looked at when the program has ended.
    slave: OwnedFd,
    before: Termios,
    child: Child,
    screen: Arc<Mutex<Seen>>,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

fn size_of(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a screen has cells")
}

/// Both ends of a new terminal of 80x24.
fn pair() -> (OwnedFd, OwnedFd) {
    let master =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let name = std::ffi::OsStr::from_bytes(name.as_bytes()).to_owned();
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let slave = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("the terminal opens");
    tcsetwinsize(&master, size_of(80, 24)).expect("a size");
    (master, slave)
}

impl Terminal {
    /// Starts `command` by `starter` on a terminal of 80x24 that shows 24-bit colours, with `variables` set.
    pub(crate) fn start(starter: &[&str], command: &[&str], variables: &[(&str, &str)]) -> Terminal {
        Terminal::with_keyboard(starter, command, variables, None)
    }

    /// As [`Terminal::start`], with keys from another terminal.
    fn with_keyboard(
        starter: &[&str],
        command: &[&str],
        variables: &[(&str, &str)],
        keyboard: Option<OwnedFd>,
    ) -> Terminal {
        let (master, slave) = pair();
        let open = || slave.try_clone().expect("another handle");
        let before = tcgetattr(&slave).expect("settings");
        let child = plimsoll_testkit::command(starter[0])
            .args(&starter[1..])
            .args(command)
            .env("TERM", "xterm-256color")
            .env("COLORTERM", "truecolor")
            .env("LC_ALL", "C.UTF-8")
            .env("RUST_BACKTRACE", "0")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(Stdio::from(keyboard.unwrap_or_else(open)))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .expect("setsid of util-linux starts");
        let screen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(cells(24), cells(80), 0),
            bytes: Vec::new(),
        }));
        let master = Arc::new(File::from(master));
        let output = Arc::downgrade(&master);
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Held only for a moment, so that the test can close it.
            while let Some(output) = output.upgrade() {
                let mut fds = [PollFd::new(&output, PollFlags::IN)];
                let wait = rustix::event::Timespec {
                    tv_sec: 0,
                    tv_nsec: 50_000_000,
                };
                if poll(&mut fds, Some(&wait)) != Ok(1) {
                    continue;
                }
                let Ok(count @ 1..) = (&*output).read(&mut bytes) else {
                    break;
                };
                let mut seen = seen.lock().expect("no reader panics");
                seen.parser.process(&bytes[..count]);
                seen.bytes.extend(&bytes[..count]);
            }
        });
        Terminal {
            master: Some(master),
            slave,
            before,
            child,
            screen,
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let mut master: &File = self.master.as_ref().expect("the terminal is there");
        master.write_all(keys.as_bytes()).expect("keys are taken");
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        let mut seen = self.screen.lock().expect("no reader panics");
        seen.parser.screen_mut().set_size(cells(rows), cells(columns));
        let master = self.master.as_ref().expect("the terminal is there");
        tcsetwinsize(master.as_fd(), size_of(columns, rows)).expect("a size");
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the program is there");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn contents(&self) -> String {
        self.screen
            .lock()
            .expect("no reader panics")
            .parser
            .screen()
            .contents()
    }

    /// Everything that the program wrote.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.screen.lock().expect("no reader panics").bytes.clone()
    }

    pub(super) fn on_screen<T>(&self, value: impl Fn(&vt100::Screen) -> T) -> T {
        value(self.screen.lock().expect("no reader panics").parser.screen())
    }

    /// Waits until the screen is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let started = Instant::now();
        while !wanted(self.screen.lock().expect("no reader panics").parser.screen()) {
            assert!(
                started.elapsed() < PATIENCE,
                "never seen: {what}\n{}",
                self.contents()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn until_text(&self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    /// Waits for the page with values in it.
    pub(super) fn until_drawn(&self) {
        self.until("the page", |screen| {
            let text = screen.contents();
            screen.alternate_screen()
                && text.contains("page cache")
                && (text.contains("LIVE") || text.contains("REPLAY"))
                && text.contains("cpu")
        });
    }

    /// Waits for the program's end; its exit code, if it has one.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it does not end\n{}",
                self.contents()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The terminal is as it was: the screen from before, a cursor, no report of the mouse, and the settings.
    pub(super) fn assert_given_back(&self) {
        self.until("the screen from before, with a cursor", |screen| {
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        });
        let now = tcgetattr(&self.slave).expect("settings");
        let modes = |termios: &Termios| {
            (
                termios.input_modes,
                termios.output_modes,
                termios.control_modes,
                termios.local_modes,
            )
        };
        assert_eq!(modes(&now), modes(&self.before), "the terminal's settings");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn watch(variables: &[(&str, &str)]) -> Terminal {
    Terminal::start(OWNED, &[PLIMSOLL, "watch"], variables)
}

#[test]
fn the_page_is_drawn_follows_the_size_and_quits() {
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    terminal.resize(120, 40);
    terminal.until("the page at 120x40", |screen| {
        let rows: Vec<String> = screen.rows(0, 120).collect();
        rows[39].contains("quit") && rows[0].contains("PSI mem")
    });
    terminal.resize(50, 10);
    terminal.until_text("terminal too small (50x10), needs 40x16");
    terminal.resize(80, 24);
    terminal.until("the page again", |screen| {
        screen.rows(0, 80).nth(23).is_some_and(|row| row.contains("quit"))
    });
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn keys_do_as_help_says() {
    let mut terminal = watch(&[]);
    terminal.until_drawn();
    terminal.press("?");
    terminal.until_text("set a mark");
    terminal.press("\u{1b}");
    terminal.until("no help", |screen| !screen.contents().contains("set a mark"));
    terminal.press("1");
    terminal.until("a mark below the axis", |screen| {
        let mut rows = screen.rows(0, 46).skip_while(|row| !row.contains("\u{253c}"));
        rows.nth(1).is_some_and(|marks| marks.trim() == "1")
    });
    terminal.press("T");
    terminal.until_text("There is no target to trim");
    terminal.press("\u{1b}");
    terminal.until("no box", |screen| !screen.contents().contains("Esc closes"));
    terminal.press(" ");
    terminal.until_text("FROZEN");
    terminal.press("\u{1b}");
    terminal.until("no freeze", |screen| !screen.contents().contains("FROZEN"));
    terminal.press("mhalf");
    terminal.until_text("half");
    terminal.press(" way\r[");
    terminal.until_text("m half way");
    terminal.press("\u{3}");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn a_signal_ends_watch_and_restores_the_terminal() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut terminal = watch(&[]);
        terminal.until_drawn();
        terminal.signal(signal);
        assert_eq!(terminal.end(), Some(0), "{signal:?}");
        terminal.assert_given_back();
    }
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    if !cfg!(debug_assertions) {
        return;
    }
    let mut terminal = watch(&[("PLIMSOLL_TEST_PANIC", "1")]);
    assert_eq!(terminal.end(), Some(101));
    terminal.assert_given_back();
    terminal.until_text("panicked at");
}

/// Without a controlling terminal no signal tells of it. The reader of the terminal library would try for ever here, at
/// the cost of a CPU.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let mut terminal = Terminal::start(&["setsid"], &[PLIMSOLL, "watch"], &[]);
    terminal.until_drawn();
    // The slave is still open here: nothing but what poll, read and write say tells of the end.
    terminal.master = None;
    assert_eq!(terminal.end(), Some(5));
}

#[test]
fn no_color_sends_no_colour() {
    let mut terminal = watch(&[("NO_COLOR", "1")]);
    terminal.until_drawn();
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
    let seen = terminal.screen.lock().expect("no reader panics");
    let text = String::from_utf8_lossy(&seen.bytes).into_owned();
    for colour in ["\u{1b}[38;", "\u{1b}[48;", "\u{1b}[3", "\u{1b}[4"] {
        let starts: Vec<&str> = text.split(colour).skip(1).collect();
        let coloured = starts.iter().any(|rest| {
            rest.starts_with(|digit: char| "012345678".contains(digit)) && rest[1..].starts_with(['m', ';'])
        });
        assert!(!coloured, "{colour:?} is a colour");
    }
}

#[test]
fn without_a_terminal_the_error_names_headless() {
    let mut terminal = watch(&[("TERM", "dumb")]);
    assert_eq!(terminal.end(), Some(3));
    terminal.until_text("--headless");
    terminal.assert_given_back();
    let output = plimsoll_testkit::command(PLIMSOLL)
        .arg("watch")
        .env("TERM", "xterm")
        .output()
        .expect("plimsoll");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--headless"));
}

/// A shell with job control, the page in it, ctrl-z, `fg`.
#[test]
fn ctrl_z_leaves_the_terminal_to_the_shell_until_fg() {
    let mut terminal = Terminal::start(
        OWNED,
        &["bash", "--norc", "--noprofile", "-i"],
        &[("PS1", "shell$ ")],
    );
    terminal.until_text("shell$");
    terminal.press(&format!("{PLIMSOLL} watch\r"));
    terminal.until_drawn();
    terminal.press("\u{1a}");
    terminal.until("the shell", |screen| {
        !screen.alternate_screen()
            && screen.contents().contains("Stopped")
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    });
    terminal.press("fg\r");
    terminal.until_drawn();
    terminal.until("the mouse", |screen| {
        screen.mouse_protocol_mode() == vt100::MouseProtocolMode::ButtonMotion
    });
    terminal.press("q");
    terminal.until("the shell", |screen| !screen.alternate_screen());
    terminal.press("exit 7\r");
    assert_eq!(terminal.end(), Some(7));
    terminal.assert_given_back();
}

#[test]
fn a_program_is_watched_to_its_end_and_its_exit_code_passed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = folder.path().join("end");
    let script = format!("until [ -e {} ]; do sleep 0.1; done; exit 7", end.display());
    let command = [PLIMSOLL, "watch", "--", "sh", "-c", &script];
    let mut terminal = Terminal::start(OWNED, &command, &[]);
    terminal.until_drawn();
    std::fs::write(end, "").expect("written");
    assert_eq!(terminal.end(), Some(7));
    terminal.assert_given_back();
    // On the screen that stays.
    terminal.until_text("working set");
}

#[test]
fn a_replay_is_drawn_without_actions() {
    let folder = tempfile::tempdir().expect("a folder");
    let recording = folder.path().join("recording");
    let recorded = plimsoll_testkit::command(PLIMSOLL)
        .args(["watch", "--headless", "--duration", "2", "--record"])
        .arg(&recording)
        .output()
        .expect("plimsoll");
    assert!(recorded.status.success(), "{recorded:?}");
    let recording = recording.to_str().expect("a name in ASCII");
    let mut terminal = Terminal::start(OWNED, &[PLIMSOLL, "watch", "--replay", recording], &[]);
    terminal.until_drawn();
    terminal.until_text("REPLAY");
    terminal.until("layers", |screen| screen.contents().contains("page cache"));
    for key in ["T", "E", "r", "1"] {
        terminal.press(key);
        terminal.until_text("A replay has no actions");
        terminal.press("\u{1b}");
        terminal.until("no box", |screen| !screen.contents().contains("Esc closes"));
    }
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
}

/// A picture that stands still writes nothing that could fail.
#[test]
fn an_output_that_goes_away_ends_it_although_the_keyboard_stays() {
    let (keyboard, keys) = pair();
    let mut terminal = Terminal::with_keyboard(&["setsid"], &[PLIMSOLL, "watch"], &[], Some(keys));
    terminal.until_drawn();
    let mut keyboard = File::from(keyboard);
    keyboard.write_all(b" ").expect("a key is taken");
    terminal.until_text("FROZEN");
    terminal.master = None;
    assert_eq!(terminal.end(), Some(5));
}

#[test]
fn the_target_is_trimmed_after_a_yes_and_only_then() {
    let there = Path::new("/sys/class/zram-control/hot_add").exists() && Hierarchy::of_this_process().is_ok();
    let may = rustix::process::geteuid().is_root() && there;
    if !capability(
        "zram",
        may,
        "needs root, a memory cgroup hierarchy and the zram module",
    ) {
        return;
    }
    let mut session = alone();
    let asked = settings("zram", 128 * MIB, 256 * MIB, 256 * MIB);
    let environment = Environment::prepare(&mut session, &asked).expect("an environment");
    let procs = environment.cgroup().expect("a cgroup").group().file(PROCESSES);
    let mut holder = plimsoll_testkit::command(std::env::current_exe().expect("this program"))
        .args(["trim::holder", "--exact", "--nocapture"])
        .env("PLIMSOLL_TEST_HOLDER", "1")
        .env("PLIMSOLL_TEST_HOLDER_GROUP", procs)
        .env("PLIMSOLL_TEST_HOLDER_LOCKS", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a holder");
    let mut said = BufReader::new(holder.stdout.take().expect("its output")).lines();
    assert!(said.any(|line| line.is_ok_and(|line| line == "held")));

    let pid = holder.id().to_string();
    let mut terminal = Terminal::start(OWNED, &[PLIMSOLL, "watch", "--pid", &pid], &[]);
    terminal.until_drawn();
    terminal.press("T");
    terminal.until_text("reclaim its pages?");
    terminal.press("n");
    terminal.until("no question", |screen| {
        !screen.contents().contains("reclaim its pages?")
    });
    std::thread::sleep(Duration::from_secs(1));
    assert!(swapped(&pid) < MIB, "a no is a no");
    terminal.press("T");
    terminal.until_text("reclaim its pages?");
    terminal.press("y");
    terminal.until_text("taken out by process_madvise");
    assert!(swapped(&pid) > 100 * MIB, "{} bytes left", swapped(&pid));
    terminal.press("l");
    terminal.until_text("came back within");
    terminal.press("\u{1b}");
    terminal.until("no box", |screen| !screen.contents().contains("Esc closes"));

    let _ = holder.kill();
    let _ = holder.wait();
    terminal.until_text("(ended)");
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
    terminal.assert_given_back();
    let _ = environment.tear_down(&mut session).expect("undone");
}

const MIB: u64 = 1 << 20;

/// Bytes of a process in swap.
fn swapped(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("VmSwap") * 1024
}
