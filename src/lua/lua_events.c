/* lua_events: what has happened to a client meanwhile, as Lua reads it. */
#include "base/clock.h"
#include "lua/lua_client.h"
#include "lua/lua_types.h"

static const char *const kinds[EL_EVENT_KINDS] = {"collected", "ended", "lost",
                                                  "member_left", "retry"};

static void push_bytes(lua_State *L, el_bytes bytes) {
  if (bytes.data == NULL) {
    lua_pushnil(L);
  } else {
    lua_pushlstring(L, bytes.data, bytes.len);
  }
}

static bool is_of_lock(const el_event *event) {
  return event->kind != EL_EVENT_MEMBER_LEFT && event->kind != EL_EVENT_RETRY;
}

static void push_lock(lua_State *L, const el_event *event) {
  lua_pushstring(L, event->leads ? "leader" : el_modes[event->mode]);
  lua_setfield(L, -2, "mode");
  el_lua_push_rev(L, event->token);
  lua_setfield(L, -2, "token");
  lua_pushnumber(L, (lua_Number)event->held_us / 1e6);
  lua_setfield(L, -2, "hold");
  if (event->loss != EL_LOSS_NONE) {
    lua_pushstring(L, el_losses[event->loss].name);
    lua_setfield(L, -2, "reason");
    lua_pushstring(L, el_losses[event->loss].text);
    lua_setfield(L, -2, "text");
  }
}

/* The fields of events.lua, and of a lock its full name, or names. */
static void push_event(lua_State *L, const el_event *event) {
  lua_newtable(L);
  lua_pushstring(L, kinds[event->kind]);
  lua_setfield(L, -2, "event");
  el_lua_push_seconds(L, el_now_ms() - event->at_ms);
  lua_setfield(L, -2, "ago");
  el_lua_push_rev(L, event->count);
  lua_setfield(L, -2, "count");
  push_bytes(L, event->subject);
  lua_setfield(L, -2, "subject");
  push_bytes(L, event->why);
  lua_setfield(L, -2, "why");
  if (is_of_lock(event)) {
    push_lock(L, event);
  }
}

/* An error of Lua's (no memory) must not leak what was taken. */
static el_nret push_taken(lua_State *L) {
  push_event(L, lua_touserdata(L, 1));
  return 1;
}

/* client:next_event() -> the oldest event that was not read yet | nil. In a forked child
 * there are none: another thread may have had them in hand. */
static el_nret l_client_next_event(lua_State *L) {
  el_handle *handle = el_client_handle(el_lua_check_client(L, 1)->client);
  el_event event;
  int status;
  if (!el_events_has_some(&handle->events) || el_handle_is_forked(handle)) {
    return 0;
  }
  lua_pushcfunction(L, push_taken);
  if (!el_events_take(&handle->events, &event)) return 0;
  lua_pushlightuserdata(L, &event);
  status = lua_pcall(L, 1, 1, 0);
  el_event_free(&event);
  return status == 0 ? 1 : lua_error(L);
}

/* client:events_left_out() -> how many found no room since the last time, by kind */
static el_nret l_client_events_left_out(lua_State *L) {
  el_handle *handle = el_client_handle(el_lua_check_client(L, 1)->client);
  lua_newtable(L);
  for (int kind = 0; kind < EL_EVENT_KINDS; kind++) {
    if (el_handle_is_forked(handle)) break;
    el_lua_push_rev(
        L, el_events_take_left_out(&handle->events, (el_event_kind)kind));
    lua_setfield(L, -2, kinds[kind]);
  }
  return 1;
}

/* client:attend(events), a table, whose method tell_collected is called in the middle of
 * whatever runs when Lua has collected a lock that was held */
static el_nret l_client_attend(lua_State *L) {
  el_lua_check_client(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  el_lua_attach(L, 1);
  return 0;
}

const luaL_Reg el_lua_events_methods[] = {
    {"attend", l_client_attend},
    {"next_event", l_client_next_event},
    {"events_left_out", l_client_events_left_out},
    {NULL, NULL},
};

/* Without a continuation, so that no Lua lets it yield across this. */
el_nret el_lua_call(lua_State *L) {
  int status;
  luaL_checkany(L, 1);
  status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  lua_pushboolean(L, status == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}
