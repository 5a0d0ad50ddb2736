//! The budget as the kernel counts it.

use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_testkit::{again, role};

const MIB: usize = 1 << 20;
const THREADS: usize = 16;

/// Resident anonymous bytes of this process.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("RssAnon in kB")
        << 10
}

/// Eight bytes of a page: different for each page and round, alike for neighbours.
fn value(page: usize, part: usize, round: u64) -> [u8; 8] {
    let number = (page * 31 + part / 16) as u64;
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ round).to_ne_bytes()
}

fn fill(bytes: &mut [u8], first: usize, round: u64) {
    for (page, bytes) in bytes.chunks_mut(4096).enumerate() {
        for (part, bytes) in bytes.chunks_mut(8).enumerate() {
            bytes.copy_from_slice(&value(first + page, part, round));
        }
    }
}

fn is_as_filled(bytes: &[u8], first: usize, round: u64) -> bool {
    let mut pages = bytes.chunks(4096).enumerate();
    pages.all(|(page, bytes)| {
        let mut parts = bytes.chunks(8).enumerate();
        parts.all(|(part, bytes)| bytes == value(first + page, part, round))
    })
}

#[test]
fn sixteen_faulting_threads_stay_within_two_percent_of_the_cap() {
    // In a process without other tests.
    if role().is_none() {
        let test = "cap::sixteen_faulting_threads_stay_within_two_percent_of_the_cap";
        let output = again(test, "alone").output().expect("the test program starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{errors}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        return;
    }
    let ram = 32 * MIB as u64;
    let before = resident();
    let pager = crate::modes::builder()
        .ram(ram)
        .build()
        .expect("userfaultfd is allowed");
    let mut region = pager.map(128 * MIB).expect("addresses are free");
    let part = region.len() / THREADS;
    let start = Barrier::new(THREADS + 1);
    let done = AtomicBool::new(false);
    let most = AtomicU64::new(0);
    let stacks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = region
            .bytes_mut()
            .chunks_mut(part)
            .enumerate()
            .map(|(number, bytes)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    start.wait();
                    let first = number * part / 4096;
                    (1..=2).all(|round| {
                        fill(bytes, first, round);
                        is_as_filled(bytes, first, round)
                    })
                })
            })
            .collect();
        // The stacks of the threads are not the pager's.
        start.wait();
        let idle = pager.stats().resident_bytes();
        stacks.store(
            resident() - before - idle.min(resident() - before),
            Ordering::Relaxed,
        );
        start.wait();
        let sampler = scope.spawn(|| {
            let mut samples = 0;
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(resident(), Ordering::Relaxed);
                samples += 1;
            }
            samples
        });
        let fine = workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .filter(|fine| *fine)
            .count();
        done.store(true, Ordering::Relaxed);
        assert_eq!(fine, THREADS, "every byte is as written");
        assert!(sampler.join().expect("no panic") > 10);
    });
    let most = most.into_inner() - before - stacks.into_inner();
    let stats = pager.stats();
    assert!(most <= ram / 100 * 102, "{most} bytes of {ram}: {stats:?}");
    assert_eq!(stats.forced_frames, 0);
    assert_eq!(pager.validate(), []);
}
