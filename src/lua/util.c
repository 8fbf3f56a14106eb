/* util: converts C values to Lua values and back. */
#include "lua/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arguments ---- */

el_bytes el_lua_check_bytes(lua_State *L, int arg) {
  el_bytes bytes;
  luaL_checktype(L, arg, LUA_TSTRING);
  bytes.data = lua_tolstring(L, arg, &bytes.len);
  return bytes;
}

int64_t el_lua_check_ms(lua_State *L, int arg) {
  static const lua_Number century = 3.2e9;
  lua_Number seconds = luaL_checknumber(L, arg);
  if (!(seconds > 0)) return 0;
  return (int64_t)ceil((seconds < century ? seconds : century) * 1000);
}

int64_t el_lua_opt_ms(lua_State *L, int arg, int64_t none) {
  return lua_isnoneornil(L, arg) ? none : el_lua_check_ms(L, arg);
}

int64_t el_lua_opt_id(lua_State *L, int arg) {
  return (int64_t)strtoull(luaL_optstring(L, arg, "0"), NULL, 16);
}

/* ---- tables of options ---- */

const char *el_lua_field_text(lua_State *L, int table, const char *field) {
  const char *text;
  lua_getfield(L, table, field);
  text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
}

int64_t el_lua_field_ms(lua_State *L, int table, const char *field,
                        int64_t none) {
  int64_t ms;
  lua_getfield(L, table, field);
  ms = el_lua_opt_ms(L, -1, none);
  lua_pop(L, 1);
  return ms;
}

size_t el_lua_length(lua_State *L, int table) {
#if LUA_VERSION_NUM >= 502
  return lua_rawlen(L, table);
#else
  return lua_objlen(L, table);
#endif
}

bool el_lua_field_bool(lua_State *L, int table, const char *field) {
  bool is_set;
  lua_getfield(L, table, field);
  is_set = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is_set;
}

/* ---- results ---- */

el_nret el_lua_fail(lua_State *L, const el_error *err) {
  lua_pushnil(L);
  lua_pushstring(L, err->text);
  lua_pushstring(L, el_code_str(err->code));
  return 3;
}

void el_lua_push_rev(lua_State *L, int64_t rev) {
#if LUA_VERSION_NUM >= 503
  lua_pushinteger(L, (lua_Integer)rev);
#else
  lua_pushnumber(L, (lua_Number)rev);
#endif
}

void el_lua_push_id(lua_State *L, int64_t id) {
  char hex[17];
  snprintf(hex, sizeof hex, "%llx", (unsigned long long)id);
  lua_pushstring(L, hex);
}

void el_lua_push_seconds(lua_State *L, int64_t ms) {
  lua_pushnumber(L, (lua_Number)ms / 1000);
}

void el_lua_set_text(lua_State *L, const char *field, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, field);
}

void el_lua_set_rev(lua_State *L, const char *field, int64_t value) {
  el_lua_push_rev(L, value);
  lua_setfield(L, -2, field);
}

void el_lua_set_id(lua_State *L, const char *field, int64_t id) {
  el_lua_push_id(L, id);
  lua_setfield(L, -2, field);
}

void el_lua_set_us(lua_State *L, const char *field, int64_t us) {
  lua_pushnumber(L, (lua_Number)us / 1e6);
  lua_setfield(L, -2, field);
}

/* ---- userdata ---- */

void **el_lua_new_box(lua_State *L, const char *type) {
  void **box = lua_newuserdata(L, sizeof *box);
  *box = NULL;
  luaL_getmetatable(L, type);
  lua_setmetatable(L, -2);
  return box;
}

void *el_lua_check_box(lua_State *L, int arg, const char *type) {
  void **box = luaL_checkudata(L, arg, type);
  if (*box == NULL) {
    luaL_argerror(L, arg, "the object has been freed");
  }
  return *box;
}

/* ---- collected objects ---- */

static const char COLLECTED[] = "etcdlock.collected";

static el_nret fail_collected(lua_State *L) {
  el_error err;
  el_error_set(&err, EL_CLOSED, "the client was closed");
  return el_lua_fail(L, &err);
}

static el_nret has_stopped(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}

/* The method txn of a collected client. It returns the client, whose methods fail as those of a
 * transaction must. */
static el_nret itself(lua_State *L) {
  lua_settop(L, 1);
  return 1;
}

static el_nret index_collected(lua_State *L) {
  const char *name = luaL_checkstring(L, 2);
  bool is_stopped = strcmp(name, "has_stopped") == 0;
  lua_pushcfunction(L, is_stopped                 ? has_stopped
                       : strcmp(name, "txn") == 0 ? itself
                                                  : fail_collected);
  return 1;
}

void el_lua_open_collected(lua_State *L) {
  luaL_newmetatable(L, COLLECTED);
  lua_pushcfunction(L, index_collected);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0); /* hides the metatable from getmetatable() */
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void *el_lua_take_box(lua_State *L, int arg, const char *type) {
  void **box = luaL_checkudata(L, arg, type);
  void *held = *box;
  *box = NULL;
  luaL_getmetatable(L, COLLECTED);
  lua_setmetatable(L, arg);
  return held;
}

void el_lua_set_uservalue(lua_State *L, int index) {
#if LUA_VERSION_NUM == 501
  lua_setfenv(L, index);
#else
  lua_setuservalue(L, index);
#endif
}

void el_lua_push_uservalue(lua_State *L, int index) {
#if LUA_VERSION_NUM == 501
  lua_getfenv(L, index);
#else
  lua_getuservalue(L, index);
#endif
}

void el_lua_new_type(lua_State *L, const char *type, const luaL_Reg *methods,
                     lua_CFunction gc) {
  luaL_newmetatable(L, type);
  lua_newtable(L);
  el_lua_set_functions(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pushstring(L, type);
  lua_setfield(L, -2, "__name");
  lua_pushboolean(L, 0); /* hides the metatable from getmetatable() */
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}

void el_lua_set_functions(lua_State *L, const luaL_Reg *list) {
  for (; list->name != NULL; list++) {
    lua_pushcfunction(L, list->func);
    lua_setfield(L, -2, list->name);
  }
}
