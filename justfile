# Shortcuts; each is a thin line. `just` lists them.

# List the recipes
default:
    @just --list

# Run plimsoll: `just run compression --quick`
run *arguments:
    cargo run --release -- run {{arguments}}

# Run every test
test *arguments:
    cargo test --workspace {{arguments}}

# The heap under many threads for minutes: `just heap-stress 300`
heap-stress seconds="120":
    PLIMSOLL_HEAP_STRESS_SECONDS={{seconds}} cargo test --release -p plimsoll-lfh --test it threads::
    PROPTEST_CASES=5000 cargo test --release -p plimsoll-lfh --test it model::
    PLIMSOLL_HEAP_STRESS_SECONDS={{seconds}} cargo test --release -p plimsoll-lfh --test it fork::
    PROPTEST_CASES=5000 cargo test --release -p plimsoll-lfh --lib -- backend:: front_end:: affinity::

# The words of the heap that threads share, in every order of their steps
loom:
    .ci/loom

# The heap on arm64 and musl and under ThreadSanitizer; as root, on Debian
portability:
    .ci/portability

# Formatting, clippy, shell scripts
lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    shellcheck vm/*.sh vm/guest/* .ci/run .ci/smoke .ci/left-behind .ci/loom .ci/portability .ci/heap-by-hand docs/pictures.sh
    .ci/inputs check

# Dependencies and their licences, links, the book: the checks of the workspace as a whole
workspace:
    cargo test -p plimsoll --test it workspace::

# The API documentation; `cargo test` checks the book
docs:
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

# Whether two runs of the same scenario agree: `just repeatability wscap`; writes a dated folder
repeatability *arguments:
    cargo build --release
    benchmarks/repeatability/run.py target/release/plimsoll {{arguments}}

# The heap's library and the program that loads it, as its benchmarks take them
heap-builds:
    cargo build --profile malloc -p plimsoll-malloc
    cargo build --release -p plimsoll-heap-load

# Our heap beside the allocators that are installed, and its targets: `just bench-heap --quick --only '22,'`
bench-heap *arguments: heap-builds
    benchmarks/heap/run.py --library "${CARGO_TARGET_DIR:-target}/malloc/libplimsoll_malloc.so" {{arguments}} \
        "${CARGO_TARGET_DIR:-target}/release/heap-load"

# Our two front ends beside glibc's malloc: `just bench-front-ends FOLDER`
bench-front-ends folder *arguments: heap-builds
    benchmarks/heap/front_ends.py {{arguments}} "${CARGO_TARGET_DIR:-target}/malloc/libplimsoll_malloc.so" \
        "${CARGO_TARGET_DIR:-target}/release/heap-load" {{folder}}

# The heap by hand, as its documents show it, and its benchmarks, each tiny
heap-by-hand: heap-builds
    .ci/heap-by-hand docs/pictures.sh

# plimsoll on cgroup v2, zram zstd, zswap and MGLRU, in an emulated VM
vm:
    vm/run.sh

# Click through reports in headless Chromium: `just page-test plimsoll-runs/*/report.html`
page-test +reports:
    crates/plimsoll/tests/page/run.sh {{reports}}

# Use the live page of `plimsoll watch --serve` in headless Chromium
watch-page-test:
    cargo test --workspace --no-run
    crates/plimsoll/tests/page/run.sh "${CARGO_TARGET_DIR:-target}/debug/plimsoll"

# Everything that must hold before a change lands, but for sections whose inputs are those of their last green run
ci:
    .ci/run

# The pictures of README.md and the book and the values beside them, from real runs, as root: `just pictures FOLDER`
pictures folder:
    cargo build --release
    docs/pictures.sh "${CARGO_TARGET_DIR:-target}/release/plimsoll" {{folder}}

# Everything, and a record of the green runs in .ci/green
thorough:
    .ci/run thorough
