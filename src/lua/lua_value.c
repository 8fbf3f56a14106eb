/* lua_value: how C values look in Lua, in one place. */
#include "lua/lua_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

void el_lua_push_lease(lua_State *L, int64_t lease) {
  char hex[17];
  snprintf(hex, sizeof hex, "%llx", (unsigned long long)lease);
  lua_pushstring(L, hex);
}

int64_t el_lua_opt_lease(lua_State *L, int arg) {
  return (int64_t)strtoull(luaL_optstring(L, arg, "0"), NULL, 16);
}

void el_lua_push_seconds(lua_State *L, int64_t ms) {
  lua_pushnumber(L, (lua_Number)ms / 1000);
}

int64_t el_lua_check_ms(lua_State *L, int arg) {
  static const lua_Number a_century = 3.2e9;
  lua_Number seconds = luaL_checknumber(L, arg);
  if (!(seconds > 0)) return 0;
  return (int64_t)ceil((seconds < a_century ? seconds : a_century) * 1000);
}

int64_t el_lua_opt_ms(lua_State *L, int arg, int64_t none) {
  return lua_isnoneornil(L, arg) ? none : el_lua_check_ms(L, arg);
}

el_bytes el_lua_check_bytes(lua_State *L, int arg) {
  el_bytes bytes;
  luaL_checktype(L, arg, LUA_TSTRING);
  bytes.data = lua_tolstring(L, arg, &bytes.len);
  return bytes;
}

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
    luaL_argerror(L, arg, "it has been freed");
  }
  return *box;
}

void *el_lua_take_box(lua_State *L, int arg, const char *type) {
  void **box = luaL_checkudata(L, arg, type);
  void *held = *box;
  *box = NULL;
  return held;
}

void el_lua_attach(lua_State *L, int index) {
#if LUA_VERSION_NUM == 501
  lua_setfenv(L, index);
#else
  lua_setuservalue(L, index);
#endif
}

void el_lua_push_attached(lua_State *L, int index) {
#if LUA_VERSION_NUM == 501
  lua_getfenv(L, index);
#else
  lua_getuservalue(L, index);
#endif
}

void el_lua_set_functions(lua_State *L, const luaL_Reg *list) {
  for (; list->name != NULL; list++) {
    lua_pushcfunction(L, list->func);
    lua_setfield(L, -2, list->name);
  }
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
  lua_pushboolean(L, 0); /* getmetatable() sees nothing to tamper with */
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}
