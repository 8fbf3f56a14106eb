/* key: how a lock's name becomes keys in etcd, and back. */
#include "rules/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const char *const infix[] = {
    [EL_MODE_LOCK] = "/",
    [EL_MODE_READ] = "/read/",
    [EL_MODE_WRITE] = "/write/",
};

size_t el_key_write(char *out, const char *name, size_t name_len, el_mode mode,
                    int64_t lease) {
  memcpy(out, name, name_len);
  return name_len + (size_t)snprintf(out + name_len, EL_KEY_SIZE - name_len,
                                     "%s%llx", infix[mode],
                                     (unsigned long long)lease);
}

/* Lower-case hex without leading zeros, or 0: what "%x" prints. */
static uint64_t parse_hex(const char *text, size_t len) {
  uint64_t number = 0;
  if (len == 0 || len > 16 || text[0] == '0') return 0;
  for (size_t i = 0; i < len; i++) {
    const char *digits = "0123456789abcdef";
    const char *digit = memchr(digits, text[i], 16);
    if (digit == NULL) return 0;
    number = number << 4 | (uint64_t)(digit - digits);
  }
  return number;
}

bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_place *place) {
  if (key_len <= name_len || memcmp(key, name, name_len) != 0) return false;
  for (el_mode mode = EL_MODE_LOCK; mode <= EL_MODE_WRITE; mode++) {
    size_t skip = name_len + strlen(infix[mode]);
    if (key_len > skip &&
        memcmp(key + name_len, infix[mode], strlen(infix[mode])) == 0) {
      uint64_t lease = parse_hex(key + skip, key_len - skip);
      if (lease != 0) {
        place->lease = (int64_t)lease;
        place->mode = mode;
        return true;
      }
    }
  }
  return false;
}

el_bytes el_key_name(el_bytes key, int64_t lease) {
  char own[EL_KEY_SIZE];
  size_t len = el_key_write(own, "", 0, EL_MODE_LOCK, lease); /* "/<hex>" */
  bool is_own = key.len > len && key.len - len <= EL_NAME_MAX &&
                memcmp(key.data + key.len - len, own, len) == 0;
  return is_own ? (el_bytes){key.data, key.len - len} : (el_bytes){0};
}

/* ---- one place in one queue ---- */

void el_keys_init(el_keys *keys, el_bytes name, int64_t lease) {
  char own[EL_KEY_SIZE];
  size_t len = el_key_write(own, name.data, name.len, EL_MODE_LOCK, lease);
  keys->text = el_alloc(len + name.len + 1);
  keys->name_len = (uint16_t)name.len;
  keys->key_len = (uint16_t)len;
  keys->lease = lease;
  memcpy(keys->text, own, len);
  memcpy(keys->text + len, name.data, name.len);
  keys->text[len + name.len] = '/' + 1;
}

void el_keys_destroy(el_keys *keys) { free(keys->text); }

el_bytes el_keys_name(const el_keys *keys) {
  return (el_bytes){keys->text, keys->name_len};
}

el_bytes el_keys_own(const el_keys *keys) {
  return (el_bytes){keys->text, keys->key_len};
}

bool el_keys_are_same(const el_keys *a, const el_keys *b) {
  return a->key_len == b->key_len && memcmp(a->text, b->text, a->key_len) == 0;
}

void el_keys_range(const el_keys *keys, el_bytes *from, el_bytes *to) {
  *from = (el_bytes){keys->text, keys->name_len + 1u};
  *to = (el_bytes){keys->text + keys->key_len, keys->name_len + 1u};
}
