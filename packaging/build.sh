#!/usr/bin/env bash
# Makes a tarball and a Debian package of a stripped release binary with its man pages, completions, licences and systemd unit,
# and of the C library of the pager with its header and pkg-config file.
# Usage: packaging/build.sh PLIMSOLL LIBRARY FOLDER
# The same binary and commit give the same bytes. Needs cargo, python3, binutils and dpkg-deb.
set -euo pipefail

[[ $# == 3 ]] || {
    echo "usage: packaging/build.sh PLIMSOLL LIBRARY FOLDER" >&2
    exit 2
}
plimsoll=$(readlink -f "$1")
library=$(readlink -f "$2")
mkdir -p "$3"
folder=$(readlink -f "$3")
cd "$(dirname "$(readlink -f "$0")")/.."
umask 022
export LC_ALL=C
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "packaging/build.sh: $*" >&2
    exit 1
}

for file in "$plimsoll" "$library"; do
    symbols=$(readelf --sections --wide "$file" | grep -cE ' \.(symtab|debug_info) ' || true)
    ((symbols == 0)) || fail "$file is not stripped; build it with --release"
done
# The name with the version of the interface, by which programs load the library: libplimsoll_pager_c.so.0.
soname=$(readelf --dynamic --wide "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[[ $soname =~ ^libplimsoll_pager_c\.so\.[0-9]+$ ]] || fail "$library has no name with a version: '$soname'; use \`just dist\`"
version=$("$plimsoll" --version | cut -d ' ' -f 2)
[[ $version =~ ^[0-9][0-9A-Za-z.+~-]*$ ]] || fail "$plimsoll prints no version: $version"
machine=$(readelf --file-header "$plimsoll" | sed -n 's/^ *Machine: *//p')
case $machine in
*X86-64*) machine=x86_64 architecture=amd64 ;;
*AArch64*) machine=aarch64 architecture=arm64 ;;
*) fail "$plimsoll is for an unknown machine: $machine" ;;
esac

# The C library, to run with and to build with.
install_library() { # PREFIX FOLDER-BELOW-IT
    local folder=$1/$2 file=libplimsoll_pager_c.so.$version up
    install -D -m 644 crates/plimsoll-pager-c/include/plimsoll_pager.h "$1/include/plimsoll_pager.h"
    install -D -m 644 "$library" "$folder/$file"
    ln -s "$file" "$folder/$soname"
    ln -s "$soname" "$folder/libplimsoll_pager_c.so"
    install -d "$folder/pkgconfig"
    up=$(realpath --canonicalize-missing --no-symlinks --relative-to="/$2/pkgconfig" /)
    sed -e "s|@VERSION@|$version|" -e "s|@LIBDIR@|$2|" -e "s|@UP@|$up|" packaging/plimsoll-pager.pc.in \
        >"$folder/pkgconfig/plimsoll-pager.pc"
}

# The files of both, below a prefix; the folders of libraries, zsh and fish differ.
install_into() { # PREFIX LIBRARY-FOLDER ZSH-FOLDER FISH-FOLDER
    local prefix=$1 share=$1/share
    install_library "$prefix" "$2"
    shift
    install -D -m 755 "$plimsoll" "$prefix/bin/plimsoll"
    "$plimsoll" man "$share/man/man1"
    install -d "$share/bash-completion/completions" "$share/$2" "$share/$3" "$share/doc/plimsoll"
    "$plimsoll" completions bash >"$share/bash-completion/completions/plimsoll"
    "$plimsoll" completions zsh >"$share/$2/_plimsoll"
    "$plimsoll" completions fish >"$share/$3/plimsoll.fish"
    cp LICENSE-MIT LICENSE-APACHE "$share/doc/plimsoll/"
    packaging/third_party.py >"$share/doc/plimsoll/LICENSES-THIRD-PARTY"
    # Not enabled: that is a decision of the administrator.
    install -D -m 644 packaging/systemd/plimsoll-guard.service "$prefix/lib/systemd/system/plimsoll-guard.service"
}

# tar with the same bytes for the same files.
tarball() { # FOLDER NAME FILE
    tar --create --directory "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu "$2" | gzip --no-name >"$3"
}

name=plimsoll-$version-$machine-linux-gnu
install_into "$work/$name" lib zsh/site-functions fish/vendor_completions.d
# A unit names its program by the whole path; the book unpacks the tarball into /usr/local.
sed -i 's|/usr/bin/plimsoll|/usr/local/bin/plimsoll|' "$work/$name/lib/systemd/system/plimsoll-guard.service"
tarball "$work" "$name" "$folder/$name.tar.gz"

root=$work/deb
install_into "$root/usr" "lib/$machine-linux-gnu" zsh/vendor-completions fish/vendor_completions.d
documents=$root/usr/share/doc/plimsoll
gzip -9 --no-name "$root"/usr/share/man/man1/*.1
gzip -9 --no-name <CHANGELOG.md >"$documents/changelog.gz"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
    printf 'Upstream-Name: plimsoll\n\nFiles: *\nCopyright: The Plimsoll developers\nLicense: MIT or Apache-2.0\n'
    printf ' The texts are in LICENSE-MIT and LICENSE-APACHE in this folder; those of the works of others that the\n'
    printf ' program contains are in LICENSES-THIRD-PARTY.\n'
} >"$documents/copyright"
# The newest symbols of the C library that the program uses.
glibc=$(readelf --version-info --wide "$plimsoll" "$library" | grep -oE 'GLIBC_[0-9]+(\.[0-9]+)+' | sort -uV | tail -n 1)
depends="libc6 (>= ${glibc#GLIBC_})"
needed=$(readelf --dynamic --wide "$plimsoll" "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
for object in $needed; do
    case $object in
    libc.so.6 | libm.so.6 | ld-linux-*) ;;
    libgcc_s.so.1) depends+=", libgcc-s1" ;;
    *) fail "the package that has $object is unknown" ;;
    esac
done
mkdir "$root/DEBIAN"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
cat >"$root/DEBIAN/control" <<CONTROL
Package: plimsoll
Version: $version
Architecture: $architecture
Maintainer: The Plimsoll developers
Installed-Size: $(du --summarize --apparent-size --block-size=1024 "$root/usr" | cut -f 1)
Depends: $depends
Suggests: xdg-utils
Section: admin
Priority: optional
Description: measurement of Linux under memory pressure
 Plimsoll measures how a machine behaves when memory runs short, shows where
 the memory is, and runs programs on a low-fragmentation malloc. The package
 has the C library of its pager as well: memory that is larger than the RAM
 which it may occupy.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz -z3 --build "$root" "$folder/plimsoll_${version}_$architecture.deb" >/dev/null

(cd "$folder" && sha256sum "$name.tar.gz" "plimsoll_${version}_$architecture.deb" >SHA256SUMS)
cat "$folder/SHA256SUMS"
