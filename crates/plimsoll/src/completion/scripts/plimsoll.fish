# Completion of plimsoll for fish. `plimsoll complete` only reads.
function __plimsoll_complete
    set -l answer (command plimsoll complete fish -- (commandline -cp | string collect) 2>/dev/null </dev/null)
    set -l kind $answer[1]
    set -e answer[1]
    if test (count $answer) -gt 0
        printf '%s\n' $answer
    else if test "$kind" = files
        __fish_complete_path (commandline -ct)
    end
end
complete --command plimsoll --keep-order --exclusive --arguments '(__plimsoll_complete)'
