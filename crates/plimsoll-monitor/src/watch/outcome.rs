//! The end of the program that the monitor started.

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// Pid and command line.
    pub(super) title: String,
    /// Exit code or signal, and resource usage with descendants.
    pub(super) ended: plimsoll_os::Ended,
    /// Largest resident size of any of its processes; None unless it exceeds the size of this process at the start.
    pub(super) max_resident: Option<u64>,
}

impl Outcome {
    /// `ended with exit code 1`, `was ended by SIGTERM`.
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
