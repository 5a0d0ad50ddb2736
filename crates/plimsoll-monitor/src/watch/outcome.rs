//! The end of the program that the monitor started.

/// How a program ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// Its process id and command line.
    pub(super) title: String,
    /// Exit code and signal, and what it and its descendants used.
    pub(super) ended: plimsoll_os::Ended,
    /// Largest resident size of any of its processes, where it exceeds what this one had when it started it.
    pub(super) max_resident: Option<u64>,
}

impl Outcome {
    /// How it ended, in words.
    pub(super) fn words(&self) -> String {
        match (self.ended.code, self.ended.signal) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (None, Some(signal)) => match signal_hook::low_level::signal_name(signal) {
                Some(name) => format!("was ended by {name}"),
                None => format!("was ended by signal {signal}"),
            },
            (None, None) => "ended".to_owned(),
        }
    }
}
