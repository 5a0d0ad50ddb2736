//! `/sys/class/bdi`: read-ahead of block devices.

use super::Tree;

/// The most bytes that a fault of a mapped file reads ahead on a device (`st_dev`); `None` if the kernel does not say.
pub fn bytes(tree: &Tree, device: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let kib: u64 = tree.parse(&format!("sys/class/bdi/{major}:{minor}/read_ahead_kb"))?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_is_that_of_the_device() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        std::fs::create_dir_all(tree.path("sys/class/bdi/254:1")).unwrap();
        let file = tree.path("sys/class/bdi/254:1/read_ahead_kb");
        std::fs::write(&file, "128\n").unwrap();
        assert_eq!(bytes(&tree, rustix::fs::makedev(254, 1)), Some(128 << 10));
        assert_eq!(bytes(&tree, rustix::fs::makedev(254, 2)), None);
        std::fs::write(&file, "18446744073709551615\n").unwrap();
        assert_eq!(bytes(&tree, rustix::fs::makedev(254, 1)), None);
    }
}
