/* key: the keys of a lock in etcd: their layout, their modes, and how a key is parsed. */
#include "protocol/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TIME_LEN = 19 }; /* digits of nanoseconds since 1970, until 2286 */

/* Added to the slot in keys of EL_MODE_LOCK, because keys of EL_MODE_MULTI have the same prefix. */
#define LOCK_SLOTS UINT32_C(0x80000000)

static const char *const infixes[] = {
    [EL_MODE_LOCK] = "/",
    [EL_MODE_READ] = "/read/",
    [EL_MODE_WRITE] = "/write/",
    [EL_MODE_PERMIT] = "/permit/",
    [EL_MODE_MULTI] = "/",
    [EL_MARKER_DOWNGRADED] = "/write/read/",
    [EL_MARKER_WRITE_ORDER] = "/write/order/",
};

enum { INFIXES = sizeof infixes / sizeof *infixes };

/* Earlier versions wrote markers "name/read/order/<rev>-<n>". They look like keys of a lock
 * "name/read/order", so no lock name may end with this suffix. */
static const el_bytes old_marker_suffix = {"/read/order",
                                           sizeof "/read/order" - 1};

const char *const el_mode_names[] = {
    [EL_MODE_LOCK] = "lock",   [EL_MODE_READ] = "read",
    [EL_MODE_WRITE] = "write", [EL_MODE_PERMIT] = "permit",
    [EL_MODE_MULTI] = "multi", NULL,
};

bool el_queue_key_is_attached(const el_queue_key *key, int64_t lease) {
  return key->is_timed ? lease != 0 : lease == key->lease;
}

bool el_queue_keys_are_equal(const el_queue_key *a, const el_queue_key *b) {
  return a->rev == b->rev && a->lease == b->lease && a->slot == b->slot &&
         a->mode == b->mode && a->name_index == b->name_index;
}

size_t el_key_write_prefix(char *out, el_bytes name, el_mode mode) {
  size_t len = strlen(infixes[mode]);
  memcpy(out, name.data, name.len);
  memcpy(out + name.len, infixes[mode], len);
  return name.len + len;
}

size_t el_key_write(char *out, el_bytes name, const el_queue_key *key) {
  size_t len = el_key_write_prefix(out, name, key->mode);
  len += (size_t)snprintf(out + len, EL_KEY_SIZE - len,
                          key->is_timed ? "%llu" : "%llx",
                          (unsigned long long)key->lease);
  if (key->slot != 0) {
    len += (size_t)snprintf(out + len, EL_KEY_SIZE - len, "-%x",
                            key->mode == EL_MODE_LOCK ? key->slot | LOCK_SLOTS
                                                      : key->slot);
  }
  if (key->permits != 0) {
    len += (size_t)snprintf(out + len, EL_KEY_SIZE - len, ".%x", key->permits);
  }
  return len;
}

/* Reads |text| as a number in |base|: at most |digits_max| digits, the first one not 0, hex digits
 * in lower case. Returns 0 if |text| is no such number. */
static uint64_t parse_number(el_bytes text, unsigned base, size_t digits_max) {
  const char *digits = "0123456789abcdef";
  uint64_t number = 0;
  if (text.len == 0 || text.len > digits_max || text.data[0] == '0') return 0;
  for (size_t i = 0; i < text.len; i++) {
    const char *digit = memchr(digits, text.data[i], base);
    if (digit == NULL) return 0;
    number = number * base + (uint64_t)(digit - digits);
  }
  return number;
}

/* Removes |mark| and the hex number after it from the end of |text|, and sets |*number|. If |text|
 * contains no |mark|, |*number| is 0. Returns false if no valid number follows |mark|. */
static bool cut_number(el_bytes *text, char mark, uint64_t *number) {
  const char *at = memchr(text->data, mark, text->len);
  *number = 0;
  if (at == NULL) return true;
  *number = parse_number(
      (el_bytes){at + 1, text->len - (size_t)(at + 1 - text->data)}, 16, 8);
  text->len = (size_t)(at - text->data);
  return *number != 0;
}

