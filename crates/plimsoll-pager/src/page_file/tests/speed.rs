//! Speed of writes and reads, with the page file and with the same calls without encryption, in turns within one run:
//!
//! `PLIMSOLL_PAGE_FILE_FOLDER=. cargo test --release -p plimsoll-pager --lib speed -- --ignored --nocapture`

use std::ffi::CString;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_os::{Folder, NamelessFile, Origin};

use super::super::backing::{Backing, OpenFile};
use super::super::file::read_all;
use super::super::queue::{BUFFERS, Operation};
use super::super::ring::Ring;
use super::super::units::WRITE_BYTES;
use super::*;

/// MiB of a file, and of a round of writes.
const MEBIBYTES: usize = 256;
/// Rounds of each kind.
const ROUNDS: usize = 6;
/// Writes in flight.
const IN_FLIGHT: [usize; 3] = [1, 2, BUFFERS];
/// Blocks read in a round, and in a row by one kind.
const READS: usize = 1500;
const READS_IN_A_ROW: usize = 50;

fn folder() -> String {
    std::env::var("PLIMSOLL_PAGE_FILE_FOLDER").unwrap_or_else(|_| ".".to_owned())
}

/// Writes of MiB in order, without encryption.
struct Clear {
    backing: Arc<dyn Backing>,
    queue: Ring,
}

impl Clear {
    fn new() -> Clear {
        let folder = Folder::open(&CString::new(folder()).unwrap()).unwrap();
        let file = NamelessFile::create_in(&folder).unwrap();
        file.allocate(0, (MEBIBYTES * WRITE_BYTES) as u64).unwrap();
        let backing: Arc<dyn Backing> = Arc::new(OpenFile::new(file, true));
        let origin = Arc::new(Origin::here().unwrap());
        let queue = Ring::new(Arc::clone(&backing), origin).unwrap().unwrap();
        Clear { backing, queue }
    }

    fn write(&mut self, data: &[u8], buffers: usize) {
        let mut free: Vec<usize> = (0..buffers).collect();
        for number in 0..MEBIBYTES {
            let buffer = free
                .pop()
                .unwrap_or_else(|| self.queue.finish(true).unwrap().buffer);
            self.queue
                .staging()
                .buffer_mut(buffer, data.len())
                .copy_from_slice(data);
            let position = (number * WRITE_BYTES) as u64;
            let range = 0..WRITE_BYTES;
            self.queue.start(Operation {
                buffer,
                run: 0,
                range,
                position,
            });
        }
        while self.queue.finish(true).is_some() {}
    }
}

/// Writes the file full; the slots.
fn write_sealed(writer: &mut Writer, data: &[&Segment], most: usize) -> Vec<Slot> {
    let mut slots = Vec::new();
    let mut started = 0;
    while started < MEBIBYTES || writer.in_flight() > 0 {
        let starts = started < MEBIBYTES && writer.in_flight() < most;
        match starts.then(|| writer.start(data)) {
            Some(Ok(_)) => started += 1,
            _ => slots.extend(writer.complete(true).unwrap().outcome.unwrap().iter()),
        }
    }
    slots
}

/// CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Wall and CPU seconds of `work`.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    work();
    (start.elapsed().as_secs_f64(), cpu_seconds() - cpu)
}

fn percentile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// A line of the report, of seconds that `MEBIBYTES` took.
fn report_writes(name: &str, walls: &mut [f64], cpus: &mut [f64]) {
    let gigabytes = (MEBIBYTES * WRITE_BYTES) as f64 / 1e9;
    let (wall, cpu) = (percentile(walls, 0.5), percentile(cpus, 0.5));
    let text = format!(
        "write {name:<22} {:.2} GB/s (best {:.2}), {:.0} us of CPU a MiB",
        gigabytes / wall,
        gigabytes / walls[0],
        cpu * 1e6 / MEBIBYTES as f64,
    );
    say(&text);
}

