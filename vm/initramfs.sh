#!/usr/bin/env bash
# Builds the initramfs that the VM boots: busybox, the kernel modules that the checks need, programs with their libraries,
# and the folder guest/.
#
#   vm/initramfs.sh CACHE KERNEL VERSION ROOT CHECKS OUTPUT NAME=PROGRAM...
#
# CACHE is the output of fetch.sh, KERNEL the folder of a kernel in it, VERSION that of the kernel, CHECKS the script of
# guest/ that the guest runs, NAME the name of a program there. The guest has a real /lib/modules, so that `modprobe` works
# there as on any machine: for plimsoll, and for the kernel when it loads a compressor.
#
# ROOT is the folder of a root file system with systemd, or empty. With ROOT, systemd is process 1, guest/checks.service
# runs CHECKS, and the guest has plimsoll-guard.service. Without ROOT, guest/init is process 1.
set -euo pipefail

cache=$1 kernel=$2 version=$3 root=$4 checks=$5 output=$6
programs=("${@:7}")
here=$(dirname "$(readlink -f "$0")")
export PATH=$cache/bin:$PATH
modules=(virtio_pci virtio_blk ext4 crc32c_generic zram lz4 lz4hc zstd deflate)

umask 022 # another user enters the folders and loads the libraries
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# Whether the path exists, even as a dangling link. ROOT has links with absolute targets, which lead to files of the
# host: never write through such a link.
exists() { [[ -e $1 || -L $1 ]]; }

# Adds the units of the guest, and masks the units that wait for devices: without udev, systemd never sees a device.
configure_systemd() {
    local settings=$stage/etc/systemd generator
    mkdir -p "$settings"/{system.conf.d,system-generators,system/multi-user.target.wants} "$stage"/var/{lib,log,tmp}
    cp -L --remove-destination /etc/os-release "$stage/etc/os-release"
    echo 00000000000000000000000000000001 >"$stage/etc/machine-id" # else systemd asks the questions of a first boot
    # A crash of systemd ends the VM.
    printf '%s\n' '[Manager]' ShowStatus=no CrashReboot=yes DefaultTimeoutStartSec=10min DefaultTimeoutStopSec=10min \
        >"$settings/system.conf.d/vm.conf"
    for generator in getty gpt-auto; do ln -s /dev/null "$settings/system-generators/systemd-$generator-generator"; done
    ln -s /dev/null "$settings/system/getty.target"
    ln -s /usr/lib/systemd/system/multi-user.target "$settings/system/default.target"
    install -m 644 "$here/guest/"{checks,emergency}.service "$settings/system/"
    ln -s ../checks.service "$settings/system/multi-user.target.wants/"
    install -m 644 "$here/../packaging/systemd/plimsoll-guard.service" "$stage/usr/lib/systemd/system/"
    ln -s usr/lib/systemd/systemd "$stage/init"
}

[[ -z $root ]] || cp -a "$root/." "$stage"
chmod 755 "$stage" # it becomes the guest's root folder, which others than root must be able to enter
mkdir -p "$stage"/{bin,sbin,dev,etc,proc,sys,run,tmp,disk,usr/bin,"lib/modules/$version"}

cp -L "$cache/bin/busybox" "$stage/bin/busybox"
for applet in $(busybox --list | grep -vx busybox); do
    exists "$stage/bin/$applet" || exists "$stage/sbin/$applet" || ln -s busybox "$stage/bin/$applet"
done
exists "$stage/sbin/modprobe" || ln -s ../bin/busybox "$stage/sbin/modprobe" # where the kernel looks for it
printf 'root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$stage/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$stage/etc/group"

# Unpacked modules, as busybox cannot read .xz.
[[ -s $kernel/lib/modules/$version/modules.dep ]] || depmod -b "$kernel" "$version"
for module in "${modules[@]}"; do
    modprobe -d "$kernel" -S "$version" --show-depends "$module" || {
        echo "vm/initramfs.sh: kernel $version has no module $module" >&2
        exit 1
    }
done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
    name=${file##*/}
    target=$stage/lib/modules/$version/${name%%.ko*}.ko
    case $file in
    *.xz) xz -dc "$file" >"$target" ;;
    *.zst) zstd -qdc "$file" >"$target" ;;
    *) cp "$file" "$target" ;;
    esac
done
cp "$kernel/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$stage/lib/modules/$version/"
depmod -b "$stage" "$version"

for entry in "${programs[@]}"; do
    program=${entry#*=}
    strip -o "$stage/usr/bin/${entry%%=*}" "$program" # the guest has little memory
    # Each library goes to the path where the loader looks for it; a static program has none. A library of ROOT stays:
    # the C library and its loader must be of one build.
    { ldd "$program" 2>/dev/null || true; } | awk '$2 == "=>" { print $3; next } $1 ~ "^/" { print $1 }' | while read -r library; do
        exists "$stage$library" && continue
        mkdir -p "$stage${library%/*}"
        cp -L "$library" "$stage$library"
    done
done

cp -r "$here/guest" "$stage/guest"
if [[ -n $root ]]; then configure_systemd; else ln -s guest/init "$stage/init"; fi
ln -s "guest/$checks" "$stage/checks.sh"
chmod -R a+rX "$stage/usr/bin" "$stage/guest" # another user starts and reads them
chmod +x "$stage/guest/init"
(cd "$stage" && find . | cpio --create --format=newc --owner=+0:+0 --quiet | gzip -1) >"$output"
