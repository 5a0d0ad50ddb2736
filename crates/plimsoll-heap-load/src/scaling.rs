//! Scaling: the replacement load at more and more threads, the blocks divided among them.

use crate::replacement::Replacement;

/// The scaling load. Its steps are [`Replacement`] loads; each belongs into a process of its own, as an allocator keeps
/// memory that another step freed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// Blocks of all threads together, the same at each step.
    pub blocks: usize,
    /// The most threads; the steps are the powers of 2 up to it.
    pub most_threads: usize,
    /// Sizes, time and seed of each step.
    pub step: Replacement,
}

impl Default for Scaling {
    /// The talk's: 100,000 blocks, up to 512 threads.
    fn default() -> Self {
        Scaling {
            blocks: 100_000,
            most_threads: 512,
            step: Replacement::default(),
        }
    }
}

impl Scaling {
    /// The loads to run, each in a process of its own.
    pub fn steps(&self) -> Vec<Replacement> {
        let powers = std::iter::successors(Some(1_usize), |threads| threads.checked_mul(2));
        powers
            .take_while(|threads| *threads <= self.most_threads)
            .map(|threads| Replacement {
                threads,
                blocks: (self.blocks / threads).max(1),
                ..self.step.clone()
            })
            .collect()
    }
}
