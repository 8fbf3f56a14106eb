--- etcdlock completion: what bash needs to complete the command line.
local exit = require "etcdlock.command.exit"

-- What stands behind "--" is another command line: bash-completion knows how to go on.
local BEHIND = [==[

_etcdlock_line() {
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ "${COMP_WORDS[i]}" = -- ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset $((i + 1))
            elif ((i + 1 == COMP_CWORD)); then
                COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
            fi
            return
        fi
    done
    _etcdlock
}

complete -F _etcdlock_line -o bashdefault -o default etcdlock
]==]

--- Does it: the exit status.
return function(args)
  io.write(args.parser:get_bash_complete(), BEHIND)
  return exit.OK
end
