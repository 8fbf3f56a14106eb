/* local_queue_int: the structs of the local queues, for local_queue.c and the two files that read
 * them: lock_names.c finds queues, lock_messages.c explains their state. */
#ifndef ETCDLOCK_LOCK_LOCAL_QUEUE_INT_H
#define ETCDLOCK_LOCK_LOCAL_QUEUE_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "lock/entry.h"
#include "lock/linger.h"
#include "lock/local_queue.h"
#include "lock/lock_names.h"
#include "lock/waiter.h"

typedef struct el_local_queue el_local_queue;
typedef struct el_local_entry el_local_entry;

/* el_local_entry is one entry with its waiters. */
struct el_local_entry {
  el_entry entry;
  el_local_queue *queue;
  /* the waiters that are ENQUEUED or HOLDING: at most one, or several readers */
  struct el_waiter_list waiters;
  el_waiter *releasing; /* waits for the end of its release; NULL: none */
  /* watches for contenders, from the first grant with linger to the end of the last hold or of the
   * linger; else NULL */
  el_linger *linger;
  int64_t granted_ms; /* when the handoff budget began */
  /* while the key lingers: argument of el_write_order_init for the next hold */
  int64_t mod_rev;
  /* holds that began since |granted_ms|; those that etcd's grant began count as one */
  int32_t holds;
  bool is_lingering : 1; /* the entry keeps its key without a waiter */
  /* since the entry was started, a key was seen that waits, or may wait, for this entry's key */
  bool is_contended : 1;
  bool is_downgraded : 1; /* its waiter was downgraded from writer to reader */
  TAILQ_ENTRY(el_local_entry) link;
};

/* el_local_queue is one local queue. */
struct el_local_queue {
  el_local_queues *queues;
  struct el_waiter_list waiting; /* without an entry; the first is next */
  /* in the order of their last starts */
  TAILQ_HEAD(el_local_entry_list, el_local_entry) entries;
  /* what a read has last told about the holder, for waiters that join later; NULL: nothing */
  el_seen_key *holder;
  uint32_t slot;    /* EL_MODE_MULTI: as in el_queue_key */
  uint32_t held_ms; /* when a hold ended last: the low bits of el_now_ms */
  uint16_t permits; /* EL_MODE_PERMIT: number of permits */
  uint8_t mode;     /* el_mode */
  uint8_t n_names;
  bool is_changed : 1; /* el_local_queues_serve must visit it */
  /* etcd may still apply a request of an entry that was freed */
  bool has_unknown_outcome : 1;
  bool has_own_slot : 1; /* no other multi-lock of this client has its slot */
  bool was_held : 1;     /* a hold has ended */
  TAILQ_ENTRY(el_local_queue) link;
  el_queue_name names[]; /* several only for a multi-lock; their text follows */
};

/* el_local_queue_session returns the session of the client of |queue|. @thread io */
el_session *el_local_queue_session(const el_local_queue *queue);

#endif