#[derive(Default)]
struct Reads {
    microseconds: Vec<f64>,
    cpu_seconds: f64,
}

impl Reads {
    fn read(&mut self, blocks: &[Block], mut read: impl FnMut(Block)) {
        let before = cpu_seconds();
        for block in blocks {
            let start = Instant::now();
            read(*block);
            self.microseconds.push(start.elapsed().as_secs_f64() * 1e6);
        }
        self.cpu_seconds += cpu_seconds() - before;
    }

    fn report(&mut self, name: &str) {
        let [p50, p99] = [0.5, 0.99].map(|share| percentile(&mut self.microseconds, share));
        let count = self.microseconds.len();
        let cpu = self.cpu_seconds * 1e6 / count as f64;
        let text =
            format!("read  {name:<12} p50 {p50:.1} us, p99 {p99:.1} us, CPU {cpu:.1} us, {count} blocks");
        say(&text);
    }
}

#[test]
#[ignore = "measures; its command is above"]
fn speed() {
    let segments: Vec<_> = (0..16).map(segment).collect();
    let data: Vec<&Segment> = segments.iter().map(|segment| &**segment).collect();
    let flat: Vec<u8> = segments
        .iter()
        .flat_map(|segment| segment.iter().copied())
        .collect();
    let bytes = (MEBIBYTES * WRITE_BYTES) as u64;
    let (pages, mut writer) =
        PageFile::create(Path::new(&folder()), bytes, PageFileOptions::default()).unwrap();
    let mut clear = Clear::new();
    let stats = pages.stats();
    say(&format!("direct {}, ring {}", stats.direct, stats.ring));
    let mut writes = [(); 2 * IN_FLIGHT.len()].map(|()| (Vec::new(), Vec::new()));
    let mut reads = [(); 2].map(|()| Reads::default());
    let mut buffer = Box::new(BlockBuffer::new());
    let mut random = 1_u64;
    for round in 0..=ROUNDS {
        let mut slots: Vec<Slot> = Vec::new();
        for (in_flight, times) in IN_FLIGHT.iter().zip(writes.as_chunks_mut::<2>().0) {
            slots.drain(..).for_each(|slot| pages.free(slot).unwrap());
            let of_round = [
                timed(|| slots = write_sealed(&mut writer, &data, *in_flight)),
                timed(|| clear.write(&flat, *in_flight)),
            ];
            // The first round writes to blocks that were never written.
            for (sum, (wall, cpu)) in times.iter_mut().zip(of_round).filter(|_| round > 0) {
                sum.0.push(wall);
                sum.1.push(cpu);
            }
        }
        for _ in 0..READS / READS_IN_A_ROW {
            let blocks = [(); READS_IN_A_ROW].map(|()| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let slot = slots[(random >> 33) as usize % slots.len()];
                slot.block_at((random >> 20) as usize % SLOT_BYTES).unwrap()
            });
            reads[0].read(&blocks, |block| pages.read_block(block, &mut buffer).unwrap());
            reads[1].read(&blocks, |block| {
                assert_eq!(
                    read_all(&*clear.backing, &mut buffer.0, block.position()),
                    Ok(true)
                );
            });
        }
        slots.iter().for_each(|slot| pages.free(*slot).unwrap());
    }
    let names = ["encrypted", "clear"];
    let kinds = IN_FLIGHT
        .iter()
        .flat_map(|in_flight| names.map(|name| (in_flight, name)));
    for ((in_flight, name), (walls, cpus)) in kinds.zip(&mut writes) {
        report_writes(&format!("{name}, {in_flight} in flight"), walls, cpus);
    }
    for (name, reads) in names.iter().zip(&mut reads) {
        reads.report(name);
    }
}

/// Writes a line on standard error.
fn say(line: &str) {
    let mut errors = std::io::stderr();
    writeln!(errors, "{line}").unwrap();
}
