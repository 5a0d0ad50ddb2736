//! A full disk, limits of the process, refused system calls, and the end of the process.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use plimsoll_os::Errno;
use plimsoll_pager::page_file::{CreateError, StartError, State};
use plimsoll_testkit::{again, capability, command, fork, role, status_of_fork};

use super::*;

/// Writes MiB until the file refuses; returns the slots and the refusal.
fn fill(writer: &mut Writer, data: &Segment) -> (Vec<Slot>, Result<Slots, StartError>) {
    let mut slots = Vec::new();
    loop {
        match writer.start(&[data; 16]) {
            Err(error) => return (slots, Err(error)),
            Ok(_) => match writer.complete(true).unwrap().outcome {
                Ok(written) => slots.extend(written.iter()),
                Err(failure) => return (slots, Err(StartError::Failed(failure))),
            },
        }
    }
}

/// The same on a tmpfs.
pub(crate) fn in_memory(mut options: PageFileOptions) -> PageFileOptions {
    options.in_memory = true;
    options
}

/// A file system of a few MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Small {
    Tmpfs,
    /// In an image on the disk of the project, by a loop device.
    Ext4,
}

impl Small {
    /// Mounts it at a new folder, for this process alone. False, after a message, if the machine cannot.
    fn mount(self, at: &Path) -> bool {
        let run = |words: &[&str]| {
            command(words[0])
                .args(&words[1..])
                .status()
                .is_ok_and(|status| status.success())
        };
        // SAFETY: the call gives this process, which has one thread, mounts of its own.
        let is_private = unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0;
        if !is_private || !run(&["mount", "--make-rprivate", "/"]) {
            return capability("mount", false, "cannot have mounts of its own");
        }
        let folder = at.to_str().unwrap();
        match self {
            Small::Tmpfs => {
                let is_mounted = run(&["mount", "-t", "tmpfs", "-o", "size=12m", "none", folder]);
                capability("mount", is_mounted, "cannot mount a tmpfs")
            }
            Small::Ext4 => {
                let image = at.with_extension("image");
                let name = image.to_str().unwrap();
                std::fs::File::create_new(&image)
                    .unwrap()
                    .set_len(16 << 20)
                    .unwrap();
                let is_mounted =
                    run(&["mkfs.ext4", "-q", "-m", "0", name]) && run(&["mount", "-o", "loop", name, folder]);
                capability("ext4-image", is_mounted, "cannot make and mount an ext4 image")
            }
        }
    }
}

/// Runs `test` in a child of a fork, on a small file system.
pub(crate) fn on_small_disk(small: Small, test: impl FnOnce(&Path) + std::panic::UnwindSafe) {
    let folder = folder();
    let at = folder.path().join("disk");
    std::fs::create_dir(&at).unwrap();
    let status = status_of_fork(|| {
        if small.mount(&at) {
            test(&at);
            assert!(command("umount").arg(&at).status().unwrap().success());
        }
    });
    assert_eq!(status, 0, "{small:?}");
}

#[test]
fn a_full_disk_limits_the_file_and_loses_nothing() {
    let disks = [Small::Tmpfs, Small::Ext4]
        .map(|small| all_options().into_iter().map(move |options| (small, options)));
    for (small, options) in disks.into_iter().flatten() {
        on_small_disk(small, move |at| {
            let options = in_memory(options);
            std::fs::write(at.join("other"), vec![1; 2 << 20]).unwrap();
            let (file, mut writer) = PageFile::create(at, 64 << 20, options).unwrap();
            let data = segment(1);
            let (slots, refused) = fill(&mut writer, &data);
            assert!(matches!(refused, Err(StartError::Full { .. })), "{refused:?}");
            let State::Limited { bytes, errno } = file.state() else {
                panic!("{:?}", file.state());
            };
            assert_eq!(errno, Errno::NOSPC);
            assert!((8 << 20..=14 << 20).contains(&bytes), "{bytes}");
            assert_eq!(slots.len() as u64 * SLOT_BYTES as u64, bytes);
            // No other program finds room now, but the file's own slots are used again.
            assert!(std::fs::write(at.join("more"), vec![1; 2 << 20]).is_err());
            slots[..32].iter().for_each(|slot| file.free(*slot).unwrap());
            assert_eq!(fill(&mut writer, &data).0.len(), 32);
            for slot in slots {
                assert_eq!(read(&file, slot).as_ref(), Ok(&data));
            }
            writer.validate().unwrap();
        });
    }
}

/// As `/tmp` is on many systems: a page file there would free no RAM.
#[test]
fn a_file_system_in_memory_is_refused() {
    on_small_disk(Small::Tmpfs, |at| {
        let error = PageFile::create(at, 4 << 20, PageFileOptions::default()).unwrap_err();
        assert!(matches!(error, CreateError::InMemory(_)), "{error}");
        assert_eq!(entries(at), 0);
    });
}

