//! Systems that refuse userfaultfd: the error names the remedy, and nothing is left behind.

use std::fs::File;

use plimsoll_pager::{BuildError, Pager};
use plimsoll_testkit::{refuse_userfaultfd, status_of_fork};

#[test]
fn a_seccomp_filter_is_named() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let status = status_of_fork(move || {
            refuse_userfaultfd(errno, true);
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
        refuse_userfaultfd(libc::EPERM, false);
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
