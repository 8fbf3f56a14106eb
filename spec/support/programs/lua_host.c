/* A Lua interpreter for the sanitizers: `lua SCRIPT [ARG...]`, without other options.
 *
 * The runtime of a sanitizer must be in the program, not only in the module. If the runtime were
 * preloaded into the stock interpreter, it would also be in every shell that a script starts. The
 * suite therefore runs in this interpreter. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static lua_State *main_state;
static pid_t first_pid;

/* Tells the leak sanitizer whether to skip its search; the sanitizer's runtime calls this function
 * before the search. A forked child is skipped, because it frees nothing that it inherited, on
 * purpose. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return getpid() != first_pid; }

static void interrupt(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

/* Makes Lua raise an error at the next instruction, as the stock interpreter does. */
static void on_sigint(int number) {
  signal(number, SIG_DFL);
  lua_sethook(main_state, interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT,
              1);
}

static int traceback(lua_State *L) {
  lua_getglobal(L, "debug");
  lua_getfield(L, -1, "traceback");
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

/* arg[-1] is this program, arg[0] the script. */
static void set_arg(lua_State *L, int argc, char **argv) {
  lua_newtable(L);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
}

static int run(lua_State *L, int argc, char **argv) {
  lua_pushcfunction(L, traceback);
  int status = luaL_loadfile(L, argv[1]);
  if (status == 0) {
    luaL_checkstack(L, argc, "too many arguments");
    for (int i = 2; i < argc; i++)
      lua_pushstring(L, argv[i]);
    signal(SIGINT, on_sigint);
    status = lua_pcall(L, argc - 2, 0, 1);
    signal(SIGINT, SIG_DFL);
  }
  if (status != 0) {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "%s: %s\n", argv[0], message ? message : "(no message)");
  }
  return status;
}

int main(int argc, char **argv) {
  first_pid = getpid();
  if (argc < 2) {
    fprintf(stderr, "usage: %s SCRIPT [ARG...]\n", argv[0]);
    return EXIT_FAILURE;
  }
  lua_State *L = main_state = luaL_newstate();
  luaL_openlibs(L);
  set_arg(L, argc, argv);
  int status = run(L, argc, argv);
  lua_close(L);
  return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
