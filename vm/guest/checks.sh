# shellcheck shell=dash
# The checks that run inside the VM, by busybox sh. Each prints a line; the last line counts them; the exit code is 1
# if one failed. They check function (exit codes, counters, files, leftovers) and not time.
# The runs write to /disk/out; the host reads it after the VM ends (.ci/verify-recording).

out=/disk/out
swap_dir=/disk/swap
size=32M
# Pages that leave the working set in each trial, at least: 95% of `size`. There is a trial a class, three in all, but
# the pages of `constant` need not reach the device, and zswap passes those of `random` on to the disk.
size_pages=7780
# shellcheck source=vm/guest/expect.sh
. /guest/expect.sh

vmstat() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

# The state of the system that a run may change, as text: it must be equal before and after. A zram device counts only
# while it is configured.
system_state() {
    echo "swaps: $(tail -n +2 /proc/swaps | awk '{ print $1, $3 }')"
    echo "cgroups: $(find /sys/fs/cgroup -mindepth 1 -type d | sort)"
    for disksize in /sys/block/zram*/disksize; do
        [ -e "$disksize" ] && [ "$(cat "$disksize")" != 0 ] && echo "zram: $disksize $(cat "$disksize")"
    done
    for file in /sys/module/zswap/parameters/* /proc/sys/vm/swappiness /proc/sys/vm/page-cluster; do
        echo "$file: $(cat "$file")"
    done
    echo "zram module: $(ls -d /sys/module/zram 2>/dev/null)"
    echo "swap folder: $(ls -A "$swap_dir" 2>/dev/null)"
    echo "processes: $(pidof plimsoll)"
}

# A whole run of a scenario, tiny. Leaves its recording in $out/NAME, NAME.json and NAME.err, and in `swapped` and
# `zswapped` the pages that went to swap and to zswap's pool meanwhile. Exit code 7 means untrustworthy timing, which
# is normal here.
experiment() { # SCENARIO NAME SETTING...
    scenario=$1 name=$2
    shift 2
    settings=''
    for setting; do settings="$settings --set $setting"; done # a list is a sweep; no setting has a space
    before=$(system_state)
    swapped=$(vmstat pswpout)
    zswapped=$(vmstat zswpout)
    # shellcheck disable=SC2086 # the settings are words of their own
    plimsoll run "$scenario" --quick --repeat 1 --json --output "$out/$name" --set swap-dir=$swap_dir $settings \
        >"$out/$name.json" 2>"$out/$name.err"
    code=$?
    [ $code != 7 ] || code=0
    swapped=$(($(vmstat pswpout) - swapped))
    zswapped=$(($(vmstat zswpout) - zswapped))
    equal "$name: exit code" 0 $code
    [ $code = 0 ] || sed 's/^/        /' "$out/$name.err"
    equal "$name: nothing left behind" "$before" "$(system_state)"
}

compression() { # NAME SETTING...
    name=$1
    shift
    experiment compression "$name" "size=$size" "$@"
}

echo "--- the features that the development host may lack"
contains "cgroup v2 has the memory controller" memory /sys/fs/cgroup/cgroup.controllers
equal "cgroup v2 has memory.reclaim" yes "$([ -e /sys/fs/cgroup/user.slice/memory.reclaim ] && echo yes)"
equal "MGLRU is on" 0x0007 "$(cat /sys/kernel/mm/lru_gen/enabled)"
contains "PSI is on" some /proc/pressure/memory
equal "zswap is there, and off" N "$(cat /sys/module/zswap/parameters/enabled)"
mkdir -p "$swap_dir"
cd "$out" || exit 1

echo "--- zram, with its module not loaded, by each way to trim"
equal "zram is not loaded" "" "$(ls -d /sys/module/zram 2>/dev/null)"
compression zram 'subject=zram:zstd' 'trim=["worker","process-madvise","cgroup"]'
at_least "zram: pages went to swap" $((3 * 2 * size_pages)) $swapped

echo "--- zswap and a swap file"
compression disk 'subject=["zswap:zstd","swapfile"]' 'trim=cgroup'
at_least "disk: pages went to zswap's pool" $size_pages $zswapped
at_least "disk: pages went to the disk" $((2 * size_pages)) $swapped

echo "--- a cap on the working set, by memory.max and by memory.high"
experiment wscap wscap 'subject=zram:zstd' 'cap-by=["limit","high"]' size=16M duration=1
at_least "wscap: pages went to swap" 2000 $swapped
contains "wscap: memory.high capped a trial" '"mechanism": "memory.high' wscap.json
contains "wscap: memory.max capped a trial" '"mechanism": "memory.max' wscap.json

echo "--- more load than memory"
experiment loadline loadline 'subject=zram:zstd' limit=16M max-load=1.5 duration=0.5
contains "loadline: the loads that are carried are known" knee_low_load loadline.json
experiment contention contention 'subject=zram:zstd' size=16M suspended=true

echo "--- doctor"
modprobe zram # and from here on the module has a free device of its own
contains "zram has zstd" zstd /sys/block/zram0/comp_algorithm
plimsoll doctor >doctor.txt 2>doctor.err
equal "doctor: exit code" 0 $?
for word in v2 memory.reclaim zstd zswap PSI "multi-generational LRU"; do contains "doctor names $word" "$word" doctor.txt; done
plimsoll doctor --json >doctor.json 2>>doctor.err
equal "doctor --json: exit code" 0 $?

echo "--- the size of a running service, by memory.high"
service=/sys/fs/cgroup/service
hot=24 cold=72 # MiB: read again and again, and touched once
mkdir $service
zram=$(cat /sys/class/zram-control/hot_add)
echo 256M >"/sys/block/zram$zram/disksize"
mkswap "/dev/zram$zram" >/dev/null
swapon "/dev/zram$zram"
fill() { # MIB: the order to a worker
    echo "{\"command\":\"fill\",\"bytes\":$(($1 << 20)),\"request\":$(($1 << 20)),\"class\":\"random\",\"seed\":1,\"thp\":\"never\"}"
}
worker() { sh -c "echo \$\$ >$service/cgroup.procs && exec plimsoll worker" >"$1" 2>&1; }
{ fill $cold; exec sleep 1000; } | worker cold.out &
{ fill $hot; while echo '{"command":"restore"}'; do :; done; } 2>/dev/null | worker /dev/null &
for _ in $(seq 600); do
    [ "$(cat $service/memory.current)" -ge $(((hot + cold) << 20)) ] && [ "$(wc -l <cold.out)" -ge 2 ] && break
    sleep 0.2
done
equal "service: the worker filled its memory" 2 "$(wc -l <cold.out)"
plimsoll size --cgroup /service --duration 90s --psi 2% --json --output "$out/service" >service.json 2>service.err
equal "service: exit code" 0 $?
sed 's/^/        /' service.err
equal "service: memory.high is restored" max "$(cat $service/memory.high)"
contains "service: pressure of the cgroup found the working set" '"bound": "pressure"' service.json
contains "service: PSI of the cgroup is the signal" '"signal": "cgroup"' service.json
found=$(sed -n 's/.*"p50_bytes": \([0-9]*\).*/\1/p' service.json)
at_least "service: the working set has the hot memory, less a tenth" $(((hot << 20) * 9 / 10)) "$found"
at_least "service: the working set has no cold memory, but the programs of the workers" "$found" $(((hot << 20) * 11 / 10 + (4 << 20)))
plimsoll size --pid "$(head -n 1 $service/cgroup.procs)" --duration 600s --output "$out/service-killed" >/dev/null 2>killed.err &
sizing=$!
# A sizing lifts its cap when tasks stall too long, also between a look at the cap and the kill.
for _ in $(seq 300); do
    kill -STOP $sizing
    [ "$(cat $service/memory.high)" != max ] && break
    kill -CONT $sizing
    sleep 0.2
done
kill -9 $sizing
wait $sizing
equal "service: the killed sizing had lowered memory.high" yes "$([ "$(cat $service/memory.high)" != max ] && echo yes)"
plimsoll cleanup >cleanup.out 2>cleanup.err
equal "service: cleanup: exit code" 0 $?
equal "service: cleanup restores memory.high" max "$(cat $service/memory.high)"
plimsoll size --cgroup /service --duration 600s --output "$out/service-changed" >changed.out 2>changed.err &
sizing=$!
for _ in $(seq 300); do
    [ "$(cat $service/memory.high)" != max ] && break
    sleep 0.2
done
echo 200M >$service/memory.high
wait $sizing
equal "service: a sizing ends when another program changes memory.high" 2 $?
equal "service: the value of the other program stays" $((200 << 20)) "$(cat $service/memory.high)"
# shellcheck disable=SC2046 # process ids
kill -9 $(cat $service/cgroup.procs)
for _ in $(seq 100); do
    rmdir $service 2>/dev/null && break
    sleep 0.1
done
swapoff "/dev/zram$zram"
echo "$zram" >/sys/class/zram-control/hot_remove
# The shell that fed the cold worker sleeps on.
# shellcheck disable=SC2046 # process ids
kill -9 $(jobs -p) 2>/dev/null

echo "--- the size of a program, and a program under one limit"
# Two workers touch their memory; one of them then reads its own twice. The cost of a run is the number of its pages and
# of the faults that waited for one: a count, as no time of an emulated machine means anything.
hot=16 cold=32 # MiB
mkdir /tmp/program
mkfifo /tmp/program/end
cat >/tmp/program/run <<END
fill() {
    echo "{\"command\":\"fill\",\"bytes\":\$((\$1 << 20)),\"request\":\$((\$1 << 20)),\"class\":\"constant\",\"seed\":1,\"thp\":\"never\"}"
}
{ fill $cold; cat /tmp/program/end; } | plimsoll worker | {
    # It is up, and has filled its memory.
    read -r _ && read -r _ && { fill $hot; echo '{"command":"restore"}'; echo '{"command":"restore"}'; } |
        plimsoll worker |
        sed -n 's/.*"major_faults":\([0-9]*\).*/\1/p' >/tmp/program/faults
    : >/tmp/program/end
}
[ "\$(wc -l </tmp/program/faults)" = 3 ] && echo "pages: \$(($hot * 256 + \$(tail -n 1 /tmp/program/faults)))"
END
of_engine() { # ENGINE FIELD: the values of a field that the size has for this engine
    awk -v engine="\"$1\"," -v field="\"$2\":" '
        $1 == "\"engine\":" { here = $2 == engine }
        here && $1 == field { gsub(/[",]/, "", $2); print $2 }' size.json
}
needs() { # ENGINE MIB: the need is within a tenth of these; the programs of the two workers take up to 4 MiB more
    needed=$(of_engine "$1" recommended_bytes)
    at_least "size: $1: the program needs $2 MiB, less a tenth" $((($2 << 20) * 9 / 10)) "$needed"
    at_least "size: $1: the program needs no more than a tenth more" "${needed:--1}" $((($2 << 20) * 11 / 10 + (4 << 20)))
}
before=$(system_state)
cluster=$(cat /proc/sys/vm/page-cluster)
echo 0 >/proc/sys/vm/page-cluster # each page that comes back is a fault
# The guest has no /var/tmp, the folder of swap files: these engines need none.
plimsoll size --engine none,zram:zstd --repeat 1 --metric 'pages: ([0-9]+)' --json --output "$out/size" \
    -- sh /tmp/program/run >size.json 2>size.err
code=$?
echo "$cluster" >/proc/sys/vm/page-cluster
[ $code != 7 ] || code=0
equal "size: exit code" 0 $code
[ $code = 0 ] || sed 's/^/        /' size.err
needs none $((hot + cold))
needs zram:zstd $hot
at_least "size: none: the OOM killer ended the program below" 1 "$(of_engine none status | grep -c oom-killed)"
at_least "size: zram: most of the memory that it touched once is in swap" $(((cold << 20) * 8 / 10)) \
    "$(of_engine zram:zstd swap_bytes)"
equal "size: nothing left behind" "$before" "$(system_state)"
rm -r /tmp/program
cat >/tmp/command.toml <<'END'
[scenario]
name = "command"
[global]
workload = "command"
command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=16M", "count=20"]
subject = "none"
limit = "32M"
run-time = 1
END
experiment /tmp/command.toml command
contains "command: the program ended by itself" '"status": 0.0' command.json
at_least "command: the peak has the program's buffer" $((16 << 20)) \
    "$(sed -n 's/.*"base_peak_bytes": \([0-9]*\).*/\1/p' command.json | head -n 1)"

echo "--- levels that hold keeps in a cgroup"
before=$(system_state)
held=/sys/fs/cgroup/held
mkdir $held
echo 128M >$held/memory.max
level=$(((128 << 20) * 60 / 100))
off() { # bytes between the level and the usage as the kubelet counts it
    off=$(($(cat $held/memory.current) - $(awk '$1 == "inactive_file" { print $2 }' $held/memory.stat) - level))
    echo "${off#-}"
}
plimsoll hold --used 60% --cgroup /held --json >used.json 2>used.err &
holder=$!
for _ in $(seq 300); do
    [ "$(off)" -le $((level / 50)) ] && break
    sleep 0.1
done
sleep 1
equal "hold --used: memory.current is within 2% of the level" yes "$([ "$(off)" -le $((level / 50)) ] && echo yes)"
kill -TERM $holder
wait $holder
equal "hold --used: a signal ends it" 5 $?
contains "hold --used: the document names the signal" '"ended": "signal"' used.json
for _ in $(seq 100); do
    rmdir $held 2>/dev/null && break
    sleep 0.1
done
equal "hold --used: nothing left behind" "$before" "$(system_state)"

mkdir $held
echo +memory >$held/cgroup.subtree_control
presses() { # whether a worker is in a cgroup of its own
    [ "$(cat $held/*/cgroup.procs 2>/dev/null | wc -l)" -gt 0 ]
}
press() { # NAME: starts a hold of a pressure; its process id is in `holder`.
    plimsoll hold --psi some=20% --cgroup /held --folder /disk --json >"$1.json" 2>"$1.err" &
    holder=$!
    for _ in $(seq 300); do
        presses && break
        sleep 0.1
    done
}
stalled_us() { sed -n 's/^some.*total=//p' $held/memory.pressure; }
now_us() { echo "$(cut -d ' ' -f 1 /proc/uptime | tr -d .)0000"; }
press pressed
# The emulated machine may share its processors with other jobs, and the level is approached in steps of wall-clock time.
percent=0
for _ in $(seq 20); do
    stalled=$(stalled_us) since=$(now_us)
    sleep 4
    percent=$((100 * ($(stalled_us) - stalled) / ($(now_us) - since)))
    [ $percent -ge 15 ] && [ $percent -le 25 ] && break
done
at_least "hold --psi: memory.pressure is within 5 points of the level, from below" 15 $percent
at_least "hold --psi: memory.pressure is within 5 points of the level, from above" $percent 25
kill -TERM $holder
wait $holder
equal "hold --psi: a signal ends it" "5, stopped by SIGTERM" "$?, $(sed -n 's/^plimsoll: //p' pressed.err)"
contains "hold --psi: the document names the signal" '"ended": "signal"' pressed.json
equal "hold --psi: its cgroup is gone" "" "$(find $held -mindepth 1 -type d)"
press killed
equal "hold --psi: a second one has a cgroup" 1 "$(find $held -mindepth 1 -type d | wc -l)"
kill -9 $holder
wait $holder
for _ in $(seq 100); do
    presses || break
    sleep 0.1
done
equal "hold --psi: the killed one left an empty cgroup" "1 cgroup, 0 processes" \
    "$(find $held -mindepth 1 -type d | wc -l) cgroup, $(cat $held/*/cgroup.procs | wc -l) processes"
plimsoll cleanup >cleanup.out 2>cleanup.err
equal "hold --psi: cleanup: exit code" 0 $?
rmdir $held # it has no child
equal "hold --psi: cleanup: nothing left behind" "$before" "$(system_state)"

# shellcheck source=vm/guest/exec.sh
. /guest/exec.sh
exec_checks thread

echo "--- a program in less RAM than it needs, by the kernel"
# A dynamic program of the host. Of 22 MiB, as `sort` counts them.
sh -c 'seq 300000 | sed "s/.*/& of many & lines &/"' >/tmp/lines
wanted=$(gnusort -r /tmp/lines | md5sum)
sorted() { # OPTION...: the sorted lines by `exec`, whose code is in /tmp/code and whose messages are in exec.err
    { plimsoll exec "$@" -- gnusort -r /tmp/lines 2>exec.err; echo $? >/tmp/code; } | md5sum
}
before=$(system_state)
swapped=$(vmstat pswpout)
equal "exec: kernel, with zram of its own: the lines are sorted" "$wanted" \
    "$(sorted --engine kernel --ram 12M --swap zram,128M --stats)"
equal "exec: kernel: exit code" 0 "$(cat /tmp/code)"
at_least "exec: kernel: pages went to swap" 500 $(($(vmstat pswpout) - swapped))
equal "exec: nothing left behind" "$before" "$(system_state)"
# A user with a cgroup of their own, as of a login session.
modprobe zram num_devices=0
zram=$(cat /sys/class/zram-control/hot_add)
echo 128M >"/sys/block/zram$zram/disksize"
mkswap "/dev/zram$zram" >/dev/null
swapon "/dev/zram$zram"
mine=/sys/fs/cgroup/user.slice/nobody
mkdir -p $mine/session
echo +memory >$mine/cgroup.subtree_control # as systemd does for the services of a user
chown nobody $mine $mine/cgroup.procs $mine/cgroup.subtree_control $mine/session $mine/session/cgroup.procs
before=$(system_state)
sh -c "echo \$\$ >$mine/session/cgroup.procs && exec su nobody -c 'cd /tmp && PLIMSOLL_STATE_DIR=/tmp/state plimsoll exec --ram 12M --stats -- gnusort -r /tmp/lines 2>/tmp/exec.err'" |
    md5sum >/tmp/sum
equal "exec: as a user with a cgroup: the lines are sorted" "$wanted" "$(cat /tmp/sum)"
contains "exec: as a user with a cgroup: the engine is the kernel's" "engine kernel" /tmp/exec.err
equal "exec: as a user with a cgroup: nothing left behind" "$before" "$(system_state)"
sed 's/^/        /' /tmp/exec.err
for _ in $(seq 100); do
    rmdir $mine/session $mine 2>/dev/null && break
    sleep 0.1
done
swapoff "/dev/zram$zram"
echo "$zram" >/sys/class/zram-control/hot_remove
rm -r /tmp/lines /tmp/state

# shellcheck source=vm/guest/guard.sh
. /guest/guard.sh

echo "--- cleanup after kill -9"
before=$(system_state)
plimsoll run compression --quick --output "$out/killed" --set size=$size --set subject=zram:zstd \
    >killed.out 2>killed.err &
runner=$!
for _ in $(seq 200); do
    grep -q zram /proc/swaps && break
    sleep 0.1
done
kill -9 $runner
wait $runner
equal "the killed run had its swap on" yes "$(grep -q zram /proc/swaps && echo yes)"
plimsoll cleanup >cleanup.out 2>cleanup.err
equal "cleanup: exit code" 0 $?
equal "cleanup: nothing left behind" "$before" "$(system_state)"
plimsoll cleanup >cleanup-again.out 2>cleanup-again.err
equal "a second cleanup finds nothing and is content" 0 $?
plimsoll report "$out"/killed/* >report.out 2>report.err
equal "the killed run's recording can be reported" 0 $?

echo "--- a limit below the worker's need"
before=$(system_state)
plimsoll run compression --quick --repeat 1 --output "$out/oom" --set size=$size --set limit=16M --set subject=none \
    >oom.out 2>oom.err
equal "OOM: exit code" 5 $?
contains "OOM: says so" OOM oom.err
equal "OOM: nothing left behind" "$before" "$(system_state)"

echo "--- without root"
# On the default subject the pager would run, if the kernel has what it needs.
su nobody -c 'cd /tmp && plimsoll run compression --quick --repeat 1 --set size=8M --set subject=zram:lz4' >nobody.out 2>nobody.err
equal "as nobody: exit code" 3 $?
contains "as nobody: says what is missing" root nobody.err

echo "$passed passed, $failed failed"
[ $failed = 0 ]