/* Parses a lease ID, which a slot and a number of permits may follow. */
static bool parse_lease(el_bytes text, el_queue_key *parsed) {
  uint64_t permits, slot;
  if (!cut_number(&text, '.', &permits) || !cut_number(&text, '-', &slot) ||
      permits > EL_PERMITS_MAX ||
      (permits != 0) != (parsed->mode == EL_MODE_PERMIT)) {
    return false;
  }
  if (parsed->mode == EL_MODE_LOCK && slot > LOCK_SLOTS) {
    slot -= LOCK_SLOTS;
  } else if (parsed->mode == EL_MODE_LOCK && slot != 0) {
    parsed->mode = EL_MODE_MULTI;
  }
  parsed->permits = (uint16_t)permits;
  parsed->slot = (uint32_t)slot;
  parsed->lease = (int64_t)parse_number(text, 16, 16);
  return parsed->lease != 0;
}

/* Parses the part of a key after its prefix. */
static bool parse_suffix(el_bytes text, el_queue_key *parsed) {
  parsed->is_timed = false;
  parsed->name_index = 0;
  if (text.len == 0) return false;
  if (parse_lease(text, parsed)) return true;
  parsed->slot = 0;
  parsed->permits = 0;
  if (text.len != TIME_LEN ||
      (parsed->mode != EL_MODE_READ && parsed->mode != EL_MODE_WRITE)) {
    return false;
  }
  parsed->is_timed = true;
  parsed->lease = (int64_t)parse_number(text, 10, TIME_LEN);
  return parsed->lease != 0;
}

bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_queue_key *parsed) {
  if (key_len <= name_len || memcmp(key, name, name_len) != 0) return false;
  for (el_mode mode = EL_MODE_LOCK; mode < EL_MODE_MULTI; mode++) {
    size_t len = strlen(infixes[mode]), skip = name_len + len;
    parsed->mode = mode;
    if (key_len > skip && memcmp(key + name_len, infixes[mode], len) == 0 &&
        parse_suffix((el_bytes){key + skip, key_len - skip}, parsed)) {
      return true;
    }
  }
  return false;
}

static bool ends_with(el_bytes text, const char *tail, size_t len) {
  return text.len >= len && memcmp(text.data + text.len - len, tail, len) == 0;
}

/* Returns the mode, or the kind of marker, with whose infix |prefix| ends. If several infixes
 * match, the longest one counts. */
static el_mode mode_of(el_bytes prefix) {
  size_t mode = INFIXES - 1;
  while (mode == EL_MODE_MULTI ||
         !ends_with(prefix, infixes[mode], strlen(infixes[mode]))) {
    /* stops at EL_MODE_LOCK at the latest: its infix is a slash, with which |prefix| ends */
    mode--;
  }
  return (el_mode)mode;
}

el_bytes el_key_name(el_bytes key, el_queue_key *parsed) {
  const char *slash = key.len > 0 ? memrchr(key.data, '/', key.len) : NULL;
  el_bytes prefix = {key.data,
                     slash != NULL ? (size_t)(slash + 1 - key.data) : 0};
  el_mode mode;
  if (prefix.len == 0) return (el_bytes){0};
  mode = parsed->mode = mode_of(prefix);
  if (!parse_suffix((el_bytes){slash + 1, key.len - prefix.len}, parsed)) {
    return (el_bytes){0};
  }
  prefix.len -= strlen(infixes[mode]);
  return prefix;
}

bool el_key_is_entry(el_bytes name, el_bytes key, int64_t lease,
                     el_queue_key *parsed) {
  return el_key_parse(name.data, name.len, key.data, key.len, parsed) &&
         el_queue_key_is_attached(parsed, lease);
}

bool el_key_is_detached(el_bytes key, int64_t lease) {
  el_queue_key parsed;
  return el_key_name(key, &parsed).len > 0 && parsed.mode <= EL_MODE_MULTI &&
         !el_queue_key_is_attached(&parsed, lease);
}

el_bytes el_key_reserved_suffix(el_bytes name) {
  for (size_t i = 0; i < INFIXES; i++) {
    size_t len = strlen(infixes[i]) - 1; /* without its final slash */
    if (len > 0 && ends_with(name, infixes[i], len)) {
      return (el_bytes){infixes[i], len};
    }
  }
  return ends_with(name, old_marker_suffix.data, old_marker_suffix.len)
             ? old_marker_suffix
             : (el_bytes){0};
}

