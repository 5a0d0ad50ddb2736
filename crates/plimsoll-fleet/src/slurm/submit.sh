#!/bin/sh
# Submits the tasks of this folder to Slurm, as `plimsoll fleet submit` does, and prints the number of the job.
# Only the named variables reach Slurm, which stores all that it gets and passes them on to the hosts, secrets included. Those
# with SBATCH_ are options that a site may require.
set -u
cd "$(dirname "$0")" || exit 1
exec env -i PATH="$PATH" HOME="${HOME:-/}" \
    ${SLURM_CONF:+"SLURM_CONF=$SLURM_CONF"} \
    ${SBATCH_ACCOUNT:+"SBATCH_ACCOUNT=$SBATCH_ACCOUNT"} \
    ${SBATCH_CONSTRAINT:+"SBATCH_CONSTRAINT=$SBATCH_CONSTRAINT"} \
    ${SBATCH_QOS:+"SBATCH_QOS=$SBATCH_QOS"} \
    ${SBATCH_RESERVATION:+"SBATCH_RESERVATION=$SBATCH_RESERVATION"} \
    sbatch --parsable job.sbatch
