#!/usr/bin/env bash
# Boots a current Debian kernel under software emulation, with the systemd of the Debian release as process 1, and runs
# guest/systemd.sh inside. It checks plimsoll-guard.service as the packages install it, and systemd-oomd on the same
# programs: function, not speed.
#
#   vm/systemd.sh [PLIMSOLL]    fetch missing packages, boot, check; without PLIMSOLL build the release binary
#
# PLIMSOLL_VM_CACHE     folder for the fetched packages (default: ~/.cache/plimsoll/vm)
#
# Exit codes: 0 every check passed; 1 a check failed; 3 the VM cannot run here.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
# The unpacked image takes about 200 MB of this memory, and the checks fill the rest.
memory_mib=768
disk_mib=16 # the guest does not use it
timeout_seconds=3600 # longer than the timeouts of guest/checks.service

fail() { # EXIT-CODE MESSAGE
    echo "vm/systemd.sh: $2" >&2
    exit "$1"
}

# shellcheck source=vm/boot.sh
source "$here/boot.sh"

for command in cargo gzip ldd strip tar timeout; do
    command -v "$command" >/dev/null || fail 3 "needs the command $command"
done

plimsoll=${1:-$target/release/plimsoll}
[[ -n ${1:-} ]] || (cd "$root" && cargo build --release --quiet --package plimsoll)
cache=$("$here/fetch.sh") || fail 3 "the VM cannot run: QEMU, the kernel or systemd could not be fetched (see above)"
boot "$cache" "$cache/kernel" "$cache/systemd" "$target/vm-systemd" "$memory_mib" "$disk_mib" "$timeout_seconds" systemd.sh \
    "plimsoll=$plimsoll"
