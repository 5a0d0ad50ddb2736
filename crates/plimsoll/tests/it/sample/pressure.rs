//! The layers while memory is filled and swapped out to a zram device of the test's own.

use std::ffi::CString;
use std::fs;

use plimsoll_model::categories::{Categories, categories};
use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_os::{Advice, Mapping};
use plimsoll_sample::{Reader, Target};

const FILL: usize = 256 << 20;

/// A zram device that is there for one test.
struct Zram {
    name: String,
}

impl Zram {
    fn create() -> Result<Self, String> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add")
            .map_err(|error| format!("hot_add: {error}"))?;
        let device = Zram {
            name: format!("zram{}", number.trim()),
        };
        let size = (2 * FILL).to_string();
        fs::write(format!("/sys/block/{}/disksize", device.name), size)
            .map_err(|error| format!("disksize: {error}"))?;
        fs::write(device.path(), swap_header(2 * FILL)).map_err(|error| format!("header: {error}"))?;
        let path = CString::new(device.path()).expect("a device's path has no zero byte");
        plimsoll_os::swap_on(&path, Some(32_000)).map_err(|error| format!("swapon: {error}"))?;
        Ok(device)
    }

    fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let path = CString::new(self.path()).expect("a device's path has no zero byte");
        let _ = plimsoll_os::swap_off(&path);
        let _ = fs::write(format!("/sys/block/{}/reset", self.name), "1");
        let _ = fs::write(
            "/sys/class/zram-control/hot_remove",
            self.name.trim_start_matches("zram"),
        );
    }
}

/// The first page of a swap area (version 1, no bad pages).
fn swap_header(bytes: usize) -> Vec<u8> {
    let page = rustix::param::page_size();
    let mut header = vec![0; page];
    header[1024..1028].copy_from_slice(&1_u32.to_le_bytes());
    header[1028..1032].copy_from_slice(&((bytes / page - 1) as u32).to_le_bytes());
    header[page - 10..].copy_from_slice(b"SWAPSPACE2");
    header
}

/// Bytes that compress about 2:1, a different page each.
fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for chunk in bytes.chunks_exact_mut(16) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk[..8].copy_from_slice(&state.to_le_bytes());
        chunk[8..].fill(0x55);
    }
}

/// Bytes of free pages that the CPUs keep at hand, which MemFree does not have. A program that releases gigabytes in a
/// row leaves up to an eighth of the machine's memory there.
fn kept_by_cpus() -> i64 {
    let zones = fs::read_to_string("/proc/zoneinfo").expect("zones");
    let counts = zones
        .lines()
        .filter_map(|line| line.trim().strip_prefix("count:"));
    let pages: i64 = counts
        .map(|count| count.trim().parse::<i64>().expect("a count"))
        .sum();
    pages * rustix::param::page_size() as i64
}

fn sample(reader: &mut Reader) -> (Row, Categories) {
    let mut row = Row::empty(0);
    let before = kept_by_cpus();
    reader.read(&mut row);
    let after = kept_by_cpus();
    let layers = categories(&row).expect("this machine has them all");
    assert_eq!(Some(layers.total()), row.get(col::MEM_TOTAL));
    let (total, unaccounted) = (layers.total(), layers.get("unaccounted").unwrap());
    let (least, most) = (before.min(after) - total / 200, before.max(after) + total / 50);
    assert!(
        (least..most).contains(&unaccounted),
        "{unaccounted} of {total} unaccounted, CPUs kept {before} and {after}: {layers:?}"
    );
    (row, layers)
}

const NAME: &str = "sample::pressure::the_layers_follow_memory_into_zram_and_back";

/// In a process of its own: the target is the whole process, and tests beside this one take and free as much memory as it
/// does.
#[test]
fn the_layers_follow_memory_into_zram_and_back() {
    if plimsoll_testkit::role().is_none() {
        let status = plimsoll_testkit::again(NAME, "alone")
            .status()
            .expect("it starts");
        assert!(status.success());
        return;
    }
    let _alone = crate::machine::alone();
    let device = Zram::create();
    let reason = device.as_ref().err().cloned().unwrap_or_default();
    if !plimsoll_testkit::capability("zram", device.is_ok(), &reason) {
        return;
    }
    let device = device.unwrap();
    let mut reader = Reader::open().unwrap();
    reader.set_target(Some(&Target {
        workers: vec![std::process::id()],
        cgroup: None,
        zram: Some(device.name.clone()),
        swap_device: Some(device.path().into()),
        held: None,
    }));
    let (_, before) = sample(&mut reader);

    let mut memory = Mapping::anonymous(FILL).unwrap();
    memory.advise(Advice::NoHugePage).unwrap();
    fill(memory.bytes_mut());
    let (_, filled) = sample(&mut reader);
    let half = (FILL / 2) as i64;
    let grown =
        |layer: &str, from: &Categories, to: &Categories| to.get(layer).unwrap() - from.get(layer).unwrap();
    assert!(grown("target", &before, &filled) > half, "{before:?} {filled:?}");

    memory.advise(Advice::PageOut).unwrap();
    let (row, trimmed) = sample(&mut reader);
    assert!(
        grown("target", &filled, &trimmed) < -half,
        "{filled:?} {trimmed:?}"
    );
    let stored = row.get(col::ZRAM_ORIG_DATA_SIZE).unwrap();
    assert!(stored > half, "{stored} bytes in zram");
    let taken = row.get(col::ZRAM_MEM_USED_TOTAL).unwrap();
    assert!(
        taken * 3 > stored && taken * 10 < stored * 9,
        "{taken} for {stored}"
    );
    assert!(
        grown("compressed", &filled, &trimmed) > half / 3,
        "{filled:?} {trimmed:?}"
    );
    let slot = reader
        .swap_slots()
        .iter()
        .position(|label| *label == device.path());
    let used = row.get([col::SWAP0_USED, col::SWAP1_USED, col::SWAP2_USED, col::SWAP3_USED][slot.unwrap()]);
    assert!(used >= Some(half), "{used:?} bytes of swap used");
    assert_eq!(row.get(col::DEVICE_SWAP_USED), used);

    let sum: u64 = memory
        .bytes()
        .iter()
        .step_by(4096)
        .map(|byte| u64::from(*byte))
        .sum();
    assert!(sum > 0);
    let (_, restored) = sample(&mut reader);
    assert!(
        grown("target", &trimmed, &restored) > half,
        "{trimmed:?} {restored:?}"
    );
}
