#!/usr/bin/env bash
# Fetches QEMU, current Debian kernels, systemd and the tools that build an initramfs into a cache folder, without root
# and without installing anything. Prints the folder, in which it leaves:
#
#   bin/      commands (qemu-system-x86_64, depmod, modprobe, mke2fs, debugfs, cpio, xz, zstd), ready for PATH,
#             and a static busybox to copy
#   tools/    the unpacked packages behind them, with every library they need
#   kernel/   the unpacked kernel of the backports: boot/vmlinuz-VERSION and lib/modules/VERSION
#   release/  the same of the release itself, which is older
#   systemd/  a root file system with systemd, logind, oomd and the system bus of the release, about 45 MB
#
# `vm/fetch.sh versions` downloads only the indexes of the mirror and prints the versions that it would use.
#
# Packages come from the mirror of this host's apt, for this host's Debian release and its backports:
# QEMU 7.2 panics guests at random under emulation, and bookworm's own kernel is 6.1.
set -euo pipefail
umask 022 # the guest's users read the files

cache_root=${PLIMSOLL_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plimsoll/vm}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
kernel_package=linux-image-amd64 # the generic flavour: the cloud kernels lack zswap
tool_packages=(qemu-system-x86 busybox-static cpio e2fsprogs kmod xz-utils zstd)
systemd_packages=(systemd systemd-oomd dbus-daemon)
# Fetched without their dependencies: those that systemd_packages do not pull in are large, and only maintainer scripts
# use them (adduser, usrmerge).
bus_packages=(dbus dbus-system-bus-common)
max_age_days=7

fail() {
    echo "vm/fetch.sh: $*" >&2
    exit 1
}

say() { echo "vm: $*" >&2; }

[[ $(uname -m) == x86_64 ]] || fail "the VM is amd64 and runs on x86_64 hosts only; this is $(uname -m)"
for command in apt-get apt-cache apt-config dpkg-deb flock; do
    command -v "$command" >/dev/null || fail "needs $command: run this on Debian or in a Debian container"
done

# shellcheck disable=SC1091 # a file of the host
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[[ -n $release ]] || fail "/etc/os-release names no VERSION_CODENAME: cannot tell which Debian release to take packages from"
cache=$cache_root/$release
apt=$cache/apt
complete=$cache/complete

# Complete, written by this version of the script, and recent.
is_fresh() {
    [[ -n $(find "$complete" -mtime "-$max_age_days" 2>/dev/null) ]] && cmp --silent "$complete" "$0"
}

# The mirror of this host for its release, by apt's own reading of its configuration.
host_mirror() {
    # shellcheck disable=SC2016 # fields of apt's, not of the shell
    apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        awk -v release="$release" '$2 == release && $3 == "main" { print $1; exit }'
}

# A separate apt with its own sources, lists and state (no installed packages, so that it fetches every library). From the
# host's configuration it takes only the network settings; its hooks would change the host.
prepare_apt() {
    local mirror
    mirror=$(host_mirror)
    [[ -n $mirror ]] || fail "apt on this host has no source for '$release main': add one, then try again"
    mkdir -p "$apt"/{conf.d,lists/partial,archives/partial}
    : >"$apt/status"
    apt-config dump | grep -E '^Acquire::(http|https|Retries|ForceIPv4|ForceIPv6)' >"$apt/conf.d/network" || true
    local options='target=Packages arch=amd64'
    [[ ! -e $keyring ]] || options+=" signed-by=$keyring"
    printf "deb [$options] %s %s main\n" "$mirror" "$release" "$mirror" "$release-backports" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::parts "$apt/conf.d";
Dir::Etc::main "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Default-Release "$release-backports";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
APT::Update::Error-Mode "any"; # an index that cannot be fetched is an error, not a warning
Debug::NoLocking "true";
CONF
    export APT_CONFIG=$apt/apt.conf
    apt-get update -qq >&2 || fail "apt-get update failed for '$release' and '$release-backports' on this host's mirror"
}

# The kernel packages of a release or of its backports: the dependencies of the metapackage, which has a constant name.
# Newer kernels consist of several packages.
kernel_packages() { # RELEASE
    apt-cache -o "APT::Default-Release=$1" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
        "$kernel_package" | grep -E '^linux-(image|binary|modules)-[0-9]' | sort -u
}

unpack() { # FOLDER ARCHIVE...
    rm -rf "$1"
    mkdir -p "$1"
    extract "$@"
}

extract() { # FOLDER ARCHIVE...
    local folder=$1 archive
    shift
    for archive; do
        dpkg-deb --fsys-tarfile "$archive" |
            tar -x --no-same-owner --keep-directory-symlink -C "$folder" --exclude=./usr/share/{doc,man,locale}
    done
}

