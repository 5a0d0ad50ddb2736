#!/usr/bin/env bash
# Shows a fleet on this machine in some minutes: plan, submission to Slurm with three hosts, a host that dies in the middle, collection,
# and a report that names the host with another swap algorithm. Needs root, Slurm (see slurm.sh) and zswap.
#
#   demo.sh [--short] PROGRAM [FOLDER]    PROGRAM: plimsoll; the report, the plan and the data set are copied to FOLDER
#
# The hosts share one kernel (slurm.sh). So the program of the plan is a script that gives each host its own zswap compressor before it
# executes PROGRAM, under a lock: h3 has deflate, the others have lzo. Fails if a result is missing, or the report does not name h3.
set -euo pipefail

slurm=$(dirname "$(readlink -f "$0")")/slurm.sh
compressor=/sys/module/zswap/parameters/compressor
most_seconds=540

fail() {
    echo "demo.sh: $1" >&2
    exit 1
}

step() {
    printf '\n== %s (%d s)\n' "$1" "$SECONDS"
}

shown() { # COMMAND...
    echo "\$ ${*/#$program/plimsoll}"
    "$@"
}

write_scenario() { # REPEAT SIZE
    cat <<END
[scenario]
name = "fleet-demo"
title = "Compression by zswap, for the demonstration of fleets"
[global]
workload = "compression"
subject = "zswap"
class = "file=/bin/bash"
size = "$2"
hold = 0.5
repeat = $1
END
}

write_wrapper() {
    cat <<END
#!/bin/sh
exec 9>$CLUSTER/host.lock
flock 9
case \$(uname -n) in
h3) echo deflate ;;
*) echo lzo ;;
esac >$compressor
exec $program "\$@"
END
}

# Whether a task runs on the host: its attempt has begun a recording.
runs_on() { # HOST
    local attempt
    for attempt in "$fleet"/tasks/*.attempts/*; do
        if grep -qs "\"host\": \"$1\"" "$attempt/attempt.json" && grep -q '"outcome": "running"' "$attempt/attempt.json" &&
            [[ -n $(find "$attempt" -name manifest.json -print -quit) ]]; then
            return 0
        fi
    done
    return 1
}

wait_until() { # WHAT COMMAND...
    until "${@:2}"; do
        ((SECONDS < most_seconds)) || {
            tail -n 20 "$fleet"/logs/*.log >&2 || true
            fail "no $1 within $most_seconds s"
        }
        sleep 0.2
    done
}

# Whether Slurm's state of the host begins so.
has_state() { # HOST STATE
    [[ $(sinfo --noheader --nodes "$1" --format %T) == "$2"* ]]
}

has_ended() {
    [[ -z $(squeue --noheader --jobs "$job" 2>/dev/null) ]]
}

# Beside the controller of the cluster.
inside() { # PROGRAM FOLDER TASKS REPEAT SIZE
    program=$1
    fleet=$CLUSTER/fleet
    write_scenario "$4" "$5" >"$CLUSTER/fleet-demo.toml"
    write_wrapper >"$CLUSTER/wrapper"
    chmod 755 "$CLUSTER/wrapper"

    step "Plan: $3 tasks of $4 trials on the hosts h1, h2 and h3"
    shown "$program" fleet plan "$CLUSTER/fleet-demo.toml" --folder "$fleet" --slurm fleet --tasks "$3" --at-most 3 \
        --retries 2 --run demo --binary "$CLUSTER/wrapper"

    step "Submit to Slurm"
    shown "$program" fleet submit "$fleet"
    job=$(sed -n 's/.*"job": "\([0-9]*\)".*/\1/p' "$fleet/submitted.json")

    wait_until "task on h2" runs_on h2
    step "The host h2 loses its power in the middle of a task"
    shown "$slurm" kill h2
    # The other hosts leave tasks for h2: a class of two hosts has no outlier. Slurm reports tasks that have ended.
    scontrol hold "$job" >/dev/null 2>&1 || true
    # With its power, a host loses swap and cgroups. This machine has kept them.
    "$program" cleanup >/dev/null
    shown "$program" fleet collect "$fleet" || true
    wait_until "notice of the loss of h2" has_state h2 down
    shown "$slurm" start h2
    wait_until "return of h2" has_state h2 idle
    scontrol release "$job" >/dev/null 2>&1 || true

    wait_until "end of the job" has_ended
    step "Collect"
    shown "$program" fleet collect "$fleet"

    step "Report"
    shown "$program" fleet report "$fleet" | tee "$CLUSTER/report.txt"
    if [[ -n $2 ]]; then
        mkdir -p "$2"
        cp -r "$fleet/plan.json" "$fleet/report.html" "$fleet/data" "$2"
        echo "The report is in $2/report.html"
    fi
    [[ -n $(find "$fleet"/tasks/*.attempts -mindepth 1 -maxdepth 1 -name 2 -print -quit) ]] || fail "no task has a second attempt"
    grep -q 'h3.*deflate' "$CLUSTER/report.txt" || fail "the report does not name the compressor of h3"
    step "Done"
}

if [[ ${1:-} == inside ]]; then
    inside "${@:2}"
    exit
fi

size=(9 2 96M)
if [[ ${1:-} == --short ]]; then
    size=(8 3 32M)
    shift
fi
[[ -x ${1:-} ]] || {
    echo "usage: demo.sh [--short] PROGRAM [FOLDER]" >&2
    exit 1
}
[[ -e $compressor ]] || {
    echo "demo.sh: this kernel has no zswap" >&2
    exit 3
}
folder=${2:-}
program=$(readlink -f "$1")
before=$(cat "$compressor")
at_exit() {
    "$program" cleanup >/dev/null || true
    echo "$before" >"$compressor"
}
trap at_exit EXIT
"$slurm" "$(readlink -f "$0")" inside "$program" "${folder:+$(readlink -m "$folder")}" "${size[@]}"
