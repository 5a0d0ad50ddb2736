//! Opening a userfaultfd with the features of the pager.

use std::fs::File;
use std::os::fd::AsRawFd;

use plimsoll_os::{
    Errno, Fd, UffdFeatures, UffdMode, api_handshake, api_handshake_with, open_from_device, open_userfaultfd,
};

use crate::driver::{DriverOptions, FaultMode};

/// The features that it uses where the kernel has them.
const WELCOME: UffdFeatures = UffdFeatures::EXACT_ADDRESS.with(UffdFeatures::THREAD_ID);

/// The reason why no userfaultfd can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// The call was refused.
    Refused(Errno),
    /// The kernel lacks features: these bits.
    Lacks(UffdFeatures),
    /// Something is mapped at the address of the arena.
    Taken,
    /// Another call of the set-up failed.
    Failed(Errno),
}

/// The calls that open a userfaultfd, so that tests can refuse them.
pub(super) trait Kernel {
    fn open(&self, mode: UffdMode) -> Result<Fd, Errno>;
    /// The features that its kernel knows.
    fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno>;
}

/// The kernel that runs this process.
pub(super) struct ThisKernel;

impl Kernel for ThisKernel {
    fn open(&self, mode: UffdMode) -> Result<Fd, Errno> {
        open_userfaultfd(mode).or_else(|refusal| {
            // A seccomp filter of the system call does not concern the device.
            let device = File::options().read(true).write(true).open("/dev/userfaultfd");
            let device = device.map_err(|_| refusal)?;
            open_from_device(device.as_raw_fd(), mode).map_err(|_| refusal)
        })
    }

    fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno> {
        api_handshake(uffd).map(|api| UffdFeatures(api.features))
    }
}

/// A userfaultfd with the features of the pager.
pub(super) struct Opened {
    pub(super) uffd: Fd,
    /// One more for the shadow, whose absent pages are an error to a system call. None if `uffd` does so.
    pub(super) of_shadow: Option<Fd>,
    pub(super) moves: bool,
    pub(super) mode: UffdMode,
}

