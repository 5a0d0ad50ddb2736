//! Tools of every day: perl, sort, xz, git, ImageMagick.

use std::path::Path;

use plimsoll_testkit::capability;

use super::{Case, as_without_a_limit, installed};

#[test]
fn perl_has_the_same_hashes() {
    if !installed(&["perl"]) {
        return;
    }
    let case = Case {
        name: "perl",
        arguments: &["perl", "words.pl"],
        variables: &[("PERL_HASH_SEED", "0")],
        sources: &["words.pl"],
        ..Case::default()
    };
    as_without_a_limit(&case, [36, 18]);
}

/// Lines in an order that is far from sorted.
const LINES: &str = "awk 'BEGIN { srand(7); for (n = 0; n < 300000; n++) printf \"%d %d\\n\", rand() * 1e9, n * 7919 }' >lines";

#[test]
fn sort_has_the_same_order() {
    if !installed(&["sort", "awk"]) {
        return;
    }
    let case = Case {
        name: "sort",
        arguments: &["sort", "--parallel=2", "-S", "256M", "-o", "sorted", "lines"],
        variables: &[("LC_ALL", "C")],
        before: LINES,
        after: "LC_ALL=C sort -c sorted; sha256sum sorted",
        ..Case::default()
    };
    as_without_a_limit(&case, [12, 6]);
}

/// A log of so many lines of 72 bytes, out of order by at most 512 lines.
fn log(lines: u32) -> String {
    format!(
        "awk 'BEGIN {{ x = 7; for (n = 0; n < {lines}; n++) {{ x = x * 16807 % 2147483647; \
         printf \"%010d host%02d GET /page/%06d status 200 in %010d us, agent %d\\n\", \
         n * 8 + x % 4096, x % 37, x % 611953, x, n % 9 }} }}' >log"
    )
}

/// 100 MB. Each merge is of runs that hardly overlap, so `sort` reads and writes its lines in streams. With as many lines in no
/// order, each comparison in the last merges would read another page, for many minutes: [`sort_has_the_same_order`] has few lines.
#[test]
fn sort_of_a_large_log_has_the_same_order() {
    if !installed(&["sort", "awk"]) {
        return;
    }
    let before = log(1_400_000);
    let case = Case {
        name: "sort of a large log",
        arguments: &["sort", "--parallel=2", "-S", "256M", "-o", "sorted", "log"],
        variables: &[("LC_ALL", "C")],
        before: &before,
        after: "LC_ALL=C sort -c sorted; test $(stat --format %s sorted) -ge 100000000; sha256sum sorted",
        ..Case::default()
    };
    as_without_a_limit(&case, [88, 44]);
}

#[test]
fn xz_compresses_the_same() {
    if !installed(&["xz", "awk"]) {
        return;
    }
    let case = Case {
        name: "xz",
        arguments: &["xz", "--lzma2=preset=0,dict=16MiB", "-T1", "-k", "lines"],
        before: LINES,
        after: "sha256sum lines.xz; xz -dc lines.xz | cmp - lines",
        ..Case::default()
    };
    as_without_a_limit(&case, [24, 12]);
}

/// 50 MB, three times the dictionary: `xz` writes its window and the chains of matches, four times that size, again and again.
#[test]
fn xz_compresses_a_large_log_the_same() {
    if !installed(&["xz", "awk"]) {
        return;
    }
    let before = log(700_000);
    let case = Case {
        name: "xz of a large log",
        arguments: &["xz", "--lzma2=preset=0,dict=16MiB", "-T1", "-k", "log"],
        before: &before,
        after: "test $(stat --format %s log) -ge 50000000; sha256sum log.xz; xz -dc log.xz | cmp - log",
        ..Case::default()
    };
    as_without_a_limit(&case, [46, 23]);
}

/// Blobs that resemble each other, so that the window of deltas has work.
const REPOSITORY: &str = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE=2024-01-01T00:00:00Z; \
    export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE=2024-01-01T00:00:00Z; \
    git init -q -b main .; \
    for n in $(seq 30); do \
        seq $((n * 1000)) $((n * 1000 + 60000)) >file$((n % 3)); git add .; git commit -q -m \"Change $n\"; \
    done";

#[test]
fn git_collects_the_same_objects() {
    if !installed(&["git"]) {
        return;
    }
    let case = Case {
        name: "git gc",
        arguments: &["git", "gc", "-q", "--aggressive"],
        before: REPOSITORY,
        after: "git fsck --strict; git count-objects -v | grep -v size; git cat-file --batch-all-objects --batch-check | sha256sum",
        ..Case::default()
    };
    as_without_a_limit(&case, [16, 8]);
}

/// A cloud of colours, enlarged and blurred by several threads.
#[test]
fn imagemagick_writes_the_same_image() {
    // Version 7 has one program for all.
    let mut programs = ["/usr/bin/magick", "/usr/bin/convert"].into_iter();
    let program = programs.find(|program| Path::new(program).exists());
    if !capability(
        "imagemagick",
        program.is_some(),
        "there is no such program in /usr/bin",
    ) {
        return;
    }
    let image = "-seed 7 -size 1000x750 plasma:fractal -resize 200% -blur 0x4 image.ppm";
    let arguments: Vec<&str> = program.into_iter().chain(image.split(' ')).collect();
    let case = Case {
        name: "imagemagick",
        arguments: &arguments,
        after: "sha256sum image.ppm",
        ..Case::default()
    };
    let output = as_without_a_limit(&case, [36, 20]);
    assert!(output.ends_with("image.ppm\n"), "{output}");
}
