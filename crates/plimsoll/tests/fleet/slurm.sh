#!/usr/bin/env bash
# A Slurm cluster of three hosts on this machine, for the time of one command. Needs root, slurmctld, slurmd, munged.
#
#   slurm.sh COMMAND...    starts the cluster, runs the command beside the controller, ends the cluster; its exit code is
#                          the one of the command
#   slurm.sh kill HOST     in the command: kills all processes of a host, h1, h2 or h3, as a loss of power does
#   slurm.sh start HOST    in the command: starts a killed host again
#
# A host is a network namespace with a host name; memory, swap and the machine lock are those of the machine. The cluster
# has mount, network and PID namespaces of its own: when this script ends, even by SIGKILL, the kernel ends all processes of
# the cluster and removes its interfaces. All files are in a temporary folder, $CLUSTER in the command.
# PLIMSOLL_CLUSTER_LOGS=FOLDER keeps the logs of the daemons.
set -euo pipefail

hosts=(h1 h2 h3)
network=10.77.0

address() { # HOST
    echo "$network.1${1#h}"
}

# Starts a daemon in the namespaces of a host. `ip netns exec` would mount another /sys, without the cgroups that slurmd needs.
on_host() { # HOST COMMAND...
    local host=$1
    shift
    # shellcheck disable=SC2016 # parameters of the inner shell
    nsenter --net="/run/netns/$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

start_host() { # HOST
    # Slurm kills a job whose daemon it finds in the session of a terminal.
    setsid --fork "$0" on "$1" slurmd -D -f "$CLUSTER/slurm.conf" </dev/null >>"$CLUSTER/log/$1.out" 2>&1
}

kill_host() { # HOST
    local pids round
    # Until no process starts another.
    for round in 1 2 3 4 5; do
        pids=$(ip netns pids "$1")
        [[ -n $pids ]] || return 0
        # shellcheck disable=SC2086 # a list of process ids
        kill -KILL $pids 2>/dev/null || true
        sleep 0.1
    done
    echo "slurm.sh: processes of $1 live after $round rounds: $pids" >&2
    return 1
}

configuration() {
    cat <<END
ClusterName=fleet
SlurmctldHost=controller($network.1)
SlurmUser=root
AuthType=auth/munge
# A lost task waits for the time in which a credential of its earlier start is valid.
AuthInfo=socket=$CLUSTER/munge/socket,cred_expire=20
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool-%h
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%h.pid
SlurmctldLogFile=$CLUSTER/log/slurmctld.log
SlurmdLogFile=$CLUSTER/log/slurmd-%h.log
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
# It sends a signal to all processes of a task. Most clusters have proctrack/cgroup, which sends SIGTERM to the batch script alone:
# the tests of job.sbatch do so.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
JobRequeue=1
SlurmdTimeout=10
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=5
SlurmdParameters=config_overrides
NodeName=DEFAULT CPUs=1 RealMemory=1000
END
    local host
    for host in "${hosts[@]}"; do
        echo "NodeName=$host NodeAddr=$(address "$host")"
    done
    echo "PartitionName=fleet Nodes=h[1-3] Default=YES MaxTime=60 State=UP OverSubscribe=EXCLUSIVE"
}

network_of_hosts() {
    mount -t tmpfs -o mode=755 tmpfs /run/netns
    mount --make-shared /run/netns
    ip link set lo up
    ip link add hosts type bridge
    ip address add "$network.1/24" dev hosts
    ip link set hosts up
    local host
    for host in "${hosts[@]}"; do
        ip netns add "$host"
        ip link add "$host" type veth peer name eth0 netns "$host"
        ip link set "$host" master hosts up
        ip -n "$host" link set lo up
        ip -n "$host" address add "$(address "$host")/24" dev eth0
        ip -n "$host" link set eth0 up
    done
    {
        echo "127.0.0.1 localhost"
        echo "$network.1 controller"
        for host in "${hosts[@]}"; do
            echo "$(address "$host") $host"
        done
    } >"$CLUSTER/hosts"
    mount --bind "$CLUSTER/hosts" /etc/hosts
}

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || {
            echo "slurm.sh: not ready in time: $*" >&2
            tail -n 20 "$CLUSTER"/log/* >&2
            return 1
        }
        sleep 0.2
    done
}

all_idle() {
    [[ $(sinfo --noheader --states=idle --Node --format=%N | wc -l) == "${#hosts[@]}" ]]
}

# In the namespaces of the cluster.
run_inside() { # COMMAND...
    mount --make-rprivate /
    network_of_hosts
    hostname controller
    mkdir -m 711 "$CLUSTER/munge"
    mkdir "$CLUSTER/state" "$CLUSTER/log"
    configuration >"$CLUSTER/slurm.conf"
    (umask 077 && head -c 1024 /dev/urandom >"$CLUSTER/munge.key")
    export SLURM_CONF=$CLUSTER/slurm.conf
    munged --foreground --force --num-threads=2 --key-file="$CLUSTER/munge.key" --socket="$CLUSTER/munge/socket" \
        --pid-file="$CLUSTER/munge/pid" --seed-file="$CLUSTER/munge/seed" --log-file="$CLUSTER/log/munged.log" \
        </dev/null >"$CLUSTER/log/munged.out" 2>&1 &
    wait_until 20 munge --no-input --socket="$CLUSTER/munge/socket"
    slurmctld -D -f "$CLUSTER/slurm.conf" </dev/null >"$CLUSTER/log/slurmctld.out" 2>&1 &
    wait_until 20 scontrol ping
    local host
    for host in "${hosts[@]}"; do
        start_host "$host"
    done
    wait_until 60 all_idle
    local code=0
    "$@" || code=$?
    exit "$code"
}

case ${1:-} in
"")
    echo "usage: slurm.sh COMMAND... | kill HOST | start HOST" >&2
    exit 2
    ;;
kill) kill_host "$2" ;;
start) start_host "$2" ;;
on) on_host "${@:2}" ;;
inside) run_inside "${@:2}" ;;
*)
    for tool in slurmctld slurmd munged munge sbatch ip nsenter setpriv unshare; do
        command -v "$tool" >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || {
            echo "slurm.sh: needs $tool: apt-get install slurmctld slurmd slurm-client munge iproute2" >&2
            exit 3
        }
    done
    export PATH=$PATH:/usr/sbin:/sbin
    CLUSTER=$(mktemp --directory --tmpdir plimsoll-slurm.XXXXXXXX)
    export CLUSTER
    chmod 755 "$CLUSTER"
    cluster=
    # shellcheck disable=SC2317 # called by the trap
    end() {
        [[ -z $cluster ]] || kill -KILL "$cluster" || true
        wait
        [[ -z ${PLIMSOLL_CLUSTER_LOGS:-} ]] || cp -r "$CLUSTER/log/." "$PLIMSOLL_CLUSTER_LOGS" || true
        rm -rf "$CLUSTER"
    }
    trap 'end 2>/dev/null' EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    setpriv --pdeathsig KILL unshare --mount --net --uts --pid --fork --kill-child --mount-proc \
        "$(readlink -f "$0")" inside "$@" <&0 &
    cluster=$!
    code=0
    wait "$cluster" || code=$?
    cluster=
    exit "$code"
    ;;
esac
