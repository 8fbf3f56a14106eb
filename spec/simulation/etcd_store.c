/* simulation etcd_store: the keys of the simulated etcd, and their history. */
#include "etcd_int.h"

#include <stdlib.h>
#include <string.h>

void *etcd_grow(void *items, size_t n, size_t *room, size_t size) {
  if (n < *room) return items;
  *room = *room > 0 ? *room * 2 : 16;
  return el_realloc(items, *room * size);
}

/* ---- byte ranges ---- */

el_bytes bytes_of(ProtobufCBinaryData data) {
  return (el_bytes){(const char *)data.data, data.len};
}

ProtobufCBinaryData data_of(el_bytes bytes) {
  return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.data};
}

int etcd_compare(el_bytes a, el_bytes b) {
  size_t len = a.len < b.len ? a.len : b.len;
  int order = len > 0 ? memcmp(a.data, b.data, len) : 0;
  return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* etcd's range_end: empty: one key; a zero byte: all keys from |key| on. */
static bool is_to_the_end(el_bytes range_end) {
  return range_end.len == 1 && range_end.data[0] == '\0';
}

bool is_in_range(el_bytes it, el_bytes key, el_bytes range_end) {
  int order = etcd_compare(it, key);
  if (range_end.len == 0) return order == 0;
  return order >= 0 &&
         (is_to_the_end(range_end) || etcd_compare(it, range_end) < 0);
}

/* Returns the index of the first key that is not before |key|. */
static size_t lower_bound(const etcd_key *const *keys, size_t n, el_bytes key) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (etcd_compare(keys[middle]->key, key) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

view view_range(const view *all, el_bytes key, el_bytes range_end) {
  size_t first = lower_bound(all->keys, all->n, key), end = first;
  while (end < all->n && is_in_range(all->keys[end]->key, key, range_end)) {
    end++;
  }
  return (view){all->rev, all->keys + first, end - first};
}

/* ---- changes ---- */

void store_init(store *st, etcd_on_change on_change) {
  /* the revision of an empty etcd, and etcd's number for "never compacted" */
  *st = (store){.rev = 1, .compacted_rev = -1, .on_change = on_change};
}

void store_destroy(store *st) {
  for (size_t i = 0; i < st->n_changes; i++) {
    free((void *)(uintptr_t)st->changes[i].after);
  }
  free(st->changes);
  free(st->keys);
  free(st->old);
}

/* Returns a new version of a key, in one allocation. */
static etcd_key *new_key(el_bytes key, el_bytes value) {
  etcd_key *it = el_alloc(sizeof *it + key.len + value.len + 1);
  char *data = (char *)(it + 1);
  memcpy(data, key.data, key.len);
  if (value.len > 0) memcpy(data + key.len, value.data, value.len);
  it->key = (el_bytes){data, key.len};
  it->value = (el_bytes){data + key.len, value.len};
  return it;
}

/* Replaces |before| by |after|, either of which may be NULL, in sorted |keys|, which have room. */
static void replace(const etcd_key **keys, size_t *n, const etcd_key *before,
                    const etcd_key *after) {
  size_t at = lower_bound(keys, *n, (before != NULL ? before : after)->key);
  size_t size = sizeof *keys;
  if (before == NULL) {
    memmove(&keys[at + 1], &keys[at], (*n - at) * size);
    ++*n;
  } else if (after == NULL) {
    memmove(&keys[at], &keys[at + 1], (*n - at - 1) * size);
    --*n;
  }
  if (after != NULL) keys[at] = after;
}

static void change_key(store *st, const etcd_key *before,
                       const etcd_key *after) {
  const etcd_key *named = after != NULL ? after : before;
  change *it;
  world_trace("etcd: revision %lld: %s %.*s", (long long)st->rev,
              after != NULL ? "put" : "delete", (int)named->key.len,
              named->key.data);
  st->changes = etcd_grow(st->changes, st->n_changes, &st->room_changes,
                          sizeof *st->changes);
  it = &st->changes[st->n_changes++];
  *it = (change){st->rev, world_now_us(), before, after};
  st->keys = etcd_grow(st->keys, st->n_keys, &st->room_keys, sizeof *st->keys);
  replace(st->keys, &st->n_keys, before, after);
  st->on_change(&(etcd_change){.rev = st->rev,
                               .before = before,
                               .after = after,
                               .cause = st->cause,
                               .client = st->client});
}

void store_begin(store *st, etcd_cause cause, int client) {
  st->is_written = false;
  st->cause = cause;
  st->client = client;
}

static void take_rev(store *st) {
  if (!st->is_written) st->rev++;
  st->is_written = true;
}

void store_put(store *st, el_bytes key, el_bytes value, int64_t lease) {
  view now = store_view(st, st->rev),
       found = view_range(&now, key, (el_bytes){0});
  const etcd_key *before = found.n > 0 ? found.keys[0] : NULL;
  etcd_key *after = new_key(key, value);
  take_rev(st);
  after->create_rev = before != NULL ? before->create_rev : st->rev;
  after->version = before != NULL ? before->version + 1 : 1;
  after->mod_rev = st->rev;
  after->lease = lease;
  change_key(st, before, after);
}

int64_t store_delete(store *st, el_bytes key, el_bytes range_end) {
  view now = store_view(st, st->rev), found = view_range(&now, key, range_end);
  size_t first = (size_t)(found.keys - now.keys);
  if (found.n > 0) take_rev(st);
  for (size_t i = 0; i < found.n; i++) {
    change_key(st, st->keys[first], NULL);
  }
  return (int64_t)found.n;
}

void store_delete_of_lease(store *st, int64_t lease) {
  for (size_t i = 0; i < st->n_keys;) {
    if (st->keys[i]->lease == lease) {
      take_rev(st);
      change_key(st, st->keys[i], NULL);
    } else {
      i++;
    }
  }
}

/* ---- old states ---- */

/* Makes st->old the keys as of |rev|, by undoing the changes since then. */
static void undo(store *st, int64_t rev) {
  size_t room = st->n_keys + st->n_changes + 1;
  if (st->room_old < room) {
    st->old = el_realloc(st->old, room * 2 * sizeof *st->old);
    st->room_old = room * 2;
  }
  st->n_old = st->n_keys;
  if (st->n_keys > 0) {
    memcpy(st->old, st->keys, st->n_keys * sizeof *st->old);
  }
  for (size_t i = st->n_changes; i-- > 0 && st->changes[i].rev > rev;) {
    replace(st->old, &st->n_old, st->changes[i].after, st->changes[i].before);
  }
}

view store_view(store *st, int64_t rev) {
  if (rev >= st->rev) return (view){st->rev, st->keys, st->n_keys};
  if (st->old_rev != rev || st->old_n_changes != st->n_changes) {
    undo(st, rev);
    st->old_rev = rev;
    st->old_n_changes = st->n_changes;
  }
  return (view){rev, st->old, st->n_old};
}
