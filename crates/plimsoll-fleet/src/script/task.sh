#!/bin/sh
# Runs one task on this host: `sh task.sh ID`. A finished task ends at once, and one that was killed starts again.
# The result appears beside this file as tasks/ID.
set -u
cd "$(dirname "$0")" || exit 1
id=${1:?"the ID of a task"}

echo '@SHA256@  plimsoll' | sha256sum -c >/dev/null 2>&1 || {
    echo "task $id: the program $(pwd)/plimsoll is not the one of the plan; copy it again" >&2
    exit 1
}
exec ./plimsoll run scenario.toml@ARGUMENTS@ --wait --task "$id" --output tasks
