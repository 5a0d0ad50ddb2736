//! Exit codes: one meaning each, the same for every command.

/// How the program ends. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done as asked.
    Done = 0,
    /// The command line or a file it names is wrong.
    Usage = 1,
    /// A workload failed: a wrong byte, a size not reached, a phase that did not end.
    WorkloadFailed = 2,
    /// A capability or resource is missing on this machine.
    Missing = 3,
    /// The file or request is of a version or kind that this program does not support.
    Unsupported = 4,
    /// A signal or the OOM killer ended it.
    Killed = 5,
    /// Worse than the baseline.
    Regression = 6,
    /// The metrics are untrustworthy.
    Untrustworthy = 7,
}

impl Exit {
    /// Every exit code, ascending.
    pub const ALL: [Exit; 8] = [
        Exit::Done,
        Exit::Usage,
        Exit::WorkloadFailed,
        Exit::Missing,
        Exit::Unsupported,
        Exit::Killed,
        Exit::Regression,
        Exit::Untrustworthy,
    ];

    /// The meaning in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Usage => "usage",
            Exit::WorkloadFailed => "workload failed",
            Exit::Missing => "capability or resource missing",
            Exit::Unsupported => "unsupported",
            Exit::Killed => "killed by a signal or the OOM killer",
            Exit::Regression => "regression against the baseline",
            Exit::Untrustworthy => "metrics untrustworthy",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// An error that knows how the program should end. Printed once, in `main`.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub error: anyhow::Error,
}

impl Failure {
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Failure {
            exit,
            error: error.into(),
        }
    }

    /// A failure that ends with `exit` and says `message`.
    pub fn message(exit: Exit, message: impl std::fmt::Display) -> Self {
        Failure {
            exit,
            error: anyhow::anyhow!("{message}"),
        }
    }
}

/// Gives an error the exit code that it ends the program with.
pub trait OrExit<T> {
    /// Turns the error into a [`Failure`] that ends with `exit`.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error))
    }
}
