//! Mistakes with the heap, made by a C program under `plimsoll heap run`, hardened and not, and under the C library's own
//! heap for comparison: the mistakes that each detects. With `--nocapture` the table is printed that `docs/src/heap-stat.md` shows.
//! This heap stops every mistake that the C library's heap stops, except those in [`BEHIND`].

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::heap::{compiled, has, heap_run};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// The heap that a program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    CLibrary,
    Default,
    Hardened,
}

/// How a mistake ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Stopped, with these words.
    Stopped(String),
    /// A memory fault.
    Fault,
    /// Undetected.
    Unnoticed,
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            End::Stopped(_) => "stopped",
            End::Fault => "fault",
            End::Unnoticed => "-",
        }
    }
}

/// The program that makes mistakes; none where there is no compiler.
fn mistaken() -> Option<PathBuf> {
    has("gcc").then(|| compiled("gcc", "mistakes.c", "c", &["-O1", "-fno-builtin"]))
}

fn run(program: &Path, under: Under, mistake: &str, size: usize) -> Output {
    let mut command = match under {
        Under::CLibrary => plimsoll_testkit::command(program),
        Under::Default | Under::Hardened => heap_run(),
    };
    match under {
        Under::CLibrary => command.env_remove("LD_PRELOAD"),
        Under::Default => command.arg("--").arg(program),
        Under::Hardened => command.args(["--hardened", "--"]).arg(program),
    };
    command.arg(mistake).arg(size.to_string());
    command.output().expect("the program starts")
}

fn end(output: &Output) -> End {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    // The dynamic linker names the variable if it cannot load the library.
    assert!(!words.contains("LD_PRELOAD"), "{words}");
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) | (Some(3), _) => End::Unnoticed,
        (_, Some(SIGABRT)) => End::Stopped(words),
        (_, Some(SIGSEGV)) => End::Fault,
        _ => panic!("{:?}: {words}", output.status),
    }
}

/// Sizes of small, middle and large blocks of a bucket.
const SMALL: &[usize] = &[24, 100, 1000, 9000];
/// As before, and one that is no bucket's.
const ALL: &[usize] = &[24, 100, 1000, 9000, 20_000];

/// A mistake with blocks of some sizes, and the code of the message that stops it; none where it goes unnoticed.
struct Case {
    mistake: &'static str,
    sizes: &'static [usize],
    default: Option<&'static str>,
    hardened: Option<&'static str>,
}

const fn case(
    mistake: &'static str,
    sizes: &'static [usize],
    default: Option<&'static str>,
    hardened: Option<&'static str>,
) -> Case {
    Case {
        mistake,
        sizes,
        default,
        hardened,
    }
}

const DOUBLE: Option<&str> = Some("double-free");
const USED: Option<&str> = Some("use-after-free");
const NEVER_RETURNED: Option<&str> = Some("foreign-address");
const NO_BLOCK: Option<&str> = Some("not-a-block");
const OVERRUN: Option<&str> = Some("overrun");
const AFTER_FREE: Option<&str> = Some("write-after-free");

const CASES: &[Case] = &[
    case("none", ALL, None, None),
    case("double-free", ALL, DOUBLE, DOUBLE),
    case("double-free-later", SMALL, DOUBLE, DOUBLE),
    case("double-free-later", &[20_000], DOUBLE, NO_BLOCK),
    case("double-free-much-later", ALL, DOUBLE, DOUBLE),
    case("free-interior", ALL, NO_BLOCK, NO_BLOCK),
    case("free-unaligned", ALL, NO_BLOCK, NO_BLOCK),
    case("free-stack", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("free-static", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("free-wild", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("realloc-after-free", ALL, USED, USED),
    case("size-after-free", ALL, USED, USED),
    case("overflow-1", ALL, None, OVERRUN),
    case("overflow-8", ALL, None, OVERRUN),
    case("overflow-16", ALL, None, OVERRUN),
    case("overflow-64", ALL, None, OVERRUN),
    case("write-after-free", SMALL, AFTER_FREE, AFTER_FREE),
    case("write-after-free", &[20_000], None, None),
    case("write-after-free-first", SMALL, None, AFTER_FREE),
    case("write-after-free-first", &[20_000], None, None),
    case("write-after-free-deep", &[24], AFTER_FREE, AFTER_FREE),
    case("write-after-free-deep", &[100, 1000, 9000], None, AFTER_FREE),
    case("write-after-free-deep", &[20_000], None, None),
];

/// Mistakes that this heap does not detect. glibc's detects them if they overwrite its bookkeeping: it lies
/// between the blocks and in the free ones, that of this heap lies apart.
const BEHIND: &[(Under, &str, &[usize])] = &[
    (Under::Default, "overflow-1", ALL),
    (Under::Default, "overflow-8", ALL),
    (Under::Default, "overflow-16", ALL),
    (Under::Default, "overflow-64", ALL),
    (Under::Default, "write-after-free-first", ALL),
    (Under::Hardened, "write-after-free-first", &[20_000]),
];

#[test]
fn mistakes_end_the_program_with_their_description() {
    let Some(program) = mistaken() else { return };
    println!(
        "{:<24} {:>6}  {:<10} {:<10} hardened",
        "mistake", "bytes", "C library", "default"
    );
    for case in CASES {
        for size in case.sizes {
            let ends = [Under::CLibrary, Under::Default, Under::Hardened]
                .map(|under| end(&run(&program, under, case.mistake, *size)));
            println!(
                "{:<24} {size:>6}  {:<10} {:<10} {}",
                case.mistake,
                ends[0].word(),
                ends[1].word(),
                ends[2].word()
            );
            let wanted = [
                (Under::Default, &ends[1], case.default),
                (Under::Hardened, &ends[2], case.hardened),
            ];
            for (under, found, wanted) in wanted {
                let what = format!("{under:?}: {} of {size} bytes ended {found:?}", case.mistake);
                check(&what, found, wanted);
                let behind = matches!(ends[0], End::Stopped(_)) && wanted.is_none();
                let said = |(who, mistake, sizes): &(Under, &str, &[usize])| {
                    (*who, *mistake) == (under, case.mistake) && sizes.contains(size)
                };
                assert!(
                    !behind || BEHIND.iter().any(said),
                    "{what}, and not so glibc: {ends:?}"
                );
            }
        }
    }
}

fn check(what: &str, found: &End, wanted: Option<&str>) {
    match (found, wanted) {
        (End::Stopped(words), Some(wanted)) => {
            let end = format!(" [{wanted}]");
            let is_report = |line: &str| line.contains(": 0x") && line.ends_with(&end);
            assert!(words.lines().any(is_report), "{what}");
        }
        (_, Some(wanted)) => panic!("{what}, not with \"{wanted}\""),
        (found, None) => assert_eq!(*found, End::Unnoticed, "{what}"),
    }
}

#[test]
fn freed_memory_reads_as_zero_in_a_hardened_heap() {
    let Some(program) = mistaken() else { return };
    for size in ALL {
        let output = run(&program, Under::Hardened, "read-after-free", *size);
        assert_eq!(output.status.code(), Some(0), "{size}: {output:?}");
    }
}
