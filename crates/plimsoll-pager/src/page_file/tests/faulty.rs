//! A file in memory that fails by order.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use plimsoll_os::Errno;

use super::super::backing::Backing;
use super::super::units::{BLOCK_BYTES, WRITE_BYTES};

/// Alignment that direct access asks for.
const ALIGNMENT: u64 = 4096;

/// The result of a write by order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Refuse(Errno),
    /// Writes so many bytes at most.
    Short(usize),
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) bytes: Vec<u8>,
    /// MiB with disk space.
    pub(crate) allocated: Vec<bool>,
    /// Faults by number of the write, from 0.
    pub(crate) write_faults: BTreeMap<u64, Fault>,
    /// Faults by number of the read.
    pub(crate) read_faults: BTreeMap<u64, Errno>,
    /// Errors of `settle`, by number of the call.
    pub(crate) settle_faults: BTreeMap<u64, Errno>,
    pub(crate) writes: u64,
    pub(crate) reads: u64,
    pub(crate) settled: u64,
    /// MiB that can have disk space, and the error beyond.
    pub(crate) room: Option<(usize, Errno)>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) cannot_allocate: bool,
    pub(crate) cannot_punch: bool,
    /// Allocations that a signal interrupts.
    pub(crate) interrupts: u64,
    /// Extensions that a signal interrupts.
    pub(crate) interrupted_extensions: u64,
    /// Punches of holes that a signal interrupts.
    pub(crate) interrupted_punches: u64,
    /// First bytes of every block that was ever written, with its position.
    pub(crate) beginnings: HashMap<u128, u64>,
    /// Blocks that were written with the beginning of another one, or elsewhere again.
    pub(crate) repeated_beginnings: u64,
    /// Injected faults so far.
    pub(crate) injected: BTreeMap<Injected, u64>,
}

/// A kind of injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Injected {
    Interrupted,
    Again,
    InputOutput,
    NoSpace,
    Quota,
    OtherError,
    Short,
    /// A write that returns 0.
    Empty,
    /// The kernel ends a write of the queue before it starts it.
    NotStarted,
    Canceled,
    /// The file system has no space at an allocation.
    NoRoom,
    ReadError,
    FlippedBit,
    /// A block whose last sectors are not the written ones.
    TornBlock,
}

impl Injected {
    fn of(fault: Fault) -> Injected {
        match fault {
            Fault::Refuse(Errno::INTR) => Injected::Interrupted,
            Fault::Refuse(Errno::AGAIN) => Injected::Again,
            Fault::Refuse(Errno::IO) => Injected::InputOutput,
            Fault::Refuse(Errno::NOSPC) => Injected::NoSpace,
            Fault::Refuse(Errno::DQUOT) => Injected::Quota,
            Fault::Refuse(_) => Injected::OtherError,
            Fault::Short(0) => Injected::Empty,
            Fault::Short(_) => Injected::Short,
        }
    }
}

/// The file. It panics where the page file breaks the rules of direct access or writes where it has no space.
pub(crate) struct Faulty(Mutex<State>);

