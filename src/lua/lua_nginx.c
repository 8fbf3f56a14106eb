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

/* May a new wait begin? Not while the client closes: nothing would stop a wake server that
 * is started then. */
static bool may_wait(const el_lua_client *lc, el_error *err) {
  if (!el_lua_client_is_usable(lc, err)) return false;
  if (lc->is_closing) el_error_set(err, EL_CLOSED, "the client is closed");
  return !lc->is_closing;
}

/* The request that waited for this lock, or held it, has ended. */
static void outlive(void *arg) {
  el_lock *lk = arg;
  el_lock_outlive(lk);
  el_lock_unref(lk);
}

static bool start_server(el_lua_client *lc, const char *dir, el_error *err) {
  lc->server = el_wake_server_start(dir, outlive, err);
  return lc->server != NULL;
}

/* client:serve([dir]) -> the path of a socket, made below |dir|
 *                      | nil, message, code */
static el_nret l_client_serve(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  const char *dir = luaL_optstring(L, 2, NULL);
  if (!may_wait(lc, &err) ||
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

/* client:expect() -> the number of a wait, which will be said over the socket
 *                  | nil, message, code */
static el_nret l_client_expect(lua_State *L) {
  el_error err;
  el_lua_client *lc = el_lua_check_client(L, 1);
  el_wake_server *server = may_wait(lc, &err) ? server_of(lc, &err) : NULL;
  uint64_t id;
  if (server == NULL) return el_lua_fail(L, &err);
  id = EL_LUA_SERVED + lc->n_served++;
  el_wake_server_expect(server, id);
  lua_pushnumber(L, (lua_Number)id);
  return 1;
}

static void untied(void *arg) { el_lock_unref(arg); }

static uint64_t check_number(lua_State *L, int arg) {
  return (uint64_t)luaL_checknumber(L, arg);
}

/* client:tie(number, lock): the lock is released if the connection of that wait ends
 * -> false: it has ended */
static el_nret l_client_tie(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  uint64_t id = check_number(L, 2);
  el_lock *lk = el_lock_ref(el_lua_check_box(L, 3, EL_LUA_LOCK));
  bool is_tied = server != NULL && el_wake_server_tie(server, id, lk);
  if (!is_tied) el_lock_unref(lk);
  lua_pushboolean(L, is_tied);
  return 1;
}

/* client:untie(number, lock): the reverse */
static el_nret l_client_untie(lua_State *L) {
  el_error err;
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  uint64_t id = check_number(L, 2);
  el_lock *lk = el_lua_check_box(L, 3, EL_LUA_LOCK);
  if (server != NULL && el_wake_server_untie(server, id, lk)) untied(lk);
  return 0;
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

/* client:taken(number): the connection may end, or serve another wait; its locks are untied
 * -> was the number said, and is it certain that no byte was sent for that? */
static el_nret l_client_taken(lua_State *L) {
  el_error err;
  uint64_t id = check_number(L, 2);
  el_wake_server *server = server_of(el_lua_check_client(L, 1), &err);
  lua_pushboolean(L,
                  server != NULL && el_wake_server_taken(server, id, untied));
  return 1;
}

const luaL_Reg el_lua_nginx_methods[] = {
    {"serve", l_client_serve},
    {"next_fd", l_client_next_fd},
    {"seal", l_client_seal},
    {"expect", l_client_expect},
    {"tie", l_client_tie},
    {"untie", l_client_untie},
    {"hear", l_client_hear},
    {"taken", l_client_taken},
    {NULL, NULL},
};
