#!/usr/bin/env bash
# Runs one task on one host over ssh, and fetches its result. GNU parallel starts it (submit.sh); so can a user.
#
#   ./ssh-task.sh TASK HOST       HOST is [user@]name[:port]
#   ./ssh-task.sh --cancel HOST   ends the tasks of this fleet on HOST, and removes their folders
#
# Exit codes: 0: tasks/TASK is there. 75: no connection, or it broke; the task may still run, and a later try fetches its result.
# 76: the host sent something else than a result. Other codes: those of the task.
#
# ssh uses the user's configuration, keys and known hosts, and never asks for a password. PLIMSOLL_FLEET_WAIT: seconds for which a
# try waits for a host that an earlier try lost, for example as it reboots (default: 600).
set -euo pipefail
umask 077
export LC_ALL=C
cd -- "$(dirname -- "$(readlink -f -- "$0")")"

readonly prefix='@PREFIX@'
readonly program_sha256='@PROGRAM_SHA256@'
readonly scenario_sha256='@SCENARIO_SHA256@'
readonly wait_seconds=${PLIMSOLL_FLEET_WAIT:-600}
readonly most_bytes=$((1 << 30)) most_entries=20000 most_log_bytes=$((1 << 20))
readonly no_connection=75 bad_result=76
work=

fail() { # CODE MESSAGE
    printf '%s on %s: %s\n' "$task" "$host" "$2" >&2
    exit "$1"
}

# Text of another machine, for a terminal.
printable() { tr -cd '\11\12\40-\176'; }

at_exit() {
    if [[ -n $work ]]; then
        chmod -R u+rwX -- "$work" 2>/dev/null || true
        rm -rf -- "$work"
    fi
}

check_task() {
    [[ $task =~ ^[a-z0-9][a-z0-9._-]{0,62}$ && $task != *..* && $task != *.attempts ]] || {
        printf 'not the name of a task: %q\n' "$task" >&2
        exit 1
    }
}

# Sets `target`, the arguments that lead ssh to the host. A name that starts with `-` would be an option.
check_host() {
    local word='[A-Za-z0-9._][A-Za-z0-9._-]*'
    [[ $host =~ ^(($word)@)?($word)(:([0-9]{1,5}))?$ ]] || {
        printf 'not a host: %q; write [user@]name[:port]\n' "$host" >&2
        exit 1
    }
    local login=${BASH_REMATCH[2]} name=${BASH_REMATCH[3]} port=${BASH_REMATCH[5]}
    target=(${port:+-p "$port"} ${login:+-l "$login"} -- "$name")
}

# Runs a command on the host. The first of its messages are shown, without control characters.
remote() { # COMMAND
    {
        ssh -T -x -a -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o ServerAliveCountMax=8 \
            -o ClearAllForwardings=yes -o PermitLocalCommand=no -o LogLevel=ERROR "${target[@]}" "$1" 2>&1 1>&3 3>&- |
            { head -c 4096 | printable && cat >/dev/null; } >&2
    } 3>&1
}

# Runs an action of ssh-host.sh. Words on the command line have only letters, digits and `.-_:,`: every shell takes them as they are.
on_host() { # ACTION [ARGUMENT]
    remote "exec sh -s -- $1 $prefix $task ${2:-}" <ssh-host.sh
}

# The last line of an answer; startup files of the user's shell may print lines before it.
answer() { # ACTION [ARGUMENT]
    on_host "$@" | head -c 65536 | printable | tail -n 1
}

# Sets `folder` and `state`.
open_folder() {
    local deadline=0 line code
    [[ ! -e $lost ]] || deadline=$((SECONDS + wait_seconds))
    while :; do
        code=0
        line=$(answer open) || code=$?
        ((code == 255 && SECONDS < deadline)) || break
        sleep 5
    done
    ((code != 255)) || fail "$no_connection" 'no connection; see the message of ssh above'
    ((code == 0)) || fail "$code" 'cannot make a folder on the host'
    [[ $line =~ ^folder\ (new|ready)\ (/[A-Za-z0-9._/-]+)$ ]] || fail "$bad_result" 'the host answered something else than a folder'
    state=${BASH_REMATCH[1]}
    folder=${BASH_REMATCH[2]}
    : >"$lost"
}

