//! The steps of a run as its caller shows them.

use std::fmt::Arguments;
use std::time::Duration;

use plimsoll_model::recording::model::Trial;

/// Shows the progress of a run: the command draws it on a terminal, tests count it.
pub trait Progress {
    /// The run starts: `trials` trials, `estimate` in all.
    fn begin(&mut self, trials: usize, estimate: Duration);
    fn trial(&mut self, number: usize);
    fn phase(&self, trial: &str, phase: &str);
    /// The run does something outside the trials.
    fn step(&self, text: &str);
    /// Work with an estimate of `estimate` is done.
    fn advance(&self, estimate: Duration);
    fn trial_done(&self, trial: &Trial);
    /// A warning, shown at every verbosity.
    fn warn(&self, text: &str);
    /// A detail, shown to a verbose reader.
    fn detail(&self, text: Arguments<'_>);
    fn end(&self);
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _: usize, _: Duration) {}
    fn trial(&mut self, _: usize) {}
    fn phase(&self, _: &str, _: &str) {}
    fn step(&self, _: &str) {}
    fn advance(&self, _: Duration) {}
    fn trial_done(&self, _: &Trial) {}
    fn warn(&self, _: &str) {}
    fn detail(&self, _: Arguments<'_>) {}
    fn end(&self) {}
}
