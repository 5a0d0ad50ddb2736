# shellcheck shell=dash
# The tests of the pager and the checks of `exec` that run inside the VM, by busybox sh: on memory of the guest's kernel, which
# cannot move pages, in each mode. The exit code is 1 if one failed.

export TMPDIR=/disk/tmp PLIMSOLL_REQUIRE=root,io-uring
mkdir "$TMPDIR"
chmod 1777 "$TMPDIR" # a test becomes another user
# shellcheck source=vm/guest/expect.sh
. /guest/expect.sh
# shellcheck source=vm/guest/exec.sh
. /guest/exec.sh
exec_checks signal # where pages are copied, each call pins its pages

tests() { # PROGRAM MODE FILTER...
    program=$1 mode=$2
    shift 2
    echo "--- $program in mode '$mode' on $(uname -r)"
    if PLIMSOLL_TEST_DRIVER=$mode $program --test-threads=1 --skip page_file:: "$@" >/tmp/out 2>&1; then
        grep -q '^test result: ok. [1-9]' /tmp/out || { echo "FAILED  no test ran"; failed=1; }
        grep '^test ' /tmp/out
    else
        failed=1
        cat /tmp/out
    fi
    ! grep '^skipped' /tmp/out || failed=1
}

# Without a word about copies, the pager finds out by itself that the kernel moves nothing.
tests pager-lib '' tests::real::
tests pager-lib thread tests::real::
# These tests ask the mode whether pages are copied.
tests pager-it copies forks:: shared_pages:: fault_thread:: signals::
tests pager-it thread,copies forks:: shared_pages::
[ $failed = 0 ]
