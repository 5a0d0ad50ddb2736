//! The memory of a worker: mapped and filled, trimmed, restored and verified, released.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use plimsoll_os::{Advice, Errno, Mapping, Range, UsageScope, page_out, write_back};
use plimsoll_pager::{MapError, Pager, RangeError, TrimTo};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::area::{Area, after_trim, in_frames};
use super::cost::{Cost, Findings, Stopwatch};
use super::crew::{self, CrewError};
use super::fill::Stream;
use super::memory_error::{MOST_REQUESTS, MemoryError};
use super::parts::{Part, Writable, pages_of, ranges_of, stretches, writable};
use super::protocol::{Placement, Verification};
use super::working_set::WorkingSet;
use plimsoll_model::scenario::{Backing, FillClass, ThpMode};

/// Bytes regenerated at a time for the comparison: whole pages, and stays in the second-level cache.
const COMPARED_AT_ONCE: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) struct FillRequest {
    pub(crate) bytes: u64,
    pub(crate) request: u64,
    pub(crate) class: FillClass,
    pub(crate) seed: u64,
    pub(crate) thp: ThpMode,
    pub(crate) placement: Placement,
}

/// Filled memory, with the stream it was filled with.
///
/// Invariant: the mappings, one after the other, hold the stream from its start, but for the first byte of pages that
/// were marked; the parts, one after the other, are all of their pages.
#[derive(Debug)]
pub(crate) struct Memory {
    mappings: Vec<Area>,
    /// The pager of all mappings; without one they are the kernel's.
    pager: Option<Pager>,
    /// A part for each thread.
    parts: Vec<Part>,
    stream: Stream,
    thp: ThpMode,
    placement: Placement,
    working_set: WorkingSet,
}

/// All bytes of memory that is one mapping.
#[derive(Debug)]
pub(crate) struct Whole<'m> {
    pub(crate) memory: &'m mut [u8],
    /// Of the file beside it; empty without one.
    pub(crate) file: &'m mut [u8],
}

impl Memory {
    /// Maps and fills. The cost covers mapping and filling, not reading the file of `class=file=F`.
    pub(crate) fn fill(asked: &FillRequest) -> Result<(Memory, Cost), MemoryError> {
        // File pages need neither RAM nor swap to stay in.
        if asked.placement.memory.goes_to_swap() && asked.placement.pager.is_none() {
            check_fits_machine(asked.bytes.saturating_sub(asked.placement.file_bytes))?;
        }
        let lengths = request_lengths(asked)?;
        let stream = Stream::new(&asked.class, asked.seed)?;
        let mut memory = Memory {
            mappings: Vec::with_capacity(lengths.len() + 1),
            pager: None,
            parts: Vec::new(),
            stream,
            thp: asked.thp,
            placement: asked.placement.clone(),
            working_set: WorkingSet::filled(asked.placement.memory, 0),
        };
        let pager = asked.placement.pager.as_ref();
        memory.pager = pager.map(|pager| pager.build(asked.bytes)).transpose()?;
        let watch = Stopwatch::start(UsageScope::Process);
        memory.map(asked.placement.memory, &lengths)?;
        let of_file = Some(asked.placement.file_bytes).filter(|bytes| *bytes > 0);
        memory.map(Backing::File, of_file.as_slice())?;
        memory.parts = Part::split(memory.pages(), asked.placement.threads);
        memory.write()?;
        let cost = watch.stop(asked.bytes);
        memory.working_set = WorkingSet::filled(asked.placement.memory, asked.bytes);
        Ok((memory, cost))
    }

