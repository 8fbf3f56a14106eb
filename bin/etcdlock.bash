# Completion of etcdlock for bash, which asks the command for it when it is needed first.
eval "$(etcdlock completion bash 2>/dev/null)"
