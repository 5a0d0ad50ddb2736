//! The memory of a worker: mapped and filled, trimmed, restored and verified, released.

use plimsoll_os::{Advice, Errno, Mapping, UsageScope};
use xxhash_rust::xxh3::Xxh3;

use super::cost::Cost;
use super::cost::Stopwatch;
use super::fill::{Stream, StreamError};
use super::protocol::{RefusalCode, Verification};
use plimsoll_model::scenario::{FillClass, ThpMode};

/// Bytes regenerated at a time for the comparison: whole pages, and stays in the second-level cache.
const COMPARED_AT_ONCE: usize = 256 << 10;
/// Most mappings of one fill: below the kernel's usual `vm.max_map_count` of 65530.
const MOST_REQUESTS: u64 = 60_000;

#[derive(Debug, Clone)]
pub(crate) struct FillRequest {
    pub(crate) bytes: u64,
    pub(crate) request: u64,
    pub(crate) class: FillClass,
    pub(crate) seed: u64,
    pub(crate) thp: ThpMode,
}

/// Why a worker's memory could not be filled, trimmed or released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum MemoryError {
    #[error("cannot fill 0 bytes, or in requests of 0 bytes; ask for at least one page")]
    Nothing,
    #[error(
        "cannot fill {asked} bytes: this machine has {ram} bytes of RAM and {swap} bytes of swap; ask for less or add swap"
    )]
    TooMuch { asked: u64, ram: u64, swap: u64 },
    #[error(
        "cannot fill {bytes} bytes in requests of {request}: more than {MOST_REQUESTS} mappings; use larger requests"
    )]
    TooManyRequests { bytes: u64, request: u64 },
    #[error(
        "cannot map request {number} of {length} bytes: {errno}; ask for less memory or raise the limit (ulimit -v, vm.overcommit_memory)"
    )]
    Map {
        number: usize,
        length: u64,
        errno: Errno,
    },
    #[error("cannot call {what}: {errno}; {advice}")]
    Advise {
        what: &'static str,
        errno: Errno,
        advice: &'static str,
    },
    #[error("cannot unmap {length} bytes: {errno}")]
    Unmap { length: usize, errno: Errno },
    #[error(transparent)]
    Stream(#[from] StreamError),
}

impl MemoryError {
    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            MemoryError::Nothing => RefusalCode::ZeroBytes,
            MemoryError::TooMuch { .. } => RefusalCode::TooMuch,
            MemoryError::TooManyRequests { .. } => RefusalCode::TooManyRequests,
            MemoryError::Map { .. } => RefusalCode::Map,
            MemoryError::Advise { .. } => RefusalCode::Advise,
            MemoryError::Unmap { .. } => RefusalCode::Unmap,
            MemoryError::Stream(_) => RefusalCode::Data,
        }
    }
}

/// Filled memory, with the stream it was filled with.
///
/// Invariant: the mappings, one after the other, hold the stream from its start, but for the first byte of pages that
/// were marked.
#[derive(Debug)]
pub(crate) struct Memory {
    mappings: Vec<Mapping>,
    stream: Stream,
    thp: ThpMode,
    marks: Marks,
}

/// The marks of all pages. Marks go from the first page to the last and start over, so that their count determines
/// them.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    /// Pages marked in all, each as often as it was.
    count: u64,
}

impl Marks {
    /// The first byte of page `page` of `pages`; `None` without a mark.
    fn byte(self, page: u64, pages: u64) -> Option<u8> {
        let turn = self.count / pages + u64::from(page < self.count % pages);
        (turn > 0).then_some(turn_byte(turn))
    }
}

/// The mark of a turn, counted from 1. It differs from the turn before.
fn turn_byte(turn: u64) -> u8 {
    turn as u8
}

impl Memory {
    /// Maps and fills. The cost covers mapping and filling, not reading the file of `file=F`.
    pub(crate) fn fill(asked: &FillRequest) -> Result<(Memory, Cost), MemoryError> {
        check_fits_machine(asked.bytes)?;
        let lengths = request_lengths(asked)?;
        let stream = Stream::new(&asked.class, asked.seed)?;
        let mut memory = Memory {
            mappings: Vec::with_capacity(lengths.len()),
            stream,
            marks: Marks::default(),
            thp: asked.thp,
        };
        let watch = Stopwatch::start(UsageScope::Process);
        memory.map(&lengths)?;
        memory.write(0, 0);
        let cost = watch.stop(asked.bytes);
        Ok((memory, cost))
    }

