# shellcheck shell=bash
# Boots a kernel under software emulation and runs checks of guest/ inside. Sourced by the scripts that say what to check;
# they define `fail EXIT-CODE MESSAGE`.

# Boots, and returns when the guest has turned itself off after checks that passed. Leaves disk.img and console.log in WORK.
# The guest also gets the host's programs that guest/exec.sh runs. For ROOT see initramfs.sh.
boot() { # CACHE KERNEL ROOT WORK MEMORY-MIB DISK-MIB TIMEOUT-SECONDS CHECKS NAME=PROGRAM...
    local cache=$1 kernel=$2 root=$3 work=$4 memory_mib=$5 disk_mib=$6 timeout_seconds=$7 checks=$8
    shift 8
    local folder image version started console=$work/console.log disk=$work/disk.img
    local program file programs=("$@")
    for program in dash=dash gnudd=dd gnusort=sort gnuxz=xz perl=perl; do # before PATH has the tools of the cache
        file=$(command -v "${program#*=}") || fail 3 "needs the command ${program#*=}"
        programs+=("${program%=*}=$file")
    done
    folder=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
    export PATH=$cache/bin:$PATH
    image=$(find "$kernel/boot" -name 'vmlinuz-*' | sort -V | tail -n 1)
    [[ -n $image ]] || fail 3 "the fetched packages hold no kernel"
    version=${image##*/vmlinuz-}

    rm -rf "$work"
    mkdir -p "$work"
    "$folder/initramfs.sh" "$cache" "$kernel" "$version" "$root" "$checks" "$work/initrd.gz" "${programs[@]}" ||
        fail 3 "cannot build the initramfs"
    truncate -s "${disk_mib}M" "$disk"
    mke2fs -q -t ext4 -O ^has_journal "$disk"

    # Always TCG: not every /dev/kvm runs a stock kernel.
    echo "vm: booting $version under $(qemu-system-x86_64 --version | head -n 1), emulated"
    started=$SECONDS
    # Beside load the emulated timer is late, and the kernel's check of it panics: no_timer_check.
    # In the foreground, so that a signal to this script's process group ends the VM too.
    timeout --foreground "$timeout_seconds" qemu-system-x86_64 -M q35,accel=tcg -cpu max -smp 2 -m "$memory_mib" \
        -kernel "$image" -initrd "$work/initrd.gz" -append "console=ttyS0 panic=-1 quiet no_timer_check" \
        -drive "file=$disk,format=raw,if=virtio,cache=unsafe" \
        -no-reboot -nodefaults -display none -serial stdio </dev/null | stdbuf --output=L tr -d '\r' | tee "$console" ||
        fail 1 "the VM did not end by itself within $timeout_seconds s (console: $console)"
    echo "vm: ran $((SECONDS - started)) s"

    case $(grep '^plimsoll-vm exit ' "$console" | tail -n 1) in
    "plimsoll-vm exit 0") ;;
    "plimsoll-vm exit "*) fail 1 "checks failed in the guest (console: $console)" ;;
    *) fail 1 "the guest died before its checks ended (console: $console)" ;;
    esac
}
