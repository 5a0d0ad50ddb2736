//! `plimsoll watch`: choose what to watch and who shows it, and say at the end what was seen.

mod summary;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGKILL, SIGQUIT, SIGTERM};

use crate::cli::{Verbosity, Watch, When};
use plimsoll_lab::run::recording_failure;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::sanitize::sanitize;
use plimsoll_monitor::watch::serve::{ServeError, ServeOptions, Server};
use plimsoll_monitor::watch::terminal::{self, Colours, End, TerminalOptions};
use plimsoll_monitor::watch::{
    Level, Message, Monitor, Options, Program, Source, Summary, TargetChoice, WatchError,
};
use plimsoll_sample::stop::Stop;

/// How often the request to stop is looked at.
const POLL: Duration = Duration::from_millis(500);
/// How long a program that was asked to end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries out the command.
pub(super) fn watch(options: &Watch, verbosity: &Verbosity) -> Result<ExitCode, Failure> {
    let drawn = !options.headless;
    if drawn && options.serve.is_none() && !std::io::stdout().is_terminal() {
        return Err(Failure::message(
            Exit::Usage,
            "standard output is no terminal to draw on; use --headless, or --serve for a page in the browser",
        ));
    }
    let dashes = std::env::args_os().any(|word| word == "--");
    if dashes && options.program.is_empty() {
        return Err(Failure::message(
            Exit::Usage,
            "there is no program after `--`; name one, or leave `--` out to watch the machine",
        ));
    }
    let server = options.serve.map(|address| bind(address, options)).transpose()?;
    let stop = Stop::install()
        .map_err(|error| anyhow::anyhow!("cannot take over signals: {error}"))
        .or_exit(Exit::Missing)?;
    let monitor = match Monitor::start(&watched(options, drawn)) {
        Ok(monitor) => Arc::new(monitor),
        Err(WatchError::Program { name, source }) => return Ok(super::not_started(&name, &source)),
        Err(error) => return Err(failure(error)),
    };
    let shown = match server {
        Some(server) => serve(server, &monitor, &stop, options, verbosity).map(|()| End::Over),
        None if options.headless => {
            announce(&monitor, options, verbosity);
            wait(&monitor, &stop, end_of(options));
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
    // A terminal that went away is told nothing more.
    let gone = matches!(shown, Ok(End::Gone));
    let code = conclude(monitor, &stop, options, gone)?;
    shown?;
    Ok(code)
}

/// Takes the address before anything is started: a program that is watched shall not run for nothing.
fn bind(address: std::net::SocketAddr, options: &Watch) -> Result<Server, Failure> {
    let served = ServeOptions {
        address,
        allow_actions: options.allow_actions,
    };
    Server::bind(&served).map_err(|error| {
        let exit = match error {
            ServeError::NotLoopback { .. } => Exit::Usage,
            _ => Exit::Missing,
        };
        Failure::new(exit, error)
    })
}

/// Says where the page is, and serves it. The address is a result of the command, so it goes to standard output.
fn serve(
    server: Server,
    monitor: &Arc<Monitor>,
    stop: &Arc<Stop>,
    options: &Watch,
    verbosity: &Verbosity,
) -> Result<(), Failure> {
    super::print(&format!("{}\n", server.url()))?;
    if !verbosity.quiet {
        super::print_error("open this address in a browser; Ctrl-C ends");
    }
    server.run(monitor, stop, end_of(options)).or_exit(Exit::Missing)
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

/// When the watching ends by itself, if it does.
fn end_of(options: &Watch) -> Option<Instant> {
    let seconds = options.duration?;
    Some(Instant::now() + Duration::from_secs_f64(seconds))
}

/// What is asked for on the command line.
fn watched(options: &Watch, drawn: bool) -> Options {
    let source = if let Some(folder) = &options.replay {
        Source::Replay(folder.clone())
    } else if !options.program.is_empty() {
        Source::Program(Program {
            command: options.program.clone(),
            passes_through: !drawn || options.serve.is_some(),
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
        drawn,
    }
}

/// Says what is watched, on standard error: standard output is the program's, and then the summary's.
fn announce(monitor: &Monitor, options: &Watch, verbosity: &Verbosity) {
    if verbosity.quiet {
        return;
    }
    let state = monitor.state();
    let what = match &state.target {
        Some(target) => target.title.clone(),
        None => "this machine".to_owned(),
    };
    let mut text = format!("watching {what} {} times a second", options.hz);
    if let Some(folder) = &state.status.recording {
        text.push_str(&format!(", recorded into {}", folder.display()));
    }
    if let Some(reason) = &state.status.unlocked {
        text.push_str(&format!("; memory is not locked: {reason}"));
    }
    drop(state);
    super::print_error(&text);
}

/// Waits for the program to end, the time to pass, or a signal, and says on standard error what is to be known
/// meanwhile.
fn wait(monitor: &Monitor, stop: &Stop, end: Option<Instant>) {
    let mut said_ns = None;
    while !stop.requested() && end.is_none_or(|end| Instant::now() < end) {
        let until = end.map_or(POLL, |end| end.saturating_duration_since(Instant::now()));
        let ended = monitor.wait(POLL.min(until));
        said_ns = said_ns.max(tell(monitor, said_ns));
        if ended {
            return;
        }
    }
}

/// Says what is newer than `said_ns`, and returns the time of the last that was said.
fn tell(monitor: &Monitor, said_ns: Option<u64>) -> Option<u64> {
    let news: Vec<Message> = {
        let state = monitor.state();
        let messages = state.messages.iter();
        let new = messages.filter(|message| message.level != Level::Info && Some(message.t_ns) > said_ns);
        new.cloned().collect()
    };
    for message in &news {
        super::print_error(&sanitize(&message.text));
    }
    news.last().map(|message| message.t_ns)
}

/// Waits for the program that was started to end, and says what was seen; of a recording there is nothing to say.
///
/// Where the output has `gone`, there is nobody to say it to.
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
    let exit = match &summary.recording_trouble {
        Some(trouble) => {
            super::print_error(trouble);
            Exit::Missing
        }
        None if gone => Exit::Killed,
        None => Exit::Done,
    };
    Ok(exit_code(&summary).unwrap_or(exit.into()))
}

/// Waits for the program that was started to end. Signals to this process are passed on, but for those that a terminal
/// sends to both; the third ends the program for good. Where the watching ended first, it gets a SIGTERM, and a SIGKILL
/// when it has not ended in time.
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
    let mut asked = 0;
    let mut kill_at = None;
    match stop.next_signal() {
        Some(signal) => {
            asked += 1;
            pass_on(signal);
        }
        None => {
            monitor.signal_program(SIGTERM);
            kill_at = Some(Instant::now() + PATIENCE);
        }
    }
    while !monitor.wait(POLL) {
        if let Some(signal) = stop.next_signal() {
            asked += 1;
            if asked < 3 {
                pass_on(signal);
            } else {
                monitor.signal_program(SIGKILL);
            }
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            super::print_error("the program did not end for SIGTERM: it is killed");
            monitor.signal_program(SIGKILL);
            kill_at = None;
        }
    }
}

/// The code of the program that was started, as a shell gives it.
fn exit_code(summary: &Summary) -> Option<ExitCode> {
    let program = summary.program.as_ref()?;
    let code = program.exit_code.or(program.signal.map(|signal| 128 + signal))?;
    Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn failure(error: WatchError) -> Failure {
    match error {
        WatchError::Recording(error) => recording_failure(error),
        WatchError::Target { .. } => Failure::new(Exit::Usage, error),
        error => Failure::new(Exit::Missing, error),
    }
}
