//! One run of the program in the trial's cgroup, watched from outside.

use std::time::Duration;

use crate::environment::Cgroup;
use crate::program::{Finished, Program, ProgramError};
use crate::run::context::TrialContext;
use crate::run::trial_error::TrialError;
use plimsoll_model::exit::Exit;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::ProgramRun;
use plimsoll_model::scenario::workloads::command::MetricPattern;
use plimsoll_proc::cgroup::Field;

/// Pause between two looks at the cgroup: the first is soon, for programs that end soon.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest wait for the end of killed processes: their memory has to be freed, possibly from swap.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// One run, as seen from outside.
pub(super) struct Watched {
    /// None of a program that the OOM killer ended before it could begin.
    pub(super) finished: Option<Finished>,
    /// Whether the runner ended it.
    pub(super) timed_out: bool,
    /// Processes of the cgroup that the OOM killer ended.
    pub(super) oom_kills: u64,
    /// How often a charge met the limit.
    pub(super) limit_hits: Option<u64>,
    /// Most memory charged to the cgroup; none where the kernel could not set its counter back, and an earlier run took
    /// more.
    pub(super) peak: Option<u64>,
    pub(super) levels: Levels,
    /// Processes that outlived the program.
    pub(super) left: usize,
    pub(super) major_faults: Option<u64>,
    pub(super) refaults_anon: Option<u64>,
    pub(super) refaults_file: Option<u64>,
}

/// The largest of the samples of the cgroup, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Levels {
    /// Samples that were taken while the program ran: a program may end before the first one.
    pub(super) samples: u32,
    pub(super) usage: u64,
    pub(super) anon: u64,
    pub(super) file: u64,
    pub(super) swap: u64,
}

impl Levels {
    fn look(&mut self, cgroup: &Cgroup) {
        self.samples += 1;
        self.update(cgroup);
    }

    /// After the end of the program: its page cache is still there.
    fn look_at_rest(&mut self, cgroup: &Cgroup) {
        self.update(cgroup);
    }

    fn update(&mut self, cgroup: &Cgroup) {
        let stat = cgroup.stat();
        let of = |field: Field| stat.and_then(|stat| stat.get(field)).unwrap_or(0);
        self.usage = self.usage.max(cgroup.usage().unwrap_or(0));
        self.anon = self.anon.max(of(Field::Anon));
        self.file = self.file.max(of(Field::File));
        self.swap = self.swap.max(cgroup.swap().ok().flatten().unwrap_or(0));
    }
}

/// Counters of the cgroup.
struct Counters {
    oom_kills: u64,
    limit_hits: Option<u64>,
    major_faults: Option<u64>,
    refaults_anon: Option<u64>,
    refaults_file: Option<u64>,
}

impl Counters {
    fn of(cgroup: &Cgroup) -> Counters {
        let stat = cgroup.stat();
        let of = |field: Field| stat.and_then(|stat| stat.get(field));
        Counters {
            oom_kills: cgroup.oom_kills().unwrap_or(0),
            limit_hits: cgroup.limit_hits(),
            major_faults: of(Field::MajorFaults),
            refaults_anon: of(Field::RefaultsAnon),
            refaults_file: of(Field::RefaultsFile),
        }
    }
}

/// Runs the program in the cgroup to its end, or for at most `patience`. Afterwards no process is in the cgroup.
pub(super) fn watched_run(
    context: &mut TrialContext<'_, '_>,
    cgroup: &Cgroup,
    run: &ProgramRun,
    pattern: Option<&MetricPattern>,
    patience: Duration,
) -> Result<Watched, TrialError> {
    let before = Counters::of(cgroup);
    let mut peak = cgroup.peak();
    let mut levels = Levels::default();
    let ran = start_and_watch(context, cgroup, run, pattern, patience, &mut levels);
    // Also after an error: nothing of the program may live on.
    let ended = cgroup.kill(GONE_WITHIN);
    let after = Counters::of(cgroup);
    let oom_kills = after.oom_kills.saturating_sub(before.oom_kills);
    let ran = match ran {
        Ok(ran) => Some(ran),
        // Without memory for its first pages it never begins.
        Err(_) if oom_kills > 0 && context.go_on().is_ok() => None,
        Err(error) => return Err(error),
    };
    ended.map_err(|error| TrialError::failed(FailureCode::NotDrained, error))?;
    let since = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    let peak = peak.as_mut().and_then(|peak| peak.bytes().ok().flatten());
    let (finished, timed_out, left) = match ran {
        Some((finished, timed_out, left)) => (Some(finished), timed_out, left),
        None => (None, false, 0),
    };
    Ok(Watched {
        finished,
        timed_out,
        oom_kills,
        limit_hits: since(before.limit_hits, after.limit_hits),
        peak,
        levels,
        left,
        major_faults: since(before.major_faults, after.major_faults),
        refaults_anon: since(before.refaults_anon, after.refaults_anon),
        refaults_file: since(before.refaults_file, after.refaults_file),
    })
}

/// Returns the ended program, whether the runner ended it, and the number of processes that outlived it.
fn start_and_watch(
    context: &mut TrialContext<'_, '_>,
    cgroup: &Cgroup,
    run: &ProgramRun,
    pattern: Option<&MetricPattern>,
    patience: Duration,
    levels: &mut Levels,
) -> Result<(Finished, bool, usize), TrialError> {
    let mut program =
        Program::start(&run.command, cgroup.group(), pattern).map_err(|error| of_program(&error))?;
    let pid = program.pid();
    context.runner.note_start(pid)?;
    context.watch(&[pid]);
    let watched = watch(context, cgroup, &mut program, patience, levels);
    levels.look_at_rest(cgroup);
    let left = cgroup
        .processes()
        .map_or(0, |pids| pids.iter().filter(|other| **other != pid).count());
    let finished = program.finish().map_err(|error| of_program(&error));
    context.runner.note_end_of(pid);
    Ok((finished?, watched?, left))
}

/// Waits for the end of the program; true where its time is over.
fn watch(
    context: &TrialContext<'_, '_>,
    cgroup: &Cgroup,
    program: &mut Program,
    patience: Duration,
    levels: &mut Levels,
) -> Result<bool, TrialError> {
    let mut pause = FIRST_LOOK;
    loop {
        if program.watch(pause).map_err(|error| of_program(&error))? {
            return Ok(false);
        }
        context.go_on()?;
        levels.look(cgroup);
        if !cgroup.holds(program.pid()) {
            return Err(TrialError::failed(
                FailureCode::ProgramMoved,
                format_args!(
                    "cannot measure process {}: it moved out of its cgroup, where no limit holds for it; run the program \
                     without its container or service manager",
                    program.pid()
                ),
            ));
        }
        if program.elapsed() >= patience.as_secs_f64() {
            return Ok(true);
        }
        pause = (2 * pause).min(LOOK_EVERY);
    }
}

/// The error of a program that was not started or cannot be watched.
fn of_program(error: &ProgramError) -> TrialError {
    let code = match error {
        ProgramError::Start { .. } => FailureCode::ProgramStart,
        ProgramError::Cgroup { .. } | ProgramError::Io { .. } => FailureCode::WorkerStart,
    };
    TrialError::new(Exit::Missing, code, error)
}
