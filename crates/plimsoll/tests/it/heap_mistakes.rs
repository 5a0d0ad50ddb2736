//! Mistakes with the heap, made by a C program under `plimsoll heap run`, hardened and not, and under the C library's own
//! heap for comparison: who notices which. With `--nocapture` the table is printed that `docs/src/heap-stat.md` shows.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SIGABRT: i32 = 6;
const SIGSEGV: i32 = 11;

/// Under what a program runs.
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
    /// Nobody noticed.
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

fn compile(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/heap/mistakes.c");
    let program = folder.join("mistakes");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let status = Command::new(compiler)
        .args(["-O1", "-w", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .expect("a C compiler is there");
    assert!(status.success());
    program
}

fn run(program: &Path, under: Under, mistake: &str, size: usize) -> Output {
    let mut command = match under {
        Under::CLibrary => Command::new(program),
        Under::Default | Under::Hardened => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
            command.args(["heap", "run"]);
            if under == Under::Hardened {
                command.arg("--hardened");
            }
            command.arg("--").arg(program);
            command
        }
    };
    command.arg(mistake).arg(size.to_string());
    command.output().expect("the program starts")
}

fn end(output: &Output) -> End {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!words.contains("cannot be preloaded"), "{words}");
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

/// A mistake with blocks of some sizes, and the words with which it is stopped; none where it may go unnoticed.
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

const NEVER_RETURNED: Option<&str> = Some("this heap never returned it");
const NO_BLOCK: Option<&str> = Some("no block in use starts here");
const OVERRUN: Option<&str> = Some("written past the end");
const AFTER_FREE: Option<&str> = Some("written after it was freed");

const CASES: &[Case] = &[
    case("none", ALL, None, None),
    case("double-free", ALL, Some("double free"), Some("double free")),
    case(
        "double-free-later",
        SMALL,
        Some("double free"),
        Some("double free"),
    ),
    case(
        "double-free-later",
        &[20_000],
        Some("double free"),
        Some("freed before"),
    ),
    case("double-free-much-later", ALL, Some("free"), Some("free")),
    case("free-interior", ALL, NO_BLOCK, NO_BLOCK),
    case("free-unaligned", ALL, NO_BLOCK, NO_BLOCK),
    case("free-stack", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("free-static", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("free-wild", ALL, NEVER_RETURNED, NEVER_RETURNED),
    case("overflow-1", ALL, None, OVERRUN),
    case("overflow-8", ALL, None, OVERRUN),
    case("overflow-16", ALL, None, OVERRUN),
    case("overflow-64", ALL, None, OVERRUN),
    case("write-after-free", SMALL, AFTER_FREE, AFTER_FREE),
    case("write-after-free", &[20_000], None, None),
    case("write-after-free-deep", &[24], AFTER_FREE, AFTER_FREE),
    case("write-after-free-deep", &[100, 1000, 9000], None, AFTER_FREE),
    case("write-after-free-deep", &[20_000], None, None),
];

#[test]
fn mistakes_are_stopped_with_words_for_what_they_are() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mistakes");
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let program = compile(&folder);
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
            for (found, wanted) in [(&ends[1], case.default), (&ends[2], case.hardened)] {
                check(case.mistake, *size, found, wanted);
            }
        }
    }
}

fn check(mistake: &str, size: usize, found: &End, wanted: Option<&str>) {
    match (found, wanted) {
        (End::Stopped(words), Some(wanted)) => {
            assert!(words.contains(wanted), "{mistake} of {size} bytes: {words}");
            assert!(words.contains(": 0x"), "{mistake} of {size} bytes: {words}");
        }
        (_, Some(wanted)) => panic!("{mistake} of {size} bytes ended {found:?}, not with \"{wanted}\""),
        (found, None) if mistake == "none" => assert_eq!(*found, End::Unnoticed, "of {size} bytes"),
        (_, None) => {}
    }
}

#[test]
fn what_was_freed_cannot_be_read_in_a_hardened_heap() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mistakes-read");
    std::fs::create_dir_all(&folder).expect("a folder for the program");
    let program = compile(&folder);
    for size in ALL {
        let output = run(&program, Under::Hardened, "read-after-free", *size);
        assert_eq!(output.status.code(), Some(0), "{size}: {output:?}");
    }
}
