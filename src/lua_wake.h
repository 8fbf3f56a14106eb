/* L4 lua_wake: how Lua waits without blocking: numbers of waits, a descriptor,
 * a socket. Numbers are chosen by Lua, one for each wait of a client.
 */
#ifndef ETCDLOCK_LUA_WAKE_H
#define ETCDLOCK_LUA_WAKE_H

#include "client.h"
#include "lua_value.h"

/* Reads argument |arg|, the number of a wait. @thread lua */
uint64_t el_lua_check_id(lua_State *L, int arg);

/* Where |cl| tells the end of a wait: to whoever polls its descriptor or, if
 * argument |arg| is true, to whoever is connected. Raises if neither has been
 * opened. @thread lua */
el_wake *el_lua_check_wake(lua_State *L, int arg, el_client *cl);

/* The methods of a client, for lua_client.c: see there. @thread lua */
el_nret el_lua_client_wake_fd(lua_State *L);
/* @thread lua */
el_nret el_lua_client_woken(lua_State *L);
/* @thread lua */
el_nret el_lua_client_alarm(lua_State *L);
/* @thread lua */
el_nret el_lua_client_serve(lua_State *L);
/* @thread lua */
el_nret el_lua_client_next_fd(lua_State *L);
/* @thread lua */
el_nret el_lua_client_seal(lua_State *L);
/* @thread lua */
el_nret el_lua_client_expect(lua_State *L);
/* @thread lua */
el_nret el_lua_client_taken(lua_State *L);

/* yieldable() -> may the running coroutine yield here? @thread lua */
el_nret el_lua_yieldable(lua_State *L);

#endif
