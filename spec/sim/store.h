/* sim store: the state of etcd, as known to its quorum.
 *
 * The store holds the keys with their revisions and leases. It also keeps every change since the
 * history began, so that a member that lags can answer from an old state. Messages, members and
 * faults are in other files. */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "key_id.h"

/* A key below "name/". |owner| is the lease ID in the key, or for a marker the create_revision in
 * the key. If |owner| is 0 or less, the key belongs to another lock, whose name begins with
 * "name/". */
typedef struct key {
  int key_id; /* key_id.h */
  int64_t owner;
  int64_t create_rev; /* 0: there is no such key at the moment */
  int64_t mod_rev;
  int64_t lease; /* lease to which the key is attached; 0: none */
  /* create_rev that the key had when an admin last changed it */
  int64_t sabotaged_rev;
  int64_t sabotaged_ms; /* when the admin changed it */
} key;

/* The largest number of keys of other locks below one name. */
enum { NESTED_MAX = 3 };

static inline bool key_is_nested(const key *it) { return it->owner <= 0; }

/* The number of lease IDs, from 1, that are never granted. They occur in keys of user data that
 * have the form of entries. */
enum { DATA_LEASES = 2 };

static inline bool key_is_data(const key *it) {
  return it->owner > 0 && it->owner <= DATA_LEASES &&
         !key_id_is_marker(it->key_id);
}

/* Tells whether the key is an entry: attached to the lease that it contains. */
static inline bool key_is_entry(const key *it) {
  return it->create_rev != 0 && !key_is_nested(it) && it->lease == it->owner &&
         !key_id_is_marker(it->key_id);
}

/* Tells whether the key has the form of an entry but is user data. */
static inline bool key_is_detached(const key *it) {
  return it->create_rev != 0 && !key_is_nested(it) &&
         !key_id_is_marker(it->key_id) && !key_is_entry(it);
}

typedef struct lease {
  int64_t ttl_ms;
  int64_t granted_at; /* 0: not yet */
  int64_t expires_at; /* from this time on the store may end it */
  bool alive;
  bool sabotaged; /* an admin has revoked it */
  int late_ms;    /* how long after expires_at the store notices */
} lease;

typedef struct change {
  int64_t rev;
  int index; /* of the key in |keys| */
  key before, after;
  bool released; /* deleted by its client */
} change;

typedef struct store store;
typedef void (*store_changed)(void *arg, const change *what);

struct store {
  int64_t rev;
  bool in_batch; /* until store_end_batch all writes get one revision */
  bool is_begun; /* the batch has written, so its revision is in use */
  uint64_t term;
  /* what the member that answers omits in the answers to reads, because of its version */
  bool omits_leases, omits_more;
  key *keys;
  int n_keys, room_keys;
  uint32_t data[DATA_MAX]; /* the values that holders have written */
  change *changes;
  int n_changes, room_changes;
  lease *leases;
  int n_leases, room_leases;
  key *old; /* scratch for old states */
  int room_old;
  store_changed changed; /* called after each change of a key */
  void *arg;
};

/* The keys as of |rev|; valid until the next change or view. */
typedef struct view {
  int64_t rev;
  const key *keys;
  int n;
  bool omits_leases, omits_more; /* as in the store */
} view;

/* Empties |st|, keeping its memory. */
void store_reset(store *st, store_changed changed, void *arg);

void store_destroy(store *st);

/* Returns an unused lease ID. */
int64_t store_new_id(store *st);

/* Returns the lease |id|; NULL if this ID was never given out. */
lease *store_find_lease(const store *st, int64_t id);

void store_grant(store *st, int64_t id, int64_t ttl_ms, int64_t now_ms,
                 int late_ms);

/* Ends the lease and deletes its keys. Returns false if the lease was not alive. */
bool store_revoke(store *st, int64_t id);

/* Elects a new leader: the term and the revision grow, and each live lease gets its full TTL
 * again. */
void store_elect(store *st, int64_t now_ms);

/* Returns the key, even if it is deleted; NULL if it never existed. */
const key *store_find(const store *st, int key_id, int64_t owner);

/* Returns the create_revision of the key; 0: it does not exist. */
int64_t store_create_rev(const store *st, int key_id, int64_t owner);

/* Gives all writes until store_end_batch one revision. */
void store_begin_batch(store *st);

void store_end_batch(store *st);

/* Creates the key, or attaches it to another lease. */
void store_put(store *st, int key_id, int64_t owner, int64_t lease_id);

/* Puts the key, which exists, again, so that it gets a new mod_revision. */
void store_touch(store *st, int key_id, int64_t owner);

/* Writes |value| to |datum|, which is no key of a lock. */
void store_write(store *st, int datum, uint32_t value);

/* Deletes the key, as an admin does. Returns false if the key did not exist. */
bool store_delete(store *st, int key_id, int64_t owner);

/* Deletes the key, as its client does. Returns false if the key did not exist. */
bool store_release(store *st, int key_id, int64_t owner);

/* Tells whether the key of this create_revision was an entry until its client deleted it. */
bool store_was_released(const store *st, int key_id, int64_t owner,
                        int64_t create_rev);

/* Records that an admin is about to change the key. */
void store_mark_sabotaged(store *st, int key_id, int64_t owner, int64_t now_ms);

/* Tells whether an admin has changed the key of this create_revision, or ended its lease. */
bool store_is_sabotaged(const store *st, int key_id, int64_t owner,
                        int64_t create_rev);

/* Returns the keys as of |rev|, which is not above the store's revision. */
view store_view(store *st, int64_t rev);

#endif
