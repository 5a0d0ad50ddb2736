//! Seccomp filters, as containers have them.
#![allow(unsafe_code)]

/// `SECCOMP_RET_ERRNO` with that error.
const fn refuse(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

const ALLOW: u32 = 0x7FFF_0000;

/// Installs a filter, in this thread and the programs that it starts, that refuses userfaultfd with `errno`, and
/// `USERFAULTFD_IOC_NEW` of its device too if asked. It stays for good: call it in a child of a fork.
///
/// # Panics
/// If the kernel refuses the filter.
pub fn refuse_userfaultfd(errno: i32, device_too: bool) {
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
