//! The library's interface: its symbols and nothing else, on the C library and nothing else, as C and C++ promise it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{compiled, has, heap_run, library};

/// Every symbol that the library has for programs.
const SYMBOLS: &str = "
    malloc free calloc realloc reallocarray cfree free_sized free_aligned_sized
    posix_memalign aligned_alloc memalign valloc pvalloc malloc_usable_size malloc_trim mallopt __libc_mallopt
    mallinfo mallinfo2 malloc_info malloc_stats
    __libc_malloc __libc_free __libc_cfree __libc_calloc __libc_realloc __libc_reallocarray
    __libc_memalign __libc_valloc __libc_pvalloc __posix_memalign __libc_mallinfo
    _Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t
    _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
    _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t
    _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
    dlopen dlmopen
    plimsoll_heap_create plimsoll_heap_destroy plimsoll_heap_process plimsoll_heap_alloc plimsoll_heap_calloc
    plimsoll_heap_aligned_alloc plimsoll_heap_realloc plimsoll_heap_free plimsoll_heap_usable_size
    plimsoll_heap_set_front_end plimsoll_heap_front_end plimsoll_heap_trim plimsoll_heap_count
    plimsoll_heap_validate
";

fn output(program: &str, flags: &str, library: &Path) -> String {
    let output = plimsoll_testkit::command(program)
        .arg(flags)
        .arg(library)
        .output();
    String::from_utf8(output.expect("the program starts").stdout).expect("text")
}

/// The dynamic symbols of a library whose kind is one of these letters of nm.
fn symbols(library: &Path, kinds: &str) -> BTreeSet<String> {
    let listed = output("nm", "-D", library);
    let rows = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace().rev();
        let (name, kind) = (words.next()?, words.next()?);
        kinds
            .contains(kind)
            .then(|| name.split('@').next().unwrap_or(name).to_owned())
    });
    rows.collect()
}

const DEFINED: &str = "TDBRiuVW";

#[test]
fn the_library_has_its_symbols_and_no_others() {
    if !has("nm") {
        return;
    }
    let wanted: BTreeSet<String> = SYMBOLS.split_whitespace().map(str::to_owned).collect();
    assert_eq!(symbols(library(), DEFINED), wanted, "defined");
    // What is needed is there in every libc; the rest is used where it is there.
    let needed: BTreeSet<String> = [
        "__errno_location",
        "bcmp",
        "fwrite",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "sysconf",
    ]
    .map(str::to_owned)
    .into();
    let undefined = symbols(library(), "U");
    assert!(undefined.is_subset(&needed), "undefined: {undefined:?}");
}

/// A name that were missing would be the C library's own, beside our malloc.
#[test]
fn the_library_has_the_other_names_of_malloc_that_the_c_library_has() {
    if !has("nm") {
        return;
    }
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let glibc = maps
        .split_whitespace()
        .find(|word| word.ends_with("/libc.so.6"))
        .expect("this test runs on glibc");
    let ours: BTreeSet<&str> = SYMBOLS.split_whitespace().collect();
    let names = symbols(Path::new(glibc), DEFINED);
    let other_names = names.iter().filter(|name| {
        let plain = name.trim_start_matches("__libc_").trim_start_matches("__");
        plain != name.as_str() && ours.contains(plain)
    });
    let (has, lacks): (Vec<&str>, Vec<&str>) = other_names
        .map(String::as_str)
        .partition(|name| ours.contains(name));
    assert!(has.contains(&"__libc_malloc"), "{names:?}");
    assert_eq!(lacks, [""; 0]);
}

/// A program that unloads it by `dlclose` goes on.
#[test]
fn the_library_is_never_unloaded() {
    if !has("readelf") {
        return;
    }
    let dynamic = output("readelf", "-dW", library());
    let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)"));
    assert!(flags.is_some_and(|flags| flags.contains("NODELETE")), "{dynamic}");
}

#[test]
fn the_library_needs_the_c_library_alone_and_has_no_thread_local_storage() {
    if !has("readelf") {
        return;
    }
    let dynamic = output("readelf", "-dW", library());
    let needed: Vec<&str> = dynamic.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert_eq!(needed.len(), 1, "{needed:?}");
    assert!(needed[0].contains("[libc."), "{needed:?}");
    let segments = output("readelf", "-lW", library());
    assert!(
        segments.contains("LOAD") && !segments.contains("TLS"),
        "{segments}"
    );
}

