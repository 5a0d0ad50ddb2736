#!/usr/bin/env bash
# Three hosts for `plimsoll fleet` over ssh, on this machine: a network namespace and an sshd each, on a bridge in a fourth
# namespace, from which the fleet is submitted. Needs root, GNU parallel and the OpenSSH server.
#
#   ssh.sh PROGRAM SCENARIO [KEY=VALUE...] [--quick]
#
# Host a loses its connection while a task runs, host b reboots, host c cannot be reached. All results of a and b must arrive, and
# those of c must be reported as missing. Then a second fleet is cancelled.
set -euo pipefail

program=$(readlink -f -- "$1")
scenario=$2
changes=("${@:3}")
sshd=$(command -v sshd || echo /usr/sbin/sshd)
work=$(mktemp -d)
name=plimsoll-ssh-$$
declare -A sshd_pid address=([a]=10.213.0.1 [b]=10.213.0.2 [c]=10.213.0.3)
submit_pid=
made_run_sshd=

step() { printf -- '--- %s (%d s)\n' "$1" "$SECONDS"; }

fail() {
    printf 'FAILED: %s\n' "$1" >&2
    exit 1
}

children() { # PID
    cat /proc/"$1"/task/*/children 2>/dev/null || true
}

descendants() { # PID
    local child
    for child in $(children "$1"); do
        echo "$child"
        descendants "$child"
    done
}

# The groups of the tasks that run on a host, by the files that their leaders wrote.
task_groups() { # HOST
    local file pid
    for file in /var/tmp/plimsoll-fleet-"$name"-*.??????????/pid; do
        read -r pid _ 2>/dev/null <"$file" || continue
        [[ -e /proc/$pid && /proc/$pid/ns/net -ef /run/netns/$name-$1 ]] && echo "$pid"
    done
    return 0
}

# `ip netns exec` would hide the cgroups.
start_sshd() { # HOST
    { exec nsenter --net="/run/netns/$name-$1" -- "$sshd" -D -f "$work/$1/sshd_config" -E "$work/$1/log"; } &
    sshd_pid[$1]=$!
}

# Ends a host's sshd, its connections and its tasks at once, as a loss of power does.
kill_host() { # HOST
    local sshd=${sshd_pid[$1]:-} pids group
    [[ -n $sshd ]] || return 0
    mapfile -t pids < <(descendants "$sshd")
    for group in $(task_groups "$1"); do pids+=(-"$group"); done
    kill -KILL -- "$sshd" "${pids[@]}" 2>/dev/null || true
    wait "$sshd" 2>/dev/null || true
    sshd_pid[$1]=
}

at_exit() {
    local code=$? host
    trap - EXIT
    set +e
    if [[ -n $submit_pid ]]; then
        kill -TERM "$submit_pid" 2>/dev/null || true
        for pid in $(descendants "$submit_pid"); do kill -TERM "$pid" 2>/dev/null || true; done
        wait "$submit_pid" 2>/dev/null || true
    fi
    for host in a b c; do kill_host "$host"; done
    "$program" cleanup >/dev/null 2>&1 || true
    for host in a b c bridge; do ip netns delete "$name-$host" 2>/dev/null || true; done
    if ((code != 0)); then
        tail -n 40 "$work"/fleet*/logs/*.txt "$work"/fleet*/logs/*.log "$work"/[abc]/log "$work"/*.out 2>/dev/null || true
    fi
    rm -rf -- "$work" /var/tmp/plimsoll-fleet-"$name"-*
    [[ -z $made_run_sshd ]] || rmdir /run/sshd
    exit "$code"
}

# The network, keys, and an `ssh` that uses only them.
set_up() {
    local host
    ip netns add "$name-bridge"
    ip -n "$name-bridge" link add bridge type bridge
    ip -n "$name-bridge" address add 10.213.0.254/24 dev bridge
    ip -n "$name-bridge" link set bridge up
    ip -n "$name-bridge" link set lo up
    [[ -d /run/sshd ]] || { mkdir -m 755 /run/sshd && made_run_sshd=yes; }
    mkdir -m 700 "$work/bin"
    ssh-keygen -q -t ed25519 -N '' -f "$work/key"
    for host in a b c; do
        ip netns add "$name-$host"
        ip -n "$name-bridge" link add "host-$host" type veth peer name eth0 netns "$name-$host"
        ip -n "$name-bridge" link set "host-$host" master bridge up
        ip -n "$name-$host" address add "${address[$host]}/24" dev eth0
        ip -n "$name-$host" link set eth0 up
        ip -n "$name-$host" link set lo up
        mkdir -m 700 "$work/$host"
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
        start_sshd "$host"
    done
    cat >"$work/ssh_config" <<END
IdentityFile $work/key
IdentitiesOnly yes
UserKnownHostsFile $work/known_hosts
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
END
    printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/ssh_config" >"$work/bin/ssh"
    chmod 755 "$work/bin/ssh"
    export PATH=$work/bin:$PATH
}

plan() { # FOLDER [OPTION...]
    "$program" fleet plan "$scenario" "${changes[@]}" --run "$name" --hosts "$work/hosts" --folder "$@"
}

# Waits until a file appears or a command succeeds.
wait_until() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        ((SECONDS < end)) || fail "not within $1 s: ${*:2}"
        sleep 0.2
    done
}

runs_on() { [[ -n $(task_groups "$1") ]]; }

submit() { # FOLDER
    { exec nsenter --net="/run/netns/$name-bridge" -- "$program" fleet submit "$1" >"$work/submit.out" 2>&1; } &
    submit_pid=$!
}

# A value of a JSON document.
value() { # FILE EXPRESSION
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"
}

results() { # FOLDER HOST
    local id
    while IFS=$'\t' read -r id host; do
        [[ $host != "${address[$2]}" || ! -e $1/tasks/$id/result.json ]] || echo "$id"
    done <"$1/tasks.tsv"
}

attempts() { # FOLDER HOST
    local id
    for id in $(results "$1" "$2"); do
        value "$1/tasks/$id/result.json" 'd["attempt"]'
    done | sort -n | tail -n 1
}

no_folder_left() {
    ! compgen -G "/var/tmp/plimsoll-fleet-$name-*" >/dev/null
}

trap at_exit EXIT
trap 'exit 143' TERM INT HUP
set_up
step 'a host is unreachable, one reboots, one loses a connection'
printf '%s\n' "${address[@]}" >"$work/hosts"
ip -n "$name-c" link set eth0 down
plan "$work/fleet" --repeat 2 --retries 2 --at-most 3
submit "$work/fleet"

wait_until 60 runs_on b
ip -n "$name-b" link set eth0 down
kill_host b
step 'host b is down'
wait_until 60 runs_on a
# The connections of a, not its sshd and not its task.
for pid in $(children "${sshd_pid[a]}"); do kill -KILL "$pid"; done
step 'host a lost its connections'
sleep 5
start_sshd b
ip -n "$name-b" link set eth0 up
step 'host b is up'
code=0
wait "$submit_pid" || code=$?
submit_pid=
step "submit ended with exit code $code"
[[ $code == 2 ]] || fail "submit must end with 2, as tasks failed, not with $code"
cat "$work/fleet/logs/joblog.tsv"
[[ $(results "$work/fleet" a | wc -l) == 2 ]] || fail 'a result of host a is missing'
[[ $(results "$work/fleet" b | wc -l) == 2 ]] || fail 'a result of host b is missing'
[[ -z $(results "$work/fleet" c) ]] || fail 'host c has a result'
[[ $(attempts "$work/fleet" a) == 1 ]] || fail 'a lost connection must not repeat a task'
[[ $(attempts "$work/fleet" b) == 2 ]] || fail 'a reboot must repeat the task, once'
while IFS=$'\t' read -r id host; do
    [[ $host != "${address[c]}" ]] || grep -qF -- "$id" "$work/submit.out" || fail "submit does not list the missing task $id"
done <"$work/fleet/tasks.tsv"
no_folder_left || fail 'a folder is left on a host'

step 'the unreachable host is back; a second submit repeats only its tasks'
ip -n "$name-c" link set eth0 up
submit "$work/fleet"
wait "$submit_pid" || fail "the second submit ended with exit code $?"
submit_pid=
[[ $(results "$work/fleet" c | wc -l) == 2 ]] || fail 'a result of host c is missing'
[[ $(attempts "$work/fleet" a) == 1 ]] || fail 'the second submit repeated a finished task'

step 'cancel'
plan "$work/fleet2" --repeat 2 --retries 2 --at-most 3
submit "$work/fleet2"
wait_until 60 runs_on a
nsenter --net="/run/netns/$name-bridge" -- "$program" fleet cancel "$work/fleet2"
wait "$submit_pid" && fail 'a cancelled submit succeeded'
submit_pid=
for host in a b c; do ! runs_on "$host" || fail "a task runs on host $host after the cancel"; done
no_folder_left || fail 'a folder is left on a host after the cancel'
[[ ! -e $work/fleet2/tasks || -z $(find "$work/fleet2/tasks" -mindepth 1 -name '.*') ]] || fail 'the cancel left a temporary folder'
step 'done'
