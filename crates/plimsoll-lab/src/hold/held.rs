//! The worker's side: memory that grows and shrinks in chunks and keeps its contents.

use plimsoll_os::{Mapping, UsageScope};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::workload::fill::{Stream, StreamError};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Findings, Memory, Stopwatch, Work, WorkError, typed};
use plimsoll_model::scenario::FillClass;

/// The name that the runner asks for this work by; no workload of a scenario has it.
const NAME: &str = "hold";
/// The value of a reply: held bytes after the request.
pub(super) const HELD_BYTES: &str = "held_bytes";
/// Most chunks: below the kernel's usual `vm.max_map_count` of 65530.
const MOST_CHUNKS: u64 = 60_000;
/// Usual bytes of a chunk.
const USUAL_CHUNK: u64 = 1 << 20;
/// Least chunks of a small amount: the last is less than half a percent of it.
const LEAST_CHUNKS: u64 = 256;

/// A request to a worker that holds memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Hold memory of this class from now on, at most so many bytes.
    Begin { class: FillClass, seed: u64, most: u64 },
    /// Take up to so many bytes more, in whole chunks.
    Take { bytes: u64 },
    /// Release at least so many bytes, or all.
    Give { bytes: u64 },
    /// Read one byte of each page in the next so many bytes, in a circle.
    Touch { bytes: u64 },
}

impl Request {
    pub(super) fn command(&self) -> Command {
        Command::Work {
            workload: NAME.to_owned(),
            // The worker refuses `null`.
            request: serde_json::to_value(self).unwrap_or_default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum HeldError {
    #[error("cannot {0} before `begin`")]
    NotBegun(&'static str),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(
        "cannot map {bytes} bytes more: {errno}; hold less or raise the limit (ulimit -v, vm.overcommit_memory)"
    )]
    Map { bytes: u64, errno: plimsoll_os::Errno },
}

/// The held memory. Chunk `n` has the stream's bytes from `n * chunk` on.
#[derive(Debug)]
struct Held {
    stream: Stream,
    chunk: u64,
    chunks: Vec<Mapping>,
    /// The chunk that is touched next.
    next: usize,
}

impl Held {
    fn begin(class: &FillClass, seed: u64, most: u64) -> Result<Held, HeldError> {
        let page = plimsoll_os::page_size() as u64;
        let usual = USUAL_CHUNK.min(most / LEAST_CHUNKS);
        let chunk = most.div_ceil(MOST_CHUNKS).max(usual).next_multiple_of(page);
        Ok(Held {
            stream: Stream::new(class, seed)?,
            chunk,
            chunks: Vec::new(),
            next: 0,
        })
    }

    fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * self.chunk
    }

    fn take(&mut self, bytes: u64) -> Result<(), HeldError> {
        for _ in 0..bytes / self.chunk {
            let error = |errno| HeldError::Map {
                bytes: self.chunk,
                errno,
            };
            let length = usize::try_from(self.chunk).map_err(|_| error(plimsoll_os::Errno::NOMEM))?;
            let mut mapping = Mapping::anonymous(length).map_err(error)?;
            self.stream.write(self.bytes(), mapping.bytes_mut());
            self.chunks.push(mapping);
        }
        Ok(())
    }

    fn give(&mut self, bytes: u64) {
        let left = self.chunks.len() as u64 - bytes.div_ceil(self.chunk).min(self.chunks.len() as u64);
        // No more than there are.
        self.chunks.truncate(left as usize);
        if self.next >= self.chunks.len() {
            self.next = 0;
        }
    }

    fn touch(&mut self, bytes: u64) {
        let page = plimsoll_os::page_size();
        let count = bytes.div_ceil(self.chunk).min(self.chunks.len() as u64);
        for _ in 0..count {
            let touched = self.chunks[self.next].bytes().iter().step_by(page);
            std::hint::black_box(touched.fold(0_u8, |sum, byte| sum ^ byte));
            self.next = (self.next + 1) % self.chunks.len();
        }
    }
}

/// The work of `plimsoll hold`, for a worker.
#[derive(Debug, Default)]
struct Holding(Option<Held>);

impl Holding {
    fn held(&mut self, action: &'static str) -> Result<&mut Held, HeldError> {
        self.0.as_mut().ok_or(HeldError::NotBegun(action))
    }

    fn carry_out(&mut self, request: &Request) -> Result<u64, HeldError> {
        match request {
            Request::Begin { class, seed, most } => self.0 = Some(Held::begin(class, *seed, *most)?),
            Request::Take { bytes } => self.held("take memory")?.take(*bytes)?,
            Request::Give { bytes } => self.held("release memory")?.give(*bytes),
            Request::Touch { bytes } => self.held("touch memory")?.touch(*bytes),
        }
        Ok(self.0.as_ref().map_or(0, Held::bytes))
    }
}

impl Work for Holding {
    fn carry_out(&mut self, request: &Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        let watch = Stopwatch::start(UsageScope::Process);
        let held = self.carry_out(&typed(request)?).map_err(WorkError::of_workload)?;
        let mut findings = Findings::default();
        findings.set(HELD_BYTES, held as f64);
        Ok(Reply::Found {
            cost: watch.stop(held),
            findings,
        })
    }
}

pub(super) fn work(name: &str) -> Option<Box<dyn Work>> {
    (name == NAME).then(|| Box::<Holding>::default() as Box<dyn Work>)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn held_memory_keeps_the_bytes_of_its_class_however_it_grew_and_shrank(
            steps in prop::collection::vec((0..3u8, 0..9 * MIB), 1..20), seed: u64,
        ) {
            let class = FillClass::Ratio(2.5);
            let mut held = Held::begin(&class, seed, 256 * MIB).unwrap();
            for (kind, bytes) in steps {
                let before = held.bytes();
                match kind {
                    0 => {
                        held.take(bytes).unwrap();
                        prop_assert_eq!(held.bytes(), before + bytes / MIB * MIB);
                    }
                    1 => {
                        held.give(bytes);
                        prop_assert_eq!(held.bytes(), before.saturating_sub(bytes.next_multiple_of(MIB)));
                    }
                    _ => held.touch(bytes),
                }
            }
            let mut expected = vec![0; MIB as usize];
            for (number, chunk) in held.chunks.iter().enumerate() {
                Stream::new(&class, seed).unwrap().write(number as u64 * MIB, &mut expected);
                prop_assert!(chunk.bytes() == expected, "chunk {} differs", number);
            }
        }
    }

    #[test]
    fn nothing_is_taken_before_the_begin() {
        let mut holding = Holding::default();
        let request = serde_json::to_value(Request::Take { bytes: MIB }).unwrap();
        assert!(Work::carry_out(&mut holding, &request, None).is_err());
    }

    #[test]
    fn a_chunk_is_large_enough_for_any_amount() {
        let held = Held::begin(&FillClass::Constant, 1, 1 << 45).unwrap();
        assert!((1_u64 << 45) / held.chunk <= MOST_CHUNKS);
    }
}
