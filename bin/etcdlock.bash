# bash-completion loads this file at the first completion of etcdlock.
_etcdlock_program=etcdlock
eval "$("$_etcdlock_program" completion bash 2>/dev/null)"
