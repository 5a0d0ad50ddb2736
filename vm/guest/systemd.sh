# shellcheck shell=dash
# The checks of plimsoll-guard.service inside the VM. Process 1 is systemd, and runs this script with busybox sh in a
# unit. Each check prints a line, and the last line counts the checks; the exit code is 1 if a check failed. The checks
# test function (settings, decisions, processes), not time.

guard=plimsoll-guard
unit=/usr/lib/systemd/system/$guard.service
state=/var/lib/plimsoll
batch=/sys/fs/cgroup/batch.slice
# shellcheck source=vm/guest/expect.sh
. /guest/expect.sh
export SYSTEMD_BUS_TIMEOUT=600 # seconds: process 1 answers late while the machine thrashes
systemctl service-watchdogs no   # for the same reason
echo 1 >/proc/sys/kernel/printk

# Each attempt takes seconds while the machine thrashes.
happens() { # NAME COMMAND...: the command succeeds within 300 attempts
    event=$1
    shift
    for _ in $(seq 300); do
        if "$@"; then
            pass "$event"
            return
        fi
        sleep 1
    done
    not_ok "$event" "not within 300 attempts" "$(messages | tail -n 20)"
}

property() { systemctl show --property "$1" --value $guard; }
messages() {
    journalctl --sync
    journalctl --unit $guard --output cat --no-pager
}
says() { messages | grep -q -- "$1"; } # PATTERN
said() { messages | grep -c -- "$1"; }
says_more_than() { [ "$(said "$2")" -gt "$1" ]; } # COUNT PATTERN

# Two programs that read their memory again and again. Their process ids are in `programs`.
programs=
consume() { # NAME MIB
    {
        echo "{\"command\":\"fill\",\"bytes\":$(($2 << 20)),\"request\":$(($2 << 20)),\"class\":\"ratio=4\",\"seed\":1,\"thp\":\"never\"}"
        while echo '{"command":"restore"}'; do :; done
    } 2>/dev/null | sh -c 'echo 0 >/proc/self/oom_score_adj && exec systemd-run "$@"' -- --quiet --collect --scope \
        --unit="$1" --slice=batch.slice plimsoll worker >/dev/null 2>>/run/programs &
}
alive() { cat $batch/*.scope/cgroup.procs 2>/dev/null; }
are_alive() { [ "$(alive | wc -l)" = "$1" ]; } # NUMBER
consume_twice() { # MIB
    consume a "$1"
    consume b "$1"
    happens "two programs of $1 MiB run in scopes of batch.slice" are_alive 2
    programs="$programs $(alive | tr '\n' ' ')"
}
have_no_scope() { ! ls -d $batch/*.scope >/dev/null 2>&1; }
end_programs() {
    # shellcheck disable=SC2046 # process ids
    kill -9 $(alive)
    happens "the scopes of the programs end" have_no_scope
}

# The state is the word after the name; no name here has a space.
stopped() { cat /proc/[0-9]*/stat 2>/dev/null | awk '$3 == "T" { print $1, $2 }'; }
is_one_stopped() { [ -n "$(stopped)" ]; }
is_none_stopped() { [ -z "$(stopped)" ]; }
# Stops the guard. Succeeds if a program is stopped then: the stopped guard cannot continue it. Otherwise continues the
# guard.
is_caught() { # GUARD-PID
    kill -STOP "$1"
    stopped | grep -v "^$1 " | grep -q . && return 0
    kill -CONT "$1"
    return 1
}
# The processes that the guard stopped, except the two programs. The guard must never stop systemd, journald, logind or
# the shell of the checks.
stopped_others() {
    messages | sed -n 's/.*"decision":"stopped","name":"\([^"]*\)","pid":\([0-9]*\).*/\2 \1/p' | sort -u |
        while read -r pid name; do
            case " $programs " in
            *" $pid "*) ;;
            *) echo "$pid $name" ;;
            esac
        done
}

