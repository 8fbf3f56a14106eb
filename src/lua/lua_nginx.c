/* lua_nginx: waits for a host that can only wait on connections: the methods of
 * a client by which nginx's Lua has them served (nginx/wake_server.h). */
#include "lua/lua_client.h"
#include "lua/lua_types.h"

/* The client's server; NULL and |err| if it was not started, or is closed. */
static el_wake_server *server_of(el_lua_client *lc, el_error *err) {
  if (!el_lua_client_is_usable(lc, err)) return NULL;
  if (lc->server == NULL) {
    el_error_set(err, EL_CONTEXT, "nobody serves this client's waits yet");
  }
  return lc->server;
}

static bool start_server(el_lua_client *lc, const char *dir, el_error *err) {
  lc->server = el_wake_server_start(dir, err);
  return lc->server != NULL;
}

/* client:serve([dir]) -> the path of a socket, made below |dir|
 *                      | nil, message, code */
static el_nret l_client_serve(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  const char *dir = luaL_optstring(L, 2, NULL);
  if (!el_lua_client_is_usable(lc, &err) ||
      (lc->server == NULL && !start_server(lc, dir, &err))) {
    return el_lua_fail(L, &err);
  }
  lua_pushstring(L, el_wake_server_path(lc->server));
  return 1;
}

/* client:next_fd() -> the number of the descriptor that is made next | -1 */
static el_nret l_client_next_fd(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  lua_pushinteger(L, server != NULL ? el_wake_server_next_fd(server) : -1);
  return 1;
}

/* client:seal(next_fd): programs that this process starts shall not have its end
 * of the connection to serve()'s path that was made just now */
static el_nret l_client_seal(lua_State *L) {
  el_error err;
  int next_fd = (int)luaL_checkinteger(L, 2);
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  if (server != NULL) {
    el_wake_server_seal(server, next_fd);
  }
  return 0;
}

/* Whoever waited for the lock, or held it, is gone. */
static void outlive(void *arg) {
  el_lock *lk = arg;
  if (lk == NULL) return; /* a mere look */
  el_lock_outlive(lk);
  el_lock_unref(lk);
}

/* client:expect([lock]) -> the number of a wait, which will be said over the
 * socket | nil, message, code. With a lock, that is released if the connection
 * ends before taken(number). */
static el_nret l_client_expect(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_lock *lk =
      lua_isnoneornil(L, 2) ? NULL : el_lua_check_box(L, 2, EL_LUA_LOCK);
  el_wake_server *server = server_of(lc, &err);
  uint64_t id;
  if (server == NULL) return el_lua_fail(L, &err);
  id = EL_LUA_SERVED + lc->n_served++;
  el_wake_server_expect(server, id, outlive,
                        lk != NULL ? el_lock_ref(lk) : NULL);
  lua_pushnumber(L, (lua_Number)id);
  return 1;
}

/* client:hear(): numbers were said over the socket */
static el_nret l_client_hear(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  if (server != NULL) {
    el_wake_server_hear(server);
  }
  return 0;
}

/* client:taken(number): the connection may end, or serve another wait
 * -> was the number said, and is it certain that no byte was sent for that? */
static el_nret l_client_taken(lua_State *L) {
  el_error err;
  void *lk = NULL;
  uint64_t id = (uint64_t)luaL_checknumber(L, 2);
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  lua_pushboolean(L, server != NULL && el_wake_server_taken(server, id, &lk));
  if (lk != NULL) {
    el_lock_unref(lk);
  }
  return 1;
}

const luaL_Reg el_lua_nginx_methods[] = {
    {"serve", l_client_serve},
    {"next_fd", l_client_next_fd},
    {"seal", l_client_seal},
    {"expect", l_client_expect},
    {"hear", l_client_hear},
    {"taken", l_client_taken},
    {NULL, NULL},
};
