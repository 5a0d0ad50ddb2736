//! Files of a pool: those that are refused, damaged ones, and their removal.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use plimsoll_pager::pool::{
    Damage, Defect, FILE_BYTES, Limits, PAGE, Pool, PoolError, RefaultDistances, Usage,
};

use crate::children::{Child, Random, alone_as_nobody, become_nobody, folder_of_nobody, is_root};

const TOTAL: u64 = 64 << 20;

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        Folder { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    /// A pool in a file.
    fn with_pool() -> Folder {
        let folder = Folder::new();
        Pool::at(&folder.file(), TOTAL).expect("the folder is this user's");
        folder
    }

    fn open_for_writing(&self) -> File {
        let file = OpenOptions::new().read(true).write(true).open(self.file());
        file.expect("it is this user's")
    }
}

#[track_caller]
fn defect(opened: Result<Pool, PoolError>) -> Defect {
    match opened {
        Err(PoolError::Refused { defect, .. }) => defect,
        other => panic!("{other:?}"),
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is this user's");
}

#[test]
fn a_pool_is_made_once_and_opened_after() {
    let folder = Folder::new();
    assert!(matches!(
        Pool::existing(&folder.file()),
        Err(PoolError::Io { .. })
    ));
    let made = Pool::at(&folder.file(), TOTAL + 1).expect("the folder is this user's");
    assert_eq!(made.total(), TOTAL);
    let metadata = fs::metadata(folder.file()).expect("it is there");
    assert_eq!(
        (metadata.permissions().mode() & 0o7777, metadata.len()),
        (0o600, FILE_BYTES)
    );
    let opened = Pool::existing(&folder.file()).expect("it is there");
    let member = made.join(Limits::default()).expect("it is empty");
    assert_eq!(opened.status().expect("it is whole").members.len(), 1);
    drop(member);
    let other = defect(Pool::at(&folder.file(), TOTAL / 2));
    assert_eq!(
        other,
        Defect::OtherTotal {
            found: TOTAL,
            asked: TOTAL / 2
        }
    );
    for bytes in [0, PAGE - 1, u64::MAX] {
        let refused = Pool::in_memory(bytes);
        assert!(
            matches!(refused, Err(PoolError::TotalOutOfRange { .. })),
            "{refused:?}"
        );
    }
}

/// Another user could have made or changed such a file.
#[test]
fn files_that_are_not_safe_are_refused() {
    let folder = Folder::with_pool();
    let file = folder.file();
    for mode in [0o640, 0o604, 0o606, 0o660] {
        set_mode(&file, mode);
        assert!(matches!(defect(Pool::at(&file, TOTAL)), Defect::Mode { mode: found, .. } if found == mode));
    }
    set_mode(&file, 0o600);
    for mode in [0o770, 0o707, 0o1777] {
        set_mode(folder.folder.path(), mode);
        assert!(matches!(defect(Pool::at(&file, TOTAL)), Defect::Mode { mode: found, .. } if found == mode));
    }
    set_mode(folder.folder.path(), 0o700);
    let link = folder.folder.path().join("link");
    symlink(&file, &link).expect("the folder is this user's");
    assert_eq!(defect(Pool::at(&link, TOTAL)), Defect::NoRegularFile);
    fs::hard_link(&file, folder.folder.path().join("second")).expect("the folder is this user's");
    assert_eq!(defect(Pool::at(&file, TOTAL)), Defect::HardLinks { links: 2 });
    fs::remove_file(folder.folder.path().join("second")).expect("it is there");
    let inner = folder.folder.path().join("inner");
    fs::create_dir(&inner).expect("the folder is this user's");
    assert_eq!(defect(Pool::at(&inner, TOTAL)), Defect::NoRegularFile);
    Pool::at(&file, TOTAL).expect("it is as it was");
}

#[test]
fn files_that_are_no_pool_are_refused() {
    let folder = Folder::new();
    let file = folder.open_new();
    assert_eq!(defect(Pool::at(&folder.file(), TOTAL)), Defect::Size { bytes: 0 });
    file.set_len(FILE_BYTES - 1).expect("there is space");
    assert_eq!(
        defect(Pool::at(&folder.file(), TOTAL)),
        Defect::Size {
            bytes: FILE_BYTES - 1
        }
    );
    file.set_len(FILE_BYTES).expect("there is space");
    assert_eq!(defect(Pool::at(&folder.file(), TOTAL)), Defect::NoPool);
    let folder = Folder::with_pool();
    let file = folder.open_for_writing();
    let words = |at: u64, word: u64| {
        file.write_all_at(&word.to_ne_bytes(), at * 8)
            .expect("it is open")
    };
    words(1, 9 << 32 | 127);
    assert_eq!(
        defect(Pool::at(&folder.file(), TOTAL)),
        Defect::Format { found: 9, known: 1 }
    );
    words(1, 1 << 32 | 127);
    Pool::at(&folder.file(), TOTAL).expect("it is as it was");
    words(2, 5);
    assert_eq!(defect(Pool::at(&folder.file(), TOTAL)), Defect::Header);
}

impl Folder {
    fn open_new(&self) -> File {
        let file = File::create_new(self.file()).expect("the folder is this user's");
        set_mode(&self.file(), 0o600);
        file
    }
}

#[test]
fn only_a_sealed_file_in_memory_is_a_pool_by_descriptor() {
    let folder = Folder::with_pool();
    let named = folder.open_for_writing();
    assert_eq!(defect(Pool::of_descriptor(named.into())), Defect::NotSealed);
    let pool = Pool::in_memory(TOTAL).expect("there is memory");
    let copy = pool
        .descriptor()
        .try_clone_to_owned()
        .expect("there are descriptors");
    let file = File::from(copy.try_clone().expect("there are descriptors"));
    assert!(file.set_len(0).is_err(), "its size is sealed");
    assert_eq!(Pool::of_descriptor(copy).expect("it is a pool").total(), TOTAL);
}

/// Users never share a pool.
#[test]
fn the_pool_of_another_user_is_refused() {
    if !plimsoll_testkit::capability("root", is_root(), "a file of another user") {
        return;
    }
    let test = "pool_files::the_pool_of_another_user_is_refused";
    if let Some(role) = plimsoll_testkit::role() {
        let file = PathBuf::from(role);
        become_nobody();
        if file.exists() {
            assert!(matches!(
                defect(Pool::at(&file, TOTAL)),
                Defect::OtherUser {
                    owner: 0,
                    user: 65534,
                    ..
                }
            ));
        } else {
            Pool::at(&file, TOTAL).expect("the folder is nobody's");
        }
        return;
    }
    let as_nobody = |file: &Path| {
        let status = plimsoll_testkit::again(test, &file.to_string_lossy()).status();
        assert!(status.expect("the test program starts").success());
    };
    // Root does not use that of nobody: neither the folder nor the file.
    let folder = folder_of_nobody();
    let file = folder.path().join("pool");
    as_nobody(&file);
    assert!(matches!(
        defect(Pool::at(&file, TOTAL)),
        Defect::OtherUser {
            owner: 65534,
            user: 0,
            ..
        }
    ));
    std::os::unix::fs::chown(folder.path(), Some(0), Some(0)).expect("root may");
    let of_file = defect(Pool::at(&file, TOTAL));
    assert!(matches!(of_file, Defect::OtherUser { path, owner: 65534, .. } if path == file));
    // The user nobody does not use a pool of root, even if it can enter the folder.
    let folder = Folder::with_pool();
    set_mode(folder.folder.path(), 0o755);
    as_nobody(&folder.file());
}

/// Any words in place of those of a pool: calls return errors, and none panics, hangs or ends the process.
#[test]
fn damaged_pools_are_refused_or_used_without_harm() {
    let mut random = Random(0xBAD_F00D);
    let distances = RefaultDistances::new();
    let (mut refused, mut used) = (0, 0);
    for round in 0..400 {
        let folder = Folder::with_pool();
        let pool = Pool::at(&folder.file(), TOTAL).expect("it is a pool");
        let mut member = pool.join(Limits::default()).expect("it is empty");
        member.tick_now(&Usage::new(&distances)).expect("it is a member");
        let file = folder.open_for_writing();
        for _ in 0..=round % 5 {
            // Header, head, the first rows, and the first buffers, which are in use.
            let word = match random.below(2) {
                0 => random.below(64),
                _ => 2048 + random.below(3 * 1024),
            };
            let value = match random.below(4) {
                0 => u64::MAX,
                1 => 0,
                2 => 1 << random.below(64),
                _ => random.below(u64::MAX),
            };
            file.write_all_at(&value.to_ne_bytes(), word * 8)
                .expect("it is open");
        }
        let mut calls = || {
            pool.status()?;
            pool.validate()?;
            let grant = member.tick_now(&Usage::new(&distances))?;
            assert!(grant.bytes() <= TOTAL);
            member.acknowledge(grant.bytes())?;
            Pool::at(&folder.file(), TOTAL)?.status()
        };
        match calls() {
            Ok(_) => used += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100 && used > 10, "{refused} refused, {used} used");
}

/// The pool of the handler of SIGBUS.
static POOL: OnceLock<Pool> = OnceLock::new();

extern "C" fn replace_lost_page(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the address of the access; `_exit` ends the process.
    unsafe {
        let address = (*info).si_addr() as usize;
        if !POOL.get().is_some_and(|pool| pool.replace_lost_page(address)) {
            libc::_exit(3);
        }
    }
}

/// Another process of the user cuts the file of a pool in use: the next access ended the process.
#[test]
fn a_cut_file_is_damage_for_an_embedder_that_handles_sigbus() {
    let test = "pool_files::a_cut_file_is_damage_for_an_embedder_that_handles_sigbus";
    alone_as_nobody(test, |folder| {
        let path = folder.join("pool");
        let pool = POOL.get_or_init(|| Pool::at(&path, TOTAL).expect("the folder is this user's"));
        let handled = Child::fork(|| {
            // SAFETY: the handler makes async-signal-safe calls.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = replace_lost_page as extern "C" fn(_, _, _) as usize;
                action.sa_flags = libc::SA_SIGINFO;
                assert_eq!(
                    libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut()),
                    0
                );
            }
            let mut member = pool.join(Limits::default()).expect("it is empty");
            File::options()
                .write(true)
                .open(&path)
                .and_then(|file| file.set_len(0))
                .expect("it is this user's");
            let distances = RefaultDistances::new();
            let ticked = member.tick_now(&Usage::new(&distances));
            assert!(
                matches!(
                    ticked,
                    Err(PoolError::Damaged {
                        damage: Damage::Checksum,
                        ..
                    })
                ),
                "{ticked:?}"
            );
            assert_eq!(defect(Pool::at(&path, TOTAL)), Defect::Size { bytes: 0 });
        });
        assert_eq!(handled.wait(), 0);
    });
}

