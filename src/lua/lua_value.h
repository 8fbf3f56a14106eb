/* lua_value: how C values look in Lua, in one place: errors, 64-bit
 * numbers, times, and userdata that hold one pointer. Works with Lua 5.1 to
 * 5.4 and LuaJIT. @thread lua throughout.
 */
#ifndef ETCDLOCK_LUA_LUA_VALUE_H
#define ETCDLOCK_LUA_LUA_VALUE_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

/* How many values a function leaves on the stack. */
typedef int el_nret;

/* Pushes nil, the text and the code. @thread lua */
el_nret el_lua_fail(lua_State *L, const el_error *err);

/* Pushes a revision, an integer below 2^53 on Luas whose numbers are doubles.
 * @thread lua */
void el_lua_push_rev(lua_State *L, int64_t rev);

/* Pushes a lease id, which doesn't fit a double, as lower-case hex.
 * @thread lua */
void el_lua_push_lease(lua_State *L, int64_t lease);

/* Reads argument |arg|, a lease id as el_lua_push_lease pushes it; nil or missing: 0, no lease.
 * @thread lua */
int64_t el_lua_opt_lease(lua_State *L, int arg);

/* Pushes milliseconds as seconds. @thread lua */
void el_lua_push_seconds(lua_State *L, int64_t ms);

/* Reads argument |arg|, seconds, as milliseconds: rounded up, so that a wait
 * is never shorter than asked; raises unless it is a number. @thread lua */
int64_t el_lua_check_ms(lua_State *L, int arg);

/* The same, but |none| where it is nil or missing. @thread lua */
int64_t el_lua_opt_ms(lua_State *L, int arg, int64_t none);

/* Reads argument |arg| as bytes; raises unless it is a string. @thread lua */
el_bytes el_lua_check_bytes(lua_State *L, int arg);

/* Pushes a userdata of |type| that holds NULL: to be filled when what it holds
 * exists, so that an error in between finds a harmless object. @thread lua */
void **el_lua_new_box(lua_State *L, const char *type);

/* What the userdata of |type| at |arg| holds; raises if it is another type or
 * holds nothing any more. @thread lua */
void *el_lua_check_box(lua_State *L, int arg, const char *type);

/* Empties the userdata of |type| at |arg| and returns what it held: NULL if
 * nothing. @thread lua */
void *el_lua_take_box(lua_State *L, int arg, const char *type);

/* Hangs the table on top of the stack on the userdata at |index|, and pops it.
 * @thread lua */
void el_lua_attach(lua_State *L, int index);

/* Pushes the table that hangs on the userdata at |index|; if none does, what Lua
 * has there (nil, or in 5.1 its globals). @thread lua */
void el_lua_push_attached(lua_State *L, int index);

/* Makes the metatable of |type| with |methods| and |gc|. @thread lua */
void el_lua_new_type(lua_State *L, const char *type, const luaL_Reg *methods,
                     lua_CFunction gc);

/* Sets the functions of |list| in the table on top of the stack.
 * @thread lua */
void el_lua_set_functions(lua_State *L, const luaL_Reg *list);

#endif
