//! Contents of pages: the classes that a program's memory has.

use std::sync::OnceLock;

use crate::store::{PAGE, Page};

/// A class of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Zero,
    /// A word of 4 bytes, repeated.
    Word,
    /// A word of 8 bytes, repeated.
    LongWord,
    /// Runs of one byte.
    Runs,
    Random,
    /// Words of a language.
    Text,
    /// Structures with pointers that share their upper bytes.
    Pointers,
    /// A page of a program's file.
    Program,
    /// Random bytes up to about the length above which a page is kept as it is.
    Edge,
}

pub(super) const CLASSES: [Class; 9] = [
    Class::Zero,
    Class::Word,
    Class::LongWord,
    Class::Runs,
    Class::Random,
    Class::Text,
    Class::Pointers,
    Class::Program,
    Class::Edge,
];

/// The random numbers of a seed.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// A page of a class and a seed: always the same.
pub(super) fn page_of(class: Class, seed: u64) -> Page {
    let mut numbers = Numbers(seed);
    let mut page = [0; PAGE];
    match class {
        Class::Zero => {}
        Class::Word => {
            let word = (numbers.next() as u32).to_le_bytes();
            page.chunks_exact_mut(4)
                .for_each(|target| target.copy_from_slice(&word));
        }
        Class::LongWord => {
            let word = numbers.next().to_le_bytes();
            page.chunks_exact_mut(8)
                .for_each(|target| target.copy_from_slice(&word));
        }
        Class::Runs => {
            let mut rest = &mut page[..];
            while !rest.is_empty() {
                let length = (1 + numbers.below(100) as usize).min(rest.len());
                let (run, after) = rest.split_at_mut(length);
                run.fill(numbers.next() as u8);
                rest = after;
            }
        }
        Class::Random => numbers.fill(&mut page),
        Class::Text => {
            let words = [
                "memory ",
                "page ",
                "the ",
                "of ",
                "working set ",
                "trim, ",
                "fault\n",
                "0x7f ",
                "compressed ",
            ];
            let mut rest = &mut page[..];
            while !rest.is_empty() {
                let word = words[numbers.below(words.len() as u64) as usize].as_bytes();
                let length = word.len().min(rest.len());
                let (target, after) = rest.split_at_mut(length);
                target.copy_from_slice(&word[..length]);
                rest = after;
            }
        }
        Class::Pointers => {
            for target in page.chunks_exact_mut(8) {
                let pointer = 0x7f3a_0000_0000 | numbers.below(1 << 22) << 3;
                let word = if numbers.below(3) == 0 {
                    numbers.below(16)
                } else {
                    pointer
                };
                target.copy_from_slice(&word.to_le_bytes());
            }
        }
        Class::Program => {
            let pages = program_pages();
            page = pages[numbers.below(pages.len() as u64) as usize];
        }
        Class::Edge => {
            let length = 2900 + numbers.below(300) as usize;
            numbers.fill(&mut page[..length]);
        }
    }
    page
}

/// Pages of the program of this test, and of the largest ones in `/usr/bin`.
fn program_pages() -> &'static [Page] {
    static PAGES: OnceLock<Vec<Page>> = OnceLock::new();
    PAGES.get_or_init(|| {
        let mut paths: Vec<_> = std::fs::read_dir("/usr/bin")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok().filter(|m| m.is_file())?.len(), entry.path())))
            .collect();
        paths.sort_unstable_by_key(|(length, _)| std::cmp::Reverse(*length));
        let mut pages = Vec::new();
        let own = std::env::current_exe().ok();
        for path in own
            .into_iter()
            .chain(paths.into_iter().take(6).map(|(_, path)| path))
        {
            use std::io::Read;
            let mut bytes = Vec::new();
            let read = std::fs::File::open(path).map(|file| file.take(1 << 20).read_to_end(&mut bytes));
            if read.is_ok() {
                let (whole, _) = bytes.as_chunks::<PAGE>();
                pages.extend_from_slice(whole);
            }
        }
        assert!(!pages.is_empty(), "the program of this test can be read");
        pages
    })
}
