//! Allocators as subjects: a heap scenario runs a program on one.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An allocator that a program can be made to run on. As text: `glibc`, `plimsoll:lfh`, `plimsoll:standard`,
/// `plimsoll:lfh,hardened`, a name of [`KNOWN_ALLOCATORS`], `preload=/path/of/a/library`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Allocator {
    /// That of the C library: nothing is preloaded.
    Glibc,
    /// Our own, with one of its front ends and profiles; the hardened one always has the low-fragmentation front end.
    Plimsoll(FrontEnd, HeapProfile),
    /// One of [`KNOWN_ALLOCATORS`], by its name.
    Known(&'static str),
    /// Any other library that replaces malloc.
    Library(PathBuf),
}

/// The front end of our own allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrontEnd {
    /// Buckets of equal blocks for each processor.
    LowFragmentation,
    /// One lock, free lists, coalescing: the baseline of the low-fragmentation front end.
    Standard,
}

impl FrontEnd {
    /// Both, the first one ours to be measured.
    pub const ALL: [FrontEnd; 2] = [FrontEnd::LowFragmentation, FrontEnd::Standard];

    /// The name in a subject, and in the variable that chooses it.
    pub fn name(self) -> &'static str {
        match self {
            FrontEnd::LowFragmentation => "lfh",
            FrontEnd::Standard => "standard",
        }
    }
}

/// The profile of our own allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeapProfile {
    Default,
    /// More checks and a quarantine, at a cost: no peer of the other allocators.
    Hardened,
}

/// The text of the hardened profile in a subject.
const HARDENED: &str = ",hardened";

/// Our own allocator with the default profile, and each of its front ends.
fn own() -> [Allocator; 2] {
    FrontEnd::ALL.map(|front_end| Allocator::Plimsoll(front_end, HeapProfile::Default))
}

/// An allocator that is known by name, with the file names that its library has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAllocator {
    pub name: &'static str,
    /// File names of the library, the newest first.
    pub libraries: &'static [&'static str],
}

const fn known(name: &'static str, libraries: &'static [&'static str]) -> KnownAllocator {
    KnownAllocator { name, libraries }
}

/// Every allocator that is known by name and replaces malloc where its library is preloaded.
pub const KNOWN_ALLOCATORS: &[KnownAllocator] = &[
    known("jemalloc", &["libjemalloc.so.2", "libjemalloc.so.1"]),
    // Google's with its profiler, and without: they are built apart and differ.
    known("tcmalloc", &["libtcmalloc.so.4"]),
    known("tcmalloc-minimal", &["libtcmalloc_minimal.so.4"]),
    known(
        "mimalloc",
        &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.1"],
    ),
    known("snmalloc", &["libsnmallocshim.so", "libsnmallocshim.so.0"]),
    known("rpmalloc", &["librpmallocwrap.so", "librpmalloc.so"]),
    known("hoard", &["libhoard.so"]),
    known("mesh", &["libmesh.so"]),
    known(
        "scudo",
        &[
            "libscudo.so",
            "libclang_rt.scudo_standalone-x86_64.so",
            "libclang_rt.scudo_standalone-aarch64.so",
        ],
    ),
    known("hardened-malloc", &["libhardened_malloc.so"]),
    known("tbbmalloc", &["libtbbmalloc_proxy.so.2"]),
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatorSet(u32);

const _: () = assert!(KNOWN_ALLOCATORS.len() <= u32::BITS as usize);

impl AllocatorSet {
    /// Those for which `there` says so.
    pub fn of(there: impl Fn(&KnownAllocator) -> bool) -> AllocatorSet {
        let bits = KNOWN_ALLOCATORS.iter().enumerate();
        AllocatorSet(bits.fold(0, |set, (place, known)| set | u32::from(there(known)) << place))
    }

    /// The allocators that a heap scenario compares on such a machine, ours first, without its hardened profile.
    pub fn subjects(self) -> impl Iterator<Item = Allocator> {
        let ours = own();
        let found = KNOWN_ALLOCATORS.iter().enumerate();
        let found = found.filter(move |(place, _)| self.0 & (1 << place) != 0);
        ours.into_iter()
            .chain([Allocator::Glibc])
            .chain(found.map(|(_, known)| Allocator::Known(known.name)))
    }
}

impl fmt::Display for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allocator::Glibc => f.write_str("glibc"),
            Allocator::Plimsoll(front_end, profile) => {
                let hardened = match profile {
                    HeapProfile::Default => "",
                    HeapProfile::Hardened => HARDENED,
                };
                write!(f, "plimsoll:{}{hardened}", front_end.name())
            }
            Allocator::Known(name) => f.write_str(name),
            Allocator::Library(path) => write!(f, "preload={}", path.display()),
        }
    }
}

