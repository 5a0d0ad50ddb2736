#!/bin/sh
# Runs the tasks of tasks.tsv, each on its host, and ends after the last. `plimsoll fleet submit` runs this; so can you.
# A later run repeats only tasks without a result. logs/joblog.tsv lists the tries.
# If you publish results, please cite GNU parallel: `parallel --citation`.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p logs tasks

# The lock ends with the last process of this run.
exec 9>logs/submit.lock
flock -n 9 || {
    echo "submit.sh runs already; wait, or end it with cancel.sh" >&2
    exit 111
}
# For cancel.sh: the process id and its start time.
stat=$(cat /proc/$$/stat)
# shellcheck disable=SC2086 # fields, 3 (the state) first
set -- ${stat##*) }
shift 19
echo "$$ $1" >logs/parallel.pid

# `--plain`: without the user's defaults for parallel. It starts each task by a shell, which must not be csh or fish.
export PARALLEL_SHELL=/bin/sh
exec parallel --plain --jobs @JOBS@ --retries @TRIES@ --joblog logs/joblog.tsv@HALT@ --colsep '\t' \
    ./ssh-task.sh '{1}' '{2}' :::: tasks.tsv
