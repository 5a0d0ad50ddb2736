#!/usr/bin/env bash
# Makes the pictures of README.md and the book, and the values that they state, from real runs. Takes about 15 minutes.
#
# Usage, as root on a quiet machine: docs/pictures.sh PLIMSOLL FOLDER
# PLIMSOLL is the release binary; FOLDER, a new folder such as benchmarks/2026-11-23-readme, gets the values and the
# summaries. Needs python3, tmux and Chromium (/usr/bin/chromium, or the one that CHROMIUM names). PICTURES_SKIP_RUNS=1
# draws again from the recordings that are in RECORDINGS (default: a temporary folder).
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "$0")")")
[[ $# == 2 ]] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 1; }
plimsoll=$(readlink -f "$1")
folder=$(readlink -m "$2")
pictures=$root/docs/src/pictures
recordings=${RECORDINGS:-$(mktemp -d)}
work=$(mktemp -d)
mkdir -p "$folder" "$pictures" "$recordings"
trap 'tmux -L "plimsoll-$$" kill-server 2>/dev/null || true; rm -rf "$work"; [[ -n ${RECORDINGS:-} ]] || rm -rf "$recordings"' EXIT

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
print("trial,status,phase,figure,value")
for row in csv.DictReader(sys.stdin):
    print(row["trial"], row["status"], row["phase"], row["figure"], format(float(row["value"]), ".5g"), sep=",")' >"$folder/$name.csv"
}

# The chart and the values of README.md; the same command as in docs/src/loadline.md.
run loadline loadline --quick --repeat 3 --set limit=64M --set max-load=3 --set duration=0.5 \
    --set 'subject=["zram:lz4", "zram:lzo-rle", "swapfile"]'
for theme in light dark; do
    "$plimsoll" report "$recording" --format svg --theme "$theme" --output "$pictures/loadline-$theme.svg"
done

# The table of that run in README.md.
python3 - "$root/README.md" "$folder/loadline.txt" <<'PYTHON'
import sys
readme, summary = sys.argv[1:]
lines = open(summary).read().splitlines()
table = lines[: max(at for at, line in enumerate(lines) if line.startswith("\u2500")) + 1]
begin, end = "<!-- loadline: begin -->\n", "<!-- loadline: end -->"
head, rest = open(readme).read().split(begin)
tail = rest.split(end)[1]
text = "\n".join(line.rstrip() for line in table)
open(readme, "w").write(f"{head}{begin}```text\n{text}\n```\n{end}{tail}")
PYTHON

# The results of docs/src/compression.md, the slowdown and the release methods of README.md.
run compression-devices compression-devices --repeat 3 --set size=256M --set request=64M --set hold=0.3 \
    --set 'class=["random", "runs20", "constant", "ratio=2.5"]'
run wscap-sweep wscap-sweep --set 'load=[0.9, 2]' --set duration=1 --repeat 6
run map map --quick --repeat 3

# Large enough to be seen among all the memory of the machine: the monitor replays it, and its report is opened in a browser.
run watched compression --repeat 1 --set size=4G --set request=1G --set hold=4 --set 'class=["runs20", "random"]'
monitor="$plimsoll watch --color always --replay $recording"
tmux -L "plimsoll-$$" -f /dev/null new-session -d -x 112 -y 38 "TERM=xterm-256color COLORTERM=truecolor $monitor"
sleep 5
tmux -L "plimsoll-$$" capture-pane -e -p >"$work/watch.ansi"
tmux -L "plimsoll-$$" send-keys q
"$root/docs/terminal_to_svg.py" "plimsoll watch on a recording of the compression experiment" <"$work/watch.ansi" >"$pictures/watch.svg"
"$plimsoll" report "$recording" --output "$work/report.html" >/dev/null
"${CHROMIUM:-/usr/bin/chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb \
    --force-device-scale-factor=0.75 --window-size=1200,1600 --virtual-time-budget=5000 \
    --screenshot="$pictures/report.png" "file://$work/report.html" 2>"$work/chromium.log"

{
    echo "# Values of README.md and of the chapter on compression"
    echo
    echo "$("$plimsoll" --version), $(uname -sr), $(nproc) CPUs ($(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)), $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)," \
        "load average $(cut -d' ' -f1 /proc/loadavg) at the end. Made by:"
    echo
    echo '```'
    echo "docs/pictures.sh target/release/plimsoll FOLDER"
    echo '```'
    echo
    echo "Each \`.txt\` is the summary of a run, each \`.csv\` the metrics of every trial. The pictures in \`docs/src/pictures/\` come"
    echo "from the same runs."
} >"$folder/README.md"
du -cb "$pictures"/* | tail -1
