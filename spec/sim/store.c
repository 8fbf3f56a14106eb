/* sim store: the state of etcd, as known to its quorum. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *items, int n, int *room, size_t size) {
  if (n < *room) return items;
  *room = *room ? *room * 2 : 32;
  items = realloc(items, (size_t)*room * size);
  if (items == NULL) abort();
  return items;
}

void store_reset(store *st, store_changed changed, void *arg) {
  st->rev = 1;
  st->term = 2;
  st->n_keys = st->n_changes = st->n_leases = 0;
  st->in_batch = st->is_begun = false;
  memset(st->data, 0, sizeof st->data);
  st->changed = changed;
  st->arg = arg;
  while (st->n_leases < DATA_LEASES) {
    store_new_id(st);
  }
}

void store_destroy(store *st) {
  free(st->keys);
  free(st->changes);
  free(st->leases);
  free(st->old);
}

/* ---- leases ---- */

int64_t store_new_id(store *st) {
  st->leases =
      grow(st->leases, st->n_leases, &st->room_leases, sizeof *st->leases);
  memset(&st->leases[st->n_leases], 0, sizeof *st->leases);
  return ++st->n_leases;
}

lease *store_find_lease(const store *st, int64_t id) {
  return id > 0 && id <= st->n_leases ? &st->leases[id - 1] : NULL;
}

void store_grant(store *st, int64_t id, int64_t ttl_ms, int64_t now_ms,
                 int late_ms) {
  lease *ls = store_find_lease(st, id);
  *ls = (lease){.ttl_ms = ttl_ms,
                .granted_at = now_ms,
                .expires_at = now_ms + ttl_ms,
                .alive = true,
                .late_ms = late_ms};
}

void store_elect(store *st, int64_t now_ms) {
  st->term++;
  st->rev++; /* the new leader's first entry in the log */
  for (int i = 0; i < st->n_leases; i++) {
    lease *ls = &st->leases[i];
    if (ls->alive) ls->expires_at = now_ms + ls->ttl_ms;
  }
}

/* ---- keys ---- */

static key *find(const store *st, int key_id, int64_t owner) {
  for (int i = st->n_keys - 1; i >= 0; i--) {
    if (st->keys[i].owner == owner && st->keys[i].key_id == key_id) {
      return &st->keys[i];
    }
  }
  return NULL;
}

static key *find_or_add(store *st, int key_id, int64_t owner) {
  key *it = find(st, key_id, owner);
  if (it != NULL) return it;
  st->keys = grow(st->keys, st->n_keys, &st->room_keys, sizeof *st->keys);
  it = &st->keys[st->n_keys++];
  *it = (key){.key_id = key_id, .owner = owner};
  return it;
}

/* Changes |it| to |after|, at the store's present revision. */
static void write(store *st, key *it, const key *after) {
  change *what;
  st->changes =
      grow(st->changes, st->n_changes, &st->room_changes, sizeof *what);
  what = &st->changes[st->n_changes++];
  what->rev = st->rev;
  what->index = (int)(it - st->keys);
  what->before = *it;
  what->after = *after;
  what->released = false;
  *it = *after;
  st->changed(st->arg, what);
}

static void erase(store *st, key *it) {
  key after = *it;
  after.create_rev = after.lease = 0;
  after.mod_rev = st->rev;
  write(st, it, &after);
}

const key *store_find(const store *st, int key_id, int64_t owner) {
  return find(st, key_id, owner);
}

int64_t store_create_rev(const store *st, int key_id, int64_t owner) {
  const key *it = find(st, key_id, owner);
  return it != NULL ? it->create_rev : 0;
}

void store_begin_batch(store *st) { st->in_batch = true; }

void store_end_batch(store *st) { st->in_batch = st->is_begun = false; }

static void next_rev(store *st) {
  if (!st->in_batch || !st->is_begun) st->rev++;
  st->is_begun = st->in_batch;
}

void store_put(store *st, int key_id, int64_t owner, int64_t lease_id) {
  key *it = find_or_add(st, key_id, owner);
  key after = *it;
  next_rev(st);
  after.mod_rev = st->rev;
  after.lease = lease_id;
  if (after.create_rev == 0) after.create_rev = st->rev;
  write(st, it, &after);
}

void store_touch(store *st, int key_id, int64_t owner) {
  store_put(st, key_id, owner, find(st, key_id, owner)->lease);
}

void store_write(store *st, int datum, uint32_t value) {
  next_rev(st);
  st->data[datum] = value;
}

bool store_delete(store *st, int key_id, int64_t owner) {
  key *it = find(st, key_id, owner);
  if (it == NULL || it->create_rev == 0) return false;
  next_rev(st);
  erase(st, it);
  return true;
}

bool store_release(store *st, int key_id, int64_t owner) {
  bool was_there = store_delete(st, key_id, owner);
  if (was_there) st->changes[st->n_changes - 1].released = true;
  return was_there;
}

bool store_was_released(const store *st, int key_id, int64_t owner,
                        int64_t create_rev) {
  for (int i = st->n_changes - 1; i >= 0; i--) {
    const change *what = &st->changes[i];
    if (what->released && what->before.create_rev == create_rev &&
        key_is_entry(&what->before) && what->before.key_id == key_id &&
        what->before.owner == owner) {
      return true;
    }
  }
  return false;
}

bool store_revoke(store *st, int64_t id) {
  lease *ls = store_find_lease(st, id);
  bool counted = false;
  if (ls == NULL || !ls->alive) return false;
  ls->alive = false;
  for (int i = 0; i < st->n_keys; i++) {
    if (st->keys[i].create_rev == 0 || st->keys[i].lease != id) continue;
    if (!counted) st->rev++; /* all are deleted in one revision */
    counted = true;
    erase(st, &st->keys[i]);
  }
  return true;
}

/* ---- sabotage ---- */

void store_mark_sabotaged(store *st, int key_id, int64_t owner,
                          int64_t now_ms) {
  key *it = find(st, key_id, owner);
  if (it == NULL || it->create_rev == 0) return;
  it->sabotaged_rev = it->create_rev;
  it->sabotaged_ms = now_ms;
}

bool store_is_sabotaged(const store *st, int key_id, int64_t owner,
                        int64_t create_rev) {
  const key *it = find(st, key_id, owner);
  const lease *ls = store_find_lease(st, owner);
  return (ls != NULL && ls->sabotaged) ||
         (it != NULL && it->sabotaged_rev >= create_rev);
}

/* ---- old states ---- */

view store_view(store *st, int64_t rev) {
  view at = {.rev = rev < st->rev ? rev : st->rev,
             .keys = st->keys,
             .n = st->n_keys,
             .omits_leases = st->omits_leases,
             .omits_more = st->omits_more};
  if (rev >= st->rev) return at;
  while (st->room_old < st->n_keys) {
    st->old = grow(st->old, st->room_old, &st->room_old, sizeof *st->old);
  }
  if (st->n_keys > 0) {
    memcpy(st->old, st->keys, (size_t)st->n_keys * sizeof *st->old);
  }
  for (int i = st->n_changes - 1; i >= 0 && st->changes[i].rev > rev; i--) {
    st->old[st->changes[i].index] = st->changes[i].before;
  }
  at.keys = st->old;
  return at;
}
