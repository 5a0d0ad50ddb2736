//! `plimsoll watch`: selects the target and the user interface, and prints a summary.

mod summary;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use super::recordings::locate;
use crate::cli::{Verbosity, Watch, When};
use plimsoll_lab::run::recording_failure;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_monitor::watch::serve::{ServeError, ServeOptions, Server, Token};
use plimsoll_monitor::watch::terminal::{self, Colours, End, TerminalOptions};
use plimsoll_monitor::watch::{
    Level, Message, Monitor, Options, Prepared, Program, Source, Summary, TargetChoice, WatchError,
};
use plimsoll_sample::stop::Stop;

/// Interval of checks for a stop request.
const POLL: Duration = Duration::from_millis(500);
/// Interval of checks for messages without a program to wait for.
const NEWS: Duration = Duration::from_secs(1);
/// Time between SIGTERM and SIGKILL for the started program.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn watch(options: &Watch, verbosity: &Verbosity) -> Result<ExitCode, Failure> {
    let on_terminal = !options.headless && options.serve.is_none();
    if on_terminal {
        require_terminal("use --headless, or --serve for a browser")?;
    }
    let dashes = std::env::args_os().any(|word| word == "--");
    if dashes && options.program.is_empty() {
        return Err(Failure::message(
            Exit::Usage,
            "cannot start a program: none follows `--`; name one, or omit `--` to watch the machine",
        ));
    }
    let replay = options.replay.as_deref().map(locate).transpose()?;
    let options = &Watch {
        replay,
        ..options.clone()
    };
    let server = options.serve.map(|address| bind(address, options)).transpose()?;
    let stop = Stop::install()
        .map_err(|error| anyhow::anyhow!("cannot take over signals: {error}"))
        .or_exit(Exit::Missing)?;
    let monitor = match Monitor::start(&watched(options, on_terminal)) {
        Ok(monitor) => Arc::new(monitor),
        Err(error) => return not_started(error),
    };
    let shown = match server {
        Some(server) => serve(server, &monitor, &stop, options, verbosity).map(|()| End::Over),
        None if options.headless => {
            announce(&monitor, options, verbosity);
            wait(&monitor, &stop, options, end_of(options), || false);
            Ok(End::Over)
        }
        None => draw(&monitor, &stop, options, verbosity),
    };
    if let (Err(failure), true) = (&shown, options.program.is_empty()) {
        return Err(Failure::message(
            failure.exit,
            format_args!("{:#}", failure.error),
        ));
    }
    let monitor = Arc::into_inner(monitor)
        .ok_or_else(|| Failure::message(Exit::Missing, "the monitor is still being shown"))?;
    // No output to a closed terminal.
    let gone = matches!(shown, Ok(End::Gone));
    let code = conclude(monitor, &stop, options, gone)?;
    shown?;
    Ok(code)
}

/// Runs a program under the monitor to its end, drawn unless `options` are headless. Returns the exit code of a program that
/// did not start.
pub(super) fn attend(
    program: Prepared,
    note: &str,
    stop: &Stop,
    options: &Watch,
    verbosity: &Verbosity,
) -> Result<Result<Summary, ExitCode>, Failure> {
    let monitor = match Monitor::start_prepared(&watched(options, !options.headless), program) {
        Ok(monitor) => monitor,
        Err(error) => return not_started(error).map(Err),
    };
    monitor.note(note);
    let shown = match options.headless {
        true => {
            wait(&monitor, stop, options, None, || false);
            Ok(End::Over)
        }
        false => draw(&monitor, stop, options, verbosity),
    };
    end_program(&monitor, stop, options);
    let summary = monitor.finish();
    shown.map(|_| Ok(summary))
}

/// Refuses to draw where standard output is not a terminal.
pub(super) fn require_terminal(remedy: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::message(
        Exit::Usage,
        format_args!("cannot draw: standard output is not a terminal; {remedy}"),
    ))
}

/// Prints that a program did not start. Other errors fail.
fn not_started(error: WatchError) -> Result<ExitCode, Failure> {
    match error {
        WatchError::Program { name, source } => Ok(super::not_started(&name, &source)),
        error => Err(failure(error)),
    }
}

