//! A program whose every block, also those of the test harness, is of the heap.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use plimsoll_lfh::{Bucket, Heap, Lfh};
use plimsoll_testkit::status_of_fork;

#[global_allocator]
static HEAP: Lfh = Lfh;

/// Otherwise the tests would be of the system's heap.
#[test]
fn what_collections_have_is_counted_by_this_heap() {
    /// More of a size than the other tests have at a time, so that theirs do not matter.
    const BLOCKS: usize = 100_000;
    let bucket = Bucket::for_size(240).expect("a small size").index();
    let busy = || {
        let (_, counts) = Heap::process().statistics().expect("the heap was used");
        counts.buckets[bucket].busy()
    };
    let blocks: Vec<Box<[u8; 240]>> = (0..BLOCKS).map(|_| Box::new([1; 240])).collect();
    let with = busy();
    assert!(with >= BLOCKS as u64, "{with}");
    drop(blocks);
    let without = busy();
    assert!(without < BLOCKS as u64 / 2, "{without}");
}

#[test]
fn collections_live_in_it() {
    let mut tree = BTreeMap::new();
    let mut map = HashMap::new();
    let mut queue = VecDeque::new();
    for number in 0..200_000_u64 {
        tree.insert(number.wrapping_mul(0x9E37_79B9_7F4A_7C15), number.to_string());
        map.insert(number, vec![number; (number % 100) as usize]);
        queue.push_back(number.to_string().repeat((number % 50) as usize));
        if number % 3 == 0 {
            queue.pop_front();
            map.remove(&(number / 2));
        }
    }
    assert!(tree.iter().all(|(key, text)| {
        text.parse::<u64>()
            .is_ok_and(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) == *key)
    }));
    assert!(
        map.iter()
            .all(|(number, list)| list.iter().all(|item| item == number))
    );
}

#[test]
fn threads_hand_blocks_on() {
    let (sender, receiver) = mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let sender = sender.clone();
            scope.spawn(move || {
                for length in 0..5000 {
                    sender.send(vec![thread; length]).expect("the receiver lives");
                }
            });
        }
        drop(sender);
        let bytes: usize = receiver
            .iter()
            .map(|list| {
                assert!(list.windows(2).all(|pair| pair[0] == pair[1]));
                list.len()
            })
            .sum();
        assert_eq!(bytes, 8 * (0..5000).sum::<usize>());
    });
}

#[test]
fn a_long_list_grows_by_moving_its_pages() {
    let mut list = Vec::new();
    for number in 0..20_000_000_u32 {
        list.push(number);
    }
    assert!(list.iter().zip(0..).all(|(item, number)| *item == number));
    list.truncate(1000);
    list.shrink_to_fit();
    assert!(list.iter().zip(0..).all(|(item, number)| *item == number));
}

/// The allocator is alone: it registers the fork handlers with the C library itself.
#[test]
fn children_of_a_fork_under_load_allocate() {
    fn allocate() {
        let list: Vec<Vec<u8>> = (0..2000).map(|length| vec![1; length]).collect();
        assert!(list.iter().zip(0..).all(|(bytes, length)| bytes.len() == length));
    }
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    allocate();
                }
            });
        }
        for fork in 0..50 {
            assert_eq!(status_of_fork(allocate), 0, "child {fork}");
        }
        ended.store(true, Ordering::Relaxed);
    });
}
