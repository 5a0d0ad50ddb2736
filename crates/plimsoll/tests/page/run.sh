#!/bin/sh
# Opens each report in headless Chromium and clicks through it.
#
# Usage: tests/page/run.sh [--shots FOLDER] FILE.html...
# Needs node (20 or newer), npm and Chromium at /usr/bin/chromium or where CHROMIUM says (Debian: apt install chromium).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
shots=
if [ "${1:-}" = --shots ]; then
    shots=$2
    shift 2
fi
if [ $# -eq 0 ]; then
    echo "usage: $0 [--shots FOLDER] FILE.html..." >&2
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
    node "$here/page.mjs" "$file" $shots || status=1
done
exit $status
