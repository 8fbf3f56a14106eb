/* conflict_matrix: which lock modes exclude which, and which keys of a queue a client reads to find
 * conflicts. */
#include "protocol/conflict_matrix.h"

#include <string.h>

/* Returns the range of all keys that begin with |prefix|, which ends with a slash. Each range_
 * function writes to |*text| the bounds that do not point into |keys|, and moves |*text| behind
 * them. */
static el_key_range range_below(el_bytes prefix, char **text) {
  char *to = *text;
  memcpy(to, prefix.data, prefix.len);
  to[prefix.len - 1] = '/' + 1;
  *text += prefix.len;
  return (el_key_range){.from = prefix, .to = {to, prefix.len}};
}

static el_key_range range_of_mode(const el_keys *keys, el_mode mode,
                                  char **text) {
  char *prefix = *text;
  size_t len = el_key_write_prefix(prefix, el_keys_name(keys), mode);
  *text += len;
  return range_below((el_bytes){prefix, len}, text);
}

/* Returns the range of the keys of plain locks and multi-locks. After "name/" they begin with a hex
 * digit, at most "f". The infixes of the other modes begin with a later letter, so keys of those
 * modes are not in the range. */
static el_key_range range_of_locks(const el_keys *keys, char **text) {
  el_bytes from = el_keys_queue_prefix(keys);
  char *to = *text;
  memcpy(to, from.data, from.len);
  to[from.len] = 'f' + 1;
  *text += from.len + 1;
  return (el_key_range){.from = from, .to = {to, from.len + 1}};
}

size_t el_conflict_ranges(const el_keys *keys, el_key_range *ranges,
                          char *text) {
  size_t n = 0;
  switch (keys->mode) {
    case EL_MODE_READ:
      ranges[0] = range_of_locks(keys, &text);
      ranges[1] = range_of_mode(keys, EL_MODE_WRITE, &text);
      ranges[2] = range_of_mode(keys, EL_MARKER_DOWNGRADED, &text);
      return 3;
    case EL_MODE_PERMIT:
      ranges[0] = range_of_mode(keys, EL_MODE_PERMIT, &text);
      return 1;
    case EL_MODE_MULTI:
      for (; keys != NULL; keys = keys->next) {
        *ranges++ = range_below(el_keys_queue_prefix(keys), &text);
        n++;
      }
      return n;
    case EL_MODE_LOCK:
    case EL_MODE_WRITE:
    default:
      ranges[0] = range_below(el_keys_queue_prefix(keys), &text);
      return 1;
  }
}

el_key_range el_conflict_holder_range(const el_keys *keys, char *text) {
  return keys->mode == EL_MODE_PERMIT
             ? range_of_mode(keys, EL_MODE_PERMIT, &text)
             : range_below(el_keys_queue_prefix(keys), &text);
}

bool el_conflict_is_holder(const el_keys *keys, const el_kv *kv) {
  el_queue_key parsed;
  return el_key_is_entry(el_keys_name(keys), kv->key, kv->lease, &parsed) &&
         (parsed.mode == EL_MODE_PERMIT) == (keys->mode == EL_MODE_PERMIT);
}

bool el_conflict_reads_markers(el_mode mode) { return mode == EL_MODE_READ; }

/* Tells whether |writer| was downgraded. Its marker counts only if the marker is attached to the
 * same lease as the writer's key, because otherwise the marker is user data. */
static bool is_downgraded(const el_keys *keys, const el_queue_key *writer,
                          const el_op_result *markers) {
  el_queue_key marker = el_marker_downgraded(writer->rev);
  char key[EL_KEY_SIZE];
  el_bytes wanted = {key, el_key_write(key, el_keys_name(keys), &marker)};
  for (size_t i = 0; i < markers->n_kvs; i++) {
    if (el_bytes_are_equal(markers->kvs[i].key, wanted)) {
      return el_queue_key_is_attached(writer, markers->kvs[i].lease);
    }
  }
  return false;
}

bool el_modes_conflict(el_mode older, el_mode younger) {
  if (older == EL_MODE_PERMIT || younger == EL_MODE_PERMIT) {
    return older == younger;
  }
  return older != EL_MODE_READ || younger != EL_MODE_READ;
}

bool el_conflict_is_blocker(const el_keys *keys, const el_kv *kv,
                            const el_op_result *markers,
                            el_queue_key *blocker) {
  blocker->rev = kv->create_rev;
  if (!el_key_is_entry(el_keys_name(keys), kv->key, kv->lease, blocker)) {
    return false;
  }
  if (!el_modes_conflict(blocker->mode, keys->mode)) return false;
  return markers == NULL || blocker->mode != EL_MODE_WRITE ||
         !is_downgraded(keys, blocker, markers);
}

bool el_conflict_lacks_lease(const el_keys *keys, const el_kv *kv) {
  el_bytes name = el_keys_name(keys);
  el_queue_key parsed;
  return kv->lease == 0 &&
         el_key_parse(name.data, name.len, kv->key.data, kv->key.len,
                      &parsed) &&
         el_modes_conflict(parsed.mode, keys->mode);
}

bool el_conflict_is_waiter(const el_keys *keys, el_bytes key, int64_t lease) {
  el_queue_key parsed;
  return el_key_is_entry(el_keys_name(keys), key, lease, &parsed) &&
         el_modes_conflict(keys->mode, parsed.mode);
}

bool el_conflict_may_downgrade(const el_keys *keys, const el_queue_key *blocker,
                               el_queue_key *marker) {
  /* Go's RWMutex recipe, whose keys contain a time (is_timed), has no downgrade. */
  *marker = el_marker_downgraded(blocker->rev);
  return keys->mode == EL_MODE_READ && blocker->mode == EL_MODE_WRITE &&
         !blocker->is_timed;
}
