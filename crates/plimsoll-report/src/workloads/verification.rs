//! The data that the trials of a workload verify.

use plimsoll_model::recording::StatementCode;

/// The statement about trials that were all verified.
#[derive(PartialEq, Eq)]
pub(crate) struct Verification {
    pub(crate) code: StatementCode,
    /// The end of its sentence.
    pub(crate) verified: &'static str,
}

pub(super) const EVERY_BYTE: Verification = Verification {
    code: StatementCode::TrustBytesVerified,
    verified: "every byte was verified",
};

pub(super) const EXIT_CODES: Verification = Verification {
    code: StatementCode::TrustExitCodesVerified,
    verified: "exit codes were verified",
};

/// Also that of trials of several workloads.
pub(crate) const DATA_AND_COUNTS: Verification = Verification {
    code: StatementCode::TrustDataVerified,
    verified: "data and counts were verified",
};
