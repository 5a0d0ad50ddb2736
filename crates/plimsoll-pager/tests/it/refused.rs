//! Systems that refuse userfaultfd: the error names the remedy, and nothing is left behind.
#![allow(unsafe_code)]

use std::fs::File;

use plimsoll_pager::{BuildError, Pager};
use plimsoll_testkit::status_of_fork;

/// `SECCOMP_RET_ERRNO` with that error.
const fn refuse(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

const ALLOW: u32 = 0x7FFF_0000;

/// Installs a filter, in this thread, that refuses userfaultfd, and `USERFAULTFD_IOC_NEW` of its device too if asked.
fn install_filter(errno: i32, device_too: bool) {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Offsets in `struct seccomp_data`: the number of the call, and the low half of its second argument.
    let mut filter = [
        step(LOAD, 0, 0, 0),
        step(EQUAL, 4, 0, libc::SYS_userfaultfd as u32),
        step(
            EQUAL,
            0,
            2,
            if device_too {
                libc::SYS_ioctl as u32
            } else {
                u32::MAX
            },
        ),
        step(LOAD, 0, 0, 24),
        step(EQUAL, 1, 0, 0xAA00),
        step(RETURN, 0, 0, ALLOW),
        step(RETURN, 0, 0, refuse(errno)),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the filter outlives the calls, which read it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        );
        assert_eq!(set, 0);
    }
}

#[test]
fn a_seccomp_filter_is_named() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let status = status_of_fork(move || {
            install_filter(errno, true);
            let built = Pager::builder().ram(16 << 20).build();
            assert!(matches!(built, Err(BuildError::Seccomp(seen)) if seen.raw() == errno));
        });
        assert_eq!(status, 0);
    }
}

#[test]
fn the_device_replaces_the_system_call() {
    if File::options()
        .read(true)
        .write(true)
        .open("/dev/userfaultfd")
        .is_err()
    {
        eprintln!("skipped: this user has no /dev/userfaultfd");
        return;
    }
    let status = status_of_fork(|| {
        install_filter(libc::EPERM, false);
        let pager = Pager::builder().ram(16 << 20).build().expect("the device");
        let mut region = pager.map(1 << 20).expect("a small region");
        region.bytes_mut().fill(1);
        assert!(
            region
                .trim(.., plimsoll_pager::TrimTo::Store)
                .expect("the whole region")
                > 0
        );
        assert!(region.bytes().iter().all(|byte| *byte == 1));
    });
    assert_eq!(status, 0);
}
