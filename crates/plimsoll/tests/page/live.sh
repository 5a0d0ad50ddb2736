#!/bin/sh
# Opens the live page of `plimsoll watch --serve` in headless Chromium and uses it.
#
# Usage: tests/page/live.sh [--shots FOLDER] PLIMSOLL
# Needs what run.sh needs.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
shots=
if [ "${1:-}" = --shots ]; then
    shots=$2
    shift 2
fi
if [ $# -ne 1 ]; then
    echo "usage: $0 [--shots FOLDER] PLIMSOLL" >&2
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
exec node "$here/live.mjs" "$1" ${shots:+"$shots"}
