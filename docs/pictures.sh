#!/usr/bin/env bash
# Makes the pictures of README.md and the book, the outputs in its chapters, and the values that they state, from real runs.
#
# Usage, as root on a quiet machine: docs/pictures.sh PLIMSOLL FOLDER [PART...]
# PLIMSOLL is the release binary; FOLDER, a new folder such as benchmarks/2026-11-23-readme, gets the values and the
# summaries. The parts are loadline, compression, wscap, map, watch (about 15 minutes together), size, size-services, hold
# (about 10) and guard (about 3); the default is all of them. Needs python3, tmux and Chromium (/usr/bin/chromium, or the one
# that CHROMIUM names).
# PICTURES_SKIP_RUNS=1 draws again from the recordings of runs that are in RECORDINGS (default: a temporary folder).
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "$0")")")
[[ $# -ge 2 ]] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 1; }
plimsoll=$(readlink -f "$1")
folder=$(readlink -m "$2")
shift 2
parts=("$@")
[[ $# -gt 0 ]] || parts=(loadline compression wscap map watch size size-services hold guard)
pictures=$root/docs/src/pictures
recordings=${RECORDINGS:-$(mktemp -d)}
work=$(mktemp -d)
cgroup='' service=''
mkdir -p "$folder" "$pictures" "$recordings"

clean() {
    tmux -L "plimsoll-$$" kill-server 2>/dev/null || true
    [[ -z $service ]] || { kill "$service" 2>/dev/null; wait "$service" 2>/dev/null; } || true
    [[ -z $cgroup ]] || rmdir "$cgroup" 2>/dev/null || { sleep 1; rmdir "$cgroup"; } || true
    rm -rf "$work"
    [[ -n ${RECORDINGS:-} ]] || rm -rf "$recordings"
}
trap clean EXIT

run() { # NAME ARGUMENTS...: runs an experiment; 7 means that a busy machine spoiled trials, which the summary states
    local name=$1 code=0
    shift
    if [[ -z ${PICTURES_SKIP_RUNS:-} ]]; then
        "$plimsoll" run "$@" --output "$recordings/$name" >"$work/$name.txt" || code=$?
        [[ $code == 0 || $code == 7 ]] || { echo "$name: exit code $code" >&2; exit "$code"; }
    fi
    recording=$(echo "$recordings/$name"/*)
    "$plimsoll" report "$recording" --format text >"$folder/$name.txt"
    # Five columns and five digits: enough to compute every stated value again.
    "$plimsoll" report "$recording" --format csv | python3 -c 'import csv, sys
print("trial,status,phase,metric,value")
for row in csv.DictReader(sys.stdin):
    print(row["trial"], row["status"], row["phase"], row["metric"], format(float(row["value"]), ".5g"), sep=",")' >"$folder/$name.csv"
}

chapter() { # CHAPTER PURPOSE CAPTION ARGUMENTS...: runs a command as a user types it; puts its output and its chart into the chapter
    local name=$1 purpose=$2 caption=$3 code=0
    shift 3
    (cd "$recordings" && PATH="$(dirname "$plimsoll"):$PATH" plimsoll "$@") >"$folder/$name.txt" || code=$?
    [[ $code == 0 || $code == 7 ]] || { echo "$name: exit code $code" >&2; exit "$code"; }
    "$root/docs/pictures/insert.py" "$root/docs/src/$name.md" output "Here \`plimsoll $*\` $purpose:" \
        "![$caption](pictures/$name.svg)" <"$folder/$name.txt"
    (cd "$recordings" && "$plimsoll" report @latest --format svg --theme light --output "$pictures/$name.svg" >/dev/null)
}

# The chart and the values of README.md; the same command as in docs/src/loadline.md.
loadline() {
    run loadline loadline --quick --repeat 3 --set limit=64M --set max-load=3 --set duration=0.5 \
        --set 'subject=["zram:lz4", "pager:lz4", "swapfile"]'
    for theme in light dark; do
        "$plimsoll" report "$recording" --format svg --theme "$theme" --output "$pictures/loadline-$theme.svg"
    done
    # The table of that run in README.md, without the rules between rows.
    python3 -c 'import sys
lines = sys.stdin.read().splitlines()
rules = [at for at, line in enumerate(lines) if line.startswith("\u2500")]
print("\n".join(line for at, line in enumerate(lines[: rules[-1] + 1]) if at not in rules[:-1]))' \
        <"$folder/loadline.txt" | "$root/docs/pictures/insert.py" "$root/README.md" loadline
}

# The results of docs/src/compression.md, the slowdown and the release methods of README.md.
compression() {
    run compression-devices compression-devices --repeat 3 --set size=256M --set request=64M --set hold=0.3 \
        --set 'class=["random", "runs20", "constant", "ratio=2.5"]'
}

wscap() {
    run wscap-sweep wscap-sweep --set 'load=[0.9, 2]' --set duration=1 --repeat 6
}

map() {
    run map map --quick --repeat 3
}

# Large enough to be seen among all the memory of the machine: the monitor replays it, and its report is opened in a browser.
watch() {
    run watched compression --repeat 1 --set size=4G --set request=1G --set hold=4 --set 'class=["runs20", "random"]'
    local monitor="$plimsoll watch --color always --replay $recording"
    tmux -L "plimsoll-$$" -f /dev/null new-session -d -x 112 -y 38 "TERM=xterm-256color COLORTERM=truecolor $monitor"
    sleep 5
    tmux -L "plimsoll-$$" capture-pane -e -p >"$work/watch.ansi"
    tmux -L "plimsoll-$$" send-keys q
    "$root/docs/terminal_to_svg.py" "plimsoll watch on a recording of the compression experiment" <"$work/watch.ansi" >"$pictures/watch.svg"
    "$plimsoll" report "$recording" --output "$work/report.html" >/dev/null
    "${CHROMIUM:-/usr/bin/chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb \
        --force-device-scale-factor=0.75 --window-size=1200,1600 --virtual-time-budget=5000 \
        --screenshot="$pictures/report.png" "file://$work/report.html" 2>"$work/chromium.log"
}

# A program that touches 128 MiB once and then uses 48 MiB.
size() {
    cp "$root/docs/pictures/batch.py" "$recordings/batch.py"
    chapter size "sized a program that touches 128 MiB once and then uses 48 MiB" \
        "The time of the program over its memory limit, without swap and with zram" \
        size --engine none,zram:lz4 -- python3 batch.py
}

# A service that has read a file of 200 MiB once and uses 64 MiB, in a cgroup of its own.
size-services() {
    local mount=/sys/fs/cgroup
    [[ ! -d $mount/memory ]] || mount=$mount/memory
    cgroup=$mount/web
    mkdir "$cgroup"
    cp "$root/docs/pictures/service.py" "$recordings/service.py"
    (cd "$recordings" && echo "$BASHPID" >"$cgroup/cgroup.procs" && exec python3 service.py) &
    service=$!
    sleep 10
    chapter size-services "sized a service that has read a file of 200 MiB once and uses 64 MiB of its memory" \
        "The memory of the service and its cap over time" size --cgroup /web --duration 2m
    kill "$service"
    wait "$service" || true
    service=''
    sleep 1
    rmdir "$cgroup"
    cgroup=''
}

# A level, while another program takes 2 GiB and leaves.
hold() {
    (sleep 30 && exec "$plimsoll" hold --bytes 2G --duration 12s --quiet) &
    local other=$!
    chapter hold "held half of the RAM of a machine, while another program took 2 GiB for 12 s" \
        "Memory available to other programs, and its goal" hold --used 50% --duration 60s --output
    wait "$other"
}

# Thrashing processes with a guard and without: the work of each, and the pages read back over time.
guard() {
    run guard thrash-guard --repeat 1 --set 'guard=["none", "relay"]'
    for theme in light dark; do
        "$plimsoll" report "$recording" --format svg --theme "$theme" --chart fairness --output "$pictures/guard-work-$theme.svg"
        "$plimsoll" report "$recording" --format svg --theme "$theme" --output "$pictures/guard-pages-$theme.svg"
    done
}

for part in "${parts[@]}"; do
    "$part"
done
{
    echo "# Values of README.md and of chapters of the book"
    echo
    echo "$("$plimsoll" --version), $(uname -sr), $(nproc) CPUs ($(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)), $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)," \
        "load average $(cut -d' ' -f1 /proc/loadavg) at the end. Made by:"
    echo
    echo '```'
    echo "docs/pictures.sh target/release/plimsoll FOLDER ${parts[*]}"
    echo '```'
    echo
    echo "Each \`.txt\` is the output of a command or the summary of a run, each \`.csv\` the metrics of every trial. The pictures in"
    echo "\`docs/src/pictures/\` come from the same runs."
} >"$folder/README.md"
du -cb "$pictures"/* | tail -1