    /// Maps `bytes` more in one mapping and fills them with the stream's next bytes.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<Cost, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Nothing);
        }
        let (held, mappings) = (self.bytes(), self.mappings.len());
        let asked = held.saturating_add(bytes);
        check_fits_machine(asked)?;
        if mappings as u64 >= MOST_REQUESTS {
            return Err(MemoryError::TooManyRequests {
                bytes: asked,
                request: bytes,
            });
        }
        let watch = Stopwatch::start(UsageScope::Process);
        self.map(&[bytes])?;
        self.write(mappings, held);
        Ok(watch.stop(bytes))
    }

    /// Fills the mappings from number `first` on, whose bytes are those of the stream from `offset` on.
    fn write(&mut self, first: usize, mut offset: u64) {
        for mapping in &mut self.mappings[first..] {
            self.stream.write(offset, mapping.bytes_mut());
            offset += mapping.len() as u64;
        }
    }

    /// Maps all requests before the first is filled, so that a refusal costs nothing.
    fn map(&mut self, lengths: &[u64]) -> Result<(), MemoryError> {
        for (index, &length) in lengths.iter().enumerate() {
            let error = |errno| MemoryError::Map {
                number: index + 1,
                length,
                errno,
            };
            let mapping = usize::try_from(length)
                .map_err(|_| Errno::NOMEM)
                .and_then(Mapping::anonymous)
                .map_err(error)?;
            advise_huge_pages(&mapping, self.thp)?;
            self.mappings.push(mapping);
        }
        Ok(())
    }

    /// Pages of all mappings; a last one may be used in part.
    pub(crate) fn pages(&self) -> u64 {
        self.mappings.iter().map(pages_of).sum()
    }

    /// Writes one byte into each of the next `count` pages, and into the first again after the last.
    pub(crate) fn mark(&mut self, count: u64) {
        let (page_size, pages) = (plimsoll_os::page_size(), self.pages());
        let mut left = count;
        while left > 0 {
            let byte = turn_byte(self.marks.count / pages + 1);
            let mut skipped = self.marks.count % pages;
            for mapping in &mut self.mappings {
                let own = pages_of(mapping);
                let first = skipped.min(own);
                let end = own.min(first + left);
                let bytes = mapping.bytes_mut();
                for page in first..end {
                    bytes[page as usize * page_size] = byte;
                }
                // Keeps the compiler from dropping the writes, which no code here reads.
                std::hint::black_box(bytes);
                self.marks.count += end - first;
                left -= end - first;
                skipped -= first;
            }
        }
    }

    fn bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.len() as u64).sum()
    }

    /// The bytes, if they are one mapping. `restore` counts writes to them as wrong bytes.
    pub(crate) fn whole_mut(&mut self) -> Option<&mut [u8]> {
        match self.mappings.as_mut_slice() {
            [mapping] => Some(mapping.bytes_mut()),
            _ => None,
        }
    }

    /// Has the kernel reclaim everything. Success does not imply that pages left.
    pub(crate) fn trim(&self) -> Result<Cost, MemoryError> {
        let watch = Stopwatch::start(UsageScope::Process);
        for mapping in &self.mappings {
            mapping
                .advise(Advice::PageOut)
                .map_err(|errno| MemoryError::Advise {
                    what: "madvise(MADV_PAGEOUT)",
                    errno,
                    advice: "trim by the cgroup instead, or use Linux 5.4 or newer",
                })?;
        }
        Ok(watch.stop(self.bytes()))
    }

    /// Reads every byte, timed; then compares every byte with the stream, not timed in the cost.
    pub(crate) fn restore(&mut self) -> (Cost, Verification) {
        let bytes = self.bytes();
        let watch = Stopwatch::start(UsageScope::Process);
        let mut read = Xxh3::new();
        for mapping in &self.mappings {
            read.update(mapping.bytes());
        }
        let checksum = read.digest();
        let cost = watch.stop(bytes);
        (cost, self.verify(checksum))
    }

    fn verify(&mut self, checksum: u64) -> Verification {
        let watch = Stopwatch::start(UsageScope::Process);
        let mut expected = vec![0; COMPARED_AT_ONCE];
        let mut hasher = Xxh3::new();
        let (mut offset, mut wrong_bytes, mut first_wrong) = (0, 0, None);
        let (page_size, pages) = (plimsoll_os::page_size(), self.pages());
        let mut page = 0;
        for mapping in &self.mappings {
            for found in mapping.bytes().chunks(COMPARED_AT_ONCE) {
                let expected = &mut expected[..found.len()];
                self.stream.write(offset, expected);
                for of_page in expected.chunks_mut(page_size) {
                    if let Some(byte) = self.marks.byte(page, pages) {
                        of_page[0] = byte;
                    }
                    page += 1;
                }
                hasher.update(expected);
                if found != expected {
                    let differs = || expected.iter().zip(found).map(|(a, b)| a != b);
                    wrong_bytes += differs().filter(|wrong| *wrong).count() as u64;
                    let first = differs().position(|wrong| wrong).map(|at| offset + at as u64);
                    first_wrong = first_wrong.or(first);
                }
                offset += found.len() as u64;
            }
        }
        Verification {
            bytes: offset,
            wrong_bytes,
            first_wrong,
            checksum,
            expected_checksum: hasher.digest(),
            seconds: watch.stop(offset).seconds,
        }
    }

    pub(crate) fn release(self) -> Result<Cost, MemoryError> {
        let bytes = self.bytes();
        let watch = Stopwatch::start(UsageScope::Process);
        for mapping in self.mappings {
            let length = mapping.len();
            mapping
                .unmap()
                .map_err(|errno| MemoryError::Unmap { length, errno })?;
        }
        Ok(watch.stop(bytes))
    }

    /// Address and length of each mapping.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let range = |mapping: &Mapping| (mapping.address() as u64, mapping.len() as u64);
        self.mappings.iter().map(range).collect()
    }
}

