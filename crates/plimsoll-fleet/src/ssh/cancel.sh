#!/bin/sh
# Ends submit.sh, then the tasks on all hosts, and removes the folders of this fleet there. `plimsoll fleet cancel` runs this; so can
# you. Prints for each host: HOST<TAB>ENDED TASKS<TAB>REMOVED FOLDERS. Fails if a host cannot be reached.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p logs

# A later process may have the same number.
started() { # PID
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086 # fields, 3 (the state) first
    set -- ${stat##*) }
    shift 19
    echo "$1"
}

exec 9>logs/submit.lock
if [ -f logs/parallel.pid ] && read -r pid start <logs/parallel.pid && [ "$(started "$pid")" = "$start" ]; then
    # Some versions of parallel start no other task at the first signal, and end the running ones at the second.
    kill -TERM "$pid" 2>/dev/null || true
    sleep 1
    kill -TERM "$pid" 2>/dev/null || true
fi
# Without the lock, processes of submit.sh are left; they end with their tasks on the hosts.
flock -w 30 9 || echo "processes of submit.sh still run" >&2
rm -f logs/parallel.pid
cut -f 2 tasks.tsv | sort -u | xargs -d '\n' -r -n 1 -P 32 ./ssh-task.sh --cancel
