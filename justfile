# Shortcuts; each is a thin line. `just` lists them.

target := env_var_or_default("CARGO_TARGET_DIR", "target")
# The library that `plimsoll` embeds, where its build script builds it
heap_target := `rustc -vV | sed -n 's/^host: //p'`
heap_library := target / "embedded" / heap_target / "malloc/libplimsoll_malloc.so"

# List the recipes
default:
    @just --list

# Run plimsoll: `just run compression --quick`
run *arguments:
    cargo run --release -- run {{arguments}}

# Run the tests, those that hold the machine beside the others
test:
    cargo xtask test

# Run real programs in less RAM than they need, and on the heap
programs:
    cargo xtask test programs

# Run the tests of the pager, of its C interface, and of the library of `exec`
pager:
    cargo xtask test pager

# Run tests of the pager in each of its other modes
modes:
    cargo xtask test modes

# Run guards, levels and searches for a size under real pressure
control:
    cargo xtask test control

# Run the experiments on the pager
paging:
    cargo xtask test paging

# Stress the heap with many threads for minutes: `just heap-stress 300`
heap-stress seconds="120":
    PLIMSOLL_HEAP_STRESS_SECONDS={{seconds}} cargo test --release -p plimsoll-lfh --test it threads::
    PROPTEST_CASES=5000 cargo test --release -p plimsoll-lfh --test it model::
    PLIMSOLL_HEAP_STRESS_SECONDS={{seconds}} cargo test --release -p plimsoll-lfh --test it fork::
    PROPTEST_CASES=5000 cargo test --release -p plimsoll-lfh --lib -- backend:: front_end:: affinity::

# Model the atomic words of the heap and the pager that threads share, in every order of their steps
loom:
    .ci/loom

# Test the heap on arm64 and musl and under ThreadSanitizer; as root, on Debian
portability:
    .ci/portability

# Stress the pager for at least ten minutes, and inject a million errors: `just stress-pager 5` for a shorter stress
stress-pager factor="30":
    PLIMSOLL_PAGER_STRESS={{factor}} cargo test -p plimsoll-pager --test it stress
    cargo test -p plimsoll-pager --lib -- --ignored a_million_injected_errors_cost_no_byte

# Feed hostile input to every command, and kill runs and cleanups at random moments, as root: `just hostile 60`, or in parts `just hostile 0..10`
hostile rounds="30":
    cargo test -p plimsoll --test it --no-run
    PLIMSOLL_HOSTILE_ROUNDS={{rounds}} cargo test -p plimsoll --test it -- hostile --nocapture --test-threads 1

# Format all sources; `cargo fmt` alone does not see the modules that `for_each_workload!` declares
format *options:
    cargo fmt {{options}}
    rustfmt {{options}} $(git ls-files 'crates/*/workloads/*.rs' 'crates/plimsoll/tests/it/run/*.rs')

