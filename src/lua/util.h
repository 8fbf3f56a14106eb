/* util: converts C values to Lua values and back, the same way in the whole folder.
 *
 * Works with Lua 5.1 to 5.5 and LuaJIT. A |table| is an absolute stack index; an |arg| may be
 * relative. Every function runs on the thread of the Lua state, and may raise Lua's "not enough
 * memory".
 */
#ifndef ETCDLOCK_LUA_UTIL_H
#define ETCDLOCK_LUA_UTIL_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

/* The number of results that a Lua function has pushed. */
typedef int el_nret;

/* ---- arguments ---- */

/* el_lua_check_bytes returns argument |arg|, a string; raises if it is not one. Lua owns the
 * bytes. @thread lua */
el_bytes el_lua_check_bytes(lua_State *L, int arg);

/* el_lua_check_ms returns argument |arg|, seconds, in milliseconds. It rounds up, so that a wait is
 * never shorter than requested, and returns at most a century. Negative numbers and NaN give 0. It
 * raises if the argument is not a number. @thread lua */
int64_t el_lua_check_ms(lua_State *L, int arg);

/* el_lua_opt_ms returns argument |arg| as el_lua_check_ms does, or |none| if the argument is nil or
 * missing. @thread lua */
int64_t el_lua_opt_ms(lua_State *L, int arg, int64_t none);

/* el_lua_opt_id returns argument |arg|, an ID that el_lua_push_id has pushed; 0 if it is nil or
 * missing. @thread lua */
int64_t el_lua_opt_id(lua_State *L, int arg);

/* ---- tables of options ---- */

/* el_lua_length returns the length of the list at |table|. @thread lua */
size_t el_lua_length(lua_State *L, int table);

/* el_lua_field_text returns the string in |field| of the table at |table|; NULL: it is no string.
 * The string lives as long as it stays in the table. The field must not be a number, because the
 * string into which Lua converts a number is not in the table. @thread lua */
const char *el_lua_field_text(lua_State *L, int table, const char *field);

/* el_lua_field_ms reads |field|, seconds, as el_lua_opt_ms does. @thread lua */
int64_t el_lua_field_ms(lua_State *L, int table, const char *field,
                        int64_t none);

/* el_lua_field_bool returns false if |field| is nil or false, otherwise true. @thread lua */
bool el_lua_field_bool(lua_State *L, int table, const char *field);

/* ---- results ---- */

/* el_lua_fail pushes nil, the message and the code of |err|, and returns 3. @thread lua */
el_nret el_lua_fail(lua_State *L, const el_error *err);

/* el_lua_push_rev pushes a revision or a counter: an integer, or below Lua 5.3 a double, which
 * is exact up to 2^53. @thread lua */
void el_lua_push_rev(lua_State *L, int64_t rev);

/* el_lua_push_id pushes the ID of a lease or a member as lower-case hex, because a double would not
 * be exact. @thread lua */
void el_lua_push_id(lua_State *L, int64_t id);

/* el_lua_push_seconds pushes |ms| milliseconds as seconds. @thread lua */
void el_lua_push_seconds(lua_State *L, int64_t ms);

/* el_lua_set_text sets |field| of the table on top of the stack to |text|; NULL: to nil.
 * @thread lua */
void el_lua_set_text(lua_State *L, const char *field, const char *text);

/* el_lua_set_rev sets |field| as el_lua_push_rev pushes. @thread lua */
void el_lua_set_rev(lua_State *L, const char *field, int64_t value);

/* el_lua_set_id sets |field| as el_lua_push_id pushes. @thread lua */
void el_lua_set_id(lua_State *L, const char *field, int64_t id);

/* el_lua_set_us sets |field| to |us| microseconds, as seconds. @thread lua */
void el_lua_set_us(lua_State *L, const char *field, int64_t us);

/* ---- userdata ---- */

/* el_lua_new_box pushes a userdata of |type| that holds NULL, and returns the address of the
 * pointer in it. The caller creates an object after that, and stores it at this address. If a Lua
 * error is raised before, the collector finds an empty userdata. @thread lua */
void **el_lua_new_box(lua_State *L, const char *type);

/* el_lua_check_box returns the object in the userdata at |arg|. It raises if the userdata has
 * another type than |type|, or holds NULL. @thread lua */
void *el_lua_check_box(lua_State *L, int arg, const char *type);

/* el_lua_open_collected registers the metatable of collected objects. @thread lua */
void el_lua_open_collected(lua_State *L);

/* el_lua_take_box is for finalizers: it empties the userdata of |type| at |arg| and returns the
 * object that it held; NULL: none. Lua code can still reach the userdata, by a finalizer that runs
 * later, and by a weak key, which Lua removes later. From now on its methods return nil, message,
 * "closed"; but has_stopped returns true, and txn the userdata itself. @thread lua */
void *el_lua_take_box(lua_State *L, int arg, const char *type);

/* el_lua_set_uservalue pops a table and makes it the user value of the userdata at |index|.
 * @thread lua */
void el_lua_set_uservalue(lua_State *L, int index);

/* el_lua_push_uservalue pushes the user value of the userdata at |index|. If no user value was set,
 * it pushes nil, or in Lua 5.1 and LuaJIT the environment of the C function that has created the
 * userdata (after `require`: the table `package`). @thread lua */
void el_lua_push_uservalue(lua_State *L, int index);

/* el_lua_new_type registers the metatable |type| with |methods| and the finalizer |gc|.
 * @thread lua */
void el_lua_new_type(lua_State *L, const char *type, const luaL_Reg *methods,
                     lua_CFunction gc);

/* el_lua_set_functions adds the functions of |list|, which ends with {NULL, NULL}, to the table
 * on top of the stack. @thread lua */
void el_lua_set_functions(lua_State *L, const luaL_Reg *list);

#endif
