//! The page file against a model: a map of slots to contents. Writes happen at any time until they are complete, in
//! any order; the disk fails by order. The test counts the injected faults: a kind that never occurs fails it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_os::Errno;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestRunner;

use super::super::backing::Backing;
use super::super::queue::{Finished, Operation, Outcome, Staging};
use super::faulty::{Fault, Faulty, Injected};
use super::*;

/// MiB of the file: more than the first step of its growth.
const MEBIBYTES: usize = 20;

/// A queue that makes a write when its end is asked for, and ends writes in any order.
struct Late {
    backing: Arc<dyn Backing>,
    /// The same file, which counts the faults of the queue.
    file: Arc<Faulty>,
    staging: Staging,
    pending: Vec<Operation>,
    random: u64,
}

impl Late {
    fn next_random(&mut self) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) as usize
    }
}

impl Queue for Late {
    fn staging(&mut self) -> &mut Staging {
        &mut self.staging
    }

    fn start(&mut self, operation: Operation) {
        self.staging.begin(operation.buffer);
        self.pending.push(operation);
    }

    fn finish(&mut self, wait: bool) -> Option<Finished> {
        if self.pending.is_empty() || (!wait && self.next_random().is_multiple_of(2)) {
            return None;
        }
        let number = self.next_random() % self.pending.len();
        let Operation {
            buffer,
            run,
            range,
            position,
        } = self.pending.swap_remove(number);
        let outcome = match self.next_random() % 32 {
            0 => {
                self.file.state().note(Injected::NotStarted);
                Outcome::NotStarted
            }
            1 => {
                self.file.state().note(Injected::Canceled);
                Outcome::Refused(Errno::CANCELED)
            }
            _ => {
                let written = self.backing.write_at(self.staging.bytes(buffer, range), position);
                written.map_or_else(Outcome::Refused, Outcome::Wrote)
            }
        };
        self.staging.end(buffer);
        Some(Finished { buffer, run, outcome })
    }

    fn is_ring(&self) -> bool {
        true
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize),
    Complete(bool),
    Free(Index),
    Read(Index, usize),
    ReadError(Index, usize),
    Damage(Index, Index),
    /// Slot, block, and sectors of the block that were written.
    Tear(Index, usize, usize),
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1_usize..=16).prop_map(Step::Write),
        6 => any::<bool>().prop_map(Step::Complete),
        6 => any::<Index>().prop_map(Step::Free),
        8 => (any::<Index>(), 0..BLOCKS_PER_SLOT).prop_map(|(slot, block)| Step::Read(slot, block)),
        1 => (any::<Index>(), 0..BLOCKS_PER_SLOT).prop_map(|(slot, block)| Step::ReadError(slot, block)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(slot, bit)| Step::Damage(slot, bit)),
        1 => (any::<Index>(), 0..BLOCKS_PER_SLOT, 0..BLOCK_BYTES / SECTOR)
            .prop_map(|(slot, block, sectors)| Step::Tear(slot, block, sectors)),
        1 => Just(Step::Rest),
    ]
}

/// Bytes that a disk writes as one.
const SECTOR: usize = 512;

/// Faults that a write survives, and now and then one that it does not. The most steps make about 25 writes.
fn faults() -> impl Strategy<Value = BTreeMap<u64, Fault>> {
    let errno = prop_oneof![Just(Errno::IO), Just(Errno::NOSPC), Just(Errno::DQUOT)];
    let fault = prop_oneof![
        8 => Just(Fault::Refuse(Errno::INTR)),
        8 => Just(Fault::Refuse(Errno::AGAIN)),
        16 => (4096_usize..1 << 20).prop_map(Fault::Short),
        1 => Just(Fault::Short(0)),
        3 => errno.prop_map(Fault::Refuse),
    ];
    prop::collection::btree_map(0_u64..40, fault, 0..24)
}

/// A page file, and the contents that it has to have.
struct Pair {
    file: Arc<Faulty>,
    pages: PageFile,
    writer: Writer,
    /// Seeds of the segments, by slot.
    contents: BTreeMap<u32, u64>,
    in_flight: HashMap<Batch, Vec<u64>>,
    damaged: Vec<Block>,
    seeds: u64,
}