# Check formatting, clippy and shell scripts
lint: (format "--check")
    cargo clippy --workspace --all-targets -- -D warnings
    shellcheck vm/*.sh vm/guest/init vm/guest/*.sh .ci/run .ci/smoke .ci/left-behind .ci/loom .ci/portability .ci/heap-by-hand .ci/pager-by-hand .ci/kubernetes docs/pictures.sh .ci/package packaging/build.sh crates/plimsoll/tests/fleet/*.sh crates/plimsoll-fleet/src/*/*.sh crates/plimsoll-fleet/src/slurm/job.sbatch crates/plimsoll-fleet/src/ssh/tests/*
    .ci/inputs check
    packaging/third_party.py check

# Check dependencies, licences, links and the book
workspace:
    cargo test -p plimsoll --test it workspace::

# Check the Kubernetes manifests against their schemas
kubernetes folder="/tmp/plimsoll-kubernetes":
    .ci/kubernetes fetch {{folder}}
    .ci/kubernetes check {{folder}}

# Build the API documentation; `cargo test` checks the book
docs:
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps

# Check that two runs of a scenario agree: `just repeatability wscap`; writes a dated folder
repeatability *arguments:
    cargo build --release
    benchmarks/repeatability/run.py target/release/plimsoll {{arguments}}

# Run every scenario beside a foreign cgroup that swaps, as root; no metric called ok may be impossible
beside-swap:
    cargo test -p plimsoll --test it run::beside_swap:: -- --include-ignored --nocapture --test-threads=1

# Size sqlite3 and redis, whose need their settings name; needs a quiet machine
size-known:
    cargo test -p plimsoll --test it run::size::known:: -- --include-ignored --nocapture --test-threads=1

# Build the heap's library, if no build of `plimsoll` has built it
heap-builds:
    cargo build --profile malloc -p plimsoll-malloc --target {{heap_target}} --target-dir "{{target}}/embedded"

# Compare the heap with the installed allocators and its targets: `just bench-heap --only larson --quick`
bench-heap *arguments:
    cargo build --release -p plimsoll
    benchmarks/heap/run.py "{{target}}/release/plimsoll" {{arguments}}

# Build the worker of the pager's benchmark
pager-builds:
    cargo build --release -p plimsoll-pager --example pager_bench

# Compare the pager with zram and zswap and with its targets, as root: `just bench-pager --quick --data ratio=2.5`
bench-pager *arguments: pager-builds
    benchmarks/pager/run.py {{arguments}} "${CARGO_TARGET_DIR:-target}/release/examples/pager_bench"

# Compare programs under `exec` with the kernel on zram and with their native run, as root: `just bench-exec --quick --programs xz`
bench-exec *arguments:
    cargo build --release -p plimsoll
    benchmarks/exec/run.py {{arguments}} "{{target}}/release/plimsoll"

# Run programs under `exec` for half an hour, as root, with stops, kills and budgets by chance: `just soak-exec --minutes 5`
soak-exec *arguments:
    cargo build --release -p plimsoll
    benchmarks/exec/soak.py {{arguments}} "{{target}}/release/plimsoll"

# Run the benchmarks of the pager and of exec, tiny, as root
pager-by-hand: pager-builds
    cargo build --release -p plimsoll
    .ci/pager-by-hand

# Run the commands in the documents of the heap, and its benchmarks, each tiny
heap-by-hand: heap-builds
    cargo build --release -p plimsoll
    .ci/heap-by-hand "{{heap_library}}" "{{target}}/release/plimsoll"

# Test plimsoll on cgroup v2, zram zstd, zswap and MGLRU, in an emulated VM
vm:
    vm/run.sh

# Test the pager and exec on the kernel of the Debian release, which may lack UFFDIO_MOVE, in an emulated VM
vm-pager:
    vm/pager.sh

# Test the systemd unit of the guard with systemd as process 1, in an emulated VM
vm-systemd:
    vm/systemd.sh

# Click through reports in headless Chromium: `just page-test plimsoll-runs/*/report.html`
page-test +reports:
    crates/plimsoll/tests/page/run.sh {{reports}}

# Use the browser interface of `plimsoll watch --serve` in headless Chromium
watch-page-test:
    cargo test --workspace --no-run
    crates/plimsoll/tests/page/run.sh "${CARGO_TARGET_DIR:-target}/debug/plimsoll"

# Show a fleet on this machine, as root: Slurm on three hosts, of which one dies and one has another swap algorithm
fleet-demo folder="target/fleet-demo":
    cargo build --release -p plimsoll
    crates/plimsoll/tests/fleet/demo.sh "{{target}}/release/plimsoll" {{folder}}

# Check everything for a change, except sections with the inputs of their last green run
ci:
    .ci/run

# Make a tarball and a Debian package of the release in target/dist, with man pages, completions, licences and the C library
dist:
    cargo build --release --locked -p plimsoll
    cargo rustc --release --locked -p plimsoll-pager-c --crate-type cdylib -- -Clink-arg=-Wl,-soname,libplimsoll_pager_c.so.0
    rm -rf "${CARGO_TARGET_DIR:-target}/dist"
    packaging/build.sh "${CARGO_TARGET_DIR:-target}/release/plimsoll" \
        "${CARGO_TARGET_DIR:-target}/release/libplimsoll_pager_c.so" "${CARGO_TARGET_DIR:-target}/dist"

# Install the packages of `just dist` into a temporary root, use and remove them, as root
dist-test: dist
    .ci/package "${CARGO_TARGET_DIR:-target}/dist" --root

# Write the pictures and values of README.md and the book from real runs, as root: `just pictures FOLDER`
pictures folder:
    cargo build --release
    docs/pictures.sh "${CARGO_TARGET_DIR:-target}/release/plimsoll" {{folder}}

# Check everything, and record the green runs in .ci/green
thorough:
    .ci/run thorough
