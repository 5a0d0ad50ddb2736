#!/usr/bin/env bash
# Fleets over ssh to three hosts on this machine. Needs root, GNU parallel and the OpenSSH server.
#
#   ssh.sh PROGRAM SCENARIO [KEY=VALUE...] [--quick]
#
# Host a loses its connection while a task runs, host b reboots, and host c cannot be reached. All results of a and b must arrive,
# `submit` must list the tasks of c, and a second submission must run only these. Then a second fleet is cancelled.
#
# A host is an sshd in network, mount and UTS namespaces, with its own keys, configuration and /var/tmp. Memory, swap and the
# machine lock are those of the machine. The hosts are in mount, network and PID namespaces of this script: when it ends, even by
# SIGKILL, the kernel ends all their processes and removes their interfaces. All files are in a temporary folder.
set -euo pipefail

hosts=(a b c)
network=10.78.0
declare -A address=([a]=$network.1 [b]=$network.2 [c]=$network.3)
declare -A pid_of=()
run=ssh-test
submission=

step() { printf -- '--- %s (%d s)\n' "$1" "$SECONDS"; }

fail() {
    printf 'ssh.sh: failed: %s\n' "$1" >&2
    tail -v -n 30 "$work"/*.out "$work"/fleet*/logs/*.{txt,tsv,log} >&2 2>/dev/null || true
    exit 1
}

wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        ((SECONDS < end)) || fail "not within $1 s: ${*:2}"
        sleep 0.1
    done
}

# Starts the sshd of a host; `ip netns exec` would mount another /sys, without cgroups.
start_host() { # HOST
    # shellcheck disable=SC2016 # parameters of the inner shell
    nsenter --net="/run/netns/$1" unshare --mount --uts sh -c '
        hostname "$1" && mount --bind "$2/$1/tmp" /var/tmp && exec "$3" -D -f "$2/$1/sshd_config" -E "$2/$1.out"
    ' sh "$1" "$work" "$(command -v sshd)" </dev/null >>"$work/$1.out" 2>&1 &
    pid_of[$1]=$!
    # The shell reports the death of its jobs.
    disown "$!"
}

# Kills all processes of a host, as a loss of power does.
kill_host() { # HOST
    local pids round
    for round in 1 2 3 4 5; do
        pids=$(ip netns pids "$1")
        [[ -n $pids ]] || return 0
        # shellcheck disable=SC2086 # a list of process ids
        kill -KILL $pids 2>/dev/null || true
        sleep 0.1
    done
    fail "processes of host $1 live after $round rounds: $pids"
}

# Power would have been lost with the swap and the cgroups.
clean() {
    "$program" cleanup >"$work/cleanup.out" 2>&1 || fail 'cannot clean up after the lost host'
}

set_up() {
    local host
    mount --make-rprivate /
    mount -t tmpfs -o mode=755 tmpfs /run/netns
    mount --make-shared /run/netns
    ip link set lo up
    ip link add hosts type bridge
    ip address add "$network.254/24" dev hosts
    ip link set hosts up
    hostname controller
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    for host in "${hosts[@]}"; do
        ip netns add "$host"
        ip link add "host-$host" type veth peer name eth0 netns "$host"
        ip link set "host-$host" master hosts up
        ip -n "$host" link set lo up
        ip -n "$host" address add "${address[$host]}/24" dev eth0
        ip -n "$host" link set eth0 up
        mkdir -m 755 "$work/$host"
        mkdir -m 1777 "$work/$host/tmp"
        ssh-keygen -q -t ed25519 -N '' -f "$work/$host/key"
        printf '%s %s\n' "${address[$host]}" "$(cut -d ' ' -f 1,2 "$work/$host/key.pub")" >>"$work/known_hosts"
        cat >"$work/$host/sshd_config" <<END
ListenAddress ${address[$host]}:22
HostKey $work/$host/key
AuthorizedKeysFile $work/key.pub
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
StrictModes no
END
        start_host "$host"
        printf 'root@%s\n' "${address[$host]}" >>"$work/hosts"
    done
    # The user's configuration of ssh, without the files of the user.
    cat >"$work/ssh_config" <<END
IdentityFile $work/key
IdentitiesOnly yes
UserKnownHostsFile $work/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
END
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/ssh_config" >"$work/bin/ssh"
    chmod 755 "$work/bin/ssh"
    export PATH=$work/bin:$PATH
    for host in "${hosts[@]}"; do wait_until 20 ssh "root@${address[$host]}" true 2>/dev/null; done
    # Settings of users that must not reach the transport.
    cat >>"$work/ssh_config" <<END
RemoteCommand uptime
RequestTTY force
ControlMaster auto
ControlPath $work/control-%C
ControlPersist 600
END
}

plan() { # FOLDER
    "$program" fleet plan "${scenario[@]}" --run "$run" --hosts "$work/hosts" --repeat 2 --retries 2 --at-most 3 --folder "$1" \
        >"$work/plan.out" 2>&1 || fail 'cannot plan'
}

submit() { # FOLDER
    "$program" fleet submit "$1" >"$work/submit.out" 2>&1 </dev/null &
    submission=$!
}

# Sets `code`.
wait_for_submission() {
    code=0
    wait "$submission" || code=$?
}

# The attempt of a task has begun on the host.
# shellcheck disable=SC2317 # called by wait_until
runs_task() { # HOST
    compgen -G "$work/$1/tmp/plimsoll-fleet-$run-*/tasks/*.attempts/*/attempt.json" >/dev/null
}

