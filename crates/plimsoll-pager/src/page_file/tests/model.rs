//! The page file against a model: a map of slots to contents. Writes happen at any time until they are complete, in
//! any order; the disk fails by order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use plimsoll_os::Errno;
use proptest::prelude::*;
use proptest::sample::Index;

use super::super::backing::Backing;
use super::super::queue::{Finished, Operation, Outcome, Staging};
use super::faulty::{Fault, Faulty};
use super::*;

/// MiB of the file: more than the first step of its growth.
const MEBIBYTES: usize = 20;

/// A queue that makes a write when its end is asked for, and ends writes in any order.
struct Late {
    backing: Arc<dyn Backing>,
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
            0 => Outcome::NotStarted,
            1 => Outcome::Refused(Errno::CANCELED),
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
    Damage(Index, Index),
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1_usize..=16).prop_map(Step::Write),
        6 => any::<bool>().prop_map(Step::Complete),
        6 => any::<Index>().prop_map(Step::Free),
        8 => (any::<Index>(), 0..BLOCKS_PER_SLOT).prop_map(|(slot, block)| Step::Read(slot, block)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(slot, bit)| Step::Damage(slot, bit)),
        1 => Just(Step::Rest),
    ]
}

/// Faults that a write survives, and now and then one that it does not.
fn faults() -> impl Strategy<Value = BTreeMap<u64, Fault>> {
    let errno = prop_oneof![Just(Errno::IO), Just(Errno::NOSPC), Just(Errno::DQUOT)];
    let fault = prop_oneof![
        8 => Just(Fault::Refuse(Errno::INTR)),
        8 => Just(Fault::Refuse(Errno::AGAIN)),
        16 => (4096_usize..1 << 20).prop_map(Fault::Short),
        1 => Just(Fault::Short(0)),
        1 => errno.prop_map(Fault::Refuse),
    ];
    prop::collection::btree_map(0_u64..80, fault, 0..24)
}

/// A page file, and the contents that it has to have.
struct Pair {
    file: Arc<Faulty>,
    pages: PageFile,
    writer: Writer,
    /// Seeds of the segments, by slot.
    contents: BTreeMap<u32, u64>,
    in_flight: HashMap<Batch, Vec<u64>>,
    /// Damaged blocks.
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
            Step::Damage(index, bit) => {
                if let Some(slot) = self.slot(index) {
                    let bit = bit.index(SLOT_BYTES * 8);
                    let block = slot.block_at(bit / 8).unwrap();
                    if !self.damaged.contains(&block) {
                        let byte = slot.number() as usize * SLOT_BYTES + bit / 8;
                        self.file.state().bytes[byte] ^= 1 << (bit % 8);
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

    /// All is in the file or reported, and no nonce was used twice.
    fn finish(mut self) {
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
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_page_file_equals_its_model(
        steps in prop::collection::vec(step(), 1..120),
        faults in faults(),
        room in prop::option::weighted(0.3, 1_usize..MEBIBYTES),
        random in any::<u64>(),
    ) {
        let mut pair = Pair::new(faults, room, random);
        steps.iter().for_each(|step| pair.step(step));
        pair.finish();
    }
}
