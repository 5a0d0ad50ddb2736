//! The memory of a worker: mapped and filled, trimmed, restored and verified, released.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use plimsoll_os::{Advice, Errno, Mapping, Range, UsageScope, page_out, write_back};
use plimsoll_pager::{MapError, Pager, RangeError, Region, TrimTo};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::area::{Area, PagerRequest, after_trim, in_frames};
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
        memory.pager = pager.map(PagerRequest::build).transpose()?;
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
        if self.pager.is_none() {
            check_fits_machine(asked)?;
        }
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

    /// Suspends all regions of the pager: they are trimmed whole.
    pub(crate) fn suspend(&self) {
        self.mappings
            .iter()
            .filter_map(Area::region)
            .for_each(Region::suspend);
    }

    /// Ends [`Memory::suspend`].
    pub(crate) fn resume(&self) {
        self.mappings
            .iter()
            .filter_map(Area::region)
            .for_each(Region::resume);
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

    /// Bytes in RAM, and the findings about a pager.
    pub(crate) fn places(&self) -> Result<(u64, Findings), MemoryError> {
        let findings = self.pager.as_ref().map(after_trim);
        Ok((self.in_core()?, findings.unwrap_or_default()))
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

fn map_region(pager: &Pager, length: u64) -> Result<Region, MapError> {
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
mod tests;
