-- Returns commands that run a program in its own session, or as pid 1. Linux divides the processors
-- among sessions (autogroup). Beside two busy sessions, a process of a new session ran for 0.09 s
-- and waited for 11.9 s on Linux 6.18: locks were lost and signals were not handled. A larger
-- share, which only root can set, prevents this.

local M = {}

local SHARE = "echo -5 2>/dev/null >/proc/self/autogroup; "

-- Returns the argument list that runs the bash command |text| with its own terminal. (script runs
-- $SHELL, and shells differ: after Ctrl-C, dash ends with 130, whatever the status of its child.)
function M.at_terminal(text)
  return { "env", "SHELL=/bin/bash", "script", "-qefc", SHARE .. text, "/dev/null" }
end

-- Returns the argument list that runs the shell command |text| without a terminal.
function M.apart(text)
  return { "setsid", "sh", "-c", SHARE .. text }
end

-- Returns the argument list that runs the program with the arguments |...| as pid 1 of a process
-- namespace of its own, which ends with it. `unshare` may need rights.
function M.as_pid_1(...)
  return { "unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child",
    "--mount-proc", ... }
end

return M
