//! The swap header against the programs that read one.

use std::fs::File;
use std::os::unix::fs::FileExt;

use plimsoll_proc::swap_header::SwapHeader;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// Output of a program, or `None` where it is not installed.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = plimsoll_testkit::command(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn other_programs_read_our_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("area");
    let file = File::create(&path).unwrap();
    file.set_len(MIB).unwrap();
    let header = SwapHeader::new(MIB, 4096, "plimsoll").unwrap();
    file.write_all_at(&header.encode(4096), 0).unwrap();
    let path = path.to_str().unwrap();
    if let Some(text) = output("blkid", &["-p", "-o", "export", path]) {
        assert!(text.contains("TYPE=swap"), "{text}");
        assert!(text.contains("LABEL=plimsoll"), "{text}");
        assert!(text.contains(&format!("UUID={}", header.uuid_text())), "{text}");
    }
    if let Some(text) = output("file", &["-b", path]) {
        assert!(
            text.contains("Linux swap file") || text.contains("Linux/i386 swap file"),
            "{text}"
        );
        assert!(text.contains("255 pages") || text.contains("size 255"), "{text}");
    }
}

#[test]
fn the_header_of_mkswap_is_parsed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("area");
    File::create(&path).unwrap().set_len(MIB).unwrap();
    let uuid = "01234567-89ab-4cde-8f01-23456789abcd";
    let Some(_) = output(
        "mkswap",
        &["-p", "4096", "-L", "theirs", "-U", uuid, path.to_str().unwrap()],
    ) else {
        return;
    };
    let header = SwapHeader::decode(&std::fs::read(&path).unwrap()[..4096]).unwrap();
    assert_eq!((header.pages, header.label.as_str()), (256, "theirs"));
    assert_eq!(header.uuid_text(), uuid);
    assert_eq!(
        header.encode(4096),
        std::fs::read(&path).unwrap()[..4096],
        "byte for byte as mkswap"
    );
}

#[test]
fn impossible_swap_sizes_are_rejected() {
    for bytes in [0, 4096, 40959] {
        let error = SwapHeader::new(bytes, 4096, "").unwrap_err();
        assert_eq!((error.least, error.most), (40960, 16 << 40));
    }
    assert!(SwapHeader::new(40960, 4096, "").is_ok());
    assert!(SwapHeader::new(16 << 40, 4096, "").is_ok());
    assert!(SwapHeader::new((16 << 40) + 4096, 4096, "").is_err());
}

proptest! {
    #[test]
    fn a_header_reads_as_it_was_written(
        pages in 10u64..=1 << 32,
        page_size in prop::sample::select(vec![4096usize, 16384, 65536]),
        label in "[a-z]{0,16}",
    ) {
        let header = SwapHeader::new(pages * page_size as u64 + 7, page_size, &label).unwrap();
        prop_assert_eq!(header.pages, pages);
        prop_assert_eq!(SwapHeader::decode(&header.encode(page_size)), Some(header));
    }

    #[test]
    fn no_bytes_make_reading_fail(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        let _ = SwapHeader::decode(&bytes);
        let mut signed = bytes;
        signed.extend_from_slice(b"SWAPSPACE2");
        let _ = SwapHeader::decode(&signed);
    }
}
