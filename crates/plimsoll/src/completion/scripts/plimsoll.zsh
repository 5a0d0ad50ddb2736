#compdef plimsoll
# Completion of plimsoll for zsh. `plimsoll complete` only reads.
_plimsoll() {
    local kind line value meaning
    local -a answer values texts open_values open_texts
    answer=("${(@f)$(command plimsoll complete zsh -- "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null </dev/null)}")
    kind=${answer[1]}
    for line in "${(@)answer[2,-1]}"; do
        value=${line%%$'\t'*}
        meaning=${line#*$'\t'}
        [[ -z $meaning ]] || meaning="$value  -- $meaning"
        if [[ $value == *= ]]; then
            open_values+=("$value")
            open_texts+=("${meaning:-$value}")
        else
            values+=("$value")
            texts+=("${meaning:-$value}")
        fi
    done
    if ((${#values} + ${#open_values} == 0)); then
        [[ $kind != files ]] || _files
        return
    fi
    ((${#values} == 0)) || compadd -l -d texts -a values
    ((${#open_values} == 0)) || compadd -l -S '' -d open_texts -a open_values
}
# Loaded by compinit as the function itself, or sourced.
if [[ ${funcstack[1]} == _plimsoll ]]; then
    _plimsoll "$@"
else
    compdef _plimsoll plimsoll
fi
