# bash-completion loads this file at the first completion of etcdlock.
eval "$(etcdlock completion bash 2>/dev/null)"
