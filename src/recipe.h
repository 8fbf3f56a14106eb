/* L3 recipe: the four transactions of which a lock is made.
 *
 * Turns an entry's request into a Txn on the keys of one queue, and the answer
 * back into an entry's event.
 */
#ifndef ETCDLOCK_RECIPE_H
#define ETCDLOCK_RECIPE_H

#include "entry.h"
#include "kv.h"
#include "lock_key.h"

/* One place in one queue: the name, and our key in it. */
typedef struct el_queue {
  char name[EL_NAME_MAX + 1];
  size_t name_len;
  char from[EL_NAME_MAX + 2]; /* "name/": all keys of the queue ... */
  char to[EL_NAME_MAX + 2];   /* "name0": ... are before this one */
  int64_t lease;
  char key[EL_KEY_SIZE]; /* ours */
  size_t key_len;
} el_queue;

/* |name| has at most EL_NAME_MAX bytes. @thread any */
void el_queue_init(el_queue *queue, const char *name, size_t name_len,
                   int64_t lease);

/* All keys below the name. @thread any */
void el_queue_range(const el_queue *queue, el_bytes *from, el_bytes *to);

/* Sends the request of |action|. |rev| is the create_revision of our key, 0 if
 * unknown; |value| is what an enqueue or a try puts. @thread io */
void el_recipe_send(el_auth *auth, const el_queue *queue,
                    const el_entry_action *action, int64_t rev, el_bytes value,
                    int64_t timeout_ms, el_txn_done done, void *arg);

/* Fills |event| from the |answer| to the request of |action|. @thread io */
void el_recipe_read(const el_queue *queue, const el_entry_action *action,
                    const el_txn_answer *answer, el_entry_event *event);

#endif
