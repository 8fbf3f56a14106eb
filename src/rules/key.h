/* key: how a lock's name becomes keys in etcd, and back.
 *
 * The layout is shared with Go's concurrency.Mutex, `etcdctl lock` and the
 * v3lock service: key = name "/" lower-case hex of the lease id, not padded
 * (client/v3/concurrency/key.go). Read/write locks add "name/read/<hex>" and
 * "name/write/<hex>". Everything else below "name/" is somebody else's: a lock
 * "a/b" doesn't block a lock "a".
 */
#ifndef ETCDLOCK_RULES_KEY_H
#define ETCDLOCK_RULES_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
  EL_NAME_MAX = 512,                 /* bytes of a lock name, its prefix too */
  EL_KEY_MAX = EL_NAME_MAX + 7 + 16, /* "/write/", hex */
  EL_KEY_SIZE = EL_KEY_MAX + 1
};

typedef enum el_mode { EL_MODE_LOCK, EL_MODE_READ, EL_MODE_WRITE } el_mode;

/* One key of a queue: whose it is and where it stands. */
typedef struct el_place {
  int64_t rev; /* create_revision: the order; 0: there is no such key */
  int64_t lease;
  el_mode mode;
} el_place;

/* Writes the key of |mode| and |lease| under |name| to |out| (EL_KEY_SIZE
 * bytes) and returns its length. @thread any */
size_t el_key_write(char *out, const char *name, size_t name_len, el_mode mode,
                    int64_t lease);

/* Tells whether |key| stands in the queue of |name|, and fills place->lease
 * and place->mode if so. @thread any */
bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_place *place);

/* The name under which |key| stands for |lease|; empty if it doesn't. A part of
 * |key|. @thread any */
el_bytes el_key_name(el_bytes key, int64_t lease);

/* One place in one queue: the name, our key, and where all keys of the queue
 * are. */
typedef struct el_keys {
  char *text; /* "name/<hex>", then "name0" */
  uint16_t name_len, key_len;
  int64_t lease;
} el_keys;

/* |name| has at most EL_NAME_MAX bytes, and is copied. @thread any */
void el_keys_init(el_keys *keys, el_bytes name, int64_t lease);

/* @thread any */
void el_keys_destroy(el_keys *keys);

/* @thread any */
el_bytes el_keys_name(const el_keys *keys);

/* Our key. @thread any */
el_bytes el_keys_own(const el_keys *keys);

/* Is it the same place? @thread any */
bool el_keys_are_same(const el_keys *a, const el_keys *b);

/* All keys below the name: from "name/" up to, exclusive, "name0".
 * @thread any */
void el_keys_range(const el_keys *keys, el_bytes *from, el_bytes *to);

#endif
