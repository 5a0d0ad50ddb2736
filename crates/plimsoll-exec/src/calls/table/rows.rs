//! The rows of the table: the service of each call, by topic.

use super::super::loan::Way;
use super::Kind::{self, Plain, Transfer as Bytes};
use super::{Length as L, Length, Pointer, Transfer};

const fn input(argument: u8, length: Length) -> Pointer {
    Pointer {
        argument,
        way: Way::In,
        length,
    }
}

/// The kernel writes it, whole or not at all.
const fn output(argument: u8, bytes: u32) -> Pointer {
    Pointer {
        argument,
        way: Way::Both,
        length: Length::Bytes(bytes),
    }
}

const fn both(argument: u8, length: Length) -> Pointer {
    Pointer {
        argument,
        way: Way::Both,
        length,
    }
}

const fn returned(argument: u8, length: Length, unit: u32) -> Pointer {
    Pointer {
        argument,
        way: Way::Returned(unit),
        length,
    }
}

const fn text(argument: u8) -> Pointer {
    input(argument, Length::Text(PATH))
}

const fn value(argument: u8, bytes: u32) -> Pointer {
    input(argument, Length::Bytes(bytes))
}

const PATH: u32 = 4096;
const TIME: u32 = 16;
const TIMER: u32 = 32;
const STAT: u32 = 144;
const STATFS: u32 = 120;
const USAGE: u32 = 144;
const SIGINFO: u32 = 128;
const SIGEVENT: u32 = 64;
const TIMEX: u32 = 208;
/// `struct sigaction` of the kernel.
const ACTION: u32 = 32;

const PATH_FIRST: Kind = Plain(&[text(0)]);
const PATH_SECOND: Kind = Plain(&[text(1)]);
const TWO_PATHS: Kind = Plain(&[text(0), text(1)]);
const TWO_PATHS_AT: Kind = Plain(&[text(1), text(3)]);
const ADDRESS_OUT: Kind = Plain(&[both(1, L::At(2)), output(2, 4)]);
const THREE_IDS: Kind = Plain(&[output(0, 4), output(1, 4), output(2, 4)]);

