//! Free page reporting of a guest to its host: the parameters of the kernel's `page_reporting` and the virtio balloon.

use super::Tree;

const ORDER: &str = "sys/module/page_reporting/parameters/page_reporting_order";
/// A parameter of some kernels only.
const REPORTED: &str = "sys/module/page_reporting/parameters/reported_kib";
const DEVICES: &str = "sys/bus/virtio/devices";

/// The least order of free blocks that the kernel reports, as it writes it.
pub fn order(tree: &Tree) -> Option<String> {
    tree.read(ORDER)
}

/// Bytes reported since boot, on a kernel that counts them.
pub fn reported_bytes(tree: &Tree) -> Option<u64> {
    tree.parse::<u64>(REPORTED)?.checked_mul(1024)
}

/// The balloon that reports free pages, `virtio0`: a device 5 whose driver negotiated `VIRTIO_BALLOON_F_REPORTING`
/// (bit 5).
pub fn balloon(tree: &Tree) -> Option<String> {
    tree.list(DEVICES).into_iter().find(|device| {
        let file = |name: &str| tree.read(&format!("{DEVICES}/{device}/{name}"));
        file("device").as_deref() == Some("0x0005")
            && file("features").is_some_and(|bits| bits.as_bytes().get(5) == Some(&b'1'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_balloon_with_the_feature_reports() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::below(folder.path());
        let put = |file: &str, text: &str| {
            let path = tree.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(balloon(&tree), None);
        put(&format!("{DEVICES}/virtio0/device"), "0x0001\n");
        put(&format!("{DEVICES}/virtio0/features"), "1111110\n");
        put(&format!("{DEVICES}/virtio1/device"), "0x0005\n");
        put(&format!("{DEVICES}/virtio1/features"), "1111101\n");
        assert_eq!(balloon(&tree), None);
        put(&format!("{DEVICES}/virtio1/features"), "0000010\n");
        assert_eq!(balloon(&tree).as_deref(), Some("virtio1"));
        put(REPORTED, "3\n");
        assert_eq!((reported_bytes(&tree), order(&tree)), (Some(3 << 10), None));
    }
}
