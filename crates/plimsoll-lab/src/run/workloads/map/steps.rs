//! The cost of mapping memory, returning it, and using it again: one mapping, step by step.
//!
//! ```text
//! Map -> Compare -> (Release -> Reuse)* -> Release -> Check
//! ```
//! Each step is a command of its own, since the runner reads the system's memory between them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use plimsoll_os::{BackingFile, Discard, Errno, Pages, Region, UsageScope, page_size};
use serde::{Deserialize, Serialize};

use crate::workload::Stopwatch;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use crate::workload::{Memory, Work, WorkError, typed};
use plimsoll_model::scenario::{Left, Mapping, ReleaseMethod, Touch};

/// Written where memory is touched: nothing that memory holds by itself.
const BYTE: u8 = 0xA5;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum Step {
    /// Map, touch, and touch the resident memory again. Finds `map_s`, `touch_s`, `memset_s`.
    Map {
        bytes: u64,
        mapping: Mapping,
        touch: Touch,
        /// Folder for the file of a mapped file.
        folder: PathBuf,
    },
    /// Read every written page, and compare it. Read no other page: a read would fault it in. Finds `wrong_pages` and
    /// `kept_pages`.
    Compare,
    /// Return the memory to the kernel. Finds `release_s`.
    Release {
        /// How. Not by the end of the process: that is the runner's to do.
        way: ReleaseMethod,
    },
    /// Touch it again, after a new map if it was unmapped. Finds `reuse_s`.
    Reuse,
    /// Read and verify everything, and free it. Finds `wrong_pages` and `kept_pages`.
    Check,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum StepError {
    #[error("cannot {what}: {errno}; {advice}")]
    Kernel {
        what: &'static str,
        errno: Errno,
        advice: &'static str,
    },
    #[error("cannot make a file in {}: {errno}; name a folder on a disk with `--set swap-dir=...`", folder.display())]
    File { folder: PathBuf, errno: Errno },
    #[error("cannot do `{step}`: out of order; the order is map, release, reuse, check")]
    OutOfOrder { step: &'static str },
}

#[derive(Debug)]
pub(super) struct Ground {
    mapping: Mapping,
    touch: Touch,
    length: usize,
    file: Option<BackingFile>,
    /// None after it was unmapped.
    region: Option<Region>,
    /// The method of the last release, if the memory has not been used since.
    released: Option<ReleaseMethod>,
}

#[derive(Default)]
pub(in crate::run) struct Steps {
    ground: Option<Ground>,
}

impl Work for Steps {
    fn carry_out(&mut self, request: &serde_json::Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        let found = step(&mut self.ground, &typed(request)?);
        let (cost, findings) = found.map_err(WorkError::of_workload)?;
        Ok(Reply::Found { cost, findings })
    }
}

type Found = (Cost, Findings);

/// Does a step on the state of the step before.
pub(super) fn step(ground: &mut Option<Ground>, step: &Step) -> Result<Found, StepError> {
    let there = |step| StepError::OutOfOrder { step };
    match step {
        Step::Map {
            bytes,
            mapping,
            touch,
            folder,
        } => {
            let (made, found) = Ground::map(*bytes, *mapping, *touch, folder)?;
            *ground = Some(made);
            Ok(found)
        }
        Step::Compare => ground.as_ref().ok_or(there("compare"))?.compare(),
        Step::Release { way } => ground.as_mut().ok_or(there("release"))?.release(*way),
        Step::Reuse => ground.as_mut().ok_or(there("reuse"))?.reuse(),
        Step::Check => ground.take().ok_or(there("check"))?.check(),
    }
}

impl Ground {
    /// The file behind a mapping is made before the clock runs: a program that releases memory keeps its file.
    fn map(bytes: u64, mapping: Mapping, touch: Touch, folder: &Path) -> Result<(Ground, Found), StepError> {
        let bytes = match mapping {
            Mapping::Hugetlb => bytes.next_multiple_of(Mapping::HUGE_PAGE),
            _ => bytes,
        };
        let length = usize::try_from(bytes).map_err(|_| refused("map it", Errno::NOMEM, "ask for less"))?;
        let mut ground = Ground {
            mapping,
            touch,
            length,
            file: backing(mapping, folder, length)?,
            region: None,
            released: None,
        };
        let watch = Stopwatch::start(UsageScope::Process);
        let mut findings = Findings::default();
        let (region, map_s) = timed(|| ground.new_region());
        ground.region = Some(region?);
        findings.set("map_s", map_s);
        findings.set("touch_s", ground.touch());
        findings.set("memset_s", ground.touch());
        Ok((ground, (watch.stop(bytes), findings)))
    }

    fn new_region(&self) -> Result<Region, StepError> {
        let region = Region::map(self.pages(), self.length).map_err(|errno| match self.mapping {
            Mapping::Hugetlb => refused("map reserved huge pages", errno, "reserve more (vm.nr_hugepages)"),
            _ => refused(
                "map memory",
                errno,
                "ask for less, or raise the limit (ulimit -v)",
            ),
        })?;
        self.advise(&region)?;
        Ok(region)
    }

    fn pages(&self) -> Pages<'_> {
        match (&self.file, self.mapping) {
            (Some(file), _) => Pages::Shared(file),
            (None, Mapping::Populate) => Pages::Populated,
            (None, Mapping::Hugetlb) => Pages::Hugetlb,
            (None, _) => Pages::Anonymous,
        }
    }

    /// Base pages or huge ones as the mapping requires, independent of the system's setting.
    fn advise(&self, region: &Region) -> Result<(), StepError> {
        match self.mapping {
            Mapping::Thp => region.huge_pages(true).map_err(|errno| {
                let advice = "use a kernel with transparent huge pages, or another `mapping`";
                refused("madvise(MADV_HUGEPAGE)", errno, advice)
            }),
            // A kernel without transparent huge pages refuses this, and gives none anyway. `Populate` has its pages before
            // it can be advised: base pages, unless the system makes huge ones for all.
            Mapping::Anonymous => match region.huge_pages(false) {
                Err(errno) if errno != Errno::INVAL => Err(refused(
                    "madvise(MADV_NOHUGEPAGE)",
                    errno,
                    "choose another `mapping`",
                )),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Writes the pages of `touch`; returns the seconds.
    fn touch(&mut self) -> f64 {
        let step = self.touch.step() as usize;
        let Some(region) = &mut self.region else {
            return 0.0;
        };
        let whole = self.touch == Touch::Whole;
        let ((), seconds) = timed(|| match whole {
            true => region.fill(BYTE),
            false => region.touch(step, BYTE),
        });
        seconds
    }

    /// Verifies that every written page is intact.
    fn compare(&self) -> Result<Found, StepError> {
        let out_of_order = || StepError::OutOfOrder { step: "compare" };
        let region = self
            .region
            .as_ref()
            .filter(|_| self.released.is_none())
            .ok_or_else(out_of_order)?;
        let apart = (self.touch.step() as usize / page_size()).max(1);
        let watch = Stopwatch::start(UsageScope::Process);
        let (wrong, kept) = look(region, self.touch, Left::All, apart);
        Ok((watch.stop(self.length as u64), seen(wrong, kept)))
    }

    fn release(&mut self, way: ReleaseMethod) -> Result<Found, StepError> {
        let out_of_order = || StepError::OutOfOrder { step: "release" };
        let mut region = self.region.take().ok_or_else(out_of_order)?;
        let watch = Stopwatch::start(UsageScope::Process);
        let discard = |mut region: Region, how| region.discard(how).map(|()| Some(region));
        let (left, seconds) = timed(|| match way {
            ReleaseMethod::Munmap => region.unmap().map(|()| None),
            ReleaseMethod::DontNeed => discard(region, Discard::DontNeed),
            ReleaseMethod::Free => discard(region, Discard::Free),
            ReleaseMethod::PageOut => discard(region, Discard::PageOut),
            ReleaseMethod::Mremap => region.resize(page_size()).map(|()| Some(region)),
            ReleaseMethod::MapOver => region.map_over(self.pages()).map(Some),
            ReleaseMethod::Punch => match &self.file {
                Some(file) => file.punch().map(|()| Some(region)),
                None => Err(Errno::INVAL),
            },
            // A process that has ended does not answer.
            ReleaseMethod::Exit => Err(Errno::INVAL),
        });
        let cost = watch.stop(self.length as u64);
        self.region = left.map_err(|errno| {
            refused(
                way.title(),
                errno,
                "this kernel has no such way for this `mapping`; choose another",
            )
        })?;
        self.released = Some(way);
        let mut findings = Findings::default();
        findings.set("release_s", seconds);
        Ok((cost, findings))
    }

    /// Makes the addresses usable again where they are not.
    fn get_again(&mut self) -> Result<(), StepError> {
        match (&mut self.region, self.released) {
            (None, _) => self.region = Some(self.new_region()?),
            (Some(region), Some(ReleaseMethod::Mremap)) => region
                .resize(self.length)
                .map_err(|errno| refused("mremap", errno, "ask for less"))?,
            // The new mapping has no advice yet.
            (Some(_), Some(ReleaseMethod::MapOver)) => self
                .region
                .as_ref()
                .map_or(Ok(()), |region| self.advise(region))?,
            (Some(_), _) => {}
        }
        Ok(())
    }

    fn reuse(&mut self) -> Result<Found, StepError> {
        let watch = Stopwatch::start(UsageScope::Process);
        let (again, map_s) = timed(|| self.get_again());
        again?;
        let mut findings = Findings::default();
        findings.set("reuse_s", map_s + self.touch());
        self.released = None;
        Ok((watch.stop(self.length as u64), findings))
    }

    /// Looks at every byte: not timed, as it is no part of the experiment.
    fn check(mut self) -> Result<Found, StepError> {
        let way = self.released.ok_or(StepError::OutOfOrder { step: "check" })?;
        self.get_again()?;
        let watch = Stopwatch::start(UsageScope::Process);
        let found = self
            .region
            .as_ref()
            .map(|region| look(region, self.touch, way.leaves(self.mapping), 1));
        let (wrong, kept) = found.unwrap_or_default();
        Ok((watch.stop(self.length as u64), seen(wrong, kept)))
    }
}

/// The file behind a mapping, if any.
fn backing(mapping: Mapping, folder: &Path, length: usize) -> Result<Option<BackingFile>, StepError> {
    let made = match mapping {
        Mapping::Memfd => BackingFile::in_memory(length),
        Mapping::File => CString::new(folder.as_os_str().as_bytes())
            .map_err(|_| Errno::INVAL)
            .and_then(|folder| BackingFile::on_disk(&folder, length)),
        _ => return Ok(None),
    };
    made.map(Some).map_err(|errno| StepError::File {
        folder: folder.to_owned(),
        errno,
    })
}

fn refused(what: &'static str, errno: Errno, advice: &'static str) -> StepError {
    StepError::Kernel { what, errno, advice }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed().as_secs_f64())
}

fn seen(wrong: u64, kept: u64) -> Findings {
    let mut findings = Findings::default();
    findings.set("wrong_pages", wrong as f64);
    findings.set("kept_pages", kept as f64);
    findings
}

/// Counts the wrong pages and the intact ones, of every `apart`th page.
fn look(region: &Region, touch: Touch, left: Left, apart: usize) -> (u64, u64) {
    let words = page_size() / size_of::<u64>();
    let pages = region.len() / page_size();
    let (mut wrong, mut kept) = (0, 0);
    for page in (0..pages).step_by(apart) {
        let (mut as_written, mut zero) = (true, true);
        for word in page * words..(page + 1) * words {
            let found = region.word(word).unwrap_or(0);
            as_written &= found == written(word, touch);
            zero &= found == 0;
        }
        let right = match left {
            Left::Nothing => zero,
            Left::FirstPage if page == 0 => as_written,
            Left::FirstPage => zero,
            Left::Either => as_written || zero,
            Left::All => as_written,
        };
        wrong += u64::from(!right);
        kept += u64::from(as_written && !zero);
    }
    (wrong, kept)
}

/// Value that a touch writes to this word.
fn written(word: usize, touch: Touch) -> u64 {
    match touch {
        Touch::Whole => u64::from_ne_bytes([BYTE; 8]),
        _ if (word * size_of::<u64>()).is_multiple_of(touch.step() as usize) => {
            u64::from_ne_bytes([BYTE, 0, 0, 0, 0, 0, 0, 0])
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn map(mapping: Mapping, touch: Touch) -> Ground {
        Ground::map(BYTES, mapping, touch, Path::new("/var/tmp"))
            .unwrap()
            .0
    }

    #[test]
    fn every_valid_way_leaves_the_documented_content() {
        let mappings = [
            Mapping::Anonymous,
            Mapping::Populate,
            Mapping::Memfd,
            Mapping::File,
            Mapping::Thp,
        ];
        for mapping in mappings {
            for touch in [Touch::Whole, Touch::Every4K, Touch::Every64K] {
                let ways = ReleaseMethod::ALL
                    .into_iter()
                    .filter(|way| way.fits(mapping, true));
                for way in ways.filter(|way| *way != ReleaseMethod::Exit) {
                    let mut ground = map(mapping, touch);
                    let (_, written) = ground.compare().unwrap();
                    let touched = touch.pages(BYTES) as f64;
                    assert_eq!(written.values["wrong_pages"], 0.0, "{mapping:?} {touch:?}");
                    assert_eq!(written.values["kept_pages"], touched, "{mapping:?} {touch:?}");
                    ground.release(way).unwrap();
                    assert!(ground.compare().is_err(), "nothing to compare after a release");
                    ground.reuse().unwrap();
                    ground.release(way).unwrap();
                    let (_, found) = ground.check().unwrap();
                    let wrong = found.values["wrong_pages"];
                    assert_eq!(wrong, 0.0, "{mapping:?} {touch:?} {way:?} {found:?}");
                }
            }
        }
    }

    #[test]
    fn wrong_pages_are_counted() {
        let ground = map(Mapping::Anonymous, Touch::Every64K);
        let region = ground.region.as_ref().unwrap();
        let pages = BYTES / page_size() as u64;
        let touched = Touch::Every64K.pages(BYTES);
        assert_eq!(look(region, Touch::Every64K, Left::All, 1), (0, touched));
        assert_eq!(
            look(region, Touch::Every64K, Left::Nothing, 1),
            (touched, touched)
        );
        assert_eq!(
            look(region, Touch::Every64K, Left::FirstPage, 1),
            (touched - 1, touched)
        );
        assert_eq!(look(region, Touch::Whole, Left::All, 1), (pages, 0));
        assert_eq!(
            look(region, Touch::Every4K, Left::Either, 1).0,
            0,
            "whole pages are zero or as written"
        );
    }

    #[test]
    fn steps_out_of_order_are_refused() {
        let release = Step::Release {
            way: ReleaseMethod::Free,
        };
        for (first, name) in [
            (Step::Reuse, "reuse"),
            (Step::Check, "check"),
            (Step::Compare, "compare"),
            (release, "release"),
        ] {
            let error = step(&mut None, &first).unwrap_err();
            assert!(
                matches!(error, StepError::OutOfOrder { step } if step == name),
                "{name}: {error:?}"
            );
        }
    }
}
