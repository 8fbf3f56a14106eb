#compdef etcdlock
# zsh runs this file, as the function _etcdlock, at the first completion of etcdlock. The code of
# the command replaces the function.
_etcdlock_program=etcdlock
eval "$("$_etcdlock_program" completion zsh 2>/dev/null)"
if (( $+functions[_etcdlock_names] )); then _etcdlock "$@"; fi
