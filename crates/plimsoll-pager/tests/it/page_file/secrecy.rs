//! Neither data on the disk nor the key elsewhere in memory.

use std::io::Read;
use std::os::unix::fs::FileExt;

use plimsoll_testkit::{again, role};

use super::*;

#[test]
fn the_file_holds_no_plaintext() {
    for options in all_options() {
        let folder = folder();
        let (_file, mut writer) = PageFile::create(folder.path(), 4 << 20, options).unwrap();
        for seed in 0..4 {
            write(&mut writer, &[&*segment(seed); 16]).unwrap();
        }
        let mut bytes = Vec::new();
        reopen(folder.path()).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 4 << 20);
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(
            zeros < bytes.len() / 128,
            "{zeros} zeros: the whole file was written"
        );
        // Any half of the marker.
        for part in MARKER.chunks(8) {
            let found = bytes.windows(part.len()).position(|window| window == part);
            assert_eq!(found, None, "{options:?}");
        }
    }
}

/// A mapping of this process: address, length, and the line `VmFlags` of `smaps`.
struct Mapping {
    start: usize,
    end: usize,
    writable: bool,
    anonymous: bool,
    flags: String,
}

fn mappings() -> Vec<Mapping> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((start, end)) = words[0].split_once('-') {
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            found.push(Mapping {
                start,
                end,
                writable: words[1].starts_with("rw"),
                anonymous: words.len() == 5,
                flags: String::new(),
            });
        } else if words[0] == "VmFlags:" {
            found.last_mut().unwrap().flags = words[1..].join(" ");
        }
    }
    found
}

/// Addresses of `needle` masked by 0x55, in all memory that can be written.
fn find(masked: &[u8; 32]) -> Vec<usize> {
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let mut found = Vec::new();
    for mapping in mappings().iter().filter(|mapping| mapping.writable) {
        let mut bytes = vec![0; mapping.end - mapping.start];
        if memory.read_exact_at(&mut bytes, mapping.start as u64).is_err() {
            continue;
        }
        bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
        let places = bytes
            .windows(32)
            .enumerate()
            .filter(|(_, window)| window == masked);
        found.extend(places.map(|(offset, _)| mapping.start + offset));
        // The copy is masked, and so is not found by the next search.
        bytes.fill(0);
    }
    found
}

/// In a process with few other mappings, since it reads all of its memory.
#[test]
fn the_key_is_in_pages_without_dumps_alone_and_gone_at_the_end() {
    const TEST: &str = "page_file::secrecy::the_key_is_in_pages_without_dumps_alone_and_gone_at_the_end";
    if role().is_none() {
        assert!(again(TEST, "child").status().unwrap().success());
        return;
    }
    let is_secret =
        |mapping: &Mapping| mapping.anonymous && mapping.flags.split(' ').any(|flag| flag == "dd");
    let before: Vec<usize> = mappings()
        .iter()
        .filter(|map| is_secret(map))
        .map(|map| map.start)
        .collect();
    let folder = folder();
    let (file, mut writer) = create(folder.path(), 4 << 20);
    let slots = write(&mut writer, &[&segment(1)]).unwrap();
    read(&file, slots[0]).unwrap();
    let secret: Vec<Mapping> = mappings()
        .into_iter()
        .filter(|map| is_secret(map) && !before.contains(&map.start) && map.end - map.start == 4096)
        .collect();
    assert_eq!(secret.len(), 1);
    assert!(
        secret[0].flags.split(' ').any(|flag| flag == "lo"),
        "locked in RAM: {}",
        secret[0].flags
    );
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    // The key schedule of AES-256 begins with the key.
    let mut masked = [0; 32];
    memory.read_exact_at(&mut masked, secret[0].start as u64).unwrap();
    assert!(
        masked.iter().filter(|byte| **byte == 0).count() < 8,
        "random bytes"
    );
    masked.iter_mut().for_each(|byte| *byte ^= 0x55);
    let found = find(&masked);
    assert!(!found.is_empty());
    let elsewhere: Vec<&usize> = found
        .iter()
        .filter(|place| !(secret[0].start..secret[0].end).contains(place))
        .collect();
    assert!(elsewhere.is_empty(), "copies of the key: {elsewhere:x?}");
    drop((file, writer));
    assert_eq!(find(&masked), Vec::<usize>::new());
}