/// Opens a userfaultfd. In the mode of a thread, it delivers faults inside system calls too where the user may have them.
pub(super) fn open(kernel: &impl Kernel, options: DriverOptions) -> Result<Opened, OpenError> {
    let mut mode = UffdMode::UserModeOnly;
    let mut probe = Err(Errno::PERM);
    if options.fault_mode == FaultMode::Thread {
        mode = UffdMode::Full;
        probe = kernel.open(mode);
    }
    let probe = probe.or_else(|_| {
        mode = UffdMode::UserModeOnly;
        kernel.open(mode)
    });
    let probe = probe.map_err(OpenError::Refused)?;
    let known = kernel.features(&probe).map_err(OpenError::Failed)?;
    let moves = known.has(UffdFeatures::MOVE) && !options.without_move;
    let mut required = match options.fault_mode {
        FaultMode::Signal => UffdFeatures::SIGBUS,
        FaultMode::Thread => UffdFeatures::NONE,
    };
    required = required.with(match moves {
        true => UffdFeatures::MOVE,
        false => UffdFeatures::WRITE_PROTECT,
    });
    let lacking = UffdFeatures(required.0 & !known.0);
    if lacking != UffdFeatures::NONE {
        return Err(OpenError::Lacks(lacking));
    }
    // A descriptor makes one handshake.
    let open_with = |mode, features| {
        let uffd = kernel.open(mode).map_err(OpenError::Refused)?;
        api_handshake_with(&uffd, features).map_err(OpenError::Failed)?;
        Ok(uffd)
    };
    let features = required.with(WELCOME.and(known));
    // Else a read of the shadow by another process (`process_vm_readv(2)`) would wait for a page that nobody brings.
    let of_shadow = match mode {
        UffdMode::Full => Some(open_with(
            UffdMode::UserModeOnly,
            features.with(UffdFeatures::SIGBUS.and(known)),
        )?),
        UffdMode::UserModeOnly => None,
    };
    Ok(Opened {
        uffd: open_with(mode, features)?,
        of_shadow,
        moves,
        mode,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use plimsoll_os::{Errno, Fd, UffdFeatures, UffdMode};

    use super::{Kernel, OpenError, ThisKernel, open};
    use crate::driver::{DriverOptions, FaultMode};

    /// This kernel, as an older or a stricter one would answer.
    struct Answers {
        opened: Result<(), Errno>,
        full: Result<(), Errno>,
        without: UffdFeatures,
    }

    impl Answers {
        fn without(features: UffdFeatures) -> Answers {
            Answers {
                opened: Ok(()),
                full: Err(Errno::PERM),
                without: features,
            }
        }
    }

    impl Kernel for Answers {
        fn open(&self, mode: UffdMode) -> Result<Fd, Errno> {
            match mode {
                UffdMode::Full => self.full?,
                UffdMode::UserModeOnly => self.opened?,
            }
            ThisKernel.open(UffdMode::UserModeOnly)
        }

        fn features(&self, uffd: &Fd) -> Result<UffdFeatures, Errno> {
            let known = ThisKernel.features(uffd)?;
            Ok(UffdFeatures(known.0 & !self.without.0))
        }
    }

    const SIGNAL: DriverOptions = DriverOptions {
        fault_mode: FaultMode::Signal,
        without_move: false,
        arena: None,
    };
    const THREAD: DriverOptions = DriverOptions {
        fault_mode: FaultMode::Thread,
        without_move: false,
        arena: None,
    };

    #[test]
    fn a_kernel_without_move_copies_pages_instead() {
        let old = Answers::without(UffdFeatures::MOVE);
        assert!(open(&old, SIGNAL).is_ok_and(|opened| !opened.moves));
        let new = Answers::without(UffdFeatures::NONE);
        assert!(open(&new, SIGNAL).is_ok_and(|opened| opened.moves));
        let forced = DriverOptions {
            without_move: true,
            ..SIGNAL
        };
        assert!(open(&new, forced).is_ok_and(|opened| !opened.moves));
    }

    #[test]
    fn a_kernel_that_cannot_do_is_refused_before_anything_is_mapped() {
        let neither = UffdFeatures::MOVE.with(UffdFeatures::WRITE_PROTECT);
        let refused = open(&Answers::without(neither), SIGNAL);
        assert_eq!(refused.err(), Some(OpenError::Lacks(UffdFeatures::WRITE_PROTECT)));
        let silent = Answers::without(UffdFeatures::SIGBUS);
        assert_eq!(
            open(&silent, SIGNAL).err(),
            Some(OpenError::Lacks(UffdFeatures::SIGBUS))
        );
        assert!(open(&silent, THREAD).is_ok(), "a thread needs no signal");
        let strict = Answers {
            opened: Err(Errno::PERM),
            ..Answers::without(UffdFeatures::NONE)
        };
        assert_eq!(open(&strict, SIGNAL).err(), Some(OpenError::Refused(Errno::PERM)));
        assert_eq!(open(&strict, THREAD).err(), Some(OpenError::Refused(Errno::PERM)));
    }

    #[test]
    fn a_thread_has_faults_of_system_calls_where_the_user_may() {
        let mode = |full, options| {
            let kernel = Answers {
                full,
                ..Answers::without(UffdFeatures::NONE)
            };
            open(&kernel, options).map(|opened| opened.mode)
        };
        assert_eq!(mode(Ok(()), THREAD), Ok(UffdMode::Full));
        assert_eq!(mode(Err(Errno::PERM), THREAD), Ok(UffdMode::UserModeOnly));
        assert_eq!(mode(Ok(()), SIGNAL), Ok(UffdMode::UserModeOnly));
    }

    #[test]
    fn a_kernel_without_welcome_features_will_do() {
        assert!(open(&Answers::without(super::WELCOME), SIGNAL).is_ok());
    }
}
