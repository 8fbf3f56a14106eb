/* key: the keys of a lock in etcd: their layout, their modes, and how a key is parsed.
 *
 * The layout is shared with Go's concurrency.Mutex, `etcdctl lock` and the v3lock service: key =
 * name "/" lease ID in lower-case hex, not padded (client/v3/concurrency/mutex.go). Other modes add
 * the forms below. Keys below "name/" with another form are user data. So a lock "a/b" does not
 * block a lock "a".
 *
 *   name/<hex>               a lock
 *   name/<hex>-<slot>        a multi-lock: one such key below each of its names; if <slot> is
 *                            80000001 or more (hex): a lock
 *   name/read/<hex>          a read lock
 *   name/write/<hex>         a write lock
 *   name/permit/<hex>.<n>    a permit of a semaphore with n permits, n in hex
 *   name/write/read/<rev>    marker: the writer whose key has create_revision <rev> only reads now
 *   name/write/order/<rev>   marker: orders the guarded writes of that writer (write_order.h)
 *
 * A key of any mode has "-<slot>" after <hex> if otherwise its name would be the name of another
 * key of its client, or of user data. Go's RWMutex recipe uses the layout of read and write locks,
 * but with a time in nanoseconds in place of the lease ID (recipes/key.go).
 *
 * All permits of one name form one queue, whatever their n; keys of other modes do not count in it.
 * A permit's key contains n for two reasons: n decides whether the key holds a permit
 * (conflict_matrix.h), and one client can have keys with different values of n.
 *
 * Markers exist because the key of a reader or a writer must not be written again after its
 * creation. Go's recipe does not wait for a key whose mod_revision is above that of its own key, so
 * it would ignore a key that is written again. A marker's name ends with the create_revision, in
 * hex, of the key to which the marker belongs. So it is never taken for the marker of another key.
 * Earlier versions of etcdlock wrote "name/write/order/<rev>-<n>" and "name/read/order/<rev>-<n>".
 * A marker is never an entry of a queue, because no lock name may end in "/read", "/write",
 * "/write/order" or "/read/order" (el_key_reserved_suffix).
 */
#ifndef ETCDLOCK_PROTOCOL_KEY_H
#define ETCDLOCK_PROTOCOL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

enum {
  EL_NAME_MAX = 512, /* bytes of a lock name, with the client's prefix */
  /* The longest infix, "/write/order/"; then in hex the lease, "-" and the slot, "." and the number
   * of permits. */
  EL_KEY_MAX = EL_NAME_MAX + 13 + 16 + 9 + 5,
  EL_KEY_SIZE = EL_KEY_MAX + 1,
  EL_PERMITS_MAX = 1000,
  /* The largest number of names of a multi-lock. Each name takes two of the 128 operations that
   * etcd allows in a transaction by default. */
  EL_MULTI_MAX = 60
};

/* el_mode is the mode of a lock, or the kind of a marker key. */
typedef enum el_mode {
  EL_MODE_LOCK,
  EL_MODE_READ,
  EL_MODE_WRITE,
  EL_MODE_PERMIT,
  /* The last lock mode. Its keys always have a slot: without one, they would look like keys of
   * EL_MODE_LOCK. */
  EL_MODE_MULTI,
  /* Kinds of marker keys. They are no lock modes, but their keys have the same form. */
  EL_MARKER_DOWNGRADED,
  EL_MARKER_WRITE_ORDER
} el_mode;

/* The names of the lock modes in the API, ended by NULL. */
extern const char *const el_mode_names[];

/* el_queue_key identifies one key of a queue, without the lock name. */
typedef struct el_queue_key {
  /* create_revision: the order in the queue; 0: there is no such key */
  int64_t rev;
  /* lease ID that the key contains; with |is_timed|: the time; in a marker: create_revision of the
   * key to which the marker belongs */
  int64_t lease;
  /* tells several keys of one lease apart; 0: the key has none */
  uint32_t slot;
  uint16_t permits; /* EL_MODE_PERMIT: number of permits; else 0 */
  /* the predecessor of a multi-lock: index of the lock name whose queue contains it; else 0 */
  uint8_t name_index;
  /* 7 bits, so that |mode| and |is_timed| share a byte: a client keeps many el_queue_keys */
  el_mode mode : 7;
  /* |lease| is a time in nanoseconds (Go's RWMutex recipe) */
  bool is_timed : 1;
} el_queue_key;

/* el_queue_key_is_attached tells whether |key|, which is attached to |lease| in etcd (0: to none),
 * is an entry of its queue. A key is an entry if it is attached to the lease that it contains, as
 * are all keys of Go's concurrency package, etcdctl and v3lock. A key that contains a time is an
 * entry if it is attached to any lease. Otherwise the key is user data. @thread any */
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

/* el_key_name returns the lock name in |key|, and fills |parsed| except for |rev|, if |key| has the
 * form of an entry or of a marker. Otherwise it returns an empty name. The name points into |key|.
 * @thread any */
el_bytes el_key_name(el_bytes key, el_queue_key *parsed);

/* el_key_is_entry tells whether |key|, attached to |lease| (0: to none), is an entry in the queue
 * of |name|, as el_queue_key_is_attached decides. If |key| has the form of an entry, it fills
 * |parsed| except for |rev|. @thread any */
bool el_key_is_entry(el_bytes name, el_bytes key, int64_t lease,
                     el_queue_key *parsed);

/* el_key_is_detached tells whether |key|, attached to |lease| (0: to none), has the form of an
 * entry but is user data, as el_queue_key_is_attached decides. @thread any */
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

/* el_key_reserved_suffix returns the suffix because of which |name| is not allowed as a lock name:
 * keys of such a name could be taken for keys of a shorter name. Empty: |name| is allowed.
 * @thread any */
el_bytes el_key_reserved_suffix(el_bytes name);

/* el_list_pop removes the first element of |list|, whose elements are separated by NUL, and returns
 * that element. It returns an empty element if |list| is empty. @thread any */
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

/* el_keys_init sets |keys| to the key |key| of the lock |name|. The name has at most EL_NAME_MAX
 * bytes and is copied. For EL_MODE_MULTI, |name| is a list of up to EL_MULTI_MAX names (see
 * el_list_pop), and |keys| gets one key for each name. @thread any */
void el_keys_init(el_keys *keys, el_bytes name, const el_queue_key *key);

/* el_keys_set_slot puts the slot |slot| into |keys|. @thread any */
void el_keys_set_slot(el_keys *keys, uint32_t slot);

/* el_keys_copy sets |keys| to a copy of |from|. @thread any */
void el_keys_copy(el_keys *keys, const el_keys *from);

/* el_keys_destroy frees what |keys| points to. @thread any */
void el_keys_destroy(el_keys *keys);

/* el_keys_name returns the lock name of the first key. @thread any */
el_bytes el_keys_name(const el_keys *keys);

/* el_keys_own returns the text of the first key. @thread any */
el_bytes el_keys_own(const el_keys *keys);

/* el_keys_at returns the part of the list that begins with key number |i|, counted from 0.
 * @thread any */
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