impl Faulty {
    pub(crate) fn new(mebibytes: usize) -> Faulty {
        Faulty(Mutex::new(State {
            bytes: vec![0; mebibytes * WRITE_BYTES],
            allocated: vec![false; mebibytes],
            ..State::default()
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl State {
    pub(crate) fn note(&mut self, injected: Injected) {
        *self.injected.entry(injected).or_default() += 1;
    }

    pub(crate) fn allocated_mebibytes(&self) -> usize {
        self.allocated.iter().filter(|has| **has).count()
    }

    /// The MiB of a range.
    fn mebibytes(position: u64, length: u64) -> std::ops::Range<usize> {
        let mebibyte = WRITE_BYTES as u64;
        (position / mebibyte) as usize..(position + length).div_ceil(mebibyte) as usize
    }

    /// Takes note of the first bytes of each whole block of a write.
    fn note_beginnings(&mut self, bytes: &[u8], position: u64) {
        let skipped = position.next_multiple_of(BLOCK_BYTES as u64) - position;
        for offset in (skipped as usize..bytes.len()).step_by(BLOCK_BYTES) {
            let beginning = u128::from_le_bytes(bytes[offset..offset + 16].try_into().unwrap());
            let at = position + offset as u64;
            let before = self.beginnings.insert(beginning, at);
            // A write that is made again repeats its own bytes.
            self.repeated_beginnings += u64::from(before.is_some_and(|before| before != at));
        }
    }
}

/// Fails while calls are left that a signal interrupts.
fn interrupt(left: &mut u64) -> Result<(), Errno> {
    match left.checked_sub(1) {
        Some(fewer) => {
            *left = fewer;
            Err(Errno::INTR)
        }
        None => Ok(()),
    }
}

impl Backing for Faulty {
    fn read_at(&self, bytes: &mut [u8], position: u64) -> Result<usize, Errno> {
        assert!(position.is_multiple_of(ALIGNMENT) && bytes.len().is_multiple_of(ALIGNMENT as usize));
        let mut state = self.state();
        let number = state.reads;
        state.reads += 1;
        if let Some(errno) = state.read_faults.remove(&number) {
            state.note(Injected::ReadError);
            return Err(errno);
        }
        let start = (position as usize).min(state.bytes.len());
        let length = bytes.len().min(state.bytes.len() - start);
        bytes[..length].copy_from_slice(&state.bytes[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], position: u64) -> Result<usize, Errno> {
        assert!(position.is_multiple_of(ALIGNMENT) && bytes.len().is_multiple_of(ALIGNMENT as usize));
        let mut state = self.state();
        let number = state.writes;
        state.writes += 1;
        let fault = state.write_faults.remove(&number);
        // A limit above the length of the write changes nothing.
        let is_injected = |fault: &Fault| !matches!(fault, Fault::Short(most) if *most >= bytes.len());
        if let Some(fault) = fault.filter(is_injected) {
            state.note(Injected::of(fault));
        }
        let length = match fault {
            Some(Fault::Refuse(errno)) => return Err(errno),
            Some(Fault::Short(most)) => bytes.len().min(most),
            None => bytes.len(),
        };
        let place = State::mebibytes(position, bytes.len() as u64);
        assert!(
            state.allocated[place].iter().all(|has| *has),
            "a write needs space"
        );
        state.note_beginnings(bytes, position);
        let start = position as usize;
        state.bytes[start..start + length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn settle(&self, _position: u64, _length: u64) -> Result<(), Errno> {
        let mut state = self.state();
        let number = state.settled;
        state.settled += 1;
        state.settle_faults.remove(&number).map_or(Ok(()), Err)
    }

    fn allocate(&self, position: u64, length: u64) -> Result<(), Errno> {
        let mut state = self.state();
        if state.cannot_allocate {
            return Err(Errno::OPNOTSUPP);
        }
        interrupt(&mut state.interrupts)?;
        for mebibyte in State::mebibytes(position, length) {
            if let Some((room, errno)) = state.room
                && !state.allocated[mebibyte]
                && state.allocated_mebibytes() >= room
            {
                state.note(Injected::NoRoom);
                // As ext4, it keeps what it got.
                return Err(errno);
            }
            state.allocated[mebibyte] = true;
        }
        Ok(())
    }

    fn extend(&self, length: u64) -> Result<(), Errno> {
        let mut state = self.state();
        interrupt(&mut state.interrupted_extensions)?;
        let end = State::mebibytes(0, length).end;
        state.allocated[..end].fill(true);
        Ok(())
    }

    fn punch(&self, position: u64, length: u64) -> Result<(), Errno> {
        let mut state = self.state();
        if state.cannot_punch {
            return Err(Errno::OPNOTSUPP);
        }
        interrupt(&mut state.interrupted_punches)?;
        for mebibyte in State::mebibytes(position, length) {
            state.allocated[mebibyte] = false;
            state.bytes[mebibyte * WRITE_BYTES..(mebibyte + 1) * WRITE_BYTES].fill(0);
        }
        Ok(())
    }

    fn most_bytes(&self) -> Option<u64> {
        self.state().most_bytes
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }

    fn is_direct(&self) -> bool {
        true
    }
}