is_triggered() { # FILE: the guard has the file open; it opens the file only for a trigger
    for descriptor in "/proc/$(property MainPID)/fd/"*; do
        case $(readlink "$descriptor") in
        *"$1") return 0 ;;
        esac
    done
    return 1
}

echo "--- $(systemctl --version | head -n 1), on $(uname -r)"
equal "no unit failed" "" "$(systemctl list-units --failed --plain --no-legend --no-pager)"
equal "process 1 is systemd" systemd "$(cat /proc/1/comm)"
contains "cgroup v2 has the memory controller" memory /sys/fs/cgroup/cgroup.controllers
contains "PSI is on" some /proc/pressure/memory
equal "journald, logind and the system bus run" "active active active" \
    "$(systemctl is-active systemd-journald systemd-logind dbus | tr '\n' ' ' | sed 's/ $//')"
modprobe zram num_devices=0
zram=$(cat /sys/class/zram-control/hot_add)
echo 1G >"/sys/block/zram$zram/disksize"
mkswap "/dev/zram$zram" >/dev/null
swapon "/dev/zram$zram"
equal "swap is on" 1 "$(grep -c zram /proc/swaps)"

echo "--- the unit, and its settings"
systemd-analyze verify --man=no --recursive-errors=no $unit >/run/verify 2>&1
equal "systemd-analyze verify: exit code" 0 $?
equal "systemd-analyze verify: no message names the unit" "" "$(grep -F $guard /run/verify)"
equal "the unit is not enabled" disabled "$(systemctl is-enabled $guard 2>/dev/null)"
systemctl start $guard
equal "systemctl start: exit code" 0 $?
equal "the guard is active" active "$(systemctl is-active $guard)"
for setting in Type=exec Slice=-.slice ControlGroup=/$guard.service OOMScoreAdjust=-1000 MemoryMin=$((32 << 20)) CPUWeight=500 \
    NoNewPrivileges=yes Restart=on-failure; do
    equal "systemctl show: $setting" "${setting#*=}" "$(property "${setting%%=*}")"
done
pid=$(property MainPID)
equal "oom_score_adj" -1000 "$(cat "/proc/$pid/oom_score_adj")"
equal "memory.min" $((32 << 20)) "$(cat /sys/fs/cgroup/$guard.service/memory.min)"
equal "cpu.weight" 500 "$(cat /sys/fs/cgroup/$guard.service/cpu.weight)"
# Bits 5, 19, 23 and 24: CAP_KILL, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_SYS_RESOURCE.
for set in CapBnd CapEff; do
    equal "$set" 0000000001880020 "$(awk -v set="$set:" '$1 == set { print $2 }' "/proc/$pid/status")"
done
equal "its system calls are filtered" 2 "$(awk '$1 == "Seccomp:" { print $2 }' "/proc/$pid/status")"
happens "the guard guards the machine" says '"decision":"begun".*"scope":"the machine"'
happens "the guard has a PSI trigger" is_triggered pressure/memory

echo "--- two programs that need more memory than the machine has"
# Together the programs need 110% of RAM, more than the machine ever has free. One program fits while the other is
# compressed.
grep -E "^(MemTotal|MemAvailable):" /proc/meminfo
consume_twice "$(awk '$1 == "MemTotal:" { print int($2 * 0.55 / 1024) }' /proc/meminfo)"
happens "a program is stopped" is_one_stopped
happens "the journal has the decision to stop" says '"decision":"stopped"'
happens "the journal has the decision to continue" says '"decision":"continued"'
loginctl --no-pager list-sessions >/dev/null
equal "logind answers" 0 $?
equal "no other process was stopped" "" "$(stopped_others)"
equal "both programs live" 2 "$(alive | wc -l)"

