//! `plimsoll exec`: chooses the engine, refuses programs that the pager cannot manage, and runs the program.

mod attended;
mod document;
mod engine;
mod kernel;
mod page_file;
mod summary;

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cli::{Exec, ExecCodec, Verbosity};
use crate::exec::{self, Codec, Counters, CountersFile, Lack, Launch, Obstacle, Settings, SharedPool};
use crate::libraries::EXEC;
use crate::program::{self, Image};
use attended::Attendance;
use document::{End, EngineName, Event, ProgramEnd};
use engine::Reason;
use plimsoll_lab::confined::{self, Request, Supply};
use plimsoll_lab::environment::OwnSwap;
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::bytes;
use plimsoll_model::sanitize::sanitize;
use plimsoll_pager::BuildError;
use signal_hook::consts::SIGKILL;

/// Folder of swap files and page files by default.
const SPACE_FOLDER: &str = "/var/tmp";

/// Their bytes by default, as a multiple of the RAM.
const MULTIPLE: u64 = 4;

struct Program<'a> {
    name: &'a OsStr,
    path: PathBuf,
    arguments: &'a [OsString],
}

/// The engine, and why it was chosen.
enum Engine {
    Pager {
        reason: Reason,
    },
    Kernel {
        supply: Supply,
        swap: Option<OwnSwap>,
        reason: Reason,
    },
}

/// The reason that the pager cannot manage a program.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error(transparent)]
    Lack(#[from] Lack),
}

impl Refusal {
    fn exit(&self) -> Exit {
        match self {
            Refusal::Obstacle(_) => Exit::Unsupported,
            Refusal::Lack(lack) => lack.exit(),
        }
    }

    /// The stable name in JSON.
    fn code(&self) -> &'static str {
        match self {
            Refusal::Obstacle(obstacle) => obstacle.code(),
            Refusal::Lack(lack) => lack.code(),
        }
    }
}

/// Runs the program, or becomes it.
pub(super) fn exec(options: &Exec, verbosity: &Verbosity) -> Result<ExitCode, Failure> {
    let Some((name, arguments)) = options.program.split_first() else {
        return Err(Failure::message(Exit::Usage, "cannot run: no program; name one"));
    };
    let ram = options.ram.of(exec::available_ram().or_exit(Exit::Missing)?);
    let engine = engine::choose(options, ram)?;
    let path = match program::locate(name, env::var_os("PATH").as_deref()) {
        Ok(path) => path,
        Err(error) => return Ok(super::not_started(&spoken(name), &error)),
    };
    let attendance = Attendance::of(options, verbosity)?;
    let program = Program {
        name,
        path,
        arguments,
    };
    match engine {
        Engine::Kernel { supply, swap, reason } => {
            announce(EngineName::Kernel, ram, &reason, options, verbosity);
            let request = Request {
                path: &program.path,
                name,
                arguments,
                limit: ram,
                swap: swap.as_ref(),
            };
            kernel::run(&request, &supply, options, attendance.as_ref())
        }
        Engine::Pager { reason } => pager(&program, ram, &reason, options, verbosity, attendance.as_ref()),
    }
}

/// Prints the chosen engine: as JSON, or as text if the user did not choose it.
fn announce(engine: EngineName, ram: u64, reason: &Reason, options: &Exec, verbosity: &Verbosity) {
    if options.json {
        document::print(&Event::Engine {
            engine,
            ram_bytes: Some(ram),
            reason: reason.code(),
            text: reason.to_string(),
        });
    } else if !matches!(reason, Reason::Requested) && !verbosity.quiet {
        let (engine, ram) = (engine.name(), bytes(ram as f64));
        super::print_error(&format!("engine {engine}, {ram}: {reason}"));
    }
}

/// Becomes the program on the pager, and returns only on failure; or runs it to its end under the monitor.
fn pager(
    program: &Program<'_>,
    ram: u64,
    reason: &Reason,
    options: &Exec,
    verbosity: &Verbosity,
    attendance: Option<&Attendance<'_>>,
) -> Result<ExitCode, Failure> {
    let mut settings = settings(options, ram)?;
    let omitted = match check(program, &mut settings) {
        Ok(omitted) => omitted,
        Err(refusal) if !options.allow_unmanaged || refusal.exit() == Exit::Usage => {
            return Err(refused(program.name, &refusal, reason, options));
        }
        Err(refusal) => {
            announce_unmanaged(program.name, &refusal, options, verbosity);
            return run(program, ram, None, options, attendance);
        }
    };
    let launch = Launch {
        library: EXEC.unpack().or_exit(Exit::Missing)?,
        settings,
        pool: Some(SharedPool::make(ram).or_exit(Exit::Missing)?),
        counters: attendance
            .map(|_| CountersFile::make())
            .transpose()
            .or_exit(Exit::Missing)?,
    };
    announce(EngineName::Pager, ram, reason, options, verbosity);
    if let Some(error) = omitted.filter(|_| !verbosity.quiet) {
        super::print_error(&format!(
            "no page file: {error}; data that hardly compress may exceed {}; --page-file names another folder",
            bytes(ram as f64)
        ));
    }
    run(program, ram, Some(&launch), options, attendance)
}

