#!/usr/bin/env bash
# Boots a current Debian kernel under software emulation and runs guest/checks.sh inside: plimsoll on cgroup v2, zram
# zstd, zswap and MGLRU, which the host may lack. It checks function, not speed.
#
#   vm/run.sh [PLIMSOLL]    fetch missing packages, boot, check; without PLIMSOLL build the release binary
#
# PLIMSOLL_VM_CACHE     folder for the fetched packages (default: ~/.cache/plimsoll/vm)
#
# Exit codes: 0 every check passed; 1 a check failed, in the guest or on its output; 3 the VM cannot run here.
set -euo pipefail

here=$(dirname "$(readlink -f "$0")")
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
work=$target/vm
disk=$work/disk.img
# Enough that the tripwire ignores the pressure of the slow emulated experiments: it checks stalls only below twice its
# reserve of 512 MiB.
memory_mib=2560
disk_mib=512
timeout_seconds=3000 # without guest/exec.sh about 260 on a quiet machine, four times that beside compilers on two CPUs

fail() { # EXIT-CODE MESSAGE
    echo "vm/run.sh: $2" >&2
    exit "$1"
}

# shellcheck source=vm/boot.sh
source "$here/boot.sh"

for command in cargo gzip ldd python3 strip tar timeout; do
    command -v "$command" >/dev/null || fail 3 "needs the command $command"
done

plimsoll=${1:-$target/release/plimsoll}
[[ -n ${1:-} ]] || (cd "$root" && cargo build --release --quiet --package plimsoll)
cache=$("$here/fetch.sh") || fail 3 "the VM cannot run: QEMU or the kernel could not be fetched (see above)"
boot "$cache" "$cache/kernel" "" "$work" "$memory_mib" "$disk_mib" "$timeout_seconds" checks.sh "plimsoll=$plimsoll"

# Extracts the recordings from the disk image and checks them independently of plimsoll.
debugfs -R "rdump /out $work" "$disk" 2>/dev/null
python3 -m json.tool "$work/out/doctor.json" >/dev/null || fail 1 "doctor --json did not print JSON"
verify() { # NAME OPTION...: the recording that the guest's run NAME left
    local name=$1
    shift
    "$root/.ci/verify-recording" "$work/out/$name"/* --stdout "$work/out/$name.json" --cgroup v2 "$@" ||
        fail 1 "the guest's run \`$name\` did not leave what it should have (files: $work/out)"
}
verify zram --subject zram:zstd --trim worker process-madvise cgroup
verify disk --subject zswap:zstd swapfile --trim cgroup