el_queue_key el_marker_downgraded(int64_t rev) {
  return (el_queue_key){.mode = EL_MARKER_DOWNGRADED, .lease = rev};
}

el_queue_key el_marker_write_order(int64_t rev) {
  return (el_queue_key){.mode = EL_MARKER_WRITE_ORDER, .lease = rev};
}

bool el_mode_has_markers(el_mode mode) { return mode == EL_MODE_WRITE; }

bool el_mode_has_more_keys(el_mode mode) {
  return el_mode_has_markers(mode) || mode == EL_MODE_MULTI;
}

/* ---- the keys of one entry ---- */

static void init_one(el_keys *keys, el_bytes name, const el_queue_key *key) {
  char own[EL_KEY_SIZE];
  size_t len = el_key_write(own, name, key);
  keys->text = el_strndup(own, len);
  keys->next = NULL;
  keys->name_len = (uint16_t)name.len;
  keys->key_len = (uint16_t)len;
  keys->mode = (uint8_t)key->mode;
  keys->permits = key->permits;
  keys->lease = key->lease;
}

el_bytes el_list_pop(el_bytes *list) {
  el_bytes first = *list;
  const char *end = first.len > 0 ? memchr(first.data, '\0', first.len) : NULL;
  if (end == NULL) {
    list->len = 0;
    return first;
  }
  first.len = (size_t)(end - first.data);
  *list = (el_bytes){end + 1, list->len - first.len - 1};
  return first;
}

void el_keys_init(el_keys *keys, el_bytes name, const el_queue_key *key) {
  if (key->mode != EL_MODE_MULTI) {
    init_one(keys, name, key);
    return;
  }
  init_one(keys, el_list_pop(&name), key);
  while (name.len > 0) {
    keys = keys->next = el_alloc(sizeof *keys);
    init_one(keys, el_list_pop(&name), key);
  }
}

void el_keys_set_slot(el_keys *keys, uint32_t slot) {
  for (; keys != NULL; keys = keys->next) {
    el_queue_key own = {.lease = keys->lease,
                        .mode = keys->mode,
                        .permits = keys->permits,
                        .slot = slot};
    char *text = keys->text;
    el_keys *next = keys->next;
    init_one(keys, el_keys_name(keys), &own);
    keys->next = next;
    free(text);
  }
}

void el_keys_copy(el_keys *keys, const el_keys *from) {
  *keys = *from;
  keys->text = el_strndup(from->text, from->key_len);
  if (from->next != NULL) {
    keys->next = el_alloc(sizeof *keys->next);
    el_keys_copy(keys->next, from->next);
  }
}

void el_keys_destroy(el_keys *keys) {
  free(keys->text);
  if (keys->next != NULL) {
    el_keys_destroy(keys->next);
    free(keys->next);
  }
}

const el_keys *el_keys_at(const el_keys *keys, size_t i) {
  for (; i > 0; i--) {
    keys = keys->next;
  }
  return keys;
}

size_t el_keys_count(const el_keys *keys) {
  size_t n = 0;
  for (; keys != NULL; keys = keys->next) {
    n++;
  }
  return n;
}

el_bytes el_keys_name(const el_keys *keys) {
  return (el_bytes){keys->text, keys->name_len};
}

el_bytes el_keys_own(const el_keys *keys) {
  return (el_bytes){keys->text, keys->key_len};
}

uint64_t el_keys_queue_hash(const el_keys *keys) {
  uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
  for (size_t i = 0; i < keys->name_len; i++) {
    hash = (hash ^ (unsigned char)keys->text[i]) * 0x100000001b3;
  }
  return hash != 0 ? hash : 1;
}

bool el_keys_are_same(const el_keys *a, const el_keys *b) {
  return a->key_len == b->key_len && memcmp(a->text, b->text, a->key_len) == 0;
}

el_bytes el_keys_queue_prefix(const el_keys *keys) {
  return (el_bytes){keys->text, keys->name_len + 1u};
}