impl Pair {
    fn new(faults: BTreeMap<u64, Fault>, room: Option<usize>, random: u64) -> Pair {
        let file = Arc::new(Faulty::new(MEBIBYTES));
        file.state().write_faults = faults;
        file.state().room = room.map(|room| (room, Errno::NOSPC));
        let backing = Arc::clone(&file);
        let (pages, writer) = PageFile::on(backing, MEBIBYTES as u32, Path::new("/faulty"), |backing, _| {
            let staging = Staging::new()?;
            let pending = Vec::new();
            Ok(Box::new(Late {
                backing,
                file: Arc::clone(&file),
                staging,
                pending,
                random,
            }) as Box<dyn Queue>)
        })
        .unwrap();
        Pair {
            file,
            pages,
            writer,
            contents: BTreeMap::new(),
            in_flight: HashMap::new(),
            damaged: Vec::new(),
            seeds: 0,
        }
    }

    fn slot(&self, index: &Index) -> Option<Slot> {
        let numbers: Vec<u32> = self.contents.keys().copied().collect();
        let number = numbers.get(index.index(numbers.len().max(1)))?;
        Slot::new(*number)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(count) => self.write(*count),
            Step::Complete(wait) => self.complete(*wait),
            Step::Free(index) => {
                if let Some(slot) = self.slot(index) {
                    assert_eq!(self.pages.free(slot), Ok(()));
                    self.contents.remove(&slot.number());
                    self.damaged.retain(|block| block.slot() != slot);
                }
            }
            Step::Read(index, block) => {
                if let Some(slot) = self.slot(index) {
                    self.read(slot, *block);
                }
            }
            Step::ReadError(index, number) => {
                if let Some(slot) = self.slot(index) {
                    self.read_with_error(slot, *number);
                }
            }
            Step::Tear(index, number, sectors) => {
                if let Some(slot) = self.slot(index) {
                    let block = slot.block_at(number * BLOCK_BYTES).unwrap();
                    let start = block.position() as usize;
                    let mut state = self.file.state();
                    state.bytes[start + sectors * SECTOR..start + BLOCK_BYTES].fill(0);
                    if !self.damaged.contains(&block) {
                        self.damaged.push(block);
                    }
                    state.note(Injected::TornBlock);
                }
            }
            Step::Damage(index, bit) => {
                if let Some(slot) = self.slot(index) {
                    let bit = bit.index(SLOT_BYTES * 8);
                    let block = slot.block_at(bit / 8).unwrap();
                    if !self.damaged.contains(&block) {
                        let byte = slot.number() as usize * SLOT_BYTES + bit / 8;
                        let mut state = self.file.state();
                        state.bytes[byte] ^= 1 << (bit % 8);
                        state.note(Injected::FlippedBit);
                        self.damaged.push(block);
                    }
                }
            }
            Step::Rest => {
                self.writer.rest();
            }
        }
        if self.writer.in_flight() == 0 {
            self.writer.validate().unwrap();
        }
    }

    fn write(&mut self, count: usize) {
        let seeds: Vec<u64> = (self.seeds..).take(count).collect();
        let segments: Vec<_> = seeds.iter().map(|seed| segment(*seed)).collect();
        let references: Vec<&Segment> = segments.iter().map(|segment| &**segment).collect();
        let space = MEBIBYTES * 16 - self.contents.len() - self.in_flight.values().flatten().count();
        match self.writer.start(&references) {
            Ok(batch) => {
                self.seeds += count as u64;
                assert_eq!(self.in_flight.insert(batch, seeds), None);
            }
            Err(StartError::Busy) => assert_eq!(self.in_flight.len(), 4),
            Err(StartError::Full { .. }) => {
                let limited = matches!(self.pages.state(), State::Limited { .. });
                assert!(limited || space < count, "{space} of {count}");
            }
            Err(StartError::Failed(failure)) => assert_eq!(self.pages.state(), State::Failed(failure)),
            Err(error) => panic!("{error}"),
        }
    }

    fn complete(&mut self, wait: bool) {
        let Some(Completed { batch, outcome }) = self.writer.complete(wait) else {
            assert!(!wait || self.in_flight.is_empty());
            return;
        };
        let seeds = self.in_flight.remove(&batch).unwrap();
        match outcome {
            Ok(slots) => {
                assert_eq!(slots.len(), seeds.len());
                for (slot, seed) in slots.iter().zip(seeds) {
                    assert_eq!(
                        self.contents.insert(slot.number(), seed),
                        None,
                        "the slot was free"
                    );
                }
            }
            Err(_) => assert!(matches!(self.pages.state(), State::Failed(_))),
        }
    }

    fn read(&self, slot: Slot, number: usize) {
        let block = slot.block_at(number * BLOCK_BYTES).unwrap();
        let mut buffer = Box::new(BlockBuffer([1; BLOCK_BYTES]));
        let read = self.pages.read_block(block, &mut buffer);
        if self.damaged.contains(&block) {
            assert_eq!(read, Err(ReadError::Damaged(block)));
            assert_eq!(buffer.0, [0; BLOCK_BYTES]);
            return;
        }
        assert_eq!(read, Ok(()));
        let expected = segment(self.contents[&slot.number()]);
        assert!(
            buffer.0[..] == expected[number * BLOCK_BYTES..][..BLOCK_BYTES],
            "{block:?}"
        );
    }

    fn read_with_error(&self, slot: Slot, number: usize) {
        let block = slot.block_at(number * BLOCK_BYTES).unwrap();
        let mut buffer = Box::new(BlockBuffer([1; BLOCK_BYTES]));
        let reads = self.file.state().reads;
        self.file.state().read_faults.insert(reads, Errno::IO);
        let errno = Errno::IO;
        assert_eq!(
            self.pages.read_block(block, &mut buffer),
            Err(ReadError::Io { block, errno })
        );
        assert_eq!(buffer.0, [0; BLOCK_BYTES]);
    }

    /// All is in the file or reported, and no nonce was used twice. Returns the injected faults.
    fn finish(mut self) -> BTreeMap<Injected, u64> {
        while self.writer.in_flight() > 0 {
            self.complete(true);
        }
        self.writer.validate().unwrap();
        for slot in self.contents.keys() {
            let slot = Slot::new(*slot).unwrap();
            (0..BLOCKS_PER_SLOT).for_each(|block| self.read(slot, block));
        }
        assert_eq!(self.pages.stats().used_slots, self.contents.len() as u64);
        assert_eq!(self.file.state().repeated_beginnings, 0);
        std::mem::take(&mut self.file.state().injected)
    }
}

