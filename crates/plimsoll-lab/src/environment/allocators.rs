//! The allocators of this machine: libraries that replace malloc where they are preloaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use plimsoll_model::scenario::{Allocator, AllocatorSet, KNOWN_ALLOCATORS};

/// Folders of the loader that are in no file.
const FOLDERS: [&str; 6] = [
    "lib64",
    "usr/lib64",
    "lib",
    "usr/lib",
    "usr/local/lib64",
    "usr/local/lib",
];
/// Files that name more folders, and the folder of files that do.
const LOADER_FILE: &str = "etc/ld.so.conf";
const LOADER_FOLDER: &str = "etc/ld.so.conf.d";

// The installed libraries do not change while the program runs.
static FOUND: LazyLock<Vec<(&'static str, PathBuf)>> = LazyLock::new(|| found_below(Path::new("/")));

/// Which of the known allocators this machine has.
pub(super) fn set() -> AllocatorSet {
    AllocatorSet::of(|known| FOUND.iter().any(|(name, _)| *name == known.name))
}

/// The library of an installed allocator that is not ours; `None` for the C library's, which needs no other one.
pub fn allocator_library(allocator: &Allocator) -> Option<PathBuf> {
    match allocator {
        Allocator::Glibc | Allocator::Plimsoll(..) => None,
        Allocator::Known(wanted) => {
            let found = FOUND.iter().find(|(name, _)| name == wanted);
            found.map(|(_, path)| path.clone())
        }
        Allocator::Library(path) => path.is_file().then(|| path.clone()),
    }
}

/// The known allocators of the machine whose files lie below `root`, with their libraries.
pub fn found_below(root: &Path) -> Vec<(&'static str, PathBuf)> {
    let folders = loader_folders(root);
    let library = |file: &str| {
        folders
            .iter()
            .map(|folder| folder.join(file))
            .find(|path| path.is_file())
    };
    KNOWN_ALLOCATORS
        .iter()
        .filter_map(|known| Some((known.name, known.libraries.iter().find_map(|file| library(file))?)))
        .collect()
}

/// The folders that the loader looks into, as its configuration names them.
fn loader_folders(root: &Path) -> Vec<PathBuf> {
    let mut files = vec![root.join(LOADER_FILE)];
    let named = fs::read_dir(root.join(LOADER_FOLDER))
        .into_iter()
        .flatten()
        .flatten();
    files.extend(named.map(|entry| entry.path()));
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let mut folders: Vec<PathBuf> = texts
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| folder_of(root, line))
                .collect::<Vec<_>>()
        })
        .collect();
    folders.extend(FOLDERS.map(|folder| root.join(folder)));
    folders
}

/// The folder that a line of the loader's configuration names; `None` for comments and `include` lines.
fn folder_of(root: &Path, line: &str) -> Option<PathBuf> {
    let folder = line.split('#').next()?.trim().strip_prefix('/')?;
    Some(root.join(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_where_the_loader_finds_them() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(found_below(root.path()), []);
        put("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
        put(
            "etc/ld.so.conf.d/machine.conf",
            "# where Debian has them\n/usr/lib/machine\n",
        );
        put("usr/lib/machine/libjemalloc.so.2", "");
        put("usr/lib/libmimalloc.so.2", "");
        put("usr/lib/libmimalloc.so.3", "");
        // Folders that the loader does not search, and files that are no library.
        put("opt/libhoard.so", "");
        fs::create_dir_all(root.path().join("usr/lib/libmesh.so")).unwrap();
        let expected = [
            ("jemalloc", "usr/lib/machine/libjemalloc.so.2"),
            ("mimalloc", "usr/lib/libmimalloc.so.3"),
        ];
        let expected = expected.map(|(name, path)| (name, root.path().join(path)));
        assert_eq!(found_below(root.path()), expected);
    }
}