/// The rows: a call, and its service.
pub(super) const ROWS: &[(i64, Kind)] = &[
    // Files.
    (libc::SYS_read, Bytes(Transfer::In)),
    (libc::SYS_write, Bytes(Transfer::Out)),
    (libc::SYS_pread64, Bytes(Transfer::In)),
    (libc::SYS_pwrite64, Bytes(Transfer::Out)),
    (libc::SYS_readv, Kind::Vector(Transfer::In)),
    (libc::SYS_writev, Kind::Vector(Transfer::Out)),
    (libc::SYS_preadv, Kind::Vector(Transfer::In)),
    (libc::SYS_pwritev, Kind::Vector(Transfer::Out)),
    (libc::SYS_preadv2, Kind::Vector(Transfer::In)),
    (libc::SYS_pwritev2, Kind::Vector(Transfer::Out)),
    (libc::SYS_vmsplice, Kind::Splice),
    (libc::SYS_process_vm_readv, Kind::OtherMemory(Transfer::In)),
    (libc::SYS_process_vm_writev, Kind::OtherMemory(Transfer::Out)),
    (libc::SYS_open, PATH_FIRST),
    (libc::SYS_openat, PATH_SECOND),
    (libc::SYS_openat2, Plain(&[text(1), input(2, L::Argument(3))])),
    (libc::SYS_creat, PATH_FIRST),
    (libc::SYS_access, PATH_FIRST),
    (libc::SYS_faccessat, PATH_SECOND),
    (libc::SYS_faccessat2, PATH_SECOND),
    (libc::SYS_stat, Plain(&[text(0), output(1, STAT)])),
    (libc::SYS_lstat, Plain(&[text(0), output(1, STAT)])),
    (libc::SYS_fstat, Plain(&[output(1, STAT)])),
    (libc::SYS_newfstatat, Plain(&[text(1), output(2, STAT)])),
    (libc::SYS_statx, Plain(&[text(1), output(4, 256)])),
    (libc::SYS_statfs, Plain(&[text(0), output(1, STATFS)])),
    (libc::SYS_fstatfs, Plain(&[output(1, STATFS)])),
    (libc::SYS_ustat, Plain(&[output(1, 32)])),
    (libc::SYS_chdir, PATH_FIRST),
    (libc::SYS_chroot, PATH_FIRST),
    (libc::SYS_rename, TWO_PATHS),
    (libc::SYS_renameat, TWO_PATHS_AT),
    (libc::SYS_renameat2, TWO_PATHS_AT),
    (libc::SYS_mkdir, PATH_FIRST),
    (libc::SYS_mkdirat, PATH_SECOND),
    (libc::SYS_rmdir, PATH_FIRST),
    (libc::SYS_link, TWO_PATHS),
    (libc::SYS_linkat, TWO_PATHS_AT),
    (libc::SYS_symlink, TWO_PATHS),
    (libc::SYS_symlinkat, Plain(&[text(0), text(2)])),
    (libc::SYS_unlink, PATH_FIRST),
    (libc::SYS_unlinkat, PATH_SECOND),
    (
        libc::SYS_readlink,
        Plain(&[text(0), returned(1, L::Argument(2), 1)]),
    ),
    (
        libc::SYS_readlinkat,
        Plain(&[text(1), returned(2, L::Argument(3), 1)]),
    ),
    (libc::SYS_getcwd, Plain(&[returned(0, L::Argument(1), 1)])),
    (libc::SYS_chmod, PATH_FIRST),
    (libc::SYS_fchmodat, PATH_SECOND),
    (libc::SYS_fchmodat2, PATH_SECOND),
    (libc::SYS_chown, PATH_FIRST),
    (libc::SYS_lchown, PATH_FIRST),
    (libc::SYS_fchownat, PATH_SECOND),
    (libc::SYS_truncate, PATH_FIRST),
    (libc::SYS_mknod, PATH_FIRST),
    (libc::SYS_mknodat, PATH_SECOND),
    (libc::SYS_utime, Plain(&[text(0), value(1, TIME)])),
    (libc::SYS_utimes, Plain(&[text(0), value(1, 2 * TIME)])),
    (libc::SYS_futimesat, Plain(&[text(1), value(2, 2 * TIME)])),
    (libc::SYS_utimensat, Plain(&[text(1), value(2, 2 * TIME)])),
    (libc::SYS_getdents, Plain(&[returned(1, L::Argument(2), 1)])),
    (libc::SYS_getdents64, Plain(&[returned(1, L::Argument(2), 1)])),
    (
        libc::SYS_setxattr,
        Plain(&[text(0), text(1), input(2, L::Argument(3))]),
    ),
    (
        libc::SYS_lsetxattr,
        Plain(&[text(0), text(1), input(2, L::Argument(3))]),
    ),
    (libc::SYS_fsetxattr, Plain(&[text(1), input(2, L::Argument(3))])),
    (
        libc::SYS_getxattr,
        Plain(&[text(0), text(1), returned(2, L::Argument(3), 1)]),
    ),
    (
        libc::SYS_lgetxattr,
        Plain(&[text(0), text(1), returned(2, L::Argument(3), 1)]),
    ),
    (
        libc::SYS_fgetxattr,
        Plain(&[text(1), returned(2, L::Argument(3), 1)]),
    ),
    (
        libc::SYS_listxattr,
        Plain(&[text(0), returned(1, L::Argument(2), 1)]),
    ),
    (
        libc::SYS_llistxattr,
        Plain(&[text(0), returned(1, L::Argument(2), 1)]),
    ),
    (libc::SYS_flistxattr, Plain(&[returned(1, L::Argument(2), 1)])),
    (libc::SYS_removexattr, TWO_PATHS),
    (libc::SYS_lremovexattr, TWO_PATHS),
    (libc::SYS_fremovexattr, PATH_SECOND),
    (libc::SYS_sendfile, Plain(&[both(2, L::Bytes(8))])),
    (
        libc::SYS_splice,
        Plain(&[both(1, L::Bytes(8)), both(3, L::Bytes(8))]),
    ),
    (
        libc::SYS_copy_file_range,
        Plain(&[both(1, L::Bytes(8)), both(3, L::Bytes(8))]),
    ),
    (
        libc::SYS_name_to_handle_at,
        Plain(&[text(1), both(2, L::Header(8)), output(3, 8)]),
    ),
    (libc::SYS_open_by_handle_at, Plain(&[both(1, L::Header(8))])),
    (libc::SYS_pipe, Plain(&[output(0, 8)])),
    (libc::SYS_pipe2, Plain(&[output(0, 8)])),
    (libc::SYS_memfd_create, Plain(&[input(0, L::Text(256))])),
    (libc::SYS_inotify_add_watch, PATH_SECOND),
    (libc::SYS_fanotify_mark, Plain(&[text(4)])),
    (libc::SYS_ioctl, Kind::Ioctl),
    (libc::SYS_fcntl, Kind::Fcntl),
    // Waiting for files.
    (libc::SYS_poll, Plain(&[both(0, L::Times(1, 8))])),
    (
        libc::SYS_ppoll,
        Kind::Masked(3, &[both(0, L::Times(1, 8)), both(2, L::Bytes(TIME))]),
    ),
    (
        libc::SYS_select,
        Plain(&[
            both(1, L::Bits(0)),
            both(2, L::Bits(0)),
            both(3, L::Bits(0)),
            both(4, L::Bytes(TIME)),
        ]),
    ),
    (libc::SYS_pselect6, Kind::Select),
    (libc::SYS_epoll_ctl, Plain(&[value(3, 12)])),
    (libc::SYS_epoll_wait, Plain(&[returned(1, L::Times(2, 12), 12)])),
    (
        libc::SYS_epoll_pwait,
        Kind::Masked(4, &[returned(1, L::Times(2, 12), 12)]),
    ),
    (
        libc::SYS_epoll_pwait2,
        Kind::Masked(4, &[returned(1, L::Times(2, 12), 12), value(3, TIME)]),
    ),
    (libc::SYS_io_setup, Plain(&[both(1, L::Bytes(8))])),
    (libc::SYS_io_submit, Plain(&[input(2, L::Times(1, 8))])),
    (libc::SYS_io_cancel, Plain(&[value(1, 64), output(2, 32)])),
    (
        libc::SYS_io_getevents,
        Plain(&[returned(3, L::Times(2, 32), 32), value(4, TIME)]),
    ),
    (libc::SYS_io_uring_setup, Plain(&[output(1, 120)])),
    // Sockets.
    (libc::SYS_connect, Plain(&[input(1, L::Argument(2))])),
    (libc::SYS_bind, Plain(&[input(1, L::Argument(2))])),
    (libc::SYS_accept, ADDRESS_OUT),
    (libc::SYS_accept4, ADDRESS_OUT),
    (libc::SYS_getsockname, ADDRESS_OUT),
    (libc::SYS_getpeername, ADDRESS_OUT),
    (libc::SYS_sendto, Bytes(Transfer::Out)),
    (libc::SYS_recvfrom, Bytes(Transfer::In)),
    (libc::SYS_sendmsg, Kind::Message(Transfer::Out)),
    (libc::SYS_recvmsg, Kind::Message(Transfer::In)),
    (libc::SYS_sendmmsg, Kind::Messages(Transfer::Out)),
    (libc::SYS_recvmmsg, Kind::Messages(Transfer::In)),
    (libc::SYS_setsockopt, Kind::SetSocketOption),
    (libc::SYS_getsockopt, Plain(&[both(3, L::At(4)), output(4, 4)])),
    (libc::SYS_socketpair, Plain(&[output(3, 8)])),
    // The address space.
    (libc::SYS_mmap, Kind::Memory),
    (libc::SYS_munmap, Kind::Memory),
    (libc::SYS_mremap, Kind::Memory),
    (libc::SYS_mprotect, Kind::Memory),
    (libc::SYS_pkey_mprotect, Kind::Memory),
    (libc::SYS_madvise, Kind::Memory),
    (libc::SYS_mincore, Kind::Memory),
    (libc::SYS_mlock, Kind::Memory),
    (libc::SYS_mlock2, Kind::Memory),
    (libc::SYS_munlock, Kind::Memory),
    (libc::SYS_msync, Kind::Memory),
    (libc::SYS_brk, Kind::Memory),
    (libc::SYS_shmat, Kind::Memory),
    (libc::SYS_shmdt, Kind::Memory),
    (libc::SYS_remap_file_pages, Kind::Memory),
    (libc::SYS_mbind, Kind::Memory),
    (libc::SYS_mseal, Kind::Memory),
    (libc::SYS_set_mempolicy_home_node, Kind::Memory),
    (libc::SYS_process_madvise, Plain(&[input(1, L::Times(2, 16))])),
    (libc::SYS_set_mempolicy, Plain(&[input(1, L::Bits(2))])),
    (
        libc::SYS_get_mempolicy,
        Plain(&[output(0, 4), both(1, L::Bits(2))]),
    ),
    (
        libc::SYS_migrate_pages,
        Plain(&[input(2, L::Bits(1)), input(3, L::Bits(1))]),
    ),
    (
        libc::SYS_move_pages,
        Plain(&[
            input(2, L::Times(1, 8)),
            input(3, L::Times(1, 4)),
            both(4, L::Times(1, 4)),
        ]),
    ),
    // Signals.
    (
        libc::SYS_rt_sigaction,
        Plain(&[value(1, ACTION), output(2, ACTION)]),
    ),
    (libc::SYS_rt_sigprocmask, Kind::Frame),
    (libc::SYS_sigaltstack, Kind::Frame),
    (libc::SYS_rt_sigpending, Plain(&[both(0, L::Argument(1))])),
    (
        libc::SYS_rt_sigtimedwait,
        Plain(&[input(0, L::Argument(3)), output(1, SIGINFO), value(2, TIME)]),
    ),
    (libc::SYS_rt_sigsuspend, Kind::Masked(0, &[])),
    (libc::SYS_rt_sigqueueinfo, Plain(&[value(2, SIGINFO)])),
    (libc::SYS_rt_tgsigqueueinfo, Plain(&[value(3, SIGINFO)])),
    (libc::SYS_pidfd_send_signal, Plain(&[value(2, SIGINFO)])),
    (libc::SYS_signalfd, Plain(&[input(1, L::Argument(2))])),
    (libc::SYS_signalfd4, Plain(&[input(1, L::Argument(2))])),
    // Processes and threads.
    (libc::SYS_execve, Kind::Execute(0)),
    (libc::SYS_execveat, Kind::Execute(1)),
    (libc::SYS_clone, Kind::Fork),
    (libc::SYS_clone3, Kind::Fork),
    (libc::SYS_fork, Kind::Fork),
    (libc::SYS_vfork, Kind::Fork),
    (libc::SYS_wait4, Plain(&[output(1, 4), output(3, USAGE)])),
    (libc::SYS_waitid, Plain(&[output(2, SIGINFO), output(4, USAGE)])),
    (libc::SYS_futex, Kind::Futex),
    (libc::SYS_futex_waitv, Kind::FutexVector),
    (FUTEX_WAKE, Kind::Futex),
    (FUTEX_WAIT, Kind::Futex),
    (FUTEX_REQUEUE, Kind::FutexVector),
    (
        libc::SYS_set_robust_list,
        Kind::Registered(&[input(0, L::Argument(1))]),
    ),
    (libc::SYS_get_robust_list, Plain(&[output(1, 8), output(2, 8)])),
    (
        libc::SYS_set_tid_address,
        Kind::Registered(&[input(0, L::Bytes(4))]),
    ),
    (libc::SYS_rseq, Kind::Registered(&[input(0, L::Argument(1))])),
    (libc::SYS_prctl, Kind::Prctl),
    (libc::SYS_arch_prctl, Kind::ArchPrctl),
    (libc::SYS_seccomp, Kind::Seccomp),
    (libc::SYS_getrusage, Plain(&[output(1, USAGE)])),
    (libc::SYS_getrlimit, Plain(&[output(1, 16)])),
    (libc::SYS_setrlimit, Plain(&[value(1, 16)])),
    (libc::SYS_prlimit64, Plain(&[value(2, 16), output(3, 16)])),
    (libc::SYS_getgroups, Plain(&[both(1, L::Times(0, 4))])),
    (libc::SYS_setgroups, Plain(&[input(1, L::Times(0, 4))])),
    (libc::SYS_getresuid, THREE_IDS),
    (libc::SYS_getresgid, THREE_IDS),
    (libc::SYS_capget, Plain(&[output(0, 8), output(1, 24)])),
    (libc::SYS_capset, Plain(&[output(0, 8), value(1, 24)])),
    (libc::SYS_sched_setparam, Plain(&[value(1, 4)])),
    (libc::SYS_sched_getparam, Plain(&[output(1, 4)])),
    (libc::SYS_sched_setscheduler, Plain(&[value(2, 4)])),
    (libc::SYS_sched_rr_get_interval, Plain(&[output(1, TIME)])),
    (libc::SYS_sched_setaffinity, Plain(&[input(2, L::Argument(1))])),
    (
        libc::SYS_sched_getaffinity,
        Plain(&[returned(2, L::Argument(1), 1)]),
    ),
    (libc::SYS_sched_setattr, Plain(&[both(1, L::Own(0, 48))])),
    (libc::SYS_sched_getattr, Plain(&[both(1, L::Argument(2))])),
    (libc::SYS_getcpu, Plain(&[output(0, 4), output(1, 4)])),
    (libc::SYS_ptrace, Kind::Ptrace),
    (libc::SYS_modify_ldt, Plain(&[both(1, L::Argument(2))])),
    (libc::SYS_set_thread_area, Plain(&[output(0, 16)])),
    (libc::SYS_get_thread_area, Plain(&[output(0, 16)])),
    (libc::SYS_acct, PATH_FIRST),
    (libc::SYS_perf_event_open, Plain(&[both(0, L::Own(4, 64))])),
    (libc::SYS_bpf, Plain(&[both(1, L::Argument(2))])),
    (
        libc::SYS_landlock_create_ruleset,
        Plain(&[input(0, L::Argument(1))]),
    ),
    (libc::SYS_landlock_add_rule, Plain(&[value(2, 16)])),
    // Time.
    (libc::SYS_nanosleep, Plain(&[value(0, TIME), output(1, TIME)])),
    (
        libc::SYS_clock_nanosleep,
        Plain(&[value(2, TIME), output(3, TIME)]),
    ),
    (libc::SYS_gettimeofday, Plain(&[output(0, TIME), output(1, 8)])),
    (libc::SYS_settimeofday, Plain(&[value(0, TIME), value(1, 8)])),
    (libc::SYS_time, Plain(&[output(0, 8)])),
    (libc::SYS_times, Plain(&[output(0, 32)])),
    (libc::SYS_getitimer, Plain(&[output(1, TIMER)])),
    (libc::SYS_setitimer, Plain(&[value(1, TIMER), output(2, TIMER)])),
    (libc::SYS_clock_gettime, Plain(&[output(1, TIME)])),
    (libc::SYS_clock_settime, Plain(&[value(1, TIME)])),
    (libc::SYS_clock_getres, Plain(&[output(1, TIME)])),
    (libc::SYS_adjtimex, Plain(&[output(0, TIMEX)])),
    (libc::SYS_clock_adjtime, Plain(&[output(1, TIMEX)])),
    (libc::SYS_timer_create, Plain(&[value(1, SIGEVENT), output(2, 4)])),
    (
        libc::SYS_timer_settime,
        Plain(&[value(2, TIMER), output(3, TIMER)]),
    ),
    (libc::SYS_timer_gettime, Plain(&[output(1, TIMER)])),
    (
        libc::SYS_timerfd_settime,
        Plain(&[value(2, TIMER), output(3, TIMER)]),
    ),
    (libc::SYS_timerfd_gettime, Plain(&[output(1, TIMER)])),
    // Messages between processes.
    (libc::SYS_semop, Plain(&[input(1, L::Times(2, 6))])),
    (
        libc::SYS_semtimedop,
        Plain(&[input(1, L::Times(2, 6)), value(3, TIME)]),
    ),
    (libc::SYS_semctl, Plain(&[both(3, L::Page)])),
    (libc::SYS_shmctl, Plain(&[both(2, L::Page)])),
    (libc::SYS_msgctl, Plain(&[both(2, L::Page)])),
    (libc::SYS_msgsnd, Plain(&[input(1, L::After(8, 2))])),
    (
        libc::SYS_msgrcv,
        Plain(&[Pointer {
            argument: 1,
            way: Way::ReturnedAfter(8),
            length: L::After(8, 2),
        }]),
    ),
    (libc::SYS_mq_open, Plain(&[text(0), value(3, 64)])),
    (libc::SYS_mq_unlink, PATH_FIRST),
    (
        libc::SYS_mq_timedsend,
        Plain(&[input(1, L::Argument(2)), value(4, TIME)]),
    ),
    (
        libc::SYS_mq_timedreceive,
        Plain(&[returned(1, L::Argument(2), 1), output(3, 4), value(4, TIME)]),
    ),
    (libc::SYS_mq_notify, Plain(&[value(1, SIGEVENT)])),
    (libc::SYS_mq_getsetattr, Plain(&[value(1, 64), output(2, 64)])),
    (
        libc::SYS_add_key,
        Plain(&[text(0), text(1), input(2, L::Argument(3))]),
    ),
    (libc::SYS_request_key, Plain(&[text(0), text(1), text(2)])),
    (
        libc::SYS_keyctl,
        Plain(&[
            both(1, L::Page),
            both(2, L::Page),
            both(3, L::Page),
            both(4, L::Page),
        ]),
    ),
    // The machine.
    (libc::SYS_uname, Plain(&[output(0, 390)])),
    (libc::SYS_sysinfo, Plain(&[output(0, 112)])),
    (libc::SYS_getrandom, Bytes(Transfer::In)),
    (libc::SYS_syslog, Plain(&[returned(1, L::Argument(2), 1)])),
    (libc::SYS_sethostname, Plain(&[input(0, L::Argument(1))])),
    (libc::SYS_setdomainname, Plain(&[input(0, L::Argument(1))])),
    (
        libc::SYS_mount,
        Plain(&[text(0), text(1), text(2), both(4, L::Page)]),
    ),
    (libc::SYS_umount2, PATH_FIRST),
    (libc::SYS_pivot_root, TWO_PATHS),
    (libc::SYS_open_tree, PATH_SECOND),
    (libc::SYS_move_mount, TWO_PATHS_AT),
    (libc::SYS_fsopen, PATH_FIRST),
    (libc::SYS_fspick, PATH_SECOND),
    (libc::SYS_fsconfig, Plain(&[text(2), both(3, L::Page)])),
    (
        libc::SYS_mount_setattr,
        Plain(&[text(1), input(3, L::Argument(4))]),
    ),
    (libc::SYS_swapon, PATH_FIRST),
    (libc::SYS_swapoff, PATH_FIRST),
    (libc::SYS_reboot, Plain(&[text(3)])),
    (libc::SYS_quotactl, Plain(&[text(1), both(3, L::Page)])),
    (libc::SYS_quotactl_fd, Plain(&[both(3, L::Page)])),
    (
        libc::SYS_init_module,
        Plain(&[input(0, L::Argument(1)), input(2, L::Text(65536))]),
    ),
    (libc::SYS_finit_module, Plain(&[input(1, L::Text(65536))])),
    (libc::SYS_delete_module, PATH_FIRST),
    (libc::SYS_kexec_file_load, Plain(&[input(3, L::Argument(2))])),
    (libc::SYS_kexec_load, Plain(&[input(2, L::Times(1, 32))])),
    (libc::SYS_uselib, PATH_FIRST),
    (libc::SYS_lookup_dcookie, Plain(&[returned(1, L::Argument(2), 1)])),
    (libc::SYS_sysfs, Plain(&[both(1, L::Page), both(2, L::Page)])),
    (libc::SYS__sysctl, Plain(&[both(0, L::Page)])),
    (libc::SYS_io_uring_register, Plain(&[both(2, L::Page)])),
    (libc::SYS_io_uring_enter, Plain(&[both(4, L::Page)])),
    (
        IO_PGETEVENTS,
        Plain(&[returned(3, L::Times(2, 32), 32), value(4, TIME), value(5, 16)]),
    ),
    (CACHESTAT, Plain(&[value(1, 16), output(2, 40)])),
    (
        STATMOUNT,
        Plain(&[input(0, L::Own(0, 24)), both(1, L::Argument(2))]),
    ),
    (
        LISTMOUNT,
        Plain(&[input(0, L::Own(0, 24)), returned(1, L::Times(2, 8), 8)]),
    ),
    (LSM_GET_SELF_ATTR, Plain(&[both(1, L::At(2)), output(2, 4)])),
    (LSM_SET_SELF_ATTR, Plain(&[input(1, L::Argument(2))])),
    (LSM_LIST_MODULES, Plain(&[both(0, L::At(1)), output(1, 4)])),
    (SETXATTRAT, Plain(&[text(1), text(3), input(4, L::Argument(5))])),
    (GETXATTRAT, Plain(&[text(1), text(3), input(4, L::Argument(5))])),
    (LISTXATTRAT, Plain(&[text(1), returned(3, L::Argument(4), 1)])),
    (REMOVEXATTRAT, Plain(&[text(1), text(3)])),
    (OPEN_TREE_ATTR, Plain(&[text(1), input(3, L::Argument(4))])),
    (FILE_GETATTR, Plain(&[text(1), both(2, L::Argument(3))])),
    (FILE_SETATTR, Plain(&[text(1), input(2, L::Argument(3))])),
];

