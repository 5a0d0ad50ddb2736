//! Folders of several users, and links between them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use super::*;

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A temporary folder without links in its path.
fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().canonicalize().unwrap();
    (place, path)
}

fn folder_of_mode(path: &Path, mode: u32) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_missing_folder_is_made_for_its_user_alone() {
    let (_guard, place) = place();
    let path = place.join("a/b/../c");
    assert!(TrustedFolder::own(&path).unwrap_err().is_not_found());
    let (nearest, rest) = TrustedFolder::nearest_of(&path, effective_user()).unwrap();
    assert_eq!(
        (nearest.path(), rest),
        (place.as_path(), PathBuf::from("a/b/../c"))
    );
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "nothing was made");
    let made = TrustedFolder::make_own(&path).unwrap();
    assert_eq!(made.path(), place.join("a/c"));
    for folder in ["a", "a/b", "a/c"] {
        let mode = fs::metadata(place.join(folder)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o700, "{folder}");
    }
    assert_eq!(TrustedFolder::own(&path).unwrap().path(), made.path());
}

#[test]
fn a_folder_that_others_can_write_to_is_refused_wherever_it_is_in_the_path() {
    let (_guard, place) = place();
    let open = place.join("open");
    folder_of_mode(&open, 0o777);
    folder_of_mode(&open.join("closed"), 0o700);
    for path in [
        open.clone(),
        open.join("closed"),
        open.join("closed/new"),
        open.join("new"),
    ] {
        let error = TrustedFolder::make_own(&path).unwrap_err();
        assert!(
            matches!(&error, Distrust::WritableByOthers(path) if *path == open),
            "{error}"
        );
    }
    assert_eq!(fs::read_dir(open.join("closed")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&open).unwrap().count(), 1);
    // The group's bit counts, too.
    fs::set_permissions(&open, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(TrustedFolder::own(&open.join("closed")).is_err());
}

#[test]
fn a_sticky_folder_is_trusted_with_entries_and_is_not_the_users_own() {
    let (_guard, place) = place();
    let sticky = place.join("sticky");
    folder_of_mode(&sticky, 0o1777);
    TrustedFolder::shared(&sticky).unwrap();
    assert!(matches!(
        TrustedFolder::own(&sticky),
        Err(Distrust::WritableByOthers(_))
    ));
    TrustedFolder::make_own(&sticky.join("mine")).unwrap();
}

#[test]
fn a_folder_of_another_user_is_refused_also_as_an_ancestor() {
    let (_guard, place) = place();
    folder_of_mode(&place.join("theirs"), 0o755);
    let user = match root() {
        true => {
            chown(place.join("theirs"), Some(65534), None).unwrap();
            0
        }
        false => effective_user() + 1,
    };
    for path in ["theirs", "theirs/new"] {
        let error = TrustedFolder::make_own_of(&place.join(path), user).unwrap_err();
        assert!(matches!(error, Distrust::OfAnother(..)), "{error}");
    }
    assert_eq!(fs::read_dir(place.join("theirs")).unwrap().count(), 0);
}

#[test]
fn a_link_is_followed_on_the_way_if_the_user_made_it_and_never_at_the_end() {
    let (_guard, place) = place();
    folder_of_mode(&place.join("real"), 0o700);
    folder_of_mode(&place.join("real/inside"), 0o700);
    symlink("real", place.join("link")).unwrap();
    symlink(place.join("link/inside"), place.join("last")).unwrap();
    symlink("loop", place.join("loop")).unwrap();
    let found = TrustedFolder::own(&place.join("link/inside")).unwrap();
    assert_eq!(found.path(), place.join("real/inside"));
    assert!(matches!(
        TrustedFolder::own(&place.join("last")),
        Err(Distrust::NoFolder(_))
    ));
    assert_eq!(
        TrustedFolder::shared(&place.join("last")).unwrap().path(),
        place.join("real/inside")
    );
    assert!(TrustedFolder::shared(&place.join("loop/x")).is_err());
    if root() {
        lchown(place.join("link"), Some(65534), None).unwrap();
        let error = TrustedFolder::own(&place.join("link/inside")).unwrap_err();
        assert!(matches!(error, Distrust::OfAnother(_, 65534)), "{error}");
    }
}

#[test]
fn only_a_regular_file_of_the_user_is_the_users_own() {
    let (_guard, place) = place();
    let folder = TrustedFolder::own(&place).unwrap();
    let read = |name: &str| folder.own_file(OsStr::new(name), OFlags::RDONLY, 0);
    assert!(read("missing").unwrap_err().is_not_found());
    let created = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = folder.own_file(OsStr::new("file"), created, 0o600).unwrap();
    assert!(folder.names(OsStr::new("file"), &file).unwrap());
    read("file").unwrap();
    symlink("file", place.join("link")).unwrap();
    fs::create_dir(place.join("folder")).unwrap();
    rustix::fs::mknodat(CWD, place.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for name in ["link", "folder", "pipe"] {
        let error = read(name).unwrap_err();
        assert!(matches!(error, Distrust::NoFile(_)), "{name}: {error}");
    }
    fs::set_permissions(place.join("file"), fs::Permissions::from_mode(0o620)).unwrap();
    assert!(matches!(read("file"), Err(Distrust::WritableByOthers(_))));
    // Another file of the same name is not the opened one.
    fs::remove_file(place.join("file")).unwrap();
    fs::write(place.join("file"), "").unwrap();
    assert!(!folder.names(OsStr::new("file"), &file).unwrap());
    let mut names = folder.names_in().unwrap();
    names.sort();
    assert_eq!(names, ["file", "folder", "link", "pipe"]);
}

/// A swap of the folder after it was opened changes nothing: the descriptor leads to the checked one.
#[test]
fn a_folder_that_is_replaced_after_the_check_is_not_used() {
    let (_guard, place) = place();
    folder_of_mode(&place.join("state"), 0o700);
    folder_of_mode(&place.join("victim"), 0o700);
    let folder = TrustedFolder::own(&place.join("state")).unwrap();
    fs::rename(place.join("state"), place.join("moved")).unwrap();
    symlink("victim", place.join("state")).unwrap();
    let created = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    folder.own_file(OsStr::new("file"), created, 0o600).unwrap();
    folder.rename(OsStr::new("file"), OsStr::new("name")).unwrap();
    assert!(place.join("moved/name").exists());
    assert_eq!(fs::read_dir(place.join("victim")).unwrap().count(), 0);
}
