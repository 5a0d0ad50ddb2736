# shellcheck shell=dash
# The checks of `exec --engine pager`, with dynamic programs of the host: dash, perl, GNU dd, GNU sort and xz. Sourced after
# expect.sh.

as() { # USER PROGRAM...
    user=$1
    shift
    # shellcheck disable=SC2016 # variables of the user's shell
    if [ "$user" = root ]; then "$@"; else su "$user" -c 'cd /tmp && exec "$0" "$@"' -- "$@"; fi
}

# Runs a program by `exec`. Its output is in /tmp/exec/out, its messages and statistics in /tmp/exec/err, and the exit code is
# the program's.
managed() { # USER PROGRAM...
    by=$1
    shift
    as "$by" plimsoll exec --engine pager --ram 12M --page-file /disk/pages,64M --stats -- "$@" >/tmp/exec/out 2>/tmp/exec/err
}

# The exit code of a program by `managed`; if it is another, its messages tell the reason.
ended() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then pass "$1"; else not_ok "$1" "expected: $2" "got:      $3" "messages: $(head -c 2000 /tmp/exec/err)"; fi
}

# The sum of a value over the processes that printed statistics.
total() { # VALUE
    sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" /tmp/exec/err | awk '{ sum += $1 } END { print sum + 0 }'
}

# What programs of `exec` could leave, as text: it must be equal before and after. A page file has no name, and takes up space
# until the last process has closed it.
exec_leftovers() {
    sync
    echo "processes: $(pidof plimsoll dash gnudd gnusort gnuxz perl)"
    echo "mounts: $(cat /proc/mounts)"
    echo "cgroups: $(find /sys/fs/cgroup -mindepth 1 -type d | sort)"
    echo "files: $(find /tmp /run /dev/shm /disk/pages "${TMPDIR:-/tmp}" 2>/dev/null | sort -u)"
    echo "space: $(df -k /disk | awk '{ used = $3 } END { print used }')"
}

# A program's end, a sort, a pipeline, forks, and direct reads, which write to pages without a fault.
exec_on_pager() { # USER FAULT-MODE
    who="exec: pager as $1"
    # The first one also unpacks the library, which stays.
    managed "$1" dash -c 'exit 7'
    ended "$who: the exit code is the program's" 7 $?
    sleep 1 # see below
    at_start=$(exec_leftovers)
    managed "$1" dash -c 'kill -TERM $$'
    ended "$who: the signal is the program's" 143 $?
    managed "$1" busybox true
    ended "$who: a static program is refused" 4 $?

    managed "$1" gnusort -r /tmp/exec/lines
    ended "$who: sort: exit code" 0 $?
    equal "$who: sort: the lines are sorted" "$sorted_lines" "$(md5sum </tmp/exec/out)"
    at_least "$who: sort: pages left the working set" 1000 "$(total trimmed_pages)"
    contains "$who: sort: how faults are served" "\"fault_mode\":\"$2\"" /tmp/exec/err

    managed "$1" dash -c 'gnuxz -dc /tmp/exec/lines.xz | gnusort -S 32M -r'
    ended "$who: pipeline: exit code" 0 $?
    equal "$who: pipeline: the lines are sorted" "$sorted_lines" "$(md5sum </tmp/exec/out)"
    equal "$who: pipeline: both programs share the budget" 2 "$(grep -c '"pool":"member"' /tmp/exec/err)"
    at_least "$who: pipeline: pages left the working set" 1000 "$(total trimmed_pages)"

    managed "$1" gnudd if=/disk/random iflag=direct bs=16M
    ended "$who: direct reads: exit code" 0 $?
    equal "$who: direct reads: the bytes are those of the file" "$random_bytes" "$(md5sum </tmp/exec/out)"
    at_least "$who: direct reads: pages left the working set" 500 "$(total trimmed_pages)"

    managed "$1" perl /guest/forks.pl
    ended "$who: forks: exit code" 0 $?
    equal "$who: forks: each process has its own changes" "$forked_sums" "$(cat /tmp/exec/out)"
    at_least "$who: forks: pages left the working set" 1000 "$(total trimmed_pages)"

    # The kernel may close a file of io_uring a moment after the end of its process.
    for _ in $(seq 50); do
        [ "$at_start" != "$(exec_leftovers)" ] || break
        sleep 0.2
    done
    equal "$who: nothing left behind" "$at_start" "$(exec_leftovers)"
}

# If the kernel moves pages, a thread serves the faults of root's system calls; others have their calls trapped.
exec_checks() { # FAULT-MODE-OF-ROOT
    echo "--- programs in less RAM than they need, by the pager, on $(uname -r)"
    mkdir /tmp/exec /disk/pages
    chmod 1777 /disk/pages
    : >/tmp/exec/out
    : >/tmp/exec/err
    # Of 15 MiB, as `sort` counts them.
    sh -c 'seq 200000 | sed "s/.*/& of many & lines &/"' >/tmp/exec/lines
    gnuxz -0k /tmp/exec/lines
    sorted_lines=$(gnusort -r /tmp/exec/lines | md5sum)
    forked_sums=$(perl /guest/forks.pl)
    equal "perl by itself prints all sums" 6 "$(echo "$forked_sums" | wc -l)"
    dd if=/dev/urandom of=/disk/random bs=1M count=16 2>/dev/null
    chmod 644 /disk/random
    random_bytes=$(md5sum </disk/random)
    exec_on_pager root "$1"
    exec_on_pager nobody signal
    rm -r /tmp/exec /disk/pages /disk/random
}
