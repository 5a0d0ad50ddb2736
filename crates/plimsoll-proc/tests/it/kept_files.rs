//! Files that are kept open: the result of a read with fewer calls.

use plimsoll_proc::{BUFFER, KeptFile, vmstat};

fn keys(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text).into_owned();
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    text.lines().map(first).collect()
}

/// `/proc/vmstat` is longer than a page on this kernel or not; a buffer may be too small for it.
#[test]
fn a_read_of_records_has_every_record_without_the_call_that_finds_the_end() {
    let all = keys(&std::fs::read(vmstat::PATH).expect("every Linux has it"));
    assert!(all.len() > 50, "{all:?}");
    let file = KeptFile::open(vmstat::PATH);
    let mut buffer = vec![0; BUFFER];
    for longest in [256, rustix::param::page_size(), usize::MAX] {
        for _ in 0..2 {
            let text = file.read_records(&mut buffer, longest).expect("it is open");
            assert_eq!(keys(text), all, "records of {longest} bytes");
        }
    }
    for size in [0, 1, 100, 4095, 4096, 4097] {
        let text = file.read_records(&mut buffer[..size], 256).expect("it is open");
        let found = keys(text);
        assert_eq!(found, all[..found.len()], "whole lines, {size} bytes");
        assert!(text.is_empty() || text.ends_with(b"\n"));
    }
    assert!(KeptFile::NONE.read_records(&mut buffer, 256).is_none());
}
