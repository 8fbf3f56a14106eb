/* core: the module etcdlock.core, and the functions by which the files of this folder add to it.
 *
 * Each el_lua_open_ function is called with the module's table on top of the stack. It adds its
 * functions to that table, registers its types, and adds its methods to the client type.
 */
#ifndef ETCDLOCK_LUA_CORE_H
#define ETCDLOCK_LUA_CORE_H

#include <lua.h>

#include "lua/util.h"
#include "protocol/conflict_matrix.h"

/* luaopen_etcdlock_core pushes a new table, the module. @thread lua */
el_nret luaopen_etcdlock_core(lua_State *L);

/* el_lua_open_client adds connect and the types of clients and status queries. It is called before
 * the functions below, which add methods to the client type. @thread lua */
void el_lua_open_client(lua_State *L);

/* el_lua_open_lock adds the type of locks. @thread lua */
void el_lua_open_lock(lua_State *L);

/* el_lua_open_txn adds the type of transactions. @thread lua */
void el_lua_open_txn(lua_State *L);

/* el_lua_open_watch adds the type of watchers. @thread lua */
void el_lua_open_watch(lua_State *L);

/* el_lua_open_wait adds the function yieldable, and the client methods by which a program waits
 * without blocking its thread. @thread lua */
void el_lua_open_wait(lua_State *L);

/* el_lua_open_child adds functions for child processes and the terminal. @thread lua */
void el_lua_open_child(lua_State *L);

/* el_lua_open_test adds the table "test". It exists in builds with EL_TEST only.
 * @thread lua */
void el_lua_open_test(lua_State *L);

/* el_lua_check_mode returns argument |arg|, the mode of an entry as client:queue names it: a name
 * in el_mode_names, or "leader"; nil: a plain lock. @thread lua */
el_mode el_lua_check_mode(lua_State *L, int arg);

/* el_lua_is_leader tells whether argument |arg|, a mode, is "leader". @thread lua */
bool el_lua_is_leader(lua_State *L, int arg);

/* Each of the next functions waits up to |timeout_ms| for an event of an object, pushes the
 * outcome, and returns the number of pushed values. If the event has not occurred, it pushes
 * nil. */

/* el_lua_push_decided waits until the el_lock |lk| is held, or the wait for it has failed. If the
 * lock is held, it pushes true; otherwise false, message, code. @thread lua */
el_nret el_lua_push_decided(lua_State *L, void *lk, int64_t timeout_ms);

/* el_lua_push_released waits until the release of the el_lock |lk| has ended: see
 * el_lock_wait_released. It pushes true, or false, message, code if the release failed.
 * @thread lua */
el_nret el_lua_push_released(lua_State *L, void *lk, int64_t timeout_ms);

/* el_lua_push_ended waits for the end of the hold of the el_lock |lk| and pushes true.
 * @thread lua */
el_nret el_lua_push_ended(lua_State *L, void *lk, int64_t timeout_ms);

/* el_lua_push_answer waits for the answer to the el_guarded |txn|, and pushes what txn:wait
 * returns. @thread lua */
el_nret el_lua_push_answer(lua_State *L, void *txn, int64_t timeout_ms);

/* el_lua_push_answers waits until all members have answered the el_status |status| or failed, and
 * pushes what status:wait returns. @thread lua */
el_nret el_lua_push_answers(lua_State *L, void *status, int64_t timeout_ms);

/* el_lua_push_changed waits until the el_watcher |watcher| has unread changes or has ended, and
 * pushes true. @thread lua */
el_nret el_lua_push_changed(lua_State *L, void *watcher, int64_t timeout_ms);

/* el_lua_push_closed waits until the el_watcher |watcher| has ended, and pushes true.
 * @thread lua */
el_nret el_lua_push_closed(lua_State *L, void *watcher, int64_t timeout_ms);

#endif
