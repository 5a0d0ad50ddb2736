#!/bin/sh
# Runs the task of this pod: job.yaml and Kubernetes set the variables.
set -u
cd "$(dirname "$0")" || exit 1
line=$((FIRST_LINE + JOB_COMPLETION_INDEX))
exec sh ./task.sh "$(sed -n "${line}p" tasks.tsv)"
