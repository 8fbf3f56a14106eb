/* key: how a lock's name becomes keys in etcd, and back. */
#include "rules/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { TIME_LEN = 19 }; /* of nanoseconds since 1970, until 2286 */

static const char *const infixes[] = {
    [EL_MODE_LOCK] = "/",
    [EL_MODE_READ] = "/read/",
    [EL_MODE_WRITE] = "/write/",
    [EL_MODE_PERMIT] = "/permit/",
    [EL_MODE_MULTI] = "/",
    [EL_NOTE_DOWNGRADED] = "/write/read/",
    [EL_NOTE_WRITE_ORDER] = "/write/order/",
};

enum { INFIXES = sizeof infixes / sizeof *infixes };

/* Notes of earlier versions are below such a name, and look like keys of its queue. */
static const el_bytes former_end = {"/read/order", sizeof "/read/order" - 1};

const char *const el_modes[] = {
    [EL_MODE_LOCK] = "lock",   [EL_MODE_READ] = "read",
    [EL_MODE_WRITE] = "write", [EL_MODE_PERMIT] = "permit",
    [EL_MODE_MULTI] = "multi", NULL,
};

bool el_place_is_attached(const el_place *place, int64_t lease) {
  return place->is_timed ? lease != 0 : lease == place->lease;
}

bool el_place_is_same(const el_place *a, const el_place *b) {
  return a->rev == b->rev && a->lease == b->lease && a->slot == b->slot &&
         a->mode == b->mode && a->name == b->name;
}

size_t el_key_write_stem(char *out, el_bytes name, el_mode mode) {
  size_t len = strlen(infixes[mode]);
  memcpy(out, name.data, name.len);
  memcpy(out + name.len, infixes[mode], len);
  return name.len + len;
}

size_t el_key_write(char *out, el_bytes name, const el_place *place) {
  size_t len = el_key_write_stem(out, name, place->mode);
  len += (size_t)snprintf(out + len, EL_KEY_SIZE - len,
                          place->is_timed ? "%llu" : "%llx",
                          (unsigned long long)place->lease);
  if (place->slot != 0) {
    len += (size_t)snprintf(out + len, EL_KEY_SIZE - len, "-%x", place->slot);
  }
  if (place->permits != 0) {
    len +=
        (size_t)snprintf(out + len, EL_KEY_SIZE - len, ".%x", place->permits);
  }
  return len;
}

/* A number as printf writes it, of at most |digits_max| digits; 0: it is none. */
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

/* Cuts the number behind |mark| off |text|, if there is one, which must then be
 * sound. */
static bool cut_number(el_bytes *text, char mark, uint64_t *number) {
  const char *at = memchr(text->data, mark, text->len);
  *number = 0;
  if (at == NULL) return true;
  *number = parse_number(
      (el_bytes){at + 1, text->len - (size_t)(at + 1 - text->data)}, 16, 8);
  text->len = (size_t)(at - text->data);
  return *number != 0;
}

/* The lease, and perhaps a slot and how many permits there are. */
static bool parse_lease(el_bytes text, el_place *place) {
  uint64_t permits, slot;
  if (!cut_number(&text, '.', &permits) || !cut_number(&text, '-', &slot) ||
      permits > EL_PERMITS_MAX ||
      (permits != 0) != (place->mode == EL_MODE_PERMIT)) {
    return false;
  }
  if (place->mode == EL_MODE_LOCK && slot != 0) place->mode = EL_MODE_MULTI;
  place->permits = (uint16_t)permits;
  place->slot = (uint32_t)slot;
  place->lease = (int64_t)parse_number(text, 16, 16);
  return place->lease != 0;
}

/* What stands behind the stem. */
static bool parse_who(el_bytes text, el_place *place) {
  place->is_timed = false;
  place->name = 0;
  if (text.len == 0) return false;
  if (parse_lease(text, place)) return true;
  place->slot = 0;
  place->permits = 0;
  if (text.len != TIME_LEN ||
      (place->mode != EL_MODE_READ && place->mode != EL_MODE_WRITE)) {
    return false;
  }
  place->is_timed = true;
  place->lease = (int64_t)parse_number(text, 10, TIME_LEN);
  return place->lease != 0;
}

bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_place *place) {
  if (key_len <= name_len || memcmp(key, name, name_len) != 0) return false;
  for (el_mode mode = EL_MODE_LOCK; mode < EL_MODE_MULTI; mode++) {
    size_t len = strlen(infixes[mode]), skip = name_len + len;
    place->mode = mode;
    if (key_len > skip && memcmp(key + name_len, infixes[mode], len) == 0 &&
        parse_who((el_bytes){key + skip, key_len - skip}, place)) {
      return true;
    }
  }
  return false;
}

static bool ends_with(el_bytes text, const char *tail, size_t len) {
  return text.len >= len && memcmp(text.data + text.len - len, tail, len) == 0;
}

/* The mode, or kind of note, whose stem |stem| is. */
static el_mode mode_of(el_bytes stem) {
  size_t mode = INFIXES - 1;
  while (mode == EL_MODE_MULTI ||
         !ends_with(stem, infixes[mode], strlen(infixes[mode]))) {
    mode--; /* down to that of a plain lock, which is a slash */
  }
  return (el_mode)mode;
}

el_bytes el_key_name(el_bytes key, el_place *place) {
  const char *slash = memrchr(key.data, '/', key.len);
  el_bytes stem = {key.data,
                   slash != NULL ? (size_t)(slash + 1 - key.data) : 0};
  el_mode mode;
  if (stem.len == 0) return (el_bytes){0};
  mode = place->mode = mode_of(stem);
  if (!parse_who((el_bytes){slash + 1, key.len - stem.len}, place)) {
    return (el_bytes){0};
  }
  stem.len -= strlen(infixes[mode]);
  return stem;
}

bool el_key_is_detached(el_bytes key, int64_t lease) {
  el_place place;
  return el_key_name(key, &place).len > 0 && place.mode <= EL_MODE_MULTI &&
         !el_place_is_attached(&place, lease);
}

el_bytes el_key_reserved_end(el_bytes name) {
  for (size_t i = 0; i < INFIXES; i++) {
    size_t len = strlen(infixes[i]) - 1; /* without its last slash */
    if (len > 0 && ends_with(name, infixes[i], len)) {
      return (el_bytes){infixes[i], len};
    }
  }
  return ends_with(name, former_end.data, former_end.len) ? former_end
                                                          : (el_bytes){0};
}

/* ---- one place in one queue ---- */

static void init_one(el_keys *keys, el_bytes name, const el_place *place) {
  char own[EL_KEY_SIZE];
  size_t len = el_key_write(own, name, place);
  keys->text = el_strndup(own, len);
  keys->next = NULL;
  keys->name_len = (uint16_t)name.len;
  keys->key_len = (uint16_t)len;
  keys->mode = (uint8_t)place->mode;
  keys->permits = place->permits;
  keys->lease = place->lease;
}

el_bytes el_list_cut(el_bytes *list) {
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

void el_keys_init(el_keys *keys, el_bytes name, const el_place *place) {
  if (place->mode != EL_MODE_MULTI) {
    init_one(keys, name, place);
    return;
  }
  init_one(keys, el_list_cut(&name), place);
  while (name.len > 0) {
    keys = keys->next = el_alloc(sizeof *keys);
    init_one(keys, el_list_cut(&name), place);
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

uint64_t el_keys_queue(const el_keys *keys) {
  uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
  for (size_t i = 0; i < keys->name_len; i++) {
    hash = (hash ^ (unsigned char)keys->text[i]) * 0x100000001b3;
  }
  return hash != 0 ? hash : 1;
}

bool el_keys_are_same(const el_keys *a, const el_keys *b) {
  return a->key_len == b->key_len && memcmp(a->text, b->text, a->key_len) == 0;
}

el_bytes el_keys_below(const el_keys *keys) {
  return (el_bytes){keys->text, keys->name_len + 1u};
}