#[test]
fn a_removed_pool_takes_no_members_and_its_successor_is_another() {
    let folder = Folder::with_pool();
    let [old, same] = [(); 2].map(|()| Pool::at(&folder.file(), TOTAL).expect("it is a pool"));
    old.remove().expect("it has no members");
    assert!(!folder.file().exists());
    assert!(matches!(same.join(Limits::default()), Err(PoolError::Closed)));
    let new = Pool::at(&folder.file(), TOTAL / 2).expect("the name is free");
    let member = new.join(Limits::default()).expect("it is empty");
    // The name is that of another pool now.
    old.remove().expect("it has no members still");
    assert!(folder.file().exists());
    member.leave().expect("it is a member");
}

#[test]
fn a_pool_has_a_most_number_of_members() {
    let test = "pool_files::a_pool_has_a_most_number_of_members";
    alone_as_nobody(test, |_| {
        let pool = Pool::in_memory(TOTAL).expect("there is memory");
        let shared = crate::children::Shared::new(&crate::children::folder_of_test());
        let children: Vec<Child> = (0..plimsoll_pager::pool::MOST_MEMBERS)
            .map(|_| {
                Child::fork(|| {
                    let _member = pool.join(Limits::default()).expect("there is a row");
                    shared.word(0).fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    shared.wait_for(1, 1);
                })
            })
            .collect();
        shared.wait_for(0, children.len() as u64);
        assert!(matches!(pool.join(Limits::default()), Err(PoolError::Full)));
        pool.validate().expect("it is valid");
        children.into_iter().for_each(Child::kill);
        assert!(pool.join(Limits::default()).is_ok());
    });
}
