/* completion: tells other threads that events have occurred.
 *
 * A completion holds a set of events, bits that its user defines. An event stays set until it is
 * cleared. A thread waits for an event in el_completion_wait. A thread that must not block arms an
 * el_wake instead, which is told when the event is set.
 *
 * A thread that has seen an event can read all that was written before el_completion_complete set
 * the event, because both threads lock the same mutex.
 */
#ifndef ETCDLOCK_BASE_COMPLETION_H
#define ETCDLOCK_BASE_COMPLETION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* el_wake is the interface of an object that is told which waits have ended. The object, an
 * el_wake_queue (wake_queue.h) or an el_wake_server (nginx/wake_server.h), contains an el_wake as a
 * member. */
typedef struct el_wake el_wake;
struct el_wake {
  /* Reports that the wait |id| has ended. It runs on any thread, normally under the mutex of a
   * completion. So it must not block, nor lock a mutex that a thread may hold when it calls
   * el_completion_complete. */
  void (*push)(el_wake *wake, uint64_t id);
};

struct el_armed_wake;

/* el_completion is a set of events that threads wait for. Any thread may use
 * it. */
typedef struct el_completion {
  pthread_mutex_t mu;  /* guards the rest; el_wake.push is called under it */
  pthread_cond_t cond; /* signalled when |events| grows */
  unsigned events;     /* bits: the events that are set */
  unsigned n_armed;    /* length of |armed| */
  /* the wakes to tell when an event is set; NULL if there are none */
  struct el_armed_wake *armed;
} el_completion;

/* el_completion_init initializes |completion| with no event set. @thread any */
void el_completion_init(el_completion *completion);

/* el_completion_destroy frees what |completion| holds. No thread may wait for it. @thread any */
void el_completion_destroy(el_completion *completion);

/* el_completion_complete sets |events|, ends the waits for these events, and tells the wakes that
 * are armed with them. To set an event again has no effect. @thread any @locks completion->mu */
void el_completion_complete(el_completion *completion, unsigned events);

/* el_completion_clear unsets |events|. @thread any @locks completion->mu */
void el_completion_clear(el_completion *completion, unsigned events);

/* el_completion_arm has |id| pushed to |wake| once, when |event| is set.
 * Returns false, and pushes nothing, if |event| is set already. |wake| must
 * live until the push or el_completion_disarm.
 * @thread any @locks completion->mu */
bool el_completion_arm(el_completion *completion, unsigned event, el_wake *wake,
                       uint64_t id);

/* el_completion_disarm undoes el_completion_arm with |event| and |id|. It does nothing if |id| has
 * been pushed. @thread any @locks completion->mu */
void el_completion_disarm(el_completion *completion, unsigned event,
                          uint64_t id);

/* el_completion_has returns whether |event| is set.
 * @thread any @locks completion->mu */
bool el_completion_has(el_completion *completion, unsigned event);

/* el_completion_wait blocks until |event| is set, for at most |timeout_ms| milliseconds; 0 does not
 * block. Returns whether |event| is set. A signal does not end the wait. So a caller that must
 * react to Ctrl-C waits for a short time, again and again. @thread any @locks completion->mu */
bool el_completion_wait(el_completion *completion, unsigned event,
                        int64_t timeout_ms);

#endif
