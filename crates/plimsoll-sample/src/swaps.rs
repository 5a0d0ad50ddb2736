//! /proc/swaps: swap by device.
//!
//! A device has a slot, a pair of columns `swapN_*`. It keeps the slot for the whole recording; a device that comes
//! when no slot was never used takes one whose device has gone. The manifest holds the slots of all devices.
//!
//! With a target, its own device and all others have columns too, which do not depend on slots.

use std::path::Path;

use plimsoll_proc::{KeptFile, swaps};

use plimsoll_model::columns::{Row, col};

/// Size and used columns of each slot.
const SLOTS: [(usize, usize); 4] = [
    (col::SWAP0_SIZE, col::SWAP0_USED),
    (col::SWAP1_SIZE, col::SWAP1_USED),
    (col::SWAP2_SIZE, col::SWAP2_USED),
    (col::SWAP3_SIZE, col::SWAP3_USED),
];

/// Longest name kept; of a longer one its end.
const NAME: usize = 120;

/// Devices of one file that are looked at, and changes of slots that are remembered.
const DEVICES: usize = 32;

/// Name of a device as the kernel writes it (spaces as `\040`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    bytes: [u8; NAME],
    length: usize,
}

impl Name {
    const EMPTY: Name = Name {
        bytes: [0; NAME],
        length: 0,
    };

    fn new(name: &[u8]) -> Self {
        let name = &name[name.len().saturating_sub(NAME)..];
        let mut bytes = [0; NAME];
        bytes[..name.len()].copy_from_slice(name);
        Name {
            bytes,
            length: name.len(),
        }
    }
}

/// Which devices sat in which slots, in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotHistory {
    seen: [(usize, Name); DEVICES],
    length: usize,
}

impl SlotHistory {
    const EMPTY: SlotHistory = SlotHistory {
        seen: [(0, Name::EMPTY); DEVICES],
        length: 0,
    };

    fn push(&mut self, slot: usize, name: Name) {
        if let Some(entry) = self.seen.get_mut(self.length) {
            *entry = (slot, name);
            self.length += 1;
        }
    }

    /// Number of entries: it grows when something changed.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The devices of each slot that was used, several with commas between.
    pub(crate) fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for (slot, name) in &self.seen[..self.length] {
            let name = String::from_utf8_lossy(&name.bytes[..name.length]);
            match labels.get_mut(*slot) {
                Some(label) => *label = format!("{label}, {name}"),
                // Slots are first used in their order.
                None => labels.push(name.into_owned()),
            }
        }
        labels
    }
}

/// The swap device of a target, which divides the devices into its own and those of others.
pub struct OwnDevice(Option<Name>);

impl OwnDevice {
    /// That at `path`; `None` for a target without a device of its own.
    pub fn new(path: Option<&Path>) -> Self {
        OwnDevice(path.map(|path| Name::new(&swaps::kernel_name(path))))
    }

    /// Sums the devices of the text of the file into `row`.
    pub fn parse(&self, text: &[u8], row: &mut Row) {
        row.set(col::OTHER_SWAP_SIZE, 0);
        row.set(col::OTHER_SWAP_USED, 0);
        for line in swaps::lines(text) {
            let (size, used) = match self.0 == Some(Name::new(line.name)) {
                true => (col::DEVICE_SWAP_SIZE, col::DEVICE_SWAP_USED),
                false => (col::OTHER_SWAP_SIZE, col::OTHER_SWAP_USED),
            };
            for (column, bytes) in [(size, line.size), (used, line.used)] {
                if let Some(bytes) = bytes {
                    row.add(column, bytes);
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Device {
    name: Name,
    size: Option<i64>,
    used: Option<i64>,
}

pub struct Slots {
    holders: [Option<Name>; SLOTS.len()],
    history: SlotHistory,
}

impl Default for Slots {
    fn default() -> Self {
        Slots {
            holders: [None; SLOTS.len()],
            history: SlotHistory::EMPTY,
        }
    }
}

impl Slots {
    /// Parses the text of the file into `row`, giving slots to devices that have none.
    pub fn parse(&mut self, text: &[u8], row: &mut Row) {
        let mut devices = [None; DEVICES];
        let lines = swaps::lines(text).map(|line| Device {
            name: Name::new(line.name),
            size: line.size,
            used: line.used,
        });
        for (entry, device) in devices.iter_mut().zip(lines) {
            *entry = Some(device);
        }
        for device in devices.iter().flatten() {
            if let Some(slot) = self.slot(device.name, &devices) {
                let (size, used) = SLOTS[slot];
                if let Some(bytes) = device.size {
                    row.set(size, bytes);
                }
                if let Some(bytes) = device.used {
                    row.set(used, bytes);
                }
            }
        }
    }

    /// The devices of each slot that was used, several with commas between.
    pub fn labels(&self) -> Vec<String> {
        self.history.labels()
    }

    fn slot(&mut self, name: Name, present: &[Option<Device>]) -> Option<usize> {
        let holders = &self.holders;
        if let Some(slot) = holders.iter().position(|holder| *holder == Some(name)) {
            return Some(slot);
        }
        let gone = |holder: &Option<Name>| {
            holder.is_some_and(|holder| !present.iter().flatten().any(|device| device.name == holder))
        };
        let slot = holders
            .iter()
            .position(Option::is_none)
            .or_else(|| holders.iter().position(gone))?;
        self.holders[slot] = Some(name);
        self.history.push(slot, name);
        Some(slot)
    }
}

pub(crate) struct Swaps {
    file: KeptFile,
    slots: Slots,
}

impl Swaps {
    pub(crate) fn open() -> Self {
        Swaps {
            file: KeptFile::open(swaps::PATH),
            slots: Slots::default(),
        }
    }

    /// Reads the devices by slot and, with a target, its own device and the others.
    pub(crate) fn read(&mut self, buffer: &mut [u8], own: Option<&OwnDevice>, row: &mut Row) {
        if let Some(text) = self.file.read_to_end(buffer) {
            self.slots.parse(text, row);
            if let Some(own) = own {
                own.parse(text, row);
            }
        }
    }

    pub(crate) fn history(&self) -> &SlotHistory {
        &self.slots.history
    }
}