/// Each kind, and how often it has to occur at least.
const LEAST_INJECTED: [(Injected, u64); 13] = [
    (Injected::Interrupted, 20),
    (Injected::Again, 20),
    (Injected::InputOutput, 3),
    (Injected::NoSpace, 3),
    (Injected::Quota, 3),
    (Injected::Short, 20),
    (Injected::Empty, 3),
    (Injected::NotStarted, 5),
    (Injected::Canceled, 5),
    (Injected::NoRoom, 5),
    (Injected::ReadError, 20),
    (Injected::FlippedBit, 20),
    (Injected::TornBlock, 20),
];
/// Cases of a round, and rounds until each kind has occurred often enough: mostly two, as EIO, ENOSPC and EDQUOT occur 2 to 4
/// times in a round.
const CASES: u32 = 48;
const MOST_ROUNDS: u32 = 10;

#[test]
fn the_page_file_equals_its_model() {
    let injected: RefCell<BTreeMap<Injected, u64>> = RefCell::default();
    let missing = || {
        let injected = injected.borrow();
        let of = |kind| injected.get(&kind).copied().unwrap_or(0);
        let missing = LEAST_INJECTED.map(|(kind, least)| (kind, of(kind), least));
        let missing = missing.into_iter().filter(|(_, count, least)| count < least);
        missing.collect::<Vec<_>>()
    };
    let case = (
        prop::collection::vec(step(), 1..120),
        faults(),
        prop::option::weighted(0.3, 1_usize..MEBIBYTES),
        any::<u64>(),
    );
    for _ in 0..MOST_ROUNDS {
        // A runner makes its number of cases once.
        let mut runner = TestRunner::new(ProptestConfig {
            cases: CASES,
            source_file: Some(file!()),
            ..ProptestConfig::default()
        });
        let outcome = runner.run(&case, |(steps, faults, room, random)| {
            let mut pair = Pair::new(faults, room, random);
            steps.iter().for_each(|step| pair.step(step));
            for (kind, count) in pair.finish() {
                *injected.borrow_mut().entry(kind).or_default() += count;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}\n{runner}");
        }
        if missing().is_empty() {
            break;
        }
    }
    assert_eq!(missing(), [], "{injected:?}");
}
