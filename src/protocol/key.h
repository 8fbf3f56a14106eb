/* key: the keys of a lock in etcd: their layout, their modes, and how one is parsed.
 *
 * The layout is shared with Go's concurrency.Mutex, `etcdctl lock` and the v3lock service: key =
 * name "/" lease ID in lower-case hex, not padded (client/v3/concurrency/key.go). All other keys
 * below "name/" are user data: a lock "a/b" does not block a lock "a".
 *
 *   name/<hex>               a lock
 *   name/<hex>-<slot>        a multi-lock: one such key below each of its names
 *   name/read/<hex>          a read lock
 *   name/write/<hex>         a write lock
 *   name/permit/<hex>.<n>    a permit of a semaphore with n permits, n in hex
 *   name/write/read/<rev>    marker: the writer whose key has create_revision <rev> only reads now
 *   name/write/order/<rev>   marker: orders the guarded writes of that writer (write_order.h)
 *
 * If one client has several keys in a queue, "-<slot>" tells them apart. Go's RWMutex recipe uses
 * the read and write layout with a time in nanoseconds in place of the lease ID
 * (contrib/recipes/key.go).
 *
 * The permits of a semaphore are a queue of their own, shared by all n of that name. The key
 * contains n because n decides whether the key holds a permit (conflict_matrix.h), and so that one
 * client can have keys with several n.
 *
 * Markers exist because the keys of readers and writers must never be written again: Go's recipe
 * does not wait for a key with a mod_revision above that of its own key. A marker's name ends with
 * the create_revision, in hex, of the key that it belongs to, so it is never taken for the marker
 * of another hold. Earlier versions wrote "name/write/order/<rev>-<n>" and
 * "name/read/order/<rev>-<n>". No marker is an entry of a queue, because no lock name may end in
 * "/write/order" or "/read/order".
 */
#ifndef ETCDLOCK_PROTOCOL_KEY_H
#define ETCDLOCK_PROTOCOL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

enum {
  EL_NAME_MAX = 512, /* bytes of a lock name with its prefix */
  /* "/write/order/" is the longest infix; hex, "-", hex, ".", hex. */
  EL_KEY_MAX = EL_NAME_MAX + 13 + 16 + 9 + 5,
  EL_KEY_SIZE = EL_KEY_MAX + 1,
  EL_PERMITS_MAX = 1000,
  /* Names of one multi-lock. Each takes two of the 128 operations that etcd allows by default. */
  EL_MULTI_MAX = 60
};

/* el_mode is the mode of a lock, or the kind of a marker key. */
typedef enum el_mode {
  EL_MODE_LOCK,
  EL_MODE_READ,
  EL_MODE_WRITE,
  EL_MODE_PERMIT,
  EL_MODE_MULTI, /* the last mode; its keys may look like those of
                    EL_MODE_LOCK */
  /* Marker keys: no lock modes, but keys of the same form. */
  EL_MARKER_DOWNGRADED,
  EL_MARKER_WRITE_ORDER
} el_mode;

/* The modes' names in the API, ended by NULL. */
extern const char *const el_mode_names[];

/* el_queue_key identifies one key of a queue, without the lock name. */
typedef struct el_queue_key {
  int64_t rev;        /* create_revision: the order in the queue; 0: there is
                         no such key */
  int64_t lease;      /* lease ID in the key; in a marker: create_revision of
                         its owner's key */
  uint32_t slot;      /* tells several keys of one lease apart; 0: the first
                         or only one */
  uint16_t permits;   /* EL_MODE_PERMIT: number of permits; else 0 */
  uint8_t name_index; /* EL_MODE_MULTI: index of the lock name, from 0; else
                         0 */
  el_mode mode : 7;   /* shares a byte with is_timed: a client keeps many of
                         these */
  bool is_timed : 1;  /* |lease| is a time in nanoseconds (Go's RWMutex
                         recipe) */
} el_queue_key;

/* el_queue_key_is_attached tells whether the key |key|, attached to |lease| in etcd (0: to none),
 * is an entry of its queue. It is if |lease| is the lease that the key contains, as for all keys of
 * Go's concurrency package, etcdctl and v3lock; any other key below a lock's name is user data. A
 * key that contains a time is an entry if it is attached to any lease. @thread any */
bool el_queue_key_is_attached(const el_queue_key *key, int64_t lease);

/* el_queue_keys_are_equal tells whether |a| and |b| are the same key, created by the same put.
 * @thread any */
bool el_queue_keys_are_equal(const el_queue_key *a, const el_queue_key *b);

/* el_key_write writes the key |key| of the lock |name| to |out| (EL_KEY_SIZE bytes) and returns its
 * length. @thread any */
