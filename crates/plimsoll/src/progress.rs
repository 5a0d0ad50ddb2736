//! Progress of a run on standard error.

use std::io::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use plimsoll_lab::run::Progress;
use plimsoll_model::quantity::seconds;
use plimsoll_model::recording::model::{Trial, TrialStatus};
use plimsoll_model::sanitize::{sanitize, sanitize_lines};

/// A progress bar below permanent lines.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    bar: ProgressBar,
    quiet: bool,
    verbose: bool,
    trials: usize,
    trial: usize,
}

impl TerminalProgress {
    /// `quiet` shows only warnings and trials that are not ok; `verbose` shows every step.
    pub(crate) fn new(quiet: bool, verbose: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        TerminalProgress {
            bar,
            quiet,
            verbose,
            trials: 0,
            trial: 0,
        }
    }

    /// Prints the estimates and the limits of the run.
    pub(crate) fn bounds(&self, text: &str) {
        if !self.quiet {
            self.line(text);
        }
    }

    fn line(&self, text: &str) {
        // A closed terminal must not end the run before it undoes its changes.
        self.bar.suspend(|| {
            let _ = writeln!(std::io::stderr(), "{}", sanitize_lines(text));
        });
    }
}

impl Progress for TerminalProgress {
    fn begin(&mut self, trials: usize, estimate: Duration) {
        self.trials = trials;
        if self.quiet {
            return;
        }
        let style =
            ProgressStyle::with_template("{spinner} {wide_msg} {bar:20} {percent:>3}%  ETA {left:>5}")
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .with_key("left", left);
        self.bar.set_style(style);
        self.bar.set_length(milliseconds(estimate).max(1));
        self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        self.bar.enable_steady_tick(Duration::from_millis(250));
    }

    fn trial(&mut self, number: usize) {
        self.trial = number;
    }

    fn phase(&self, trial: &str, phase: &str) {
        self.bar.set_message(
            sanitize(&format!("[{}/{}] {trial}: {phase}", self.trial, self.trials)).into_owned(),
        );
        self.detail(format_args!("{trial}: {phase}"));
    }

    fn step(&self, text: &str) {
        self.bar.set_message(sanitize(text).into_owned());
        self.detail(format_args!("{text}"));
    }

    fn advance(&self, estimate: Duration) {
        self.bar.inc(milliseconds(estimate));
    }

    fn trial_done(&self, trial: &Trial) {
        if self.quiet && trial.status == TrialStatus::Ok {
            return;
        }
        let verdict = match trial.status {
            TrialStatus::Ok => "ok".to_owned(),
            TrialStatus::Failed => format!("FAILED: {}", trial.reasons.join("; ")),
            TrialStatus::Untrustworthy => format!("untrustworthy: {}", trial.reasons.join("; ")),
        };
        self.line(&format!(
            "[{}/{}] {}  {}  {verdict}",
            self.trial,
            self.trials,
            trial.id,
            speeds(trial)
        ));
    }

    fn warn(&self, text: &str) {
        self.line(&format!("plimsoll: warning: {text}"));
    }

    fn detail(&self, text: std::fmt::Arguments<'_>) {
        if self.verbose {
            self.line(&format!("  {text}"));
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// The speed of a trial: CPU time per operation of a heap load, which touches few of its bytes; otherwise the speed of
/// each phase.
fn speeds(trial: &Trial) -> String {
    if let Some(took) = trial.metrics.get("operation_cpu_s") {
        return format!("{} of CPU time an operation", seconds(*took));
    }
    let phases = trial.phases.iter().filter(|phase| phase.gb_per_s > 0.0);
    let speeds: Vec<String> = phases
        .map(|phase| format!("{} {:.2} GB/s", phase.name, phase.gb_per_s))
        .collect();
    speeds.join(", ")
}

/// Remaining time: the plan's estimate before the first progress, then the extrapolation of the progress.
fn left(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    let left = match (state.pos(), state.len()) {
        (0, Some(estimate)) => Duration::from_millis(estimate).saturating_sub(state.elapsed()),
        _ => state.eta(),
    };
    // Writing to the bar's string cannot fail.
    let _ = write!(text, "{:#}", HumanDuration(left));
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