impl Allocator {
    /// Whether `item`, after a comma, belongs to the text `subject`: the profile of our own allocator.
    pub(super) fn continues(subject: &str, item: &str) -> bool {
        let text = format!("{subject},{item}");
        let text = text.trim().trim_matches(['"', '\'']);
        matches!(Allocator::of_text(text), Some(Allocator::Plimsoll(..)))
    }

    /// The allocator of a text, where it is one.
    pub(super) fn of_text(text: &str) -> Option<Allocator> {
        if let Some(path) = text.strip_prefix("preload=") {
            let usable = path.starts_with('/') && !path.contains([' ', ':', '\0']);
            return usable.then(|| Allocator::Library(PathBuf::from(path)));
        }
        let hardened = Allocator::Plimsoll(FrontEnd::LowFragmentation, HeapProfile::Hardened);
        let known = KNOWN_ALLOCATORS.iter().map(|known| Allocator::Known(known.name));
        own()
            .into_iter()
            .chain([hardened, Allocator::Glibc])
            .chain(known)
            .find(|allocator| allocator.to_string() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_allocators_are_compared_with_built_in_ones() {
        let texts = |set: AllocatorSet| -> Vec<String> { set.subjects().map(|a| a.to_string()).collect() };
        let none = ["plimsoll:lfh", "plimsoll:standard", "glibc"];
        assert_eq!(texts(AllocatorSet::default()), none);
        let one = AllocatorSet::of(|known| known.name == "mimalloc");
        assert_eq!(texts(one)[3..], ["mimalloc"]);
        for text in texts(AllocatorSet::of(|_| true)) {
            assert_eq!(Allocator::of_text(&text).map(|a| a.to_string()), Some(text));
        }
    }

    #[test]
    fn the_hardened_profile_is_compared_only_by_name() {
        let hardened = Allocator::Plimsoll(FrontEnd::LowFragmentation, HeapProfile::Hardened);
        assert_eq!(
            Allocator::of_text("plimsoll:lfh,hardened"),
            Some(hardened.clone())
        );
        assert!(
            AllocatorSet::of(|_| true)
                .subjects()
                .all(|other| other != hardened)
        );
        // A hardened heap has no other front end.
        for text in [
            "plimsoll:standard,hardened",
            "plimsoll:hardened",
            "plimsoll:lfh,",
            "plimsoll:lfh,default",
            "glibc,hardened",
        ] {
            assert_eq!(Allocator::of_text(text), None, "{text}");
        }
    }

    #[test]
    fn library_paths_have_no_separators_of_the_loader() {
        let library = Allocator::Library("/opt/libmine.so".into());
        assert_eq!(Allocator::of_text("preload=/opt/libmine.so"), Some(library));
        // The loader would look a bare name up, and take a space or a colon for the end of it.
        for text in [
            "preload=libmine.so",
            "preload=/opt/a b.so",
            "preload=/a:/b",
            "preload=",
            "plimsoll",
        ] {
            assert_eq!(Allocator::of_text(text), None, "{text}");
        }
    }
}
