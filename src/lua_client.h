/* L4 lua_client: the userdata of a client, a lock and a call. */
#ifndef ETCDLOCK_LUA_CLIENT_H
#define ETCDLOCK_LUA_CLIENT_H

#include <lua.h>

#include "lua_value.h"

#define EL_LUA_CLIENT "etcdlock.core.client"
#define EL_LUA_LOCK   "etcdlock.core.lock"
#define EL_LUA_CALL   "etcdlock.core.call"

/* Lua: connect(settings) -> client | nil, message, code; the settings are those
 * of settings.lua. @thread lua */
el_nret el_lua_connect(lua_State *L);

/* Lua: client:lock(name, value, timeout, max_hold, try) -> lock | nil,
 * message, code. Seconds; nil for none. @thread lua */
el_nret el_lua_client_lock(lua_State *L);

/* Lua: client:call() -> call | nil, message, code. @thread lua */
el_nret el_lua_client_call(lua_State *L);

/* Registers the type. @thread lua */
void el_lua_open_client(lua_State *L);

/* Registers the type. @thread lua */
void el_lua_open_lock(lua_State *L);

/* Registers the type. @thread lua */
void el_lua_open_call(lua_State *L);

/* Adds the table "test" to the module on top of the stack, in builds with
 * EL_TEST. @thread lua */
void el_lua_open_test(lua_State *L);

#endif