has_folder() { # HOST
    [[ -n $(ls -A "$work/$1/tmp") ]]
}

tasks_of() { # FOLDER HOST
    awk -F '\t' -v host="root@${address[$2]}" '$2 == host { print $1 }' "$1/tasks.tsv"
}

# The number of the attempt of each result of a host, in a line.
results() { # FOLDER HOST
    local task
    for task in $(tasks_of "$1" "$2"); do
        [[ ! -e $1/tasks/$task/result.json ]] || sed -nE 's/^.*"attempt": *([0-9]+).*$/\1/p' "$1/tasks/$task/result.json"
    done | sort | tr '\n' ' '
}

# Kills the processes of a host's connections, not the sshd that starts them, and not the task. There is none between two connections of
# a task.
# shellcheck disable=SC2317 # called by wait_until
loses_connections() { # HOST
    runs_task "$1" && pkill -KILL --parent "${pid_of[$1]}"
}

lose_hosts() {
    local fleet=$work/fleet task host
    step 'one host cannot be reached'
    ip -n c link set eth0 down
    plan "$fleet"
    submit "$fleet"
    wait_until 300 runs_task b
    ip -n b link set eth0 down
    kill_host b
    clean
    step 'host b lost its power'
    wait_until 300 loses_connections a
    step 'host a lost its connections'
    sleep 3
    ip -n b link set eth0 up
    start_host b
    step 'host b is back'
    wait_for_submission
    step "the submission ended with exit code $code"
    cat "$fleet/logs/joblog.tsv" "$fleet/logs/tries.tsv"
    [[ $code == 2 ]] || fail "a submission with failed tasks ended with $code, not 2"
    [[ $(results "$fleet" a) == '1 1 ' ]] || fail "host a must have two results of first attempts, not $(results "$fleet" a)"
    [[ $(results "$fleet" b) == '1 2 ' ]] || fail "host b must have results of a first and a second attempt, not $(results "$fleet" b)"
    [[ $(results "$fleet" c) == '' ]] || fail 'host c has a result'
    [[ $(grep -cF "root@${address[c]}" "$fleet/logs/tries.tsv") == 6 ]] || fail 'not three tries of each task of host c'
    for task in $(tasks_of "$fleet" c); do
        grep -qF -- "$task" "$work/submit.out" || fail "the submission does not list the missing task $task"
    done
    for host in "${hosts[@]}"; do ! has_folder "$host" || fail "a folder is left on host $host"; done

    step 'host c is back'
    ip -n c link set eth0 up
    submit "$fleet"
    wait_for_submission
    [[ $code == 0 ]] || fail "the second submission ended with $code"
    [[ $(results "$fleet" c) == '1 1 ' ]] || fail 'a result of host c is missing'
    [[ $(results "$fleet" b) == '1 2 ' ]] || fail 'the second submission repeated a finished task'
}

cancel() {
    local fleet=$work/fleet-cancelled host
    step 'cancel'
    plan "$fleet"
    submit "$fleet"
    wait_until 300 runs_task a
    "$program" fleet cancel "$fleet" >"$work/cancel.out" 2>&1 || fail "the cancel ended with $?"
    wait_for_submission
    [[ $code != 0 ]] || fail 'a cancelled submission succeeded'
    for host in "${hosts[@]}"; do
        ! has_folder "$host" || fail "a folder is left on host $host after the cancel"
        [[ $(ip netns pids "$host") == "${pid_of[$host]}" ]] || fail "a process is left on host $host after the cancel"
    done
    [[ -z $(find "$fleet/tasks" -mindepth 1 -maxdepth 1 -name '.*') ]] || fail 'the cancel left a temporary folder'
}

# In the namespaces of the hosts.
inside() { # PROGRAM SCENARIO...
    program=$1
    scenario=("${@:2}")
    set_up
    lose_hosts
    cancel
    step 'done'
}

if [[ ${1:-} == inside ]]; then
    work=$2
    inside "${@:3}"
    exit
fi
(($# >= 2)) || {
    echo "usage: ssh.sh PROGRAM SCENARIO [KEY=VALUE...] [--quick]" >&2
    exit 2
}
export PATH=$PATH:/usr/sbin:/sbin
for tool in parallel sshd ssh ssh-keygen ip nsenter pkill setpriv unshare; do
    command -v "$tool" >/dev/null || {
        echo "ssh.sh: needs $tool: apt-get install parallel openssh-server iproute2 procps" >&2
        exit 3
    }
done
program=$(readlink -f -- "$1")
work=$(mktemp --directory --tmpdir plimsoll-ssh.XXXXXXXX)
chmod 755 "$work"
made_run_sshd=
# The folder without entries in which sshd checks keys; the package's service makes it.
[[ -d /run/sshd ]] || { mkdir -m 755 /run/sshd && made_run_sshd=yes; }
[[ -d /run/netns ]] || mkdir -m 755 /run/netns
namespaces=
# shellcheck disable=SC2317 # called by the trap
end() {
    [[ -z $namespaces ]] || kill -KILL "$namespaces" || true
    wait
    rm -rf "$work"
    [[ -z $made_run_sshd ]] || rmdir /run/sshd
}
trap 'end 2>/dev/null' EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
setpriv --pdeathsig KILL unshare --mount --net --uts --pid --fork --kill-child --mount-proc \
    "$(readlink -f "$0")" inside "$work" "$program" "${@:2}" <&0 &
namespaces=$!
code=0
wait "$namespaces" || code=$?
namespaces=
exit "$code"
