#!/bin/sh
# The part of ssh-task.sh that runs on a host: `sh -s -- ACTION PREFIX TASK [ARGUMENT]`, with this text on standard input.
# It installs nothing. Everything that it writes is in one folder of mode 0700, PREFIX-TASK.XXXXXXXXXX in /var/tmp: on most
# systems /tmp is memory, which a test of memory pressure must not fill, and is empty after a reboot.
#
#   open     finds or makes the folder; prints `folder new PATH` or `folder ready PATH`
#   run      checks the files, starts the task or waits for the one that runs; prints `end done CODE` or `end failed CODE`
#   pack     writes a line, and then a tar of the result, the attempts and the log, to standard output
#   remove   removes the folder
#   cancel   ends tasks of PREFIX, and removes their folders; prints `cancelled TASKS FOLDERS`
set -u
umask 077
LC_ALL=C
export LC_ALL
base=/var/tmp
most_end_seconds=30
action=$1
prefix=$2
task=$3
argument=${4:-}

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# A folder in a directory that all users share: only one of this user with mode 0700 is ours.
is_ours() { # PATH
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ "$(stat -c %a -- "$1")" = 700 ]
}

# Prints the start time of a process in clock ticks after boot, and fails for an ended one. Its name may contain spaces and
# brackets.
started() { # PID
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # shellcheck disable=SC2086 # fields, 3 (the state) first
    set -- ${stat##*) }
    case $1 in Z | X) return 1 ;; esac
    shift 19
    printf '%s\n' "$1"
}

# Sets `pid` to the leader of the task's process group, and fails if no task runs. The start time and the boot tell it from a
# later process with the same number.
is_running() { # FOLDER
    pid=
    [ -f "$1/pid" ] && read -r pid start boot <"$1/pid" || return 1
    case $pid in '' | *[!0-9]*) return 1 ;; esac
    [ "$boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && [ "$(started "$pid")" = "$start" ]
}

# Sets `folder` to the task's folder, or to nothing. mktemp's suffix has no dot, so no other task has such a name.
find_folder() {
    for folder in "$base/$prefix-$task".??????????; do
        is_ours "$folder" && return
    done
    folder=
}

require() {
    for program in mktemp setsid sha256sum stat tar; do
        command -v "$program" >/dev/null || fail "the host has no program $program; install it"
    done
}

open_folder() {
    require
    find_folder
    if [ -n "$folder" ] && [ -f "$folder/ready" ]; then
        printf 'folder ready %s\n' "$folder"
        return
    fi
    # The connection broke before all files were there.
    [ -z "$folder" ] || rm -rf -- "$folder"
    folder=$(mktemp -d "$base/$prefix-$task.XXXXXXXXXX") || fail "cannot create a folder in $base"
    mkdir "$folder/tasks" || fail "cannot create a folder in $folder"
    printf 'folder new %s\n' "$folder"
}

# The argument has a line of sha256sum for each file, with `:` for a space and `,` for the end of a line: a word for the
# user's shell, whichever that is.
check_files() {
    [ -f ready ] && return
    printf '%s,' "$argument" | tr ':,' ' \n' | sha256sum -c >/dev/null 2>&1 ||
        fail "the files on the host differ from those of the plan; is the disk of $base full?"
    : >ready
}

# Starts the task in a session of its own: it survives the loss of the connection. The shell that leads the group outlives the
# program, so a group without leader has ended.
start_task() {
    rm -f exit
    # shellcheck disable=SC2016 # parameters of the inner shell
    setsid sh -c '
        trap : HUP INT TERM
        stat=$(cat "/proc/$$/stat")
        set -- "$1" ${stat##*) }
        printf "%s %s %s\n" "$$" "${21}" "$(cat /proc/sys/kernel/random/boot_id)" >pid.new
        mv pid.new pid
        sh ./task.sh "$1" >>log 2>&1 </dev/null
        printf "%s\n" "$?" >exit.new
        mv exit.new exit
    ' task "$task" </dev/null >/dev/null 2>&1 &
    wait "$!"
}

run_task() {
    check_files
    if is_running .; then
        while is_running .; do sleep 2; done
    elif [ ! -f exit ] || [ "$(cat exit)" != 0 ]; then
        start_task
    fi
    # Without a code, a signal ended the group.
    code=$(cat exit 2>/dev/null) || code=137
    # The folder may stay for a second try, which must run the task.
    if [ -f "tasks/$task/result.json" ]; then
        printf 'end done %s\n' "$code"
    else
        rm -f exit
        printf 'end failed %s\n' "$code"
    fi
}

pack() {
    set --
    for name in log "tasks/$task" "tasks/$task.attempts"; do
        [ -e "$name" ] && set -- "$@" "$name"
    done
    # Startup files of the user's shell may have printed something, also an unfinished line.
    printf '\nplimsoll-fleet-result\n'
    exec tar -cf - "$@"
}

# Ends a task: with SIGTERM, at which Plimsoll undoes its changes, or after 30 s with SIGKILL. Then the program undoes the changes
# of dead tasks, and leaves other dead runs on this host alone.
end_task() { # FOLDER
    kill -TERM "-$pid" 2>/dev/null
    seconds=0
    while is_running "$1" && [ "$seconds" -lt "$most_end_seconds" ]; do
        sleep 1
        seconds=$((seconds + 1))
    done
    is_running "$1" || return 0
    kill -KILL "-$pid" 2>/dev/null
    sleep 1
    (cd "$1" && ./plimsoll cleanup --tasks) </dev/null >/dev/null 2>&1 ||
        fail "cannot undo the changes of a killed task: \`plimsoll cleanup --tasks\` failed; run it as root in $1"
}

remove() {
    cd / || exit 1
    ! is_running "$folder" || end_task "$folder"
    rm -rf -- "$folder" || fail "cannot remove $folder"
}

cancel() {
    tasks=0
    folders=0
    for folder in "$base/$prefix-"*.??????????; do
        is_ours "$folder" || continue
        if is_running "$folder"; then
            end_task "$folder"
            tasks=$((tasks + 1))
        fi
        rm -rf -- "$folder" || fail "cannot remove $folder"
        folders=$((folders + 1))
    done
    printf 'cancelled %s %s\n' "$tasks" "$folders"
}

case $action in
open) open_folder ;;
cancel) cancel ;;
run | pack | remove)
    find_folder
    [ -n "$folder" ] || fail "the folder of task $task in $base is gone"
    cd "$folder" || fail "cannot enter $folder"
    case $action in
    run) run_task ;;
    pack) pack ;;
    remove) remove ;;
    esac
    ;;
*) fail "unknown action $action" ;;
esac
