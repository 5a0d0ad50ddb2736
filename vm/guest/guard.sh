# shellcheck shell=dash
# The checks of `guard` on cgroup v2. Sourced after expect.sh.

echo "--- thrash control: the policies throttle and relay"
batch=/sys/fs/cgroup/batch
mkdir $batch
echo "+memory +cpu" >$batch/cgroup.subtree_control
mkdir $batch/a $batch/b
echo 48M >$batch/memory.max
zram=$(cat /sys/class/zram-control/hot_add)
echo 256M >"/sys/block/zram$zram/disksize"
mkswap "/dev/zram$zram" >/dev/null
swapon "/dev/zram$zram"

# Whether a process is in this cgroup.
consumes() { # CGROUP
    read -r _ <"$batch/$1/cgroup.procs"
}
# Reads 40 MiB again and again. Two consumers exceed the limit of 48 MiB.
consume() { # CGROUP
    {
        echo '{"command":"fill","bytes":41943040,"request":41943040,"class":"random","seed":1,"thp":"never"}'
        while echo '{"command":"restore"}'; do :; done
    } 2>/dev/null | sh -c "echo \$\$ >$batch/$1/cgroup.procs && exec plimsoll worker" >/dev/null 2>&1 &
    for _ in $(seq 300); do
        consumes "$1" && return
        sleep 0.1
    done
    not_ok "guard: a consumer joins the cgroup $1"
}

# The kernel's OOM killer ends a consumer now and then although the machine has free swap. A consumer alone does not thrash, so
# another one takes its place, after at most three OOM kills in a cgroup. No other end is allowed.
kills_a=0 kills_b=0 is_ended=
keep_consuming() {
    for name in a b; do
        if [ -n "$is_ended" ] || consumes $name; then continue; fi
        kills=$(awk '$1 == "oom_kill" { print $2 }' $batch/$name/memory.events)
        if [ "$name" = a ]; then before=$kills_a kills_a=$kills; else before=$kills_b kills_b=$kills; fi
        if [ "$kills" -gt "$before" ] && [ "$kills" -le 3 ]; then
            echo "        the OOM killer ended the consumer in $batch/$name; another one takes its place"
            consume $name
        else
            not_ok "guard: the consumer in $batch/$name works" "OOM kills: $kills, $before before"
            is_ended=yes
        fi
    done
}
consume a
consume b

# The cgroups that are throttled, a line each.
throttled() {
    for name in a b; do
        case $(cat $batch/$name/cpu.max) in
            "5000 100000") echo $name ;;
        esac
    done
}
# The files that a throttle changes.
caps() { cat $batch/a/cpu.max $batch/a/memory.high $batch/b/cpu.max $batch/b/memory.high; }
wait_for_throttle() {
    for _ in $(seq 600); do
        [ -n "$(throttled)" ] && break
        keep_consuming
        sleep 0.2
    done
}

unchanged=$(caps)
plimsoll guard --cgroup /batch --policy throttle --json --duration 60s >guard.jsonl 2>guard.err &
guard=$!
wait_for_throttle
name=$(throttled | head -n 1)
equal "guard: one cgroup is throttled" 1 "$(throttled | wc -l)"
for _ in $(seq 100); do # a throttle lowers cpu.max first, and memory.high after it has reclaimed memory
    [ "$(cat "$batch/$name/memory.high")" != max ] && break
    sleep 0.1
done
equal "guard: its memory.high is lowered" yes "$([ "$(cat "$batch/$name/memory.high")" != max ] && echo yes)"
wait $guard
equal "guard: exit code" 0 $?
sed 's/^/        /' guard.err
contains "guard: reports the throttle" "\"cgroup\":\"/batch/$name\",\"decision\":\"throttled\"" guard.jsonl
equal "guard: its last line reports the end" 1 "$(tail -n 1 guard.jsonl | grep -c '"decision":"ended"')"
equal "guard: the files are as before" "$unchanged" "$(caps)"

plimsoll guard --cgroup /batch --policy throttle --json >killed.jsonl 2>killed.err &
guard=$!
wait_for_throttle
kill -9 $guard
wait $guard
equal "guard: a killed guard leaves a throttle" 1 "$(throttled | wc -l)"
plimsoll guard --release --json >release.json 2>release.err
equal "guard: --release: exit code" 0 $?
contains "guard: --release reports the file that it restored" /cpu.max release.json
equal "guard: --release restores the files" "$unchanged" "$(caps)"

keep_consuming
plimsoll guard --cgroup /batch --policy relay --json --duration 45s >relay.jsonl 2>relay.err
equal "guard: relay: exit code" 0 $?
contains "guard: relay: a process is stopped" '"decision":"stopped"' relay.jsonl
# Field 3 is the state, as no name of these processes has a space.
equal "guard: relay: no process stays stopped" "" "$(cat /proc/[0-9]*/stat 2>/dev/null | awk '$3 == "T" { print $2 }')"

# Pressure of 30 s without a break, and a consumer that its oom_score_adj protects: the other one is the only candidate.
keep_consuming
protected=$(cat $batch/a/cgroup.procs)
victim=$(cat $batch/b/cgroup.procs)
for pid in $protected; do echo -600 >"/proc/$pid/oom_score_adj"; done
plimsoll guard --cgroup /batch --policy kill --json >kill.jsonl 2>kill.err &
guard=$!
for _ in $(seq 600); do
    grep -q '"decision":"killed"' kill.jsonl && break
    sleep 0.2
done
kill -TERM $guard
wait $guard
equal "guard: kill: exit code" 0 $?
contains "guard: kill: ends the process without protection" "\"decision\":\"killed\",\"name\":\"plimsoll\",\"pid\":$victim" kill.jsonl
equal "guard: kill: ends one process" 1 "$(grep -c '"decision":"killed"' kill.jsonl)"
equal "guard: kill: the protected process lives" "$protected" "$(cat $batch/a/cgroup.procs)"
for pid in $protected; do echo 0 >"/proc/$pid/oom_score_adj"; done
consumes b || consume b

# After a SIGKILL of the guard, a service recreates its throttled cgroup, and sets cpu.max to the value that the guard had
# set.
plimsoll guard --cgroup /batch --policy throttle --json >again.jsonl 2>again.err &
guard=$!
wait_for_throttle
kill -9 $guard
wait $guard
name=$(throttled | head -n 1)
cat /var/lib/plimsoll/runs/guard-*.jsonl >journal.jsonl
contains "guard: the journal names the cgroup by its inode number" "\"inode\":$(stat -c %i "$batch/$name")" journal.jsonl
# shellcheck disable=SC2046 # process ids
kill -9 $(cat "$batch/$name/cgroup.procs")
for _ in $(seq 300); do
    rmdir "$batch/$name" 2>/dev/null && break
    sleep 0.1
done
mkdir "$batch/$name"
equal "guard: a recreated cgroup has no throttle" "max 100000" "$(cat "$batch/$name/cpu.max")"
echo "5000 100000" >"$batch/$name/cpu.max"
plimsoll guard --release --json >again.json 2>again.err
equal "guard: --release after a kill and a restart: exit code" 0 $?
equal "guard: --release does not change a recreated cgroup" "5000 100000" "$(cat "$batch/$name/cpu.max")"

# shellcheck disable=SC2046 # process ids
kill -9 $(cat $batch/a/cgroup.procs $batch/b/cgroup.procs)
for _ in $(seq 100); do
    rmdir $batch/a $batch/b $batch 2>/dev/null && break
    sleep 0.1
done
swapoff "/dev/zram$zram"
echo "$zram" >/sys/class/zram-control/hot_remove