# Sends the files, and the records of earlier attempts: their numbers go on.
send() {
    local files=(plimsoll scenario.toml task.sh) file
    for file in "tasks/$task.attempts"/*/attempt.json; do
        [[ ! -f $file || -L $file ]] || files+=("$file")
    done
    tar -cf - --owner=0 --group=0 --numeric-owner --mode=u+rwX,go= -- "${files[@]}" |
        remote "exec tar -xof - -C $folder" || fail "$no_connection" 'cannot copy the files to the host'
}

sums() {
    printf '%s::plimsoll,%s::scenario.toml,%s::task.sh' "$program_sha256" "$scenario_sha256" "$(sha256sum <task.sh | cut -d ' ' -f 1)"
}

# Sets `end` and `task_code`.
run() {
    local line code=0
    line=$(answer run "$(sums)") || code=$?
    ((code != 255)) || fail "$no_connection" 'the connection broke; the task may still run'
    ((code == 0)) || discard "$code" 'the host cannot run the task'
    [[ $line =~ ^end\ (done|failed)\ ([0-9]{1,3})$ ]] || fail "$no_connection" 'the connection broke; the task may still run'
    end=${BASH_REMATCH[1]}
    task_code=${BASH_REMATCH[2]}
}

# Removes the folder on the host. An error does not change the outcome; `--cancel` tries again.
remove() {
    on_host remove >/dev/null || printf '%s on %s: the folder %s is still there\n' "$task" "$host" "$folder" >&2
    rm -f -- "$lost"
}

discard() { # CODE MESSAGE
    remove
    fail "$1" "$2"
}

# Fetches the result into a folder that `collect` ignores, and checks it there: it comes from another machine.
fetch() {
    local code=0
    work=$(mktemp -d "tasks/.$task.XXXXXXXXXX")
    mkdir "$work/new"
    on_host pack | head -c $((most_bytes + 1)) >"$work/tar" || code=$?
    # 141: the host sent more, and ssh could not write it.
    (($(stat -c %s "$work/tar") <= most_bytes)) || discard "$bad_result" "the result is larger than $most_bytes bytes"
    ((code == 0)) || fail "$no_connection" 'the connection broke as it fetched the result'
    check_names || discard "$bad_result" 'the result has names or kinds of files that no result has'
    tar -xf "$work/tar" -C "$work/new" --no-same-owner --no-same-permissions --keep-old-files --no-xattrs 2>/dev/null ||
        discard "$bad_result" 'the result is damaged'
    check_files || discard "$bad_result" 'the result has names or kinds of files that no result has'
    chmod -R u+rwX,go-w,a-s -- "$work/new"
}

# Every entry is a file or a folder: log, tasks/TASK, tasks/TASK.attempts or something below them with a plain name.
check_names() {
    local names=$work/names kinds=$work/kinds
    tar -tf "$work/tar" --quoting-style=escape 2>/dev/null | head -n $((most_entries + 1)) >"$names" || return 1
    (($(wc -l <"$names") <= most_entries)) || return 1
    tar -tvf "$work/tar" --quoting-style=escape >"$kinds" 2>/dev/null || return 1
    (($(grep -c '^[^-d]' "$kinds") == 0)) || return 1
    (($(grep -cE '(^|/)\.\.?(/|$)' "$names") == 0)) || return 1
    (($(grep -cvE "^(log|tasks/${task//./\\.}(\\.attempts)?(/[A-Za-z0-9._=+:@-]+)*/?)\$" "$names") == 0))
}

# The same on the files, which tar wrote: also their sizes, as a sparse file is small in a tar.
check_files() {
    [[ -z $(find "$work/new" ! -type f ! -type d -print -quit) ]] || return 1
    [[ -z $(find "$work/new" -type f -links +1 -print -quit) ]] || return 1
    find "$work/new" -type f -printf '%s\n' | awk -v most="$most_bytes" '{ sum += $1 } END { exit sum > most }'
}

# The result comes last: with it, the task is finished.
install_result() {
    local new=$work/new/tasks
    if [[ -f $work/new/log ]]; then
        tail -c "$most_log_bytes" -- "$work/new/log" | printable >"logs/$task.log"
    fi
    if [[ -d $new/$task.attempts ]]; then
        [[ ! -e tasks/$task.attempts ]] || mv -T -- "tasks/$task.attempts" "$work/old"
        mv -T -- "$new/$task.attempts" "tasks/$task.attempts"
    fi
    if [[ -d $new/$task && ! -e tasks/$task ]]; then
        mv -T -- "$new/$task" "tasks/$task"
    fi
}

run_task() {
    check_task
    mkdir -p logs tasks
    lost=logs/$task.lost
    # Tasks of one host run one after the other: each measures the whole host.
    exec 8>"logs/host-${host//[^A-Za-z0-9._@-]/_}.lock"
    flock 8
    # Of a try that was killed as it fetched.
    rm -rf -- "tasks/.$task".??????????
    [[ ! -e tasks/$task/result.json ]] || exit 0
    open_folder
    [[ $state == ready ]] || send
    run
    fetch
    install_result
    remove
    [[ ! -e tasks/$task/result.json ]] || exit 0
    ((task_code != 0)) || task_code=$bad_result
    [[ $end == failed ]] || fail "$bad_result" 'the host has no result, although it said so'
    fail "$task_code" "the task failed with exit code $task_code; its output is in logs/$task.log"
}

cancel() {
    task=all line=
    # Not the code 255 of ssh, at which xargs would leave out the other hosts.
    line=$(answer cancel) || fail "$no_connection" 'cannot cancel; its folders in /var/tmp may stay'
    [[ $line =~ ^cancelled\ ([0-9]+)\ ([0-9]+)$ ]] || fail "$bad_result" 'the host answered something else'
    printf '%s\t%s\t%s\n' "$host" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
}

[[ $# == 2 ]] || {
    printf 'usage: %s TASK HOST | --cancel HOST\n' "$0" >&2
    exit 1
}
trap at_exit EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP
task=$1
host=$2
check_host
case $task in
--cancel) cancel ;;
*) run_task ;;
esac
