/* lua_key: the layout of keys below a lock's name, for what Lua reads and lists. */
#include "lua/lua_types.h"
#include "rules/key.h"
#include "rules/kind.h"

/* parse_key(name, key, lease) -> lease, mode, permits | nil if key, which is attached to lease
 * (nil: to none), is no entry in name's queue */
static el_nret l_parse_key(lua_State *L) {
  el_bytes name = el_lua_check_bytes(L, 1);
  el_bytes key = el_lua_check_bytes(L, 2);
  el_place place;
  if (!el_kind_is_entry(name, key, el_lua_opt_lease(L, 3), &place)) {
    lua_pushnil(L);
    return 1;
  }
  el_lua_push_lease(L, place.lease);
  lua_pushstring(L, el_modes[place.mode]);
  lua_pushinteger(L, place.permits);
  return 3;
}

/* name_of_key(key, lease) -> name in whose queue key, which is attached to lease (nil: to none),
 * is an entry | nil */
static el_nret l_name_of_key(lua_State *L) {
  el_bytes key = el_lua_check_bytes(L, 1);
  el_place place;
  el_bytes name = el_key_name(key, &place);
  if (name.len == 0 || place.mode > EL_MODE_MULTI ||
      el_key_reserved_end(name).len > 0 ||
      !el_place_is_attached(&place, el_lua_opt_lease(L, 2))) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushlstring(L, name.data, name.len);
  return 1;
}

/* Puts |len| bytes of |text| behind the name, argument 1, of whatever length. */
static el_nret push_below(lua_State *L, const char *text, size_t len) {
  el_lua_check_bytes(L, 1);
  lua_pushvalue(L, 1);
  lua_pushlstring(L, text, len);
  lua_concat(L, 2);
  return 1;
}

/* key_stem(name, mode) -> what all keys of that mode begin with */
static el_nret l_key_stem(lua_State *L) {
  char stem[EL_KEY_SIZE];
  el_mode mode = (el_mode)luaL_checkoption(L, 2, NULL, el_modes);
  size_t len = el_key_write_stem(stem, (el_bytes){"", 0}, mode);
  return push_below(L, stem, len);
}

/* downgrade_note(name, revision) -> the key that says that the writer with the key of that
 * create_revision only reads any more */
static el_nret l_downgrade_note(lua_State *L) {
  char key[EL_KEY_SIZE];
  el_place note = el_kind_downgrade_note(luaL_checkinteger(L, 2));
  return push_below(L, key, el_key_write(key, (el_bytes){"", 0}, &note));
}

/* reserved_end(name) -> what it ends with that no name may end with | nil */
static el_nret l_reserved_end(lua_State *L) {
  el_bytes end = el_key_reserved_end(el_lua_check_bytes(L, 1));
  if (end.len == 0) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, end.data, end.len);
  }
  return 1;
}

void el_lua_open_keys(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"parse_key", l_parse_key},       {"name_of_key", l_name_of_key},
      {"key_stem", l_key_stem},         {"downgrade_note", l_downgrade_note},
      {"reserved_end", l_reserved_end}, {NULL, NULL}};
  el_lua_set_functions(L, functions);
  lua_pushinteger(L, EL_PERMITS_MAX);
  lua_setfield(L, -2, "PERMITS_MAX");
  lua_pushinteger(L, EL_MULTI_MAX);
  lua_setfield(L, -2, "MULTI_MAX");
  lua_pushinteger(L, EL_NAME_MAX);
  lua_setfield(L, -2, "NAME_MAX");
}