# A wrapper that runs an unpacked program with its unpacked libraries, independent of the host.
wrap() { # NAME PROGRAM [OPTION...]
    local name=$1 program=$2
    shift 2
    [[ -e $cache/tools/$program ]] || fail "the fetched packages hold no /$program"
    cat >"$cache/bin/$name" <<WRAPPER
#!/bin/sh
tools='$cache/tools'
libraries="\$tools/lib/x86_64-linux-gnu:\$tools/usr/lib/x86_64-linux-gnu"
QEMU_MODULE_DIR="\$tools/usr/lib/x86_64-linux-gnu/qemu" exec "\$tools/lib64/ld-linux-x86-64.so.2" --argv0 $name \\
    --library-path "\$libraries" "\$tools/$program" $* "\$@"
WRAPPER
    chmod +x "$cache/bin/$name"
}

find_tool() { # NAME: the path of a program in the unpacked tools, which merged-usr releases keep in /usr
    local folder
    for folder in usr/sbin usr/bin sbin bin; do
        if [[ -e $cache/tools/$folder/$1 ]]; then
            echo "$folder/$1"
            return
        fi
    done
    fail "the fetched packages hold no program $1"
}

fetch_kernel() { # RELEASE FOLDER
    local kernels archives
    mapfile -t kernels < <(kernel_packages "$1")
    ((${#kernels[@]} > 0)) || fail "the mirror has no kernel package of $1 that $kernel_package depends on"
    say "kernel of $1: ${kernels[*]}"
    archives=$(mktemp -d "$apt/kernel-XXXXXX")
    (cd "$archives" && apt-get download -qq "${kernels[@]}") >&2 || fail "could not download: ${kernels[*]}"
    unpack "$2" "$archives"/*.deb
    [[ -e $2/lib ]] || ln -s usr/lib "$2/lib"
}

# No maintainer script runs: systemd creates the users at each boot (systemd-sysusers).
fetch_systemd() {
    local archives=$apt/systemd root=$cache/systemd of_release=(-o "APT::Default-Release=$release") folder
    mkdir -p "$archives/partial"
    apt-get install -qq --download-only --yes "${of_release[@]}" -o "Dir::Cache::archives=$archives" "${systemd_packages[@]}" >&2 ||
        fail "could not download: ${systemd_packages[*]}"
    (cd "$archives" && apt-get download -qq "${of_release[@]}" "${bus_packages[@]}") >&2 ||
        fail "could not download: ${bus_packages[*]}"
    rm -f "$archives"/{debconf,perl-base}_*.deb # only maintainer scripts use them
    say "unpacking systemd of $release"
    rm -rf "$root"
    for folder in bin sbin lib lib64; do # Debian packages expect these links
        mkdir -p "$root/usr/$folder"
        ln -s "usr/$folder" "$root/$folder"
    done
    extract "$root" "$archives"/*.deb
    rm -rf "$root/usr/lib/x86_64-linux-gnu/gconv" # 8 MB of character set conversions
    [[ -e $root/usr/lib/systemd/systemd-oomd ]] || fail "the fetched packages hold no systemd-oomd"
}

fetch() {
    say "taking packages for $release into $cache"
    rm -rf "$complete" "$apt" "${cache:?}/bin"
    prepare_apt
    fetch_kernel "$release-backports" "$cache/kernel"
    fetch_kernel "$release" "$cache/release"
    fetch_systemd
    apt-get install -qq --download-only --yes "${tool_packages[@]}" >&2 || fail "could not download: ${tool_packages[*]}"

    local tool_archives=("$apt"/archives/*.deb)
    say "unpacking ${#tool_archives[@]} packages of tools"
    unpack "$cache/tools" "${tool_archives[@]}"
    [[ -e $cache/tools/lib ]] || ln -s usr/lib "$cache/tools/lib"
    [[ -e $cache/tools/lib64 ]] || ln -s usr/lib64 "$cache/tools/lib64"
    mkdir -p "$cache/bin"
    local name
    # shellcheck disable=SC2016 # $tools is the wrapper's
    wrap qemu-system-x86_64 usr/bin/qemu-system-x86_64 \
        -L '"$tools/usr/share/qemu"' -L '"$tools/usr/share/seabios"'
    for name in depmod modprobe; do wrap "$name" "$(find_tool kmod)"; done
    for name in cpio mke2fs debugfs xz zstd; do wrap "$name" "$(find_tool "$name")"; done
    ln -sf "../tools/$(find_tool busybox)" "$cache/bin/busybox" # static, and wanted as a file

    rm -rf "$apt"
    cp "$0" "$complete"
}

# The names of kernel packages contain the version.
versions() {
    apt=$(mktemp -d)
    trap 'rm -rf "$apt"' EXIT
    prepare_apt
    kernel_packages "$release-backports"
    kernel_packages "$release"
    {
        apt-cache policy "${tool_packages[@]}"
        apt-cache -o "APT::Default-Release=$release" policy "${systemd_packages[@]}" "${bus_packages[@]}"
    } | awk '/^[^ ]/ { name = $1 } $1 == "Candidate:" { print name, $2 }'
}

if [[ ${1:-} == versions ]]; then
    versions
    exit
fi
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # another VM of this user may be fetching
is_fresh || fetch
echo "$cache"
