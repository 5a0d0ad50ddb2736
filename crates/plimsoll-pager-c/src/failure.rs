//! Codes of failures, and the text of the last one.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};

use plimsoll_pager::page_file::CreateError;
use plimsoll_pager::pool::PoolError;
use plimsoll_pager::{BuildError, FaultError, MapError, RamError, RangeError, WorkingSetError};

/// The codes of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Ok = 0,
    Invalid = 1,
    Unsupported = 2,
    NoMemory = 3,
    Limit = 4,
    Damaged = 5,
    Forked = 6,
    System = 7,
}

/// The reason why a function failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    /// An argument that cannot be used.
    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure {
            code: Code::Invalid,
            text: text.into(),
        }
    }

    fn of(code: Code, error: &dyn std::error::Error) -> Failure {
        Failure {
            code,
            text: error.to_string(),
        }
    }

    #[cfg(test)]
    fn code(&self) -> Code {
        self.code
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Failure {
        let code = match error {
            BuildError::Seccomp(_)
            | BuildError::Sysctl(_)
            | BuildError::NotBuilt
            | BuildError::KernelTooOld { .. }
            | BuildError::PageSize(_) => Code::Unsupported,
            BuildError::AddressSpace { .. } => Code::NoMemory,
            BuildError::TooLittleRam { .. }
            | BuildError::StoreCap { .. }
            | BuildError::GrantTooSmall { .. }
            | BuildError::PageFile(
                CreateError::Exists(_)
                | CreateError::Link(_)
                | CreateError::Folder { .. }
                | CreateError::InMemory(_)
                | CreateError::Size(_),
            ) => Code::Invalid,
            BuildError::TooManyPagers => Code::Limit,
            _ => Code::System,
        };
        Failure::of(code, &error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        let code = match &error {
            PoolError::Refused { .. }
            | PoolError::TotalOutOfRange { .. }
            | PoolError::LimitsOutOfOrder { .. }
            | PoolError::MinimumTooLarge { .. } => Code::Invalid,
            PoolError::Damaged { .. } => Code::Damaged,
            PoolError::Full | PoolError::AlreadyMember => Code::Limit,
            PoolError::Forked => Code::Forked,
            _ => Code::System,
        };
        Failure::of(code, &error)
    }
}

impl From<WorkingSetError> for Failure {
    fn from(error: WorkingSetError) -> Failure {
        let code = match error {
            WorkingSetError::OutOfOrder { .. } => Code::Invalid,
            WorkingSetError::Forked => Code::Forked,
            _ => Code::Limit,
        };
        Failure::of(code, &error)
    }
}

impl From<RamError> for Failure {
    fn from(error: RamError) -> Failure {
        Failure::of(Code::Invalid, &error)
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Failure {
        let code = match error {
            MapError::Empty => Code::Invalid,
            MapError::NoAddresses { .. } => Code::NoMemory,
            MapError::Forked => Code::Forked,
            _ => Code::System,
        };
        Failure::of(code, &error)
    }
}

impl From<RangeError> for Failure {
    fn from(error: RangeError) -> Failure {
        let code = match &error {
            RangeError::OutOfBounds { .. } => Code::Invalid,
            RangeError::TooManyPins | RangeError::PinTooLarge { .. } => Code::Limit,
            RangeError::Forked => Code::Forked,
            RangeError::Fault(FaultError::Damaged(_)) => Code::Damaged,
            RangeError::Fault(FaultError::NoMemory) => Code::NoMemory,
            _ => Code::System,
        };
        Failure::of(code, &error)
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps the text of a failure for [`last`], and returns the code.
pub(crate) fn report(result: Result<(), Failure>) -> c_int {
    let Err(failure) = result else {
        return Code::Ok as c_int;
    };
    // No text of ours has a byte 0.
    let text = CString::new(failure.text).unwrap_or_default();
    // A destructor of the thread may call the library after this one's.
    let _ = LAST.try_with(|last| last.replace(text));
    failure.code as c_int
}

/// The text of the last failure of this thread. The pointer is valid until its next one.
pub(crate) fn last() -> *const c_char {
    let text = LAST.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(CStr::to_bytes_with_nul(c"").as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use plimsoll_pager::page_file::CreateError;
    use plimsoll_pager::pool::PoolError;
    use plimsoll_pager::{BuildError, MapError, RangeError};

    use super::{Code, Failure, LAST, report};

    #[test]
    fn the_last_failure_of_a_thread_stays() {
        let text = || LAST.with(|last| last.borrow().to_str().expect("text").to_owned());
        assert_eq!(text(), "");
        assert_eq!(report(Err(Failure::from(MapError::Empty))), Code::Invalid as i32);
        assert_eq!(text(), MapError::Empty.to_string());
        assert_eq!(report(Ok(())), 0);
        assert_eq!(text(), MapError::Empty.to_string());
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(text(), ""));
        });
    }

    #[test]
    fn each_kind_of_error_has_its_code() {
        let code = |failure: Failure| failure.code();
        assert_eq!(code(BuildError::NotBuilt.into()), Code::Unsupported);
        assert_eq!(code(BuildError::TooManyPagers.into()), Code::Limit);
        assert_eq!(code(MapError::Forked.into()), Code::Forked);
        assert_eq!(code(MapError::NoAddresses { bytes: 1 }.into()), Code::NoMemory);
        assert_eq!(code(RangeError::TooManyPins.into()), Code::Limit);
        assert_eq!(code(PoolError::Full.into()), Code::Limit);
        assert_eq!(code(PoolError::Forked.into()), Code::Forked);
        assert_eq!(
            code(PoolError::TotalOutOfRange { bytes: 1 }.into()),
            Code::Invalid
        );
        let size = BuildError::PageFile(CreateError::Size(1));
        assert_eq!(code(size.into()), Code::Invalid);
    }
}