echo "--- a kill of the guard while a program is stopped"
# A restart after 60 s gives the checks time to see that nothing is stopped, before the next guard stops a program.
mkdir -p /run/systemd/system/$guard.service.d
printf '[Service]\nRestartSec=60\n' >/run/systemd/system/$guard.service.d/restart.conf
systemctl daemon-reload
happens "a program is stopped, and the guard cannot continue it" is_caught "$pid"
systemctl kill --signal=KILL $guard
happens "nothing stays stopped" is_none_stopped
happens "ExecStopPost= undid the stop" says '^undone  *[1-9]'
is_restarted() { [ "$(property NRestarts) $(property ActiveState)" = "1 active" ]; }
happens "systemd starts the guard again" is_restarted
equal "the new guard has another process id" yes "$([ "$(property MainPID)" != "$pid" ] && echo yes)"
equal "the new guard had nothing to undo" 0 "$(said '"decision":"recovered"')"

echo "--- systemctl stop while a program is stopped"
happens "the new guard stops a program" is_one_stopped
systemctl stop $guard
equal "systemctl stop: exit code" 0 $?
equal "nothing stays stopped" "" "$(stopped)"
equal "systemd deactivated the unit" "1 inactive" "$(said 'Deactivated successfully') $(property ActiveState)"
equal "the last decision is the end, and the guard left no process stopped" 1 \
    "$(messages | grep '"decision":' | tail -n 1 | grep -c '"decision":"ended","left":0')"
equal "the state folder is root's alone" "700 0" "$(stat -c '%a %u' $state)"
equal "no journal is left" "" "$(ls -A $state/runs)"
equal "no other process was stopped" "" "$(stopped_others)"
equal "both programs live" 2 "$(alive | wc -l)"
end_programs

echo "--- the drop-in of the book: the policy packs for a cgroup with a limit"
systemctl set-property --runtime batch.slice MemoryMax=48M
mkdir -p /etc/systemd/system/$guard.service.d
cat >/etc/systemd/system/$guard.service.d/override.conf <<'END'
[Service]
ExecStart=
ExecStart=/usr/bin/plimsoll guard --json --cgroup /batch.slice --policy packs
END
systemctl daemon-reload
consume_twice 40
equal "the slice has its limit" $((48 << 20)) "$(cat $batch/memory.max)"
turns=$(said '"decision":"continued"')
systemctl start $guard
happens "the guard guards the slice" says '"decision":"begun","policy":"packs","scope":"the cgroup /batch.slice"'
happens "the guard has a PSI trigger of the cgroup" is_triggered batch.slice/memory.pressure
happens "a program is stopped" is_one_stopped
happens "a program continues" says_more_than "$turns" '"decision":"continued"'
systemctl stop $guard
equal "nothing stays stopped" "" "$(stopped)"
equal "no other process was stopped" "" "$(stopped_others)"
equal "both programs live" 2 "$(alive | wc -l)"

echo "--- systemd-oomd on the same programs and the same slice, without a guard"
mkdir -p /etc/systemd/oomd.conf.d
printf '[OOM]\nDefaultMemoryPressureDurationSec=5s\n' >/etc/systemd/oomd.conf.d/vm.conf
systemctl set-property --runtime batch.slice ManagedOOMMemoryPressure=kill ManagedOOMMemoryPressureLimit=10%
systemctl start systemd-oomd
equal "systemd-oomd is active" active "$(systemctl is-active systemd-oomd)"
oomd_messages() {
    journalctl --sync
    journalctl --unit systemd-oomd --output cat --no-pager
}
has_oomd_killed() { oomd_messages | grep -q 'due to memory pressure for /batch.slice'; }
happens "systemd-oomd kills a program" has_oomd_killed
is_one_dead() { [ "$(alive | wc -l)" -lt 2 ]; }
happens "fewer than two programs live" is_one_dead
oomd_messages | sed 's/^/        /'
has_oomd_killed || { cat $batch/memory.pressure; oomctl --no-pager; }

echo "$passed passed, $failed failed"
[ $failed = 0 ]
