#!/bin/sh
# Copies this folder into the volume of its claim and starts the Jobs, as `plimsoll fleet submit` does. Prints the label of the
# Jobs.
set -eu
cd "$(dirname "$0")"
kubectl apply --filename claim.yaml --filename files.yaml >&2
trap 'kubectl delete --filename files.yaml --wait=false >&2' EXIT
kubectl wait --for=condition=Ready --timeout=300s --namespace @NAMESPACE@ pod/@INSTANCE@-files >&2
tar -cf - plan.json scenario.toml plimsoll task.sh pod-task.sh tasks.tsv |
    kubectl exec --stdin --namespace @NAMESPACE@ @INSTANCE@-files -- tar -xof - -C /fleet
kubectl apply --filename job.yaml >&2
echo @INSTANCE@