size_t el_key_write(char *out, el_bytes name, const el_queue_key *key);

/* el_key_write_prefix writes the common prefix of all keys of |mode| of the lock |name| to |out|
 * (EL_KEY_SIZE bytes) and returns its length. @thread any */
size_t el_key_write_prefix(char *out, el_bytes name, el_mode mode);

/* el_key_parse tells whether |key| has the form of an entry in the queue of |name|. If so, it fills
 * |parsed| except for |rev|. @thread any */
bool el_key_parse(const char *name, size_t name_len, const char *key,
                  size_t key_len, el_queue_key *parsed);

/* el_key_name returns the lock name, a part of |key|, if |key| has the form of an entry or of a
 * marker, and fills |parsed| except for |rev|. Empty: it has neither form. @thread any */
el_bytes el_key_name(el_bytes key, el_queue_key *parsed);

/* el_key_is_entry tells whether |key|, attached to |lease| (0: to none), is an entry in the queue
 * of |name|: see el_queue_key_is_attached. It fills |parsed| except for |rev| if |key| has the form
 * of an entry. @thread any */
bool el_key_is_entry(el_bytes name, el_bytes key, int64_t lease,
                     el_queue_key *parsed);

/* el_key_is_detached tells whether |key| has the form of an entry but is none, because it is
 * attached to |lease|, which is not the lease that it contains. @thread any */
bool el_key_is_detached(el_bytes key, int64_t lease);

/* el_marker_downgraded returns the marker of a writer that only reads from now on; |rev| is the
 * create_revision of the writer's key. @thread any */
el_queue_key el_marker_downgraded(int64_t rev);

/* el_marker_write_order returns the marker that orders the guarded writes of a writer; |rev| is the
 * create_revision of the writer's key. @thread any */
el_queue_key el_marker_write_order(int64_t rev);

/* el_mode_has_markers tells whether a key of |mode| may have markers. @thread any */
bool el_mode_has_markers(el_mode mode);

/* el_mode_has_more_keys tells whether an entry of |mode| may have keys in etcd besides its first
 * one: markers, or the keys of a multi-lock. @thread any */
bool el_mode_has_more_keys(el_mode mode);

/* el_key_reserved_suffix returns the suffix for which |name| is refused as a lock name: its keys
 * could be those of another name. Empty: |name| is allowed. @thread any */
el_bytes el_key_reserved_suffix(el_bytes name);

/* el_list_pop removes the first element of |list|, whose elements are separated by NUL, and returns
 * it. Empty: the list was empty. @thread any */
el_bytes el_list_pop(el_bytes *list);

/* el_keys holds the keys of one entry: one key, or for EL_MODE_MULTI one key for each name, as a
 * linked list. */
typedef struct el_keys el_keys;
struct el_keys {
  char *text;                 /* the key, which begins with the lock name */
  el_keys *next;              /* the key of the next name; NULL: none */
  int64_t lease;              /* ID of the lease that the key is attached to */
  uint16_t name_len, key_len; /* bytes of the lock name, of the key */
  uint16_t permits;           /* as in el_queue_key */
  uint8_t mode;               /* el_mode */
};

/* el_keys_init sets |keys| to the key |key| of the lock |name|, which has at most EL_NAME_MAX bytes
 * and is copied. For EL_MODE_MULTI |name| is a list of up to EL_MULTI_MAX names: see el_list_pop.
 * @thread any */
void el_keys_init(el_keys *keys, el_bytes name, const el_queue_key *key);

/* el_keys_copy sets |keys| to a copy of |from|. @thread any */
void el_keys_copy(el_keys *keys, const el_keys *from);

/* el_keys_destroy frees what |keys| points to. @thread any */
void el_keys_destroy(el_keys *keys);

/* el_keys_name returns the lock name of the first key. @thread any */
el_bytes el_keys_name(const el_keys *keys);

/* el_keys_own returns the text of the first key. @thread any */
el_bytes el_keys_own(const el_keys *keys);

/* el_keys_at returns the list from the |i|-th key on, from 0. @thread any */
const el_keys *el_keys_at(const el_keys *keys, size_t i);

/* el_keys_count returns the number of keys. @thread any */
size_t el_keys_count(const el_keys *keys);

/* el_keys_queue_hash returns a hash, never 0, of the first key's lock name. @thread any */
uint64_t el_keys_queue_hash(const el_keys *keys);

/* el_keys_are_same tells whether |a| and |b| belong to the same entry: their first keys are equal.
 * @thread any */
bool el_keys_are_same(const el_keys *a, const el_keys *b);

/* el_keys_queue_prefix returns "name/", with which all keys of the first key's queue begin.
 * @thread any */
el_bytes el_keys_queue_prefix(const el_keys *keys);

#endif
