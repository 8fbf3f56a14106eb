/* core: the functions by which the files of this folder add to the module etcdlock.core.
 *
 * Each el_lua_open_ function is called with the module's table on top of the stack. It adds its
 * functions to that table, registers its types, and adds its methods to the client type.
 */
#ifndef ETCDLOCK_LUA_CORE_H
#define ETCDLOCK_LUA_CORE_H

#include <lua.h>

#include "lock/watcher.h"

/* el_lua_open_client adds connect and the types of clients and status queries. It is called
 * first, because the others add methods to the client type. @thread lua */
void el_lua_open_client(lua_State *L);

/* el_lua_open_lock adds the type of locks. @thread lua */
void el_lua_open_lock(lua_State *L);

/* el_lua_open_txn adds the type of transactions. @thread lua */
void el_lua_open_txn(lua_State *L);

/* el_lua_open_watch adds the type of watchers. @thread lua */
void el_lua_open_watch(lua_State *L);

/* el_lua_open_wait adds yieldable, and methods that end waits without blocking. @thread lua */
void el_lua_open_wait(lua_State *L);

/* el_lua_open_child adds functions for child processes and the terminal. @thread lua */
void el_lua_open_child(lua_State *L);

/* el_lua_open_test adds the table "test". It exists in builds with EL_TEST only.
 * @thread lua */
void el_lua_open_test(lua_State *L);

/* el_lua_check_watcher_news returns argument |arg|, "news" or "end"; raises if it is neither.
 * @thread lua */
el_watcher_event el_lua_check_watcher_news(lua_State *L, int arg);

#endif
