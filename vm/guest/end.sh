# shellcheck shell=dash
# Prints the end of the journal if the checks failed, then their exit status, and turns the guest off. checks.service
# runs this script after the checks or their timeout, and emergency.service after a failed boot.
status=${EXIT_STATUS:-70}
[ "$status" = 0 ] || {
    echo "--- messages of the programs, and the end of the journal"
    cat /run/programs
    journalctl --boot --no-pager --output short-monotonic | tail -n 300
} 2>&1
echo
echo "plimsoll-vm exit $status"
sleep 1 # the console prints the last line
exec busybox poweroff -f
