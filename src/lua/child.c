/* child: child processes and the terminal, for the command etcdlock (see base/child.h). */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/text.h"
#include "lua/core.h"
#include "lua/util.h"

/* Returns the strings of the list at |arg|, followed by NULL, in a userdata that it pushes. The
 * strings live as long as they stay in the list at |arg|. */
static char **check_list(lua_State *L, int arg) {
  size_t n;
  char **list;
  luaL_checktype(L, arg, LUA_TTABLE);
  n = el_lua_length(L, arg);
  list = lua_newuserdata(L, (n + 1) * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, arg, (int)i + 1);
    list[i] = (char *)lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  list[n] = NULL;
  return list;
}

/* Returns the set of the signal numbers in the list at |arg|. */
static sigset_t check_signals(lua_State *L, int arg) {
  sigset_t signals;
  sigemptyset(&signals);
  luaL_checktype(L, arg, LUA_TTABLE);
  for (int i = 1;; i++) {
    lua_rawgeti(L, arg, i);
    if (lua_isnil(L, -1)) break;
    sigaddset(&signals, (int)lua_tointeger(L, -1));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return signals;
}

/* unblock(signals) unblocks the signals in the calling thread, and returns which of all signals
 * were blocked before. Argument and result are lists of signal numbers. */
static el_nret l_unblock(lua_State *L) {
  sigset_t signals = check_signals(L, 1), before;
  pthread_sigmask(SIG_UNBLOCK, &signals, &before);
  lua_newtable(L);
  for (int number = 1, n = 0; number < NSIG; number++) {
    if (sigismember(&before, number) == 1) {
      lua_pushinteger(L, number);
      lua_rawseti(L, -2, ++n);
    }
  }
  return 1;
}

/* start_child(argv, env, ignored, blocked, is_foreground) calls el_child_start and returns the pid,
 * or nil and a message. |ignored| and |blocked| are lists of signal numbers. */
static el_nret l_start_child(lua_State *L) {
  char **argv = check_list(L, 1), **env = check_list(L, 2);
  sigset_t ignored = check_signals(L, 3), blocked = check_signals(L, 4);
  pid_t pid =
      el_child_start(argv, env, &ignored, &blocked, lua_toboolean(L, 5));
  if (pid < 0) {
    lua_pushnil(L);
    lua_pushstring(L, el_errno_text(-pid));
    return 2;
  }
  lua_pushinteger(L, pid);
  return 1;
}

/* next_child() returns the next change of state of a child, and reaps the child if it has ended:
 * - pid, "exit", exit code
 * - pid, "signal" or "stop", signal number
 * - nil: no child has changed
 *
 * It also reports the orphans that have become children of this process: those of the command, see
 * el_child_start, and all orphans if this process has pid 1. */
static el_nret l_next_child(lua_State *L) {
  int status;
  pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
  if (pid <= 0) return 0;
  lua_pushinteger(L, pid);
  if (WIFEXITED(status)) {
    lua_pushliteral(L, "exit");
    lua_pushinteger(L, WEXITSTATUS(status));
  } else if (WIFSTOPPED(status)) {
    lua_pushliteral(L, "stop");
    lua_pushinteger(L, WSTOPSIG(status));
  } else {
    lua_pushliteral(L, "signal");
    lua_pushinteger(L, WTERMSIG(status));
  }
  return 3;
}

/* group() returns the process group ID of this process. */
static el_nret l_group(lua_State *L) {
  lua_pushinteger(L, getpgrp());
  return 1;
}

/* terminal_group() returns the foreground group of the controlling terminal; -1: no terminal. */
static el_nret l_terminal_group(lua_State *L) {
  lua_pushinteger(L, el_terminal_group());
  return 1;
}

/* set_terminal_group(group) makes |group| the foreground group of the controlling terminal. */
static el_nret l_set_terminal_group(lua_State *L) {
  el_terminal_set_group((pid_t)luaL_checkinteger(L, 1));
  return 0;
}

/* stop(is_group) calls el_job_stop; returns whether the process was stopped and continued. */
static el_nret l_stop(lua_State *L) {
  lua_pushboolean(L, el_job_stop(lua_toboolean(L, 1)));
  return 1;
}

/* columns(text) returns the number of columns that the UTF-8 text takes at a terminal. */
static el_nret l_columns(lua_State *L) {
  el_bytes text = el_lua_check_bytes(L, 1);
  lua_pushinteger(L, (lua_Integer)el_text_columns(text.data, text.len));
  return 1;
}

void el_lua_open_child(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"unblock", l_unblock},
      {"start_child", l_start_child},
      {"next_child", l_next_child},
      {"group", l_group},
      {"terminal_group", l_terminal_group},
      {"set_terminal_group", l_set_terminal_group},
      {"stop", l_stop},
      {"columns", l_columns},
      {NULL, NULL},
  };
  el_lua_set_functions(L, functions);
}
