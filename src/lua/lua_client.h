/* lua_client: the userdata of a client, and what others do with it. */
#ifndef ETCDLOCK_LUA_LUA_CLIENT_H
#define ETCDLOCK_LUA_LUA_CLIENT_H

#include <lua.h>

#include "lock/client.h"
#include "lua/lua_value.h"
#include "nginx/wake_server.h"

#define EL_LUA_CLIENT  "etcdlock.core.client"
#define EL_LUA_LOCK    "etcdlock.core.lock"
#define EL_LUA_TXN     "etcdlock.core.txn"
#define EL_LUA_WATCHER "etcdlock.core.watcher"
#define EL_LUA_STATUS  "etcdlock.core.status"

/* Numbers of waits from here on are given by client:expect and told to whoever
 * is connected; Lua's own are smaller. All are exact in a lua_Number. */
#define EL_LUA_SERVED (UINT64_C(1) << 52)

/* What the userdata of a client holds. */
typedef struct el_lua_client {
  el_client *client;
  /* For a host that waits on connections; NULL until it asks for them. */
  el_wake_server *server;
  uint64_t n_served;
  bool
      is_closing; /* a call of client:begin_close or of client:close has begun */
} el_lua_client;

/* The client at |arg|. @thread lua */
el_lua_client *el_lua_check_client(lua_State *L, int arg);

/* Can it be used by this process? If not, |err| says closed or forked.
 * @thread lua */
bool el_lua_client_is_usable(const el_lua_client *lc, el_error *err);

/* Lua: connect(options) -> client | nil, message, code; the options are those
 * of connect_options.lua. @thread lua */
el_nret el_lua_connect(lua_State *L);

/* Registers the type with |methods|, which come from several files.
 * @thread lua */
void el_lua_open_client(lua_State *L, const luaL_Reg *const *methods);

#endif
