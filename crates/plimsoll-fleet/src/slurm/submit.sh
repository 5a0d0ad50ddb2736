#!/bin/sh
# Submits the tasks of this folder to Slurm, as `plimsoll fleet submit` does, and prints the number of the job.
# Only the named variables reach the hosts: Slurm would store and pass on all others of the user, secrets included.
set -u
cd "$(dirname "$0")" || exit 1
exec env -i PATH="$PATH" HOME="${HOME:-/}" ${SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"} sbatch --parsable job.sbatch