/// Prints that the program runs without a limit.
fn announce_unmanaged(name: &OsStr, refusal: &Refusal, options: &Exec, verbosity: &Verbosity) {
    if options.json {
        document::print(&Event::Engine {
            engine: EngineName::Unmanaged,
            ram_bytes: None,
            reason: refusal.code(),
            text: refusal.to_string(),
        });
    } else if !verbosity.quiet {
        let name = spoken(name);
        super::print_error(&format!("`{name}` runs without a limit: {refusal}"));
    }
}

/// Becomes the program, or runs it under the monitor; without a launch, it has no limit.
fn run(
    program: &Program<'_>,
    ram: u64,
    launch: Option<&Launch>,
    options: &Exec,
    attendance: Option<&Attendance<'_>>,
) -> Result<ExitCode, Failure> {
    let preloaded = env::var_os("LD_PRELOAD");
    let variables = launch.map_or_else(Vec::new, |launch| launch.environment(preloaded.as_deref()));
    let Some(attendance) = attendance else {
        return Ok(become_program(program, variables));
    };
    let command = exec::command(&program.path, program.name, program.arguments, variables);
    let title = match launch {
        Some(_) => format!("engine pager, budget {}", bytes(ram as f64)),
        None => "no limit".to_owned(),
    };
    let summary = match attendance.run(command, None, &title)? {
        Ok(summary) => summary,
        Err(code) => return Ok(code),
    };
    let counters = launch
        .and_then(|launch| launch.counters.as_ref())
        .and_then(read_counters);
    if options.stats
        && let Some(counters) = &counters
    {
        super::print_error_lines(&counters.text);
    }
    if options.json {
        document::print(&Event::End(End {
            engine: launch.map_or(EngineName::Unmanaged, |_| EngineName::Pager),
            ram_bytes: launch.map(|_| ram),
            program: summary.program.as_ref().map(ProgramEnd::from),
            oom_killed: None,
            cgroup: None,
            counters: counters.as_ref().filter(|counters| counters.processes > 0),
            monitor: Some(&summary),
        }));
    } else {
        let rows = match launch {
            Some(_) => summary::of_pager(&summary, counters.as_ref(), ram),
            None => summary::without_limit(&summary),
        };
        attended::print_table(&title, &summary, &rows);
    }
    Ok(attended::conclude(&summary))
}

/// The counters of the program's processes. Prints why they cannot be read.
fn read_counters(file: &CountersFile) -> Option<Counters> {
    match file.read() {
        Ok(counters) => Some(counters),
        Err(error) => {
            super::print_error(&format!("cannot read the counters of the program: {error}"));
            None
        }
    }
}

fn settings(options: &Exec, ram: u64) -> Result<Settings, Failure> {
    Ok(Settings {
        ram,
        codec: match options.codec {
            Some(ExecCodec::Lz4) => Codec::Lz4,
            Some(ExecCodec::Zstd) => Codec::Zstd,
            Some(ExecCodec::Auto) | None => Codec::Auto,
        },
        page_file: page_file::of(options, ram)?,
        stats: options.stats,
    })
}

/// Checks that the pager can manage the program. Returns the reason if it has no page file although it usually would.
fn check(program: &Program<'_>, settings: &mut Settings) -> Result<Option<BuildError>, Refusal> {
    if let Some(obstacle) = obstacle(&program.path) {
        return Err(obstacle.into());
    }
    Ok(page_file::check(settings)?)
}

fn obstacle(path: &Path) -> Option<exec::Obstacle> {
    Image::of(path).and_then(exec::obstacle)
}

/// The failure with the program's name, the fate of the other engine, and the remedy.
fn refused(name: &OsStr, refusal: &Refusal, reason: &Reason, options: &Exec) -> Failure {
    if options.json {
        document::print(&Event::Refused {
            engine: EngineName::Pager,
            reason: refusal.code(),
            text: refusal.to_string(),
        });
    }
    let other = match reason {
        Reason::Requested => String::new(),
        reason => format!("; engine kernel not used: {reason}"),
    };
    let unmanaged = match refusal.exit() {
        Exit::Usage => "",
        _ => "; --allow-unmanaged runs it without a limit",
    };
    Failure::message(
        refusal.exit(),
        format_args!(
            "cannot manage the memory of `{}`: {refusal}{other}{unmanaged}",
            spoken(name)
        ),
    )
}

/// Becomes the program; returns only on failure.
fn become_program(program: &Program<'_>, variables: Vec<(&'static str, OsString)>) -> ExitCode {
    let Err(error) = exec::execute(&program.path, program.name, program.arguments, variables);
    super::not_started(&spoken(program.name), &error)
}

/// The exit code of a program. If a signal ended it, this process ends by the same signal, where it can.
fn end(code: Option<i32>, signal: Option<i32>) -> ExitCode {
    if let Some(code) = code {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let signal = signal.unwrap_or(SIGKILL);
    confined::end_by(signal);
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}

/// The name of a program as text.
fn spoken(name: &OsStr) -> String {
    sanitize(&name.to_string_lossy()).into_owned()
}