#[test]
fn a_disk_without_a_free_mebibyte_refuses_the_file() {
    on_small_disk(Small::Tmpfs, |at| {
        std::fs::write(at.join("other"), vec![1; (11 << 20) + (1 << 19)]).unwrap();
        for options in all_options() {
            let error = PageFile::create(at, 64 << 20, in_memory(options)).unwrap_err();
            let CreateError::Space { source, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(source, Errno::NOSPC);
            assert_eq!(entries(at), 1);
        }
    });
}

pub(crate) fn limit_file_sizes(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the kernel reads the limit.
    let returned = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(returned, 0);
}

/// For the rest of the process.
pub(crate) fn limit_descriptors(number: u64) {
    let limit = libc::rlimit {
        rlim_cur: number,
        rlim_max: number,
    };
    // SAFETY: the kernel reads the limit.
    let returned = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(returned, 0);
}

/// A write past RLIMIT_FSIZE raises SIGXFSZ, which ends the process.
#[test]
fn a_limit_of_file_sizes_does_not_end_the_process() {
    for options in all_options() {
        let status = status_of_fork(move || {
            let folder = folder();
            limit_file_sizes(20 << 20);
            let (file, mut writer) = PageFile::create(folder.path(), 64 << 20, options).unwrap();
            let data = segment(1);
            let (slots, _) = fill(&mut writer, &data);
            let errno = Errno::FBIG;
            assert_eq!(
                file.state(),
                State::Limited {
                    bytes: 20 << 20,
                    errno
                }
            );
            limit_file_sizes(10 << 20);
            slots[200..].iter().for_each(|slot| file.free(*slot).unwrap());
            let refused = fill(&mut writer, &data).1.unwrap_err();
            let StartError::Failed(WriteFailure::Write {
                errno: Errno::FBIG, ..
            }) = refused
            else {
                panic!("{refused:?}");
            };
            for slot in &slots[..200] {
                assert_eq!(read(&file, *slot).as_ref(), Ok(&data));
            }
            limit_file_sizes(1 << 19);
            let error = PageFile::create(folder.path(), 64 << 20, options).unwrap_err();
            assert!(
                matches!(
                    error,
                    CreateError::Space {
                        source: Errno::FBIG,
                        ..
                    }
                ),
                "{error}"
            );
        });
        assert_eq!(status, 0, "{options:?}");
    }
}

/// Refuses a system call for the rest of this process, as the seccomp profile of a container does.
pub(crate) fn refuse(system_call: libc::c_long) {
    let statement = |code: u32, k: u32, jt: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, system_call as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            0,
        ),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the program, which outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program
            ),
            0
        );
    }
}

#[test]
fn without_io_uring_the_file_is_written_by_pwrite() {
    let status = status_of_fork(|| {
        let folder = folder();
        refuse(libc::SYS_io_uring_setup);
        let (file, mut writer) = create(folder.path(), 8 << 20);
        assert!(!file.stats().ring);
        let data = segment(1);
        for slot in fill(&mut writer, &data).0 {
            assert_eq!(read(&file, slot).as_ref(), Ok(&data));
        }
    });
    assert_eq!(status, 0);
}

/// A program that locks itself in after its start.
#[test]
fn a_ring_that_is_refused_later_is_replaced() {
    let status = status_of_fork(|| {
        let folder = folder();
        let (file, mut writer) = create(folder.path(), 8 << 20);
        let data = segment(1);
        let mut slots = Vec::new();
        // Some writes are in flight as the filter comes.
        for _ in 0..3 {
            writer.start(&[&*data; 16]).unwrap();
        }
        refuse(libc::SYS_io_uring_enter);
        writer.start(&[&*data; 16]).unwrap();
        while let Some(completed) = writer.complete(true) {
            slots.extend(completed.outcome.unwrap().iter().copied());
        }
        assert_eq!(slots.len(), 64);
        slots.extend(fill(&mut writer, &data).0);
        assert_eq!(slots.len(), 8 * 16);
        assert!(!file.stats().ring);
        assert_eq!(file.state(), State::Writable);
        for slot in slots {
            assert_eq!(read(&file, slot).as_ref(), Ok(&data));
        }
        writer.validate().unwrap();
    });
    assert_eq!(status, 0);
}

/// Kills the process at different moments: as it creates files, and as it writes.
#[test]
fn a_killed_process_leaves_nothing() {
    const TEST: &str = "page_file::limits::a_killed_process_leaves_nothing";
    if let Some(at) = role() {
        use std::io::Write;
        let data = segment(1);
        for round in 0_u32.. {
            let (file, mut writer) = create(Path::new(&at), 64 << 20);
            for _ in 0..round.min(40) {
                if let Err(StartError::Busy) = writer.start(&[&*data; 16]) {
                    writer.complete(true).unwrap().outcome.unwrap();
                }
            }
            println!("round");
            std::io::stdout().flush().unwrap();
            drop((file, writer));
        }
    }
    let folder = folder();
    let at = folder.path().to_str().unwrap();
    for rounds in [1, 2, 5, 9] {
        let mut child = again(TEST, at).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while seen < rounds {
            seen += u32::from(lines.next().unwrap().unwrap().contains("round"));
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(entries(folder.path()), 0, "after {rounds} rounds");
    }
}

/// The blocks of a killed process return to the disk, too.
#[test]
fn a_killed_process_frees_its_blocks() {
    on_small_disk(Small::Tmpfs, |at| {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let child = fork(120, || {
            // SAFETY: the call sets the signal that follows the end of the parent.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let options = in_memory(PageFileOptions::default());
            let (_file, mut pages) = PageFile::create(at, 10 << 20, options).unwrap();
            let full = fill(&mut pages, &segment(1)).0;
            std::io::Write::write_all(&mut &writer, &[full.len() as u8]).unwrap();
            loop {
                std::thread::park();
            }
        });
        reader.read_exact(&mut [0]).unwrap();
        assert!(std::fs::write(at.join("more"), vec![1; 8 << 20]).is_err());
        let mut status = 0;
        // SAFETY: the child of above, which nothing else waits for.
        unsafe {
            assert_eq!(libc::kill(child, libc::SIGKILL), 0);
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        std::fs::write(at.join("more"), vec![1; 8 << 20]).unwrap();
    });
}
