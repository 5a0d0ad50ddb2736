//! Opening with the care of a program that may be root.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use plimsoll_os::Errno;
use plimsoll_pager::page_file::CreateError;
use plimsoll_testkit::status_of_fork;

use super::*;

#[test]
fn the_file_has_no_name_and_its_user_alone_can_read_it() {
    for options in all_options() {
        let folder = folder();
        let (file, mut writer) = PageFile::create(folder.path(), 8 << 20, options).unwrap();
        assert_eq!(entries(folder.path()), 0);
        let found = reopen(folder.path()).metadata().unwrap();
        assert_eq!((found.nlink(), found.mode() & 0o7777), (0, 0o600));
        let data = segment(3);
        let slots = write(&mut writer, &[&data, &data]).unwrap();
        assert_eq!(read(&file, slots[1]), Ok(data), "{options:?}");
        drop(writer);
        assert_eq!(
            read(&file, slots[0]),
            Ok(segment(3)),
            "readers outlive the writer"
        );
        drop(file);
        assert_eq!(open_files(folder.path()), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_path_of_a_new_file_can_be_named() {
    for options in all_options() {
        let folder = folder();
        let path = folder.path().join("pages");
        let (_file, _writer) = PageFile::create(&path, 1 << 20, options).unwrap();
        assert!(!path.exists());
        assert_eq!(open_files(folder.path()).len(), 1);
    }
}

/// Files that a run of the program as root could otherwise destroy or fill.
#[test]
fn existing_files_and_links_are_refused_and_stay_as_they_are() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "data").unwrap();
    std::fs::create_dir(at("target")).unwrap();
    symlink(at("file"), at("to-file")).unwrap();
    symlink(at("nothing"), at("to-nothing")).unwrap();
    symlink(at("target"), at("to-folder")).unwrap();
    for options in all_options() {
        let create = |name: &str| {
            PageFile::create(&at(name), 1 << 20, options)
                .map(drop)
                .unwrap_err()
        };
        for name in ["file", "to-file", "to-nothing", "file/"] {
            let error = create(name);
            assert!(matches!(error, CreateError::Exists(_)), "{name}: {error}");
        }
        for name in ["to-folder", "to-folder/", "to-folder/new"] {
            let error = create(name);
            assert!(matches!(error, CreateError::Link(_)), "{name}: {error}");
        }
        for name in ["absent/new", "file/new", "absent/.."] {
            let error = create(name);
            assert!(matches!(error, CreateError::Folder { .. }), "{name}: {error}");
        }
    }
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "data");
    assert_eq!((entries(folder.path()), entries(&at("target"))), (5, 0));
}

#[test]
fn sizes_out_of_range_are_refused() {
    let folder = folder();
    for bytes in [0, 1, (1 << 20) - 1, (4 << 40) + 1, u64::MAX] {
        let error = PageFile::create(folder.path(), bytes, PageFileOptions::default()).unwrap_err();
        assert!(
            matches!(error, CreateError::Size(found) if found == bytes),
            "{error}"
        );
    }
    // The largest one takes address space alone.
    let (file, _writer) = create(folder.path(), 4 << 40);
    assert_eq!(file.stats().slots, 1 << 26);
    assert!(file.metadata_bytes() < 1 << 20);
}

#[test]
fn the_size_is_rounded_up_to_mebibytes() {
    let folder = folder();
    let (file, _writer) = create(folder.path(), (2 << 20) + 1);
    assert_eq!(file.stats().slots, 48);
}

/// A user without rights has a page file as root has one, where the user may write.
#[test]
fn nobody_has_page_files_in_folders_of_nobody() {
    const NOBODY: u32 = 65534;
    // SAFETY: the call takes and changes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !plimsoll_testkit::capability("root", is_root, "needs root to become nobody") {
        return;
    }
    // Above the folder of the tests nobody may not search.
    let folder = TempDir::new_in("/var/tmp").unwrap();
    let own = folder.path().join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let has_ring = create(&own, 1 << 20).0.stats().ring;
    let status = status_of_fork(|| {
        // SAFETY: the calls change the ids of this process, which has one thread.
        unsafe {
            assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
            assert_eq!(libc::setresgid(NOBODY, NOBODY, NOBODY), 0);
            assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0);
        }
        for options in all_options() {
            let (file, mut writer) = PageFile::create(&own, 4 << 20, options).unwrap();
            let data = segment(1);
            let slots = write(&mut writer, &[&data]).unwrap();
            assert_eq!(read(&file, slots[0]), Ok(data));
            assert_eq!(
                file.stats().ring,
                has_ring && options.ring,
                "io_uring needs no privilege"
            );
            let refused = PageFile::create(folder.path(), 4 << 20, options).unwrap_err();
            let CreateError::Create { source, .. } = refused else {
                panic!("{refused}");
            };
            assert_eq!(source, Errno::of_number(libc::EACCES));
        }
    });
    assert_eq!(status, 0);
    assert_eq!((entries(&own), entries(folder.path())), (0, 1));
}
