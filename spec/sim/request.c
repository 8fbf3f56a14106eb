/* sim request: what each of our requests does to the store and finds there. */
#include "request.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* ---- ranges ---- */

static bool counts(const key *it) { return it->owner != NESTED; }

static el_place place_of(const key *it) {
  if (it == NULL || it->create_rev == 0) return (el_place){0};
  return (el_place){.rev = it->create_rev, .lease = it->lease};
}

static el_place find_mine(const view *at, const call *what) {
  for (int i = 0; i < at->n; i++) {
    const key *it = &at->keys[i];
    if (it->name == what->name && it->owner == what->lease) {
      return place_of(it);
    }
  }
  return (el_place){0};
}

/* The youngest key created before |rev|; all: the youngest that counts. */
static const key *find_youngest(const view *at, int name, int64_t rev,
                                bool all) {
  const key *best = NULL;
  for (int i = 0; i < at->n; i++) {
    const key *it = &at->keys[i];
    if (it->name != name || it->create_rev == 0 || it->create_rev >= rev) {
      continue;
    }
    if (all && !counts(it)) continue;
    if (best == NULL || it->create_rev > best->create_rev) best = it;
  }
  return best;
}

static const key *find_oldest(const view *at, int name, bool all) {
  const key *best = NULL;
  for (int i = 0; i < at->n; i++) {
    const key *it = &at->keys[i];
    if (it->name != name || it->create_rev == 0) continue;
    if (all && !counts(it)) continue;
    if (best == NULL || it->create_rev < best->create_rev) best = it;
  }
  return best;
}

/* Fills |older| or |unsure|. */
static void tell_older(el_entry_event *out, const key *it) {
  if (it == NULL) return;
  if (counts(it)) {
    out->older = (el_place){.rev = it->create_rev, .lease = it->owner};
  } else {
    out->unsure = true;
  }
}

/* ---- an entry's requests ---- */

static bool put(store *st, const call *what, reply *out) {
  const lease *ls = store_find_lease(st, what->lease);
  if (ls == NULL || !ls->alive) {
    out->event.done = false;
    out->event.definite = out->event.retriable = true;
    out->lease_gone = true;
    return false;
  }
  store_put(st, what->name, what->lease, what->lease);
  out->event.rev = st->rev;
  out->event.mine = (el_place){.rev = st->rev, .lease = what->lease};
  return true;
}

static void enqueue(store *st, const call *what, reply *out) {
  const key *mine = store_find(st, what->name, what->lease);
  view at;
  if (mine != NULL && mine->create_rev != 0) {
    out->event.mine = place_of(mine);
    out->event.unsure = true;
    return;
  }
  if (!put(st, what, out)) return;
  at = store_view(st, st->rev);
  tell_older(&out->event, find_youngest(&at, what->name, st->rev, false));
}

static bool all_below(const view *at, int name, int64_t bound) {
  for (int i = 0; i < at->n; i++) {
    if (at->keys[i].name == name && at->keys[i].create_rev >= bound) {
      return false;
    }
  }
  return true;
}

static void try_once(store *st, const call *what, reply *out) {
  view at = store_view(st, st->rev);
  const key *oldest;
  if (all_below(&at, what->name, what->ask.bound)) {
    put(st, what, out);
    return;
  }
  out->event.mine = find_mine(&at, what);
  oldest = find_oldest(&at, what->name, what->ask.all);
  if (oldest == NULL || oldest->owner == what->lease) return;
  if (counts(oldest)) {
    out->event.locked = true;
  } else {
    out->event.unsure = true;
  }
}

static void look(const view *at, const call *what, reply *out) {
  out->event.rev = at->rev;
  out->event.serializable = what->ask.serializable;
  out->event.mine = find_mine(at, what);
  if (what->rev != 0) {
    tell_older(&out->event,
               find_youngest(at, what->name, what->rev, what->ask.all));
  }
}

static void delete_guarded(store *st, const call *what, reply *out) {
  int64_t rev = store_create_rev(st, what->name, what->lease);
  if (rev != what->ask.guard) return;
  out->event.deleted = store_delete(st, what->name, what->lease);
  out->event.rev = st->rev;
}

static void apply_entry(store *st, const call *what, reply *out) {
  view at;
  switch (what->ask.request) {
    case EL_REQUEST_ENQUEUE:
      enqueue(st, what, out);
      return;
    case EL_REQUEST_TRY:
      try_once(st, what, out);
      return;
    case EL_REQUEST_LOOK:
      at = store_view(st, st->rev);
      look(&at, what, out);
      return;
    case EL_REQUEST_DELETE:
      delete_guarded(st, what, out);
      return;
    case EL_REQUEST_NONE:
      assert(!"a call for nothing");
  }
}

/* ---- all requests ---- */

static void begin_answer(const store *st, const call *what, reply *out) {
  memset(out, 0, sizeof *out);
  out->event.kind = EL_ENTRY_ANSWER;
  out->event.done = true;
  out->event.sent_ms = what->sent_ms;
  out->event.term = st->term;
  out->event.rev = st->rev;
}

/* etcd lets nobody renew a lease that has run out, even if it has not ended
 * it yet (lessor.go, Renew). */
static void keep_alive(store *st, const call *what, int64_t now_ms,
                       reply *out) {
  lease *ls = store_find_lease(st, what->lease);
  if (ls->alive && now_ms >= ls->expires_at) {
    store_revoke(st, what->lease);
  }
  if (ls->alive) {
    ls->expires_at = now_ms + ls->ttl_ms;
    out->ttl_ms = ls->ttl_ms;
  }
}

void request_apply(store *st, const call *what, int64_t now_ms, int late_ms,
                   reply *out) {
  begin_answer(st, what, out);
  switch (what->kind) {
    case CALL_ENTRY:
      apply_entry(st, what, out);
      return;
    case CALL_PROBE:
      out->event.mine = place_of(store_find(st, what->name, what->lease));
      return;
    case CALL_GRANT:
      store_grant(st, what->lease, what->ttl_ms, now_ms, late_ms);
      out->ttl_ms = what->ttl_ms;
      return;
    case CALL_REVOKE:
      store_revoke(st, what->lease);
      return;
    case CALL_KEEPALIVE:
      keep_alive(st, what, now_ms, out);
      return;
  }
}

void request_look_at(store *st, const call *what, int64_t rev, reply *out) {
  view at = store_view(st, rev);
  begin_answer(st, what, out);
  look(&at, what, out);
}
