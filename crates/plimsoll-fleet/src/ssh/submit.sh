#!/bin/sh
# Runs the tasks of tasks.tsv, each on its host, and ends after the last. `plimsoll fleet submit` runs this; so can you.
# A later run tries only tasks without a result, and fetches the results that an interrupted one left on hosts.
# Each run appends to these files in logs/:
#   tries.tsv    a line for each try of a task: start in UTC, task, host, exit code, seconds
#   joblog.tsv   a line of parallel for each task that ended: of its last try alone
# If you publish results, please cite GNU parallel: `parallel --citation`.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p logs tasks

# The lock ends with the last process of this run. `plimsoll fleet submit` has it already, and passes it as standard input.
if [ "${1:-}" = --locked ]; then
    exec 9<&0 </dev/null
else
    exec 9>logs/submit.lock
    flock -n 9 || {
        echo "submit.sh runs already; wait, or end it with cancel.sh" >&2
        exit 111
    }
fi
# For cancel.sh: the process id and its start time.
stat=$(cat /proc/$$/stat)
# shellcheck disable=SC2086 # fields, 3 (the state) first
set -- ${stat##*) }
shift 19
echo "$$ $1" >logs/parallel.pid

# parallel writes no header to a file that it appends to.
[ -s logs/joblog.tsv ] ||
    printf 'Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n' >logs/joblog.tsv
# `--plain`: without the user's defaults for parallel. It starts each task by a shell, which must not be csh or fish.
export PARALLEL_SHELL=/bin/sh
exec parallel --plain --jobs @JOBS@ --retries @TRIES@ --joblog +logs/joblog.tsv@HALT@ --colsep '\t' \
    ./ssh-task.sh '{1}' '{2}' :::: tasks.tsv