    /// Maps `bytes` more in one mapping and fills them with the stream's next bytes, in this thread.
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
        self.map(self.placement.memory, &[bytes])?;
        for mapping in &mut self.mappings[mappings..] {
            self.stream.write(held, mapping.bytes_mut());
            if let Some(last) = self.parts.last_mut() {
                last.grow(pages_of(mapping));
            }
        }
        Ok(watch.stop(bytes))
    }

    /// Fills all parts with the stream.
    fn write(&mut self) -> Result<(), CrewError> {
        let stream = self.stream.clone();
        let parts = self.writable().into_iter();
        let parts: Vec<_> = parts.map(|part| (part, stream.clone())).collect();
        crew::each(parts, |(part, mut stream)| {
            for stretch in part.stretches {
                stream.write(stretch.offset, stretch.bytes);
            }
        })?;
        Ok(())
    }

    /// Maps all requests before the first is filled, so that a refusal costs nothing.
    fn map(&mut self, memory: Backing, lengths: &[u64]) -> Result<(), MemoryError> {
        for (index, &length) in lengths.iter().enumerate() {
            if let Some(pager) = &self.pager {
                self.mappings.push(Area::Pager(map_region(pager, length)?));
                continue;
            }
            let mapping = self.map_one(memory, length).map_err(|errno| match memory {
                Backing::File => MemoryError::File {
                    folder: self.placement.folder.clone(),
                    errno,
                },
                Backing::Anonymous | Backing::Memfd => MemoryError::Map {
                    number: index + 1,
                    length,
                    errno,
                },
            })?;
            advise_huge_pages(&mapping, self.thp)?;
            self.mappings.push(Area::Kernel(mapping));
        }
        Ok(())
    }

    fn map_one(&self, memory: Backing, length: u64) -> Result<Mapping, Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::NOMEM)?;
        match memory {
            Backing::Anonymous => Mapping::anonymous(length),
            Backing::Memfd => Mapping::of_memory_file(length),
            Backing::File => {
                let folder = self.placement.folder.as_os_str().as_bytes();
                let folder = CString::new(folder).map_err(|_| Errno::INVAL)?;
                Mapping::of_disk_file(&folder, length)
            }
        }
    }

    /// The pager that the memory belongs to, if any.
    pub(crate) fn pager(&self) -> Option<&Pager> {
        self.pager.as_ref()
    }

    /// Pages of all mappings; a last one may be used in part.
    pub(crate) fn pages(&self) -> u64 {
        self.mappings.iter().map(pages_of).sum()
    }

    /// All parts, each for one thread to write.
    pub(crate) fn writable(&mut self) -> Vec<Writable<'_>> {
        writable(&mut self.mappings, &mut self.parts)
    }

    /// The count of its resident bytes.
    pub(crate) fn working_set(&self) -> WorkingSet {
        self.working_set
    }

    fn bytes(&self) -> u64 {
        self.mappings.iter().map(|mapping| mapping.len() as u64).sum()
    }

    /// The bytes, if they are one mapping, and those of the file beside it. `restore` counts writes to them as wrong bytes.
    pub(crate) fn whole_mut(&mut self) -> Option<Whole<'_>> {
        let mappings = self.mappings.as_mut_slice();
        let (file, mappings) = match self.placement.file_bytes {
            0 => (None, mappings),
            _ => mappings
                .split_last_mut()
                .map(|(file, others)| (Some(file), others))?,
        };
        let memory = match mappings {
            [] => &mut [][..],
            [memory] => memory.bytes_mut(),
            _ => return None,
        };
        let file = file.map_or(&mut [][..], Area::bytes_mut);
        Some(Whole { memory, file })
    }

    /// Bytes in RAM of the file beside the memory, in whole pages; `None` without one.
    pub(crate) fn file_in_core(&self) -> Result<Option<u64>, MemoryError> {
        let file = self.mappings.last().filter(|_| self.placement.file_bytes > 0);
        let in_core = file.and_then(Area::kernel).map(Mapping::in_core).transpose();
        in_core.map_err(MemoryError::InCore)
    }

    /// Has the kernel reclaim everything, or the pager save it, each part in a thread of its own. Success does not imply that
    /// pages left. The findings are those of the pager.
    pub(crate) fn trim(&self) -> Result<(Cost, Findings), MemoryError> {
        match &self.pager {
            Some(pager) => Ok((self.trim_regions()?, after_trim(pager))),
            None => Ok((self.page_out()?, Findings::default())),
        }
    }

    fn trim_regions(&self) -> Result<Cost, MemoryError> {
        let watch = Stopwatch::start(UsageScope::Process);
        let lengths = self.lengths();
        let parts = self.parts.iter().map(|part| stretches(&lengths, part)).collect();
        let mappings = &self.mappings;
        let trimmed = crew::each(parts, |part: Vec<(usize, std::ops::Range<usize>)>| {
            part.into_iter().try_for_each(|(number, range)| {
                let region = mappings[number].region();
                region
                    .map_or(Ok(0), |region| region.trim(range, TrimTo::Store))
                    .map(drop)
            })
        })?;
        trimmed.into_iter().collect::<Result<(), RangeError>>()?;
        Ok(watch.stop(self.bytes()))
    }

    fn page_out(&self) -> Result<Cost, MemoryError> {
        self.in_parts(page_out, |errno| MemoryError::Advise {
            call: "madvise(MADV_PAGEOUT)",
            errno,
            advice: "trim by the cgroup instead, or use Linux 5.4 or newer",
        })
    }

    /// Writes dirty pages to their files, each part in a thread of its own. Then a trim reaches all pages in RAM: those in
    /// the page cache that are not mapped are mapped, not timed in the cost.
    pub(crate) fn write_back(&self) -> Result<Cost, MemoryError> {
        let cost = self.in_parts(write_back, MemoryError::WriteBack)?;
        let mut mappings = self.mappings.iter().filter_map(Area::kernel);
        mappings
            .try_for_each(Mapping::map_cached)
            .map_err(MemoryError::InCore)?;
        Ok(cost)
    }

    fn in_parts(
        &self,
        call: fn(Range) -> Result<(), Errno>,
        error: fn(Errno) -> MemoryError,
    ) -> Result<Cost, MemoryError> {
        let watch = Stopwatch::start(UsageScope::Process);
        let parts = ranges_of(&self.parts, &self.ranges());
        let done = crew::each(parts, |ranges: Vec<Range>| ranges.into_iter().try_for_each(call))?;
        done.into_iter().collect::<Result<(), Errno>>().map_err(error)?;
        Ok(watch.stop(self.bytes()))
    }

    /// Bytes in RAM, in whole pages; those of files also where they are not mapped.
    pub(crate) fn in_core(&self) -> Result<u64, MemoryError> {
        if let Some(pager) = &self.pager {
            return Ok(in_frames(pager));
        }
        let bytes = self
            .mappings
            .iter()
            .filter_map(Area::kernel)
            .map(Mapping::in_core)
            .sum::<Result<u64, Errno>>();
        bytes.map_err(MemoryError::InCore)
    }

    /// Reads every byte, timed, each part in a thread of its own; then compares every byte with the stream, not timed in
    /// the cost.
    pub(crate) fn restore(&mut self) -> Result<(Cost, Verification), MemoryError> {
        let bytes = self.bytes();
        let watch = Stopwatch::start(UsageScope::Process);
        let lengths = self.lengths();
        let parts = self.parts.iter().map(|part| stretches(&lengths, part)).collect();
        let mappings = &self.mappings;
        let digests = crew::each(parts, |part: Vec<(usize, std::ops::Range<usize>)>| {
            let mut read = Xxh3::new();
            for (number, range) in part {
                read.update(&mappings[number].bytes()[range]);
            }
            read.digest()
        })?;
        let checksum = of_all(&digests);
        let cost = watch.stop(bytes);
        Ok((cost, self.verify(checksum)))
    }

    /// Compares every byte in the order of the mappings: a part only has a checksum of its own.
    fn verify(&mut self, checksum: u64) -> Verification {
        let watch = Stopwatch::start(UsageScope::Process);
        let mut expected = vec![0; COMPARED_AT_ONCE];
        let (mut offset, mut wrong_bytes, mut first_wrong) = (0, 0, None);
        let (page_size, lengths) = (plimsoll_os::page_size(), self.lengths());
        let mut digests = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let (mut hasher, mut page) = (Xxh3::new(), 0);
            for (number, range) in stretches(&lengths, part) {
                for found in self.mappings[number].bytes()[range].chunks(COMPARED_AT_ONCE) {
                    let expected = &mut expected[..found.len()];
                    self.stream.write(offset, expected);
                    for of_page in expected.chunks_mut(page_size) {
                        if let Some(byte) = part.mark(page) {
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
            digests.push(hasher.digest());
        }
        Verification {
            bytes: offset,
            wrong_bytes,
            first_wrong,
            checksum,
            expected_checksum: of_all(&digests),
            seconds: watch.stop(offset).seconds,
        }
    }

    /// Unmaps everything, in this thread: the kernel unmaps for one thread of a process at a time.
    pub(crate) fn release(self) -> Result<Cost, MemoryError> {
        let bytes = self.bytes();
        let watch = Stopwatch::start(UsageScope::Process);
        for mapping in self.mappings {
            let length = mapping.len();
            mapping
                .unmap()
                .map_err(|errno| MemoryError::Unmap { length, errno })?;
        }
        drop(self.pager);
        Ok(watch.stop(bytes))
    }

    /// Address and length of each mapping.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let range = |mapping: &Area| (mapping.address() as u64, mapping.len() as u64);
        self.mappings.iter().map(range).collect()
    }

    fn lengths(&self) -> Vec<usize> {
        self.mappings.iter().map(Area::len).collect()
    }
}

fn map_region(pager: &Pager, length: u64) -> Result<plimsoll_pager::Region, MapError> {
    let bytes = usize::try_from(length).map_err(|_| MapError::NoAddresses { bytes: usize::MAX })?;
    pager.map(bytes)
}

/// The checksum of all parts: of one its own, else that of theirs in order.
fn of_all(digests: &[u64]) -> u64 {
    match digests {
        [digest] => *digest,
        digests => xxh3_64(
            &digests
                .iter()
                .flat_map(|digest| digest.to_le_bytes())
                .collect::<Vec<u8>>(),
        ),
    }
}

/// Lengths of the requests, without the file beside them: all alike but the last, which takes the rest.
fn request_lengths(asked: &FillRequest) -> Result<Vec<u64>, MemoryError> {
    let (bytes, request, of_file) = (asked.bytes, asked.request, asked.placement.file_bytes);
    if bytes == 0 || request == 0 || of_file > bytes {
        return Err(MemoryError::Nothing);
    }
    let bytes = bytes - of_file;
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
    let (advice, call) = match thp {
        ThpMode::System => return Ok(()),
        ThpMode::Always => (Advice::HugePage, "madvise(MADV_HUGEPAGE)"),
        ThpMode::Never => (Advice::NoHugePage, "madvise(MADV_NOHUGEPAGE)"),
    };
    match mapping.advise(advice) {
        // A kernel without transparent huge pages gives none, as requested.
        Err(Errno::INVAL) if thp == ThpMode::Never => Ok(()),
        outcome => outcome.map_err(|errno| MemoryError::Advise {
            call,
            errno,
            advice: "set thp = \"system\", or use a kernel with transparent huge pages",
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use plimsoll_model::scenario::PagerOptions;
    use plimsoll_model::scenario::workloads::compression::finding;
    use plimsoll_pager::BuildError;

    use super::*;
    use crate::workload::PagerRequest;

    fn asked(bytes: u64, request: u64) -> FillRequest {
        FillRequest {
            bytes,
            request,
            class: FillClass::Random,
            seed: 11,
            thp: ThpMode::Never,
            placement: Placement::default(),
        }
    }

    fn placed(bytes: u64, request: u64, memory: Backing, threads: u32) -> FillRequest {
        FillRequest {
            placement: Placement {
                memory,
                threads,
                folder: "/var/tmp".into(),
                file_bytes: 0,
                pager: None,
            },
            ..asked(bytes, request)
        }
    }

    fn mark(memory: &mut Memory, count: u64) {
        memory.writable()[0].mark(count);
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
        let (_, found) = memory.restore().unwrap();
        assert!(found.holds() && found.bytes == 5 << 19, "{found:?}");
        assert!(memory.grow(0).is_err() && memory.grow(99 << 40).is_err());
        assert_eq!(memory.bytes(), 5 << 19, "a refusal leaves it as it was");
    }

    #[test]
    fn wrong_bytes_are_counted_and_the_first_has_its_offset() {
        let (mut memory, _) = Memory::fill(&asked(3 << 20, 1 << 20)).unwrap();
        assert!(memory.restore().unwrap().1.holds());
        let wrong: [u64; 3] = [(1 << 20) + 5, (1 << 20) + 6, (3 << 20) - 1];
        for at in wrong {
            let (mapping, within) = ((at >> 20) as usize, (at % (1 << 20)) as usize);
            memory.mappings[mapping].bytes_mut()[within] ^= 0x80;
        }
        let (_, found) = memory.restore().unwrap();
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
            mark(&mut memory, count);
            marked += count;
            for number in 0..pages {
                let (mapping, within) = ((number / 4) as usize, (number % 4) as usize);
                let turns = marked / pages + u64::from(number < marked % pages);
                let first = memory.mappings[mapping].bytes()[within * page];
                assert!(turns == 0 || first == turns as u8, "page {number} after {marked}");
            }
            assert!(memory.restore().unwrap().1.holds(), "after {marked}");
        }
        // A mark that did not reach its page, and one byte beside it.
        memory.mappings[1].bytes_mut()[0] ^= 1;
        memory.mappings[2].bytes_mut()[1] ^= 1;
        let (_, found) = memory.restore().unwrap();
        assert_eq!((found.wrong_bytes, found.first_wrong), (2, Some(4 * page as u64)));
    }

    /// Whatever the threads and the store are, the memory holds the same stream, and every wrong byte is found.
    #[test]
    fn threads_fill_trim_and_read_back_the_same_bytes() {
        let page = plimsoll_os::page_size() as u64;
        for memory in [Backing::Anonymous, Backing::Memfd, Backing::File] {
            for threads in [1, 2, 3, 7, 64] {
                let asked = placed(37 * page, 10 * page, memory, threads);
                let (mut filled, cost) = Memory::fill(&asked).unwrap();
                assert_eq!(cost.bytes, 37 * page);
                let parts = u64::from(threads).min(37);
                assert_eq!(filled.writable().len() as u64, parts, "{memory:?}");
                let mut expected = vec![0; 37 * page as usize];
                Stream::new(&asked.class, asked.seed)
                    .unwrap()
                    .write(0, &mut expected);
                let held: Vec<u8> = filled.mappings.iter().flat_map(Area::bytes).copied().collect();
                assert!(held == expected, "{memory:?} {threads}");
                filled.write_back().unwrap();
                filled.trim().unwrap();
                assert!(filled.in_core().unwrap() <= 37 * page);
                for (number, mut part) in filled.writable().into_iter().enumerate() {
                    part.mark(part.pages() * 2 + number as u64);
                }
                let (_, found) = filled.restore().unwrap();
                assert!(
                    found.holds() && found.bytes == 37 * page,
                    "{memory:?} {threads} {found:?}"
                );
                for at in (0..37).map(|number| number * page + 1) {
                    let (mapping, within) = (at / (10 * page), at % (10 * page));
                    let byte = |filled: &mut Memory| {
                        filled.mappings[mapping as usize].bytes_mut()[within as usize] ^= 1;
                    };
                    byte(&mut filled);
                    let (_, found) = filled.restore().unwrap();
                    assert_eq!((found.wrong_bytes, found.first_wrong), (1, Some(at)));
                    assert!(!found.holds() && found.checksum != found.expected_checksum);
                    byte(&mut filled);
                }
                filled.release().unwrap();
            }
        }
    }

    /// A pager that its budget is the limit of.
    fn paged(bytes: u64, request: u64, ram: u64, options: &str, threads: u32) -> FillRequest {
        let mut asked = placed(bytes, request, Backing::Anonymous, threads);
        asked.placement.folder = PathBuf::new();
        asked.thp = ThpMode::System;
        asked.placement.pager = Some(PagerRequest {
            ram,
            options: PagerOptions::of_text(options).unwrap().unwrap(),
            folder: "/var/tmp".into(),
        });
        asked
    }

    /// In the budget and four times larger than it: every byte comes back, and every wrong byte is found.
    #[test]
    fn a_pager_gives_every_byte_back() {
        let page = plimsoll_os::page_size() as u64;
        let bytes = 16 << 20;
        for (options, ram, threads) in [
            ("pager", 32 << 20, 1),
            ("pager:zstd", 8 << 20, 2),
            ("pager:lz4,trim=per-fault", 8 << 20, 1),
            ("pager:lz4,thrash-control=on", 8 << 20, 2),
            ("pager:lz4", 8 << 20, 7),
            ("pager:auto", 8 << 20, 1),
            ("pager:lz4,pagefile", 8 << 20, 2),
        ] {
            let mut asked = paged(bytes, 5 << 20, ram, options, threads);
            asked.class = FillClass::Ratio(4.0);
            let (mut filled, cost) = Memory::fill(&asked).unwrap();
            assert_eq!(cost.bytes, bytes);
            assert!(filled.in_core().unwrap() <= ram.min(bytes), "{options}");
            let (cost, findings) = filled.trim().unwrap();
            assert_eq!((cost.bytes, filled.in_core().unwrap()), (bytes, 0), "{options}");
            assert_eq!(findings.figures[finding::PAGER_SAVED], bytes as f64);
            let store = findings.figures[finding::PAGER_STORE];
            assert!(
                store > bytes as f64 / 8.0 && store < bytes as f64 / 2.0,
                "{options}: {store}"
            );
            let metadata = findings.figures[finding::PAGER_METADATA];
            assert!(
                metadata > 0.0 && metadata < bytes as f64 / 8.0,
                "{options}: {metadata}"
            );
            for mut part in filled.writable() {
                part.mark(part.pages() / 2);
            }
            let (_, found) = filled.restore().unwrap();
            assert!(found.holds() && found.bytes == bytes, "{options}: {found:?}");
            let wrong = 3 * page + 1;
            filled.mappings[0].bytes_mut()[wrong as usize] ^= 1;
            filled.trim().unwrap();
            let (_, found) = filled.restore().unwrap();
            assert_eq!(
                (found.wrong_bytes, found.first_wrong),
                (1, Some(wrong)),
                "{options}"
            );
            filled.release().unwrap();
        }
    }

    /// A store of 2 MiB holds a fraction of 16 MiB of random bytes: the rest is in the page file.
    #[test]
    fn copies_beyond_the_cap_of_the_store_are_in_the_page_file() {
        let bytes = 16 << 20;
        let asked = paged(bytes, bytes, 8 << 20, "pager,store-cap=2M", 1);
        let (mut filled, _) = Memory::fill(&asked).unwrap();
        let (_, findings) = filled.trim().unwrap();
        let figure = |name: &str| findings.figures[name];
        assert_eq!(figure(finding::PAGER_SAVED), bytes as f64);
        assert!(figure(finding::PAGER_STORE) <= 4e6, "{findings:?}");
        assert!(
            figure(finding::PAGER_FILE) >= bytes as f64 - 2.5e6,
            "{findings:?}"
        );
        let (_, found) = filled.restore().unwrap();
        assert!(found.holds() && found.bytes == bytes, "{found:?}");
        filled.release().unwrap();
    }

    #[test]
    fn a_pager_that_cannot_be_built_is_refused_with_its_own_code() {
        let error = Memory::fill(&paged(1 << 20, 1 << 20, 1 << 20, "pager", 1)).unwrap_err();
        assert!(
            matches!(error, MemoryError::Pager(BuildError::TooLittleRam { .. })),
            "{error}"
        );
        assert_eq!(error.code(), super::super::protocol::RefusalCode::Pager);
        let mut asked = paged(16 << 20, 1 << 20, 8 << 20, "pager,pagefile", 1);
        asked.placement.pager.as_mut().unwrap().folder = "/proc".into();
        let error = Memory::fill(&asked).unwrap_err();
        assert!(
            matches!(error, MemoryError::Pager(BuildError::PageFile(_))),
            "{error}"
        );
    }

    #[test]
    fn a_folder_without_files_is_named() {
        let mut asked = placed(1 << 20, 1 << 20, Backing::File, 1);
        asked.placement.folder = "/proc".into();
        let error = Memory::fill(&asked).unwrap_err();
        assert!(
            matches!(&error, MemoryError::File { folder, .. } if folder == &PathBuf::from("/proc")),
            "{error}"
        );
    }
}