fn pages_of(mapping: &Mapping) -> u64 {
    mapping.len().div_ceil(plimsoll_os::page_size()) as u64
}

/// Lengths of the requests: all alike but the last, which takes the rest.
fn request_lengths(asked: &FillRequest) -> Result<Vec<u64>, MemoryError> {
    let (bytes, request) = (asked.bytes, asked.request);
    if bytes == 0 || request == 0 {
        return Err(MemoryError::Nothing);
    }
    let count = bytes.div_ceil(request);
    if count > MOST_REQUESTS {
        return Err(MemoryError::TooManyRequests { bytes, request });
    }
    Ok((0..count).map(|n| request.min(bytes - n * request)).collect())
}

/// Refuses more than RAM and swap together: overcommit may map it, but filling it ends in a kill.
fn check_fits_machine(asked: u64) -> Result<(), MemoryError> {
    let system = rustix::system::sysinfo();
    let unit = u64::from(system.mem_unit);
    let (ram, swap) = (system.totalram * unit, system.totalswap * unit);
    if asked > ram.saturating_add(swap) {
        return Err(MemoryError::TooMuch { asked, ram, swap });
    }
    Ok(())
}

fn advise_huge_pages(mapping: &Mapping, thp: ThpMode) -> Result<(), MemoryError> {
    let (advice, what) = match thp {
        ThpMode::System => return Ok(()),
        ThpMode::Always => (Advice::HugePage, "madvise(MADV_HUGEPAGE)"),
        ThpMode::Never => (Advice::NoHugePage, "madvise(MADV_NOHUGEPAGE)"),
    };
    match mapping.advise(advice) {
        // A kernel without transparent huge pages gives none, as requested.
        Err(Errno::INVAL) if thp == ThpMode::Never => Ok(()),
        outcome => outcome.map_err(|errno| MemoryError::Advise {
            what,
            errno,
            advice: "set thp = \"system\", or use a kernel with transparent huge pages",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(bytes: u64, request: u64) -> FillRequest {
        FillRequest {
            bytes,
            request,
            class: FillClass::Random,
            seed: 11,
            thp: ThpMode::Never,
        }
    }

    #[test]
    fn the_last_request_takes_the_rest() {
        assert_eq!(request_lengths(&asked(10, 4)).unwrap(), [4, 4, 2]);
        assert_eq!(request_lengths(&asked(8, 4)).unwrap(), [4, 4]);
        assert_eq!(request_lengths(&asked(3, 1 << 30)).unwrap(), [3]);
    }

    #[test]
    fn fill_refuses_sizes_that_no_machine_holds() {
        for (bytes, request, words) in [
            (0, 4096, "0 bytes"),
            (4096, 0, "requests of 0"),
            (1 << 30, 1, "larger requests"),
            (99 << 40, 1 << 30, "ask for less or add swap"),
            (u64::MAX, u64::MAX, "ask for less or add swap"),
        ] {
            let text = Memory::fill(&asked(bytes, request)).unwrap_err().to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn the_cost_of_a_first_touch_has_a_fault_a_page() {
        let bytes = 8 << 20;
        let (_memory, cost) = Memory::fill(&asked(bytes, 3 << 20)).unwrap();
        let pages = bytes / plimsoll_os::page_size() as u64;
        assert!(cost.minor_faults >= pages, "{cost:?}");
        assert!(cost.bytes == bytes && cost.seconds > 0.0);
    }

    #[test]
    fn growth_continues_the_stream() {
        let (mut memory, _) = Memory::fill(&asked(1 << 20, 1 << 20)).unwrap();
        let cost = memory.grow(3 << 19).unwrap();
        assert_eq!((cost.bytes, memory.bytes()), (3 << 19, 5 << 19));
        let (_, found) = memory.restore();
        assert!(found.holds() && found.bytes == 5 << 19, "{found:?}");
        assert!(memory.grow(0).is_err() && memory.grow(99 << 40).is_err());
        assert_eq!(memory.bytes(), 5 << 19, "a refusal leaves it as it was");
    }

    #[test]
    fn wrong_bytes_are_counted_and_the_first_has_its_offset() {
        let (mut memory, _) = Memory::fill(&asked(3 << 20, 1 << 20)).unwrap();
        assert!(memory.restore().1.holds());
        let wrong: [u64; 3] = [(1 << 20) + 5, (1 << 20) + 6, (3 << 20) - 1];
        for at in wrong {
            let (mapping, within) = ((at >> 20) as usize, (at % (1 << 20)) as usize);
            memory.mappings[mapping].bytes_mut()[within] ^= 0x80;
        }
        let (_, found) = memory.restore();
        assert_eq!((found.wrong_bytes, found.first_wrong), (3, Some(wrong[0])));
        assert!(!found.holds() && found.checksum != found.expected_checksum);
    }

    #[test]
    fn marks_follow_from_their_count() {
        let page = plimsoll_os::page_size();
        // Three mappings of which the last ends within a page: 4, 4 and 3 pages.
        let asked = asked(10 * page as u64 + 100, 4 * page as u64);
        let (mut memory, _) = Memory::fill(&asked).unwrap();
        let pages = memory.pages();
        assert_eq!(pages, 11);
        let mut marked = 0;
        for count in [0, 1, 3, 2, 7, 40, 300 * pages] {
            memory.mark(count);
            marked += count;
            for number in 0..pages {
                let (mapping, within) = ((number / 4) as usize, (number % 4) as usize);
                let turns = marked / pages + u64::from(number < marked % pages);
                let first = memory.mappings[mapping].bytes()[within * page];
                assert!(turns == 0 || first == turns as u8, "page {number} after {marked}");
            }
            assert!(memory.restore().1.holds(), "after {marked}");
        }
        // A mark that did not reach its page, and one byte beside it.
        memory.mappings[1].bytes_mut()[0] ^= 1;
        memory.mappings[2].bytes_mut()[1] ^= 1;
        let (_, found) = memory.restore();
        assert_eq!((found.wrong_bytes, found.first_wrong), (2, Some(4 * page as u64)));
    }
}
