# Completion of plimsoll for bash. `plimsoll complete` only reads.
_plimsoll() {
    local line kind=
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            COMPREPLY+=("$line")
        fi
    done < <(command plimsoll complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null </dev/null)
    if ((${#COMPREPLY[@]} == 0)); then
        [[ $kind != files ]] || compopt -o default 2>/dev/null
    elif ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -F _plimsoll plimsoll
