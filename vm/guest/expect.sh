# shellcheck shell=dash
# The parts of a check in the VM: each call prints a line, and counts in `passed` or `failed`.

passed=0 failed=0

pass() {
    passed=$((passed + 1))
    echo "ok      $1"
}

not_ok() {
    failed=$((failed + 1))
    echo "FAILED  $1"
    shift
    for detail; do echo "$detail" | sed 's/^/        /'; done
}

equal() { # NAME EXPECTED ACTUAL
    if [ "$2" = "$3" ]; then pass "$1"; else not_ok "$1" "expected: $2" "got:      $3"; fi
}

at_least() { # NAME LEAST ACTUAL
    if [ "${3:-0}" -ge "$2" ]; then pass "$1 ($3)"; else not_ok "$1" "expected at least $2, got ${3:-nothing}"; fi
}

contains() { # NAME WORD FILE
    if grep -qiF -- "$2" "$3"; then pass "$1"; else not_ok "$1" "\`$2\` is not in:" "$(head -n 40 "$3")"; fi
}