/// Binds the address before the start of the program, which must not run in vain.
fn bind(address: std::net::SocketAddr, options: &Watch) -> Result<Server, Failure> {
    let token = options.token_file.as_deref().map(Token::read).transpose();
    let served = ServeOptions {
        address,
        allow_actions: options.allow_actions,
        token: token.or_exit(Exit::Usage)?,
    };
    Server::bind(&served).map_err(|error| {
        let exit = match error {
            ServeError::NotLoopback { .. } => Exit::Usage,
            _ => Exit::Missing,
        };
        Failure::new(exit, error)
    })
}

/// Prints the address and serves it. The address is a result, so it goes to standard output. With `--headless` the
/// messages of the monitor go to standard error meanwhile.
fn serve(
    server: Server,
    monitor: &Arc<Monitor>,
    stop: &Arc<Stop>,
    options: &Watch,
    verbosity: &Verbosity,
) -> Result<(), Failure> {
    super::print(&format!("{}\n", server.url()))?;
    let end = end_of(options);
    if !options.headless {
        if !verbosity.quiet {
            super::print_error(match options.token_file {
                Some(_) => "open this address, followed by the token, in a browser; Ctrl-C ends",
                None => "open this address in a browser; Ctrl-C ends",
            });
        }
        return server.run(monitor, stop, end).or_exit(Exit::Missing);
    }
    announce(monitor, options, verbosity);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| server.run(monitor, stop, end));
        wait(monitor, stop, options, end, || served.is_finished());
        let result = served
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.or_exit(Exit::Missing)
    })
}

/// Draws on the terminal until the user quits.
fn draw(monitor: &Monitor, stop: &Stop, options: &Watch, verbosity: &Verbosity) -> Result<End, Failure> {
    let drawn = TerminalOptions {
        colours: match verbosity.color {
            When::Auto => Colours::Auto,
            When::Always => Colours::Always,
            When::Never => Colours::Never,
        },
        duration: options.duration.map(Duration::from_secs_f64),
        page: None,
    };
    terminal::run(monitor, &drawn, stop).or_exit(Exit::Missing)
}

/// The end by `--duration`.
fn end_of(options: &Watch) -> Option<Instant> {
    let seconds = options.duration?;
    Some(Instant::now() + Duration::from_secs_f64(seconds))
}

/// The options of the monitor.
fn watched(options: &Watch, on_terminal: bool) -> Options {
    let source = if let Some(folder) = &options.replay {
        Source::Replay(folder.clone())
    } else if !options.program.is_empty() {
        Source::Program(Program {
            command: options.program.clone(),
            passes_through: !on_terminal,
        })
    } else if let Some(pid) = options.pid {
        Source::Live(TargetChoice::Pid(pid))
    } else if let Some(path) = &options.cgroup {
        Source::Live(TargetChoice::Cgroup(path.clone()))
    } else {
        Source::Live(TargetChoice::None)
    };
    Options {
        source,
        hz: options.hz,
        record: options.record.clone(),
        drawn: on_terminal || options.serve.is_some(),
    }
}

/// Prints the target on standard error: standard output is for the program and the summary.
fn announce(monitor: &Monitor, options: &Watch, verbosity: &Verbosity) {
    if verbosity.quiet {
        return;
    }
    let state = monitor.state();
    let target = match &state.target {
        Some(target) => target.title.clone(),
        None => "this machine".to_owned(),
    };
    let mut text = format!("watching {target} {} times a second", options.hz);
    if let Some(folder) = &state.status.recording {
        text.push_str(&format!(", recording into {}", folder.display()));
    }
    if let Some(reason) = &state.status.unlocked {
        text.push_str(&format!("; memory is not locked: {reason}"));
    }
    drop(state);
    super::print_error(&text);
}

/// Waits for the end of the program, `end`, a signal or `is_over`; prints messages on standard error.
fn wait(monitor: &Monitor, stop: &Stop, options: &Watch, end: Option<Instant>, is_over: impl Fn() -> bool) {
    let mut printed_ns = None;
    while !stop.requested() && !is_over() && end.is_none_or(|end| Instant::now() < end) {
        let left = end.map_or(NEWS, |end| end.saturating_duration_since(Instant::now()));
        let ended = match options.program.is_empty() {
            true => {
                sleep_until_signal(NEWS.min(left));
                false
            }
            false => monitor.wait(POLL.min(left)),
        };
        printed_ns = printed_ns.max(print_messages(monitor, printed_ns));
        if ended {
            return;
        }
    }
}

