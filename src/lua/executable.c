/* executable: the main function of the command as one executable, see `make executable`.
 *
 * The executable contains Lua, the core, luv and all Lua modules of the command. It runs
 * bin/etcdlock as Lua's interpreter does, but loads no module from a file, and ignores LUA_INIT,
 * LUA_PATH and LUA_CPATH. */
#include "lua/executable.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lua/core.h"

int luaopen_luv(lua_State *L);

static lua_State *main_state;

/* ---- standard streams ---- */

/* Opens /dev/null for each standard stream that is closed, as lua/etcdlock/command/init.lua does.
 * In the executable it must happen before constructors of gRPC open files. 101 is the first
 * priority that a program may use. */
__attribute__((constructor(101))) static void open_standard_streams(void) {
  for (int stream = 0; stream <= 2; stream++) {
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null",
           O_RDWR); /* gets the lowest free number: that of the stream */
  }
}

/* ---- Ctrl-C ---- */

static void handle_sigint(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGINT, &action, NULL);
}

static void interrupt(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted!");
}

/* Makes Lua raise "interrupted!" at the next instruction, as Lua's interpreter does. A second
 * SIGINT ends the process. */
static void on_sigint(int number) {
  (void)number;
  handle_sigint(SIG_DFL);
  lua_sethook(main_state, interrupt,
              LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* ---- modules ---- */

static void load(lua_State *L, const el_embedded *chunk) {
  if (luaL_loadbufferx(L, chunk->bytes, chunk->size, chunk->name, "b") !=
      LUA_OK)
    lua_error(L);
}

/* Runs the module of the upvalue with the arguments of the loader. */
static el_nret l_load_module(lua_State *L) {
  int arguments = lua_gettop(L);
  load(L, lua_touserdata(L, lua_upvalueindex(1)));
  lua_insert(L, 1);
  lua_call(L, arguments, 1);
  return 1;
}

static void clear_path(lua_State *L, const char *name) {
  lua_pushliteral(L, "");
  lua_setfield(L, -2, name);
}

static void add_modules(lua_State *L) {
  lua_getglobal(L, "package");
  clear_path(L, "path");
  clear_path(L, "cpath");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_etcdlock_core);
  lua_setfield(L, -2, "etcdlock.core");
  lua_pushcfunction(L, luaopen_luv);
  lua_setfield(L, -2, "luv");
  for (const el_embedded *module = el_embedded_modules; module->name;
       module++) {
    lua_pushlightuserdata(L, (void *)module);
    lua_pushcclosure(L, l_load_module, 1);
    lua_setfield(L, -2, module->name);
  }
  lua_pop(L, 2);
}

/* ---- main ---- */

typedef struct command_line {
  int count;
  char **words;
} command_line;

static void set_arg(lua_State *L, const command_line *line) {
  lua_createtable(L, line->count, 1);
  for (int i = 0; i < line->count; i++) {
    lua_pushstring(L, line->words[i]);
    lua_rawseti(L, -2, i);
  }
  lua_setglobal(L, "arg");
}

/* Runs bin/etcdlock, which ends the process. */
static el_nret l_main(lua_State *L) {
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0); /* as Lua's interpreter does */
  add_modules(L);
  set_arg(L, lua_touserdata(L, 1));
  load(L, &el_embedded_command);
  lua_call(L, 0, 0);
  return 0;
}

int main(int argc, char **argv) {
  command_line line = {argc, argv};
  lua_State *L = main_state = luaL_newstate();
  if (!L) {
    fputs("etcdlock: not enough memory\n", stderr);
    return EXIT_FAILURE;
  }
  handle_sigint(on_sigint);
  lua_pushcfunction(L, l_main);
  lua_pushlightuserdata(L, &line);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) {
    const char *message = lua_tostring(L, -1);
    fprintf(stderr, "etcdlock: %s\n",
            message ? message : "an error without a text");
  }
  return EXIT_FAILURE;
}
