/* client: the userdata of a client, to which the other files of this folder add methods. */
#ifndef ETCDLOCK_LUA_CLIENT_H
#define ETCDLOCK_LUA_CLIENT_H

#include <lua.h>

#include "lock/client.h"
#include "lua/util.h"
#include "nginx/wake_server.h"

/* The types of userdata, as names of metatables. */
#define EL_LUA_CLIENT  "etcdlock.core.client"
#define EL_LUA_LOCK    "etcdlock.core.lock"
#define EL_LUA_TXN     "etcdlock.core.txn"
#define EL_LUA_WATCHER "etcdlock.core.watcher"
#define EL_LUA_STATUS  "etcdlock.core.status"

/* el_lua_client is the object in the userdata of a client. Only the Lua thread uses it. But if the
 * client is collected before it was closed, a background thread closes and frees it. */
typedef struct el_lua_client {
  el_client *client;
  el_wake_server *server; /* for nginx; NULL until client:begin_nginx_wait */
  /* how many wake numbers client:begin_wait has assigned */
  uint64_t n_waits;
  /* how many wake numbers client:begin_nginx_wait has assigned */
  uint64_t n_served;
  bool is_closing; /* client:begin_close or client:close was called */
} el_lua_client;

/* el_lua_check_client returns the client at |arg|; raises if it is none. @thread lua */
el_lua_client *el_lua_check_client(lua_State *L, int arg);

/* el_lua_client_is_usable returns whether this process can use the client; if not, sets |err|
 * to closed or forked. @thread lua */
bool el_lua_client_is_usable(const el_lua_client *lc, el_error *err);

/* el_lua_add_client_methods adds |methods|, which end with {NULL, NULL}, to the client type.
 * @thread lua */
void el_lua_add_client_methods(lua_State *L, const luaL_Reg *methods);

#endif
