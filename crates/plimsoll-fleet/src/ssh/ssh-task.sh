#!/usr/bin/env bash
# Runs one task on one host over ssh, and fetches its result. GNU parallel starts it (submit.sh); so can a user.
#
#   ./ssh-task.sh TASK HOST       HOST is [user@]name[:port]
#   ./ssh-task.sh --cancel HOST   ends the tasks of this fleet on HOST, and removes their folders
#
# Exit codes: 0: tasks/TASK is there. 75: no connection, or it broke, or this machine cannot store the result; the task may still
# run, and a later try fetches its result. 76: the host sent something else than a result. Other codes: those of the task.
#
# ssh uses the user's configuration, keys and known hosts, and never asks for a password. PLIMSOLL_FLEET_WAIT: seconds for which a
# try waits for a host that an earlier try lost, for example as it reboots (default: 600). Each try adds a line to logs/tries.tsv.
set -euo pipefail
umask 077
export LC_ALL=C
cd -- "$(dirname -- "$(readlink -f -- "$0")")"

readonly prefix='@PREFIX@'
readonly program_sha256='@PROGRAM_SHA256@'
readonly scenario_sha256='@SCENARIO_SHA256@'
readonly wait_seconds=${PLIMSOLL_FLEET_WAIT:-600}
readonly most_bytes=$((1 << 30)) most_entries=20000 most_log_bytes=$((1 << 20))
readonly no_connection=75 bad_result=76 no_mark=3
# The line of ssh-host.sh before a result.
readonly mark=plimsoll-fleet-result
work=
began=

fail() { # CODE MESSAGE
    printf '%s on %s: %s\n' "$task" "$host" "$2" >&2
    exit "$1"
}

# Text of another machine, for a terminal.
printable() { tr -cd '\11\12\40-\176'; }

# Adds a line to the list of tries: start in UTC, task, host, exit code, seconds. It is one short write, so that those of other
# tasks do not mix with it. A full disk does not change the outcome.
note_try() { # CODE
    [[ -n $began ]] || return 0
    {
        printf '%s\t%s\t%s\t%s\t%s\n' "$began" "$task" "$host" "$1" "$((SECONDS - began_seconds))" >>logs/tries.tsv
    } 2>/dev/null || true
}

