#!/bin/sh
# Opens each report in headless Chromium and clicks through it; or, given the program, the live page of
# `plimsoll watch --serve`.
#
# Usage: tests/page/run.sh [--shots FOLDER] FILE.html...|PLIMSOLL
# Needs node (20 or newer), npm and Chromium at /usr/bin/chromium or where CHROMIUM says (Debian: apt install chromium).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
shots=
if [ "${1:-}" = --shots ]; then
    shots=$2
    shift 2
fi
if [ $# -eq 0 ]; then
    echo "usage: $0 [--shots FOLDER] FILE.html...|PLIMSOLL" >&2
    exit 1
fi
for tool in node npm "${CHROMIUM:-/usr/bin/chromium}"; do
    if ! command -v "$tool" >/dev/null; then
        echo "$0: $tool is missing; on Debian: apt-get install nodejs npm chromium" >&2
        exit 3
    fi
done
if [ ! -d "$here/node_modules/playwright-core" ]; then
    npm ci --prefix "$here" --no-audit --no-fund >&2
fi
status=0
for file in "$@"; do
    echo "== $file"
    case $file in
    compare.html | */compare.html) script=compare.mjs ;;
    *.html) script=page.mjs ;;
    *) script=live.mjs ;;
    esac
    node "$here/$script" "$file" ${shots:+"$shots"} || status=1
done
exit $status
