/* lock_names: the local queues of one client, by the names of their locks. It finds the queue of a
 * lock, and the queues that conflict with a given queue. I/O thread only. */
#ifndef ETCDLOCK_LOCK_LOCK_NAMES_H
#define ETCDLOCK_LOCK_LOCK_NAMES_H

#include <stdbool.h>

#include "base/hash.h"
#include "protocol/key.h"

struct el_local_queue;

/* el_queue_name is one of the names of a local queue; embedded in el_local_queue. The queue of a
 * multi-lock has several. The first queue of each name is in a hash table, which is NULL while
 * it is empty. */
typedef struct el_queue_name el_queue_name;
struct el_queue_name {
  struct el_local_queue *queue;
  el_queue_name *next; /* another queue of the same name; NULL: none */
  UT_hash_handle hh;
};

/* el_lock_names_add adds |queue| to the queues of |name|, by |place|. |name| must outlive |place|.
 * @thread io */
void el_lock_names_add(el_queue_name **names, el_bytes name,
                       el_queue_name *place, struct el_local_queue *queue);

/* el_lock_names_remove removes the queue of |place| from the queues of that name. @thread io */
void el_lock_names_remove(el_queue_name **names, el_queue_name *place);

/* el_lock_names_find returns the local queue to which the key |where| of the lock |name| belongs;
 * NULL: there is none. @thread io */
struct el_local_queue *el_lock_names_find(const el_queue_name *names,
                                          el_bytes name,
                                          const el_queue_key *where);

/* el_lock_names_visit calls |visit| for each other queue of the same name that conflicts with the
 * queue of |place|, until a call returns true. Returns whether a call did. @thread io */
bool el_lock_names_visit(const el_queue_name *names, const el_queue_name *place,
                         bool (*visit)(struct el_local_queue *queue));

#endif