// Calls that are newer than the libc crate's list.
const IO_PGETEVENTS: i64 = 333;
const CACHESTAT: i64 = 451;
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;
const FUTEX_REQUEUE: i64 = 456;
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const LSM_GET_SELF_ATTR: i64 = 459;
const LSM_SET_SELF_ATTR: i64 = 460;
const LSM_LIST_MODULES: i64 = 461;
const SETXATTRAT: i64 = 463;
const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_GETATTR: i64 = 468;
const FILE_SETATTR: i64 = 469;

/// Calls without pointers, and those that Linux no longer has. An argument of them that looks like an address of the arena is
/// a number.
pub(super) const WITHOUT_POINTERS: &[i64] = &[
    3, 8, 15, 24, 29, 32, 33, 34, 37, 39, 41, 48, 50, 60, 62, 64, 68, 73, 74, 75, 77, 81, 91, 93, 95, 102,
    104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 117, 119, 121, 122, 123, 124, 135, 140, 141, 145,
    146, 147, 151, 152, 153, 162, 172, 173, 174, 177, 178, 180, 181, 182, 183, 184, 185, 186, 187, 200, 207,
    213, 214, 215, 219, 221, 225, 226, 231, 234, 236, 251, 252, 253, 255, 272, 276, 277, 283, 284, 285, 290,
    291, 292, 294, 300, 306, 308, 312, 323, 324, 330, 331, 432, 434, 436, 438, 446, 447, 448, 453, 335, 336,
];
