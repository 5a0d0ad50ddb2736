#!/usr/bin/env bash
# Boots the kernel of the Debian release (6.1 in bookworm) under software emulation, and runs guest/pager.sh inside: programs
# under `plimsoll exec --engine pager`, and tests of the pager. That kernel is older than UFFDIO_MOVE, so the pager copies pages.
# It checks function, not speed.
#
#   vm/pager.sh [PLIMSOLL]    fetch missing packages, build the tests, boot, run all; without PLIMSOLL build the release binary
#
# PLIMSOLL_VM_CACHE     folder for the fetched packages (default: ~/.cache/plimsoll/vm)
#
# Exit codes: 0 every check and test passed; 1 one failed; 3 the VM cannot run here.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}

fail() { # EXIT-CODE MESSAGE
    echo "vm/pager.sh: $2" >&2
    exit "$1"
}

# shellcheck source=vm/boot.sh
source "$here/boot.sh"

for command in cargo gzip ldd python3 strip tar timeout; do
    command -v "$command" >/dev/null || fail 3 "needs the command $command"
done

# NAME=PROGRAM of each test program: `lib` for the unit tests, `it` for the others.
mapfile -t programs < <(
    cd "$root" && cargo test --quiet --package plimsoll-pager --lib --test it --no-run --message-format=json |
        python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        kind = message["target"]["kind"][0]
        print("pager-" + ("lib" if kind == "lib" else "it") + "=" + message["executable"])
'
)
((${#programs[@]} == 2)) || fail 1 "cargo built ${#programs[@]} test programs of plimsoll-pager, not 2"
plimsoll=${1:-$target/release/plimsoll}
[[ -n ${1:-} ]] || (cd "$root" && cargo build --release --quiet --package plimsoll)
cache=$("$here/fetch.sh") || fail 3 "the VM cannot run: QEMU or the kernel could not be fetched (see above)"
# 3600 s: the tests needed 840 at a load of 30, and root's programs 400 at a load of 10 on two CPUs.
boot "$cache" "$cache/release" "" "$target/vm-pager" 1024 512 3600 pager.sh "plimsoll=$plimsoll" "${programs[@]}"
