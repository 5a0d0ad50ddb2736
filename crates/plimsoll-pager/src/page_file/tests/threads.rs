//! Readers beside the writer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::faulty::Faulty;
use super::*;

const WRITES: u64 = 600;

/// The file is smaller than the sum of all writes, so that slots are used again while others are read.
#[test]
fn threads_read_and_free_while_the_writer_writes() {
    let file = Arc::new(Faulty::new(4));
    let (pages, mut writer) = page_file(&file, 4);
    let written: Mutex<VecDeque<(Slot, u64)>> = Mutex::default();
    let ended = AtomicBool::new(false);
    let reader = || {
        loop {
            let was_ended = ended.load(Ordering::Acquire);
            let next = written.lock().unwrap().pop_front();
            match next {
                Some((slot, seed)) => {
                    assert_eq!(read(&pages, slot), Ok(segment(seed)));
                    pages.free(slot).unwrap();
                }
                None if was_ended => return,
                None => std::thread::yield_now(),
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [(); 3].map(|()| scope.spawn(reader));
        let mut started = 0;
        while started < WRITES || writer.in_flight() > 0 {
            let seeds = [started * 3, started * 3 + 1, started * 3 + 2];
            let segments = seeds.map(segment);
            let data = segments.each_ref().map(|segment| &**segment);
            if started < WRITES && writer.start(&data).is_ok() {
                started += 1;
                continue;
            }
            let Some(completed) = writer.complete(true) else {
                assert!(
                    readers.iter().all(|reader| !reader.is_finished()),
                    "a reader failed"
                );
                std::thread::yield_now();
                continue;
            };
            let slots = completed.outcome.unwrap();
            let first = completed.batch.number() * 3;
            let mut written = written.lock().unwrap();
            written.extend(slots.iter().copied().zip(first..));
        }
        ended.store(true, Ordering::Release);
    });
    assert_eq!(pages.stats().segments_written, WRITES * 3);
    assert_eq!(pages.stats().used_slots, 0);
    writer.validate().unwrap();
}