/// Runs the command, which ends well and says these words alone.
fn says(command: &mut Command, words: &str) {
    let output = command.output().expect("the program starts");
    assert_eq!(
        (
            String::from_utf8_lossy(&output.stdout).as_ref(),
            output.status.code()
        ),
        (words, Some(0)),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn under(front_end: &str, program: &Path) -> Command {
    let mut command = heap_run();
    command.args(["--front-end", front_end, "--"]).arg(program);
    command
}

fn keeps_its_promises(program: &Path) {
    for front_end in ["lfh", "standard"] {
        says(&mut under(front_end, program), "all promises kept\n");
    }
    says(
        heap_run().args(["--hardened", "--"]).arg(program),
        "all promises kept\n",
    );
    // The promises are those of the C library's own malloc.
    says(&mut plimsoll_testkit::command(program), "all promises kept\n");
}

#[test]
fn c_programs_get_what_glibc_promises() {
    if has("gcc") {
        keeps_its_promises(&compiled("gcc", "malloc.c", "c", &[]));
    }
}

#[test]
fn cpp_programs_get_what_the_standard_promises() {
    if has("g++") {
        keeps_its_promises(&compiled("g++", "new.cpp", "c++", &[]));
    }
}

/// Compiles against the header and links with the library.
fn linked(compiler: &str, source: &str, language: &str) -> PathBuf {
    let library = library().parent().expect("a folder").display().to_string();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../plimsoll-malloc/include");
    let (folder, path) = (format!("-L{library}"), format!("-Wl,-rpath,{library}"));
    compiled(
        compiler,
        source,
        language,
        &[include, &folder, "-lplimsoll_malloc", &path],
    )
}

#[test]
fn heaps_are_objects_of_c_and_of_cpp() {
    for (compiler, language) in [("gcc", "c"), ("g++", "c++")] {
        if !has(compiler) {
            continue;
        }
        says(
            &mut plimsoll_testkit::command(linked(compiler, "objects.c", language)),
            "all promises kept\n",
        );
    }
}

#[test]
fn a_hardened_heap_is_an_object_that_leaves_others_alone() {
    if !has("gcc") {
        return;
    }
    let mut program = plimsoll_testkit::command(linked("gcc", "objects.c", "c"));
    says(program.arg("hardened"), "all promises kept\n");
}

/// Handlers of others run while the heap's locks are held for the fork: those that a library registered before the heap
/// could, and those of the program.
#[test]
fn handlers_of_a_fork_may_allocate() {
    if !has("gcc") {
        return;
    }
    let handlers = compiled("gcc", "fork.c", "c", &["-DLIBRARY", "-shared", "-fPIC"]);
    let program = compiled("gcc", "fork.c", "c", &[handlers.to_str().expect("text")]);
    for (front_end, sections) in [("lfh", "on"), ("lfh", "off"), ("standard", "on")] {
        let mut program = under(front_end, &program);
        says(
            program.env("PLIMSOLL_HEAP_RSEQ", sections),
            "50 children allocated\n",
        );
    }
}

#[test]
fn the_example_of_the_header_runs() {
    if !has("gcc") {
        return;
    }
    let program = linked("gcc", "../../../plimsoll-malloc/examples/heap.c", "c");
    says(
        &mut plimsoll_testkit::command(program),
        "1 and\n2 for\n2 heap\n2 one\n1 rest\n2 the\n1 words\n",
    );
}

/// The lines of C in the chapter on the heap, as the body of a program.
#[test]
fn the_c_of_the_book_runs() {
    if !has("gcc") {
        return;
    }
    let chapter = include_str!("../../../../../docs/src/heap.md");
    let shown = chapter
        .split("```c\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let shown = shown.expect("the chapter has lines of C");
    assert!(shown.contains("plimsoll_heap_alloc"), "{shown}");
    let folder = super::scratch("c-of-the-book");
    let program = folder.join("shown.c");
    let text = format!(
        "#include <stdio.h>\n#include <plimsoll_heap.h>\n\nint main(void)\n{{\n{shown}\
         puts(block != NULL ? \"a block\" : \"none\");\nreturn 0;\n}}\n"
    );
    std::fs::write(&program, text).expect("write");
    let program = linked("gcc", program.to_str().expect("text"), "c");
    says(&mut plimsoll_testkit::command(program), "a block\n");
}

#[test]
fn the_header_names_what_the_library_has() {
    let header = include_str!("../../../../plimsoll-malloc/include/plimsoll_heap.h");
    let words = header.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("plimsoll_heap_")).collect();
    let named = named
        .into_iter()
        .filter(|name| {
            ![
                "plimsoll_heap_t",
                "plimsoll_heap_holdings",
                "plimsoll_heap_holdings_t",
            ]
            .contains(name)
        })
        .collect::<Vec<_>>();
    let mut has: Vec<&str> = SYMBOLS
        .split_whitespace()
        .filter(|name| name.starts_with("plimsoll_"))
        .collect();
    has.sort_unstable();
    assert_eq!(named, has);
}