/// Sleeps for `time`, or until a signal: the kernel delivers it to the main thread, whose sleep it interrupts. If it
/// comes just before the sleep, the sleep is not shorter.
fn sleep_until_signal(time: Duration) {
    let time = rustix::time::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    let _ = rustix::thread::nanosleep(&time);
}

/// Prints the messages after `printed_ns`; returns the time of the last one.
fn print_messages(monitor: &Monitor, printed_ns: Option<u64>) -> Option<u64> {
    let news: Vec<Message> = {
        let state = monitor.state();
        let messages = state.messages.iter();
        let new = messages.filter(|message| message.level != Level::Info && Some(message.t_ns) > printed_ns);
        new.cloned().collect()
    };
    for message in &news {
        super::print_error(&message.text);
    }
    news.last().map(|message| message.t_ns)
}

/// Waits for the end of the started program and prints the summary; a replay has none, nor has a closed (`gone`) output.
fn conclude(monitor: Monitor, stop: &Arc<Stop>, options: &Watch, gone: bool) -> Result<ExitCode, Failure> {
    if options.replay.is_some() {
        return Ok(Exit::Done.into());
    }
    end_program(&monitor, stop, options);
    let summary = monitor.finish();
    match (gone, options.json) {
        (true, _) => {}
        (false, true) => super::print_json(&summary)?,
        (false, false) => super::print(&summary::text(&summary))?,
    }
    let exit = match &summary.recording_error {
        Some(error) => {
            super::print_error(error);
            Exit::Missing
        }
        None if gone => Exit::Killed,
        None => Exit::Done,
    };
    Ok(exit_code(&summary).unwrap_or(exit.into()))
}

/// Waits for the end of the started program. Forwards the signals of this process, except those that a terminal sends to
/// both; the third becomes SIGKILL. If `--duration` ended the watch, sends SIGTERM, and SIGKILL after [`PATIENCE`].
fn end_program(monitor: &Monitor, stop: &Stop, options: &Watch) {
    if options.program.is_empty() || monitor.wait(Duration::ZERO) {
        return;
    }
    let in_terminal = std::io::stdin().is_terminal();
    let pass_on = |signal: i32| {
        if !(in_terminal && matches!(signal, SIGINT | SIGQUIT)) {
            monitor.signal_program(signal);
        }
    };
    let mut signals = 0;
    let mut kill_at = None;
    match stop.next_signal() {
        Some(signal) => {
            signals += 1;
            pass_on(signal);
        }
        None => {
            monitor.signal_program(SIGTERM);
            kill_at = Some(Instant::now() + PATIENCE);
        }
    }
    while !monitor.wait(POLL) {
        if let Some(signal) = stop.next_signal() {
            signals += 1;
            if signals < 3 {
                pass_on(signal);
            } else {
                monitor.signal_program(SIGKILL);
            }
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            super::print_error("the program ignored SIGTERM; sending SIGKILL");
            monitor.signal_program(SIGKILL);
            kill_at = None;
        }
    }
}

/// The exit code of the started program, as in a shell.
fn exit_code(summary: &Summary) -> Option<ExitCode> {
    let program = summary.program.as_ref()?;
    let code = program.exit_code.or(program.signal.map(|signal| 128 + signal))?;
    Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn failure(error: WatchError) -> Failure {
    match error {
        WatchError::Recording(error) => recording_failure(error),
        WatchError::NoSuchProcess { .. } | WatchError::Target { .. } => Failure::new(Exit::Usage, error),
        WatchError::Cgroup { ref source } if source.is_wrong_name() => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Missing, error),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proc::cgroup::HierarchyError;

    use super::*;

    /// A machine without the memory controller had the exit code of a wrong name.
    #[test]
    fn only_a_wrong_name_of_a_cgroup_is_a_usage_error() {
        let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let path = || std::path::PathBuf::from("/a");
        for (source, exit) in [
            (HierarchyError::NoMemory, Exit::Missing),
            (
                HierarchyError::Unreadable {
                    path: path(),
                    source: missing(),
                },
                Exit::Missing,
            ),
            (
                HierarchyError::NoSuchCgroup {
                    path: path(),
                    source: missing(),
                },
                Exit::Usage,
            ),
            (
                HierarchyError::Elsewhere {
                    path: path(),
                    mount: path(),
                },
                Exit::Usage,
            ),
        ] {
            let words = source.to_string();
            assert_eq!(failure(WatchError::Cgroup { source }).exit, exit, "{words}");
        }
    }
}
