/* key: how a lock's name becomes keys in etcd, and back.
 *
 * The layout is shared with Go's concurrency.Mutex, `etcdctl lock` and the
 * v3lock service: key = name "/" lower-case hex of the lease id, not padded
 * (client/v3/concurrency/key.go). Read/write locks add "name/read/<hex>" and
 * "name/write/<hex>", and so does Go's RWMutex recipe, with a time in nanoseconds
 * instead of the lease (contrib/recipes/key.go). Where a client has several places in
 * one queue, "-<hex>" tells them apart. Everything else below "name/" is somebody
 * else's: a lock "a/b" doesn't block a lock "a".
 *
 * Who locks several names at once has a plain key in the queue of each, with a slot that
 * he has for himself: "name/<hex>-<slot>".
 *
 * The permits of a semaphore are "name/permit/<hex>.<n>", where n, in hex, is the
 * number of permits that the client of the key names. They have a queue of their own, which
 * locks on the name don't see. Keys with different n share the queue; n is in the key
 * because it tells whether that key holds a permit (rules/kind.h), and so that a client can
 * have keys with several n.
 *
 * Go's recipe passes whoever's mod_revision is above its own: so the key of a reader or
 * writer is never written again, and what changes in a write hold stands in a note beside
 * it, whose name ends with the create_revision of that key, in hex: so the note of one
 * hold is never taken for another's. "name/write/read/<rev>" says that its writer only
 * reads any more; on "name/write/order/<rev>" hangs the order of its writes
 * (rules/write_order.h). Earlier versions wrote "name/write/order/<rev>-<n>" and
 * "name/read/order/<rev>-<n>". These are in no queue, because no name may end in
 * "/write/order" or "/read/order".
 */
#ifndef ETCDLOCK_RULES_KEY_H
#define ETCDLOCK_RULES_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

enum {
  EL_NAME_MAX = 512, /* bytes of a lock name, its prefix too */
  EL_KEY_MAX = EL_NAME_MAX + 13 + 16 + 9 + 5, /* "/write/order/" is the longest
                                                 stem; hex, "-", hex, ".", hex */
  EL_KEY_SIZE = EL_KEY_MAX + 1,
  EL_PERMITS_MAX = 1000,
  /* Names at once: two operations each, of the 128 that etcd takes. */
  EL_MULTI_MAX = 60
};

typedef enum el_mode {
  EL_MODE_LOCK,
  EL_MODE_READ,
  EL_MODE_WRITE,
  EL_MODE_PERMIT,
  EL_MODE_MULTI, /* the last: its keys look like those of EL_MODE_LOCK */
  /* No modes, but notes, whose keys are of the same form. */
  EL_NOTE_DOWNGRADED,
  EL_NOTE_WRITE_ORDER
} el_mode;

/* The names of the modes for programs, and a NULL. */
extern const char *const el_modes[];

/* One key of a queue: whose it is and where it stands. */
typedef struct el_place {
  int64_t rev;   /* create_revision: the order; 0: there is no such key */
  int64_t lease; /* of a note: the create_revision of the key that it is for */
  uint32_t slot; /* which of that lease's places; 0 where there is only one */
  uint16_t permits; /* EL_MODE_PERMIT: how many there are; else 0 */
  uint8_t name; /* EL_MODE_MULTI: under which of the names, from 0; else 0 */
  el_mode mode : 7;  /* a byte with the next: there are many of these */
  bool is_timed : 1; /* a time stands in the key, in lease, and no lease */
} el_place;

/* Is the key of |place| an entry in its queue if it is attached to |lease| (0: to none)? Only if
 * that is the lease that its name contains. All keys of Go's concurrency package, etcdctl and
 * v3lock are; any other key below a lock's name is user data. A key of Go's RWMutex recipe contains
 * a time: it is an entry if it is attached to any lease. @thread any */
bool el_place_is_attached(const el_place *place, int64_t lease);

/* Is it the same key? @thread any */
bool el_place_is_same(const el_place *a, const el_place *b);

/* Writes the key of |place| under |name| to |out| (EL_KEY_SIZE bytes) and returns its
 * length. @thread any */
size_t el_key_write(char *out, el_bytes name, const el_place *place);

/* Writes what the keys of |mode| under |name| have in common, and returns its length.
 * @thread any */
size_t el_key_write_stem(char *out, el_bytes name, el_mode mode);

/* Tells whether |key| has the form of an entry in the queue of |name|, and fills all of |place| but
 * rev if so. @thread any */
bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_place *place);

/* The name in whose queue |key| stands, or that it is a note below, if its form is that of either;
 * else it is empty. A part of |key|. Fills all of |place| but rev. @thread any */
el_bytes el_key_name(el_bytes key, el_place *place);

/* Does |key| have the form of an entry, although it is none, being attached to |lease|?
 * @thread any */
bool el_key_is_detached(el_bytes key, int64_t lease);

/* What |name| ends with that no name may end with, because its keys could be another
 * name's then; empty: it may. @thread any */
el_bytes el_key_reserved_end(el_bytes name);

/* Takes the first of a list off it, which has a NUL between one and the next. Empty:
 * there is none left. @thread any */
el_bytes el_list_cut(el_bytes *list);

/* One place in one queue: the name and our key; of several names, one for each. */
typedef struct el_keys el_keys;
struct el_keys {
  char *text; /* our key, which begins with the name */
  el_keys *next;
  int64_t lease;
  uint16_t name_len, key_len;
  uint16_t permits; /* as in el_place */
  uint8_t mode;     /* el_mode */
};

/* That of |place|; |name| has at most EL_NAME_MAX bytes, and is copied. For
 * EL_MODE_MULTI it is up to EL_MULTI_MAX of them; see el_list_cut. @thread any */
void el_keys_init(el_keys *keys, el_bytes name, const el_place *place);

/* @thread any */
void el_keys_copy(el_keys *keys, const el_keys *from);

/* @thread any */
void el_keys_destroy(el_keys *keys);

/* @thread any */
el_bytes el_keys_name(const el_keys *keys);

/* Our key. @thread any */
el_bytes el_keys_own(const el_keys *keys);

/* That under the |i|-th of the names, from 0. @thread any */
const el_keys *el_keys_at(const el_keys *keys, size_t i);

/* How many there are. @thread any */
size_t el_keys_count(const el_keys *keys);

/* A number for the queue that the first key stands in, not 0; few others have the
 * same. @thread any */
uint64_t el_keys_queue(const el_keys *keys);

/* Is it the same place? The first of the keys tells. @thread any */
bool el_keys_are_same(const el_keys *a, const el_keys *b);

/* What all keys below the name begin with: "name/". @thread any */
el_bytes el_keys_below(const el_keys *keys);

#endif