at_exit() {
    local code=$?
    note_try "$code"
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

# Runs a command on the host. The first of its messages are shown, without control characters. A command or a terminal of the user's
# configuration would take the place of ours, and a shared connection would hide that the host was lost.
remote() { # COMMAND
    {
        ssh -T -x -a -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 -o ServerAliveCountMax=8 \
            -o ClearAllForwardings=yes -o PermitLocalCommand=no -o LogLevel=ERROR -o RemoteCommand=none -o RequestTTY=no \
            -o ControlMaster=no -o ControlPath=none "${target[@]}" "$1" 2>&1 1>&3 3>&- |
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

unexpected() { # ACTION
    fail "$bad_result" "unexpected answer to \`$1\`; check that the login shell's startup files print nothing"
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
    ((code < 128)) ||
        fail "$no_connection" "cannot connect: see the ssh message above; check \`ssh -o BatchMode=yes ${target[*]} true\`"
    ((code == 0)) || fail "$code" 'cannot create a folder on the host'
    [[ $line =~ ^folder\ (new|ready)\ (/[A-Za-z0-9._/-]+)$ ]] || unexpected open
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
        remote "exec tar -xof - -C $folder" >/dev/null || fail "$no_connection" 'cannot copy the files to the host'
}

sums() {
    printf '%s::plimsoll,%s::scenario.toml,%s::task.sh' "$program_sha256" "$scenario_sha256" "$(sha256sum <task.sh | cut -d ' ' -f 1)"
}

# Sets `end` and `task_code`.
run() {
    local line code=0
    line=$(answer run "$(sums)") || code=$?
    # 255 is ssh's; above 128, a signal ended it.
    ((code < 128)) || fail "$no_connection" 'the connection broke; the task may still run'
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

# A fault of this machine. The only copy of the result stays on the host.
cannot_store() {
    fail "$no_connection" 'cannot store the result here: is the disk full? The result stays on the host; submit again'
}

foreign() { discard "$bad_result" 'rejected the result: unexpected file name or type'; }

# Fetches the result into a folder that `collect` ignores, and checks it there: it comes from another machine. Only a complete file
# that is bad makes the host's copy worthless.
fetch() {
    local codes=(0 0) size
    work=$(mktemp -d "tasks/.$task.XXXXXXXXXX") || cannot_store
    mkdir "$work/new" || cannot_store
    on_host pack | after_mark >"$work/tar" || codes=("${PIPESTATUS[@]}")
    ((codes[1] == 0 || codes[1] == no_mark)) || cannot_store
    size=$(stat -c %s "$work/tar") || cannot_store
    # The host sent more, and ssh could not write it.
    ((size <= most_bytes)) || discard "$bad_result" "rejected the result: it is larger than $most_bytes bytes"
    ((codes[0] < 128)) || fail "$no_connection" 'cannot fetch the result: the connection broke; submit again'
    ((codes[0] == 0 && codes[1] == 0)) ||
        fail "$no_connection" "cannot fetch the result: unexpected answer to \`pack\`; see the message above, then submit again"
    check_tar
    extract
    check_files
}

# Prints what follows the mark. Startup files of the user's shell may print lines before it; `read` takes no byte after a line.
after_mark() {
    local line='' count
    for ((count = 0; count < 4096; count++)); do
        IFS= read -r -n 1024 line || return "$no_mark"
        [[ $line != "$mark" ]] || break
    done
    [[ $line == "$mark" ]] || return "$no_mark"
    head -c $((most_bytes + 1))
}

# Every entry is a file or a folder: log, tasks/TASK, tasks/TASK.attempts or something below them with a plain name.
check_tar() {
    local code=0 count
    tar -tf "$work/tar" >/dev/null 2>&1 || code=$?
    # Greater codes are those of a tar that did not start, or was killed.
    ((code <= 2)) || cannot_store
    ((code == 0)) || discard "$bad_result" 'rejected the result: it is damaged'
    count=$(tar -tf "$work/tar" --quoting-style=escape 2>/dev/null | wc -l) || cannot_store
    ((count <= most_entries)) || foreign
    ! has_line -tvf -cE '^[^-d]' || foreign
    ! has_line -tf -cE '(^|/)\.\.?(/|$)' || foreign
    ! has_line -tf -cvE "^(log|tasks/${task//./\\.}(\\.attempts)?(/[A-Za-z0-9._=+:@-]+)*/?)\$" || foreign
}

# Whether the list of entries has a line of the pattern. It writes no file: the disk may be full.
has_line() { # TAR-OPTION GREP-OPTION PATTERN
    local code=0 count
    count=$(tar "$1" "$work/tar" --quoting-style=escape 2>/dev/null | grep "$2" -e "$3") || code=$?
    # 1: no line.
    ((code <= 1)) || cannot_store
    ((count > 0))
}

# The names are plain by now, so tar's messages are fit for a terminal.
extract() {
    tar -xf "$work/tar" -C "$work/new" --no-same-owner --no-same-permissions --keep-old-files --no-xattrs \
        --warning=no-timestamp 2>&1 | { head -n 3 && cat >/dev/null; } >&2 || cannot_store
    chmod -R u+rwX,go-w,a-s -- "$work/new" || cannot_store
}

# The same on the files, which tar wrote: also their sizes, as a sparse file is small in a tar.
check_files() {
    local code=0
    [[ -z $(find "$work/new" ! -type f ! -type d -print -quit) ]] || foreign
    [[ -z $(find "$work/new" -type f -links +1 -print -quit) ]] || foreign
    find "$work/new" -type f -printf '%s\n' |
        awk -v most="$most_bytes" '{ sum += $1 } END { exit (sum > most ? 3 : 0) }' || code=$?
    ((code == 0 || code == 3)) || cannot_store
    ((code == 0)) || discard "$bad_result" "rejected the result: its files are larger than $most_bytes bytes"
}

# The result comes last: with it, the task is finished.
install_result() {
    local new=$work/new/tasks
    if [[ -f $work/new/log ]]; then
        tail -c "$most_log_bytes" -- "$work/new/log" | printable >"logs/$task.log" || cannot_store
    fi
    if [[ -d $new/$task.attempts ]]; then
        [[ ! -e tasks/$task.attempts ]] || mv -T -- "tasks/$task.attempts" "$work/old" || cannot_store
        mv -T -- "$new/$task.attempts" "tasks/$task.attempts" || cannot_store
    fi
    if [[ -d $new/$task ]]; then
        # An entry without a result.json, which is no result.
        [[ ! -e tasks/$task && ! -L tasks/$task ]] || mv -T -- "tasks/$task" "$work/damaged" || cannot_store
        mv -T -- "$new/$task" "tasks/$task" || cannot_store
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
    began=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    began_seconds=$SECONDS
    open_folder
    [[ $state == ready ]] || send
    run
    fetch
    install_result
    remove
    [[ ! -e tasks/$task/result.json ]] || exit 0
    ((task_code != 0)) || task_code=$bad_result
    [[ $end == failed ]] || fail "$bad_result" "cannot find the result that the host reported; see logs/$task.log"
    fail "$task_code" "the task failed with exit code $task_code; its output is in logs/$task.log"
}

cancel() {
    local line='' code=0
    task=all
    line=$(answer cancel) || code=$?
    # Not the code 255 of ssh, at which xargs would leave out the other hosts.
    ((code < 128)) ||
        fail "$no_connection" 'cannot cancel: no connection; folders in /var/tmp may remain; run cancel.sh again'
    ((code == 0)) || fail "$no_connection" 'cannot cancel: see the message of the host above; then run cancel.sh again'
    [[ $line =~ ^cancelled\ ([0-9]+)\ ([0-9]+)$ ]] || unexpected cancel
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
