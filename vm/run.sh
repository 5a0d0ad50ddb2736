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
console=$work/console.log
# Enough that the tripwire ignores the pressure of the slow emulated experiments: it checks stalls only below twice its
# reserve of 512 MiB.
memory_mib=2560
disk_mib=512
timeout_seconds=900 # about 200 on a quiet machine, and other work may run beside

fail() { # EXIT-CODE MESSAGE
    echo "vm/run.sh: $2" >&2
    exit "$1"
}

for command in cargo gzip ldd python3 strip tar timeout; do
    command -v "$command" >/dev/null || fail 3 "needs the command $command"
done

plimsoll=${1:-$target/release/plimsoll}
[[ -n ${1:-} ]] || (cd "$root" && cargo build --release --quiet --package plimsoll)
cache=$("$here/fetch.sh") || fail 3 "the VM cannot run: QEMU or the kernel could not be fetched (see above)"
export PATH=$cache/bin:$PATH
kernel=$(find "$cache/kernel/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
[[ -n $kernel ]] || fail 3 "the fetched packages hold no kernel"
version=${kernel##*/vmlinuz-}

rm -rf "$work"
mkdir -p "$work"
"$here/initramfs.sh" "$cache" "$version" "$plimsoll" "$work/initrd.gz" ||
    fail 3 "cannot build the initramfs"
truncate -s "${disk_mib}M" "$disk"
mke2fs -q -t ext4 -O ^has_journal "$disk"

# Always TCG: not every /dev/kvm runs a stock kernel.
echo "vm: booting $version under $(qemu-system-x86_64 --version | head -n 1), emulated"
started=$SECONDS
# In the foreground, so that a signal to this script's process group ends the VM too.
timeout --foreground "$timeout_seconds" qemu-system-x86_64 -M q35,accel=tcg -cpu max -smp 2 -m "$memory_mib" \
    -kernel "$kernel" -initrd "$work/initrd.gz" -append "console=ttyS0 panic=-1 quiet" \
    -drive "file=$disk,format=raw,if=virtio,cache=unsafe" \
    -no-reboot -nodefaults -display none -serial stdio </dev/null | tr -d '\r' | tee "$console" ||
    fail 1 "the VM did not end by itself within $timeout_seconds s (console: $console)"
echo "vm: ran $((SECONDS - started)) s"

case $(grep '^plimsoll-vm exit ' "$console" | tail -n 1) in
"plimsoll-vm exit 0") ;;
"plimsoll-vm exit "*) fail 1 "checks failed in the guest (console: $console)" ;;
*) fail 1 "the guest died before its checks ended (console: $console)" ;;
esac

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
