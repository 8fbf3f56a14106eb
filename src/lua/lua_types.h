/* lua_types: what each file of this folder brings to the module. */
#ifndef ETCDLOCK_LUA_LUA_TYPES_H
#define ETCDLOCK_LUA_LUA_TYPES_H

#include <lauxlib.h>
#include <lua.h>

#include "lock/watcher.h"
#include "lua/lua_value.h"

/* Methods of a client. */
extern const luaL_Reg el_lua_lock_methods[];    /* lua_lock.c */
extern const luaL_Reg el_lua_guarded_methods[]; /* lua_guarded.c */
extern const luaL_Reg el_lua_watcher_methods[]; /* lua_watcher.c */
extern const luaL_Reg el_lua_status_methods[];  /* lua_status.c */
extern const luaL_Reg el_lua_events_methods[];  /* lua_events.c */
extern const luaL_Reg el_lua_wait_methods[];    /* lua_wait.c */
extern const luaL_Reg el_lua_nginx_methods[];   /* lua_nginx.c */

/* Functions of the module. */
extern const luaL_Reg el_lua_child_functions[]; /* lua_child.c */

/* Lua: call(fn, ...) -> true | false, error; fn must not yield. @thread lua */
el_nret el_lua_call(lua_State *L);

/* Registers the type of a lock. @thread lua */
void el_lua_open_lock(lua_State *L);

/* Registers the type of a guarded transaction. @thread lua */
void el_lua_open_guarded(lua_State *L);

/* Registers the type of a watcher. @thread lua */
void el_lua_open_watcher(lua_State *L);

/* Registers the type of a question to all members. @thread lua */
void el_lua_open_status(lua_State *L);

/* Adds what is known of keys to the module on top of the stack. @thread lua */
void el_lua_open_keys(lua_State *L);

/* "news" or "end", which one may wait for of a watcher. @thread lua */
el_watcher_news el_lua_check_watcher_news(lua_State *L, int arg);

/* Lua: yieldable() -> may the running coroutine yield here? @thread lua */
el_nret el_lua_yieldable(lua_State *L);

/* Adds the table "test" to the module on top of the stack, in builds with
 * EL_TEST. @thread lua */
void el_lua_open_test(lua_State *L);

#endif
