/* sim store: what etcd holds, as its quorum knows it.
 *
 * Keys with their revisions and leases, and every change since the beginning,
 * so that a member that lags can be asked for an old state. Messages, members
 * and faults are not here: what happens in the store has happened.
 */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "key_id.h"

/* A key below "name/". |owner| is the lease in the key's own name; if it isn't
 * above 0, the key belongs to a lock "name/..." and doesn't stand in the queue. */
typedef struct key {
  int key_id; /* which of the owner's places: key_id.h */
  int64_t owner;
  int64_t create_rev; /* 0: there is no such key at the moment */
  int64_t mod_rev;
  int64_t lease;         /* that it hangs on; 0: none */
  int64_t sabotaged_rev; /* the create_rev of the last one an admin touched */
  int64_t sabotaged_ms;  /* and when */
} key;

/* Keys of other locks below each name, so many at most. */
enum { NESTED_MAX = 3 };

static inline bool key_is_nested(const key *it) { return it->owner <= 0; }

/* So many lease ids, from 1, are never granted. They stand in keys of user data that have the form
 * of entries. */
enum { DATA_LEASES = 2 };

static inline bool key_is_data(const key *it) {
  return it->owner > 0 && it->owner <= DATA_LEASES &&
         !key_id_is_note(it->key_id);
}

/* Is it there, and of the lease that its name contains? Else it is user data. */
static inline bool key_is_entry(const key *it) {
  return it->create_rev != 0 && !key_is_nested(it) && it->lease == it->owner &&
         !key_id_is_note(it->key_id);
}

/* Has it the form of an entry, although it is user data? */
static inline bool key_is_detached(const key *it) {
  return it->create_rev != 0 && !key_is_nested(it) &&
         !key_id_is_note(it->key_id) && !key_is_entry(it);
}

typedef struct lease {
  int64_t ttl_ms;
  int64_t granted_at; /* 0: not yet */
  int64_t expires_at; /* the store may end it from now on */
  bool alive;
  bool sabotaged; /* an admin ended it */
  int late_ms;    /* how long after expires_at the store notices */
} lease;

typedef struct change {
  int64_t rev;
  int index; /* of the key */
  key before, after;
  bool released; /* its owner has deleted it */
} change;

typedef struct store store;
typedef void (*store_changed)(void *arg, const change *what);

struct store {
  int64_t rev;
  bool in_batch; /* what is written now has one revision */
  bool is_begun; /* which it has already */
  uint64_t term;
  key *keys;
  int n_keys, room_keys;
  uint32_t data[DATA_MAX]; /* what holders have written */
  change *changes;
  int n_changes, room_changes;
  lease *leases;
  int n_leases, room_leases;
  key *old; /* scratch for old states */
  int room_old;
  store_changed changed; /* told after each change of a key */
  void *arg;
};

/* The keys as of |rev|. Good until the next change or view. */
typedef struct view {
  int64_t rev;
  const key *keys;
  int n;
} view;

/* Empties |st|, keeping its memory. */
void store_reset(store *st, store_changed changed, void *arg);

void store_destroy(store *st);

/* A lease id that nobody has used. */
int64_t store_new_id(store *st);

/* NULL if nobody ever chose |id|. */
lease *store_find_lease(const store *st, int64_t id);

void store_grant(store *st, int64_t id, int64_t ttl_ms, int64_t now_ms,
                 int late_ms);

/* Ends the lease and deletes its keys; false if it wasn't alive. */
bool store_revoke(store *st, int64_t id);

/* A new leader: a new term, and every lease gets its full time again. */
void store_elect(store *st, int64_t now_ms);

/* The key, whether it exists at the moment or not; NULL: it never did. */
const key *store_find(const store *st, int key_id, int64_t owner);

/* Its create_revision, 0 if there is no such key. */
int64_t store_create_rev(const store *st, int key_id, int64_t owner);

/* What is written from now on has one revision, until store_end_batch. */
void store_begin_batch(store *st);

void store_end_batch(store *st);

/* Creates the key or moves it to another lease. */
void store_put(store *st, int key_id, int64_t owner, int64_t lease_id);

/* Gives the key, which is there, another mod_revision. */
void store_touch(store *st, int key_id, int64_t owner);

/* What a holder writes, which is no key of a lock. */
void store_write(store *st, int datum, uint32_t value);

/* An admin's; false if there was none. */
bool store_delete(store *st, int key_id, int64_t owner);

/* Its owner's; false if there was none. */
bool store_release(store *st, int key_id, int64_t owner);

/* Was the key of this create_revision an entry until its owner deleted it? */
bool store_was_released(const store *st, int key_id, int64_t owner,
                        int64_t create_rev);

/* Notes that an admin is about to touch the key. */
void store_mark_sabotaged(store *st, int key_id, int64_t owner, int64_t now_ms);

/* Whether an admin took the key of this create_revision, or its lease. */
bool store_is_sabotaged(const store *st, int key_id, int64_t owner,
                        int64_t create_rev);

/* The keys as of |rev|, which is not above the store's. */
view store_view(store *st, int64_t rev);

#endif
