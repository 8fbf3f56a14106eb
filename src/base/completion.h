/* completion: tells other threads that events have occurred.
 *
 * A completion holds a set of events, bits that its user defines. An event
 * stays set until it is cleared. A thread waits for an event in
 * el_completion_wait, or has its end reported to an el_wake if it must not
 * block.
 *
 * What a thread wrote before el_completion_complete can be read by a thread
 * that has seen the event, because both lock the same mutex.
 */
#ifndef ETCDLOCK_BASE_COMPLETION_H
#define ETCDLOCK_BASE_COMPLETION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* el_wake is the interface of an object that is told which waits have ended:
 * el_wake_queue (wake_queue.h), el_wake_server (nginx/wake_server.h). The
 * object contains an el_wake as a member. */
typedef struct el_wake el_wake;
struct el_wake {
  /* Reports that the wait |id| has ended. Runs on any thread, under the
   * completion's mutex: it must not block, nor take a mutex under which a
   * completion is completed. */
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
  struct el_armed_wake *armed; /* wakes to tell of an event; NULL if none */
} el_completion;

/* el_completion_init initializes |completion| with no event set. @thread any */
void el_completion_init(el_completion *completion);

/* el_completion_destroy frees what |completion| holds. No thread may be
 * waiting. @thread any */
void el_completion_destroy(el_completion *completion);

/* el_completion_complete sets |events|, ends the waits for them and tells the
 * wakes that are armed with them. Setting an event again has no effect.
 * @thread any @locks completion->mu */
void el_completion_complete(el_completion *completion, unsigned events);

/* el_completion_clear unsets |events|. @thread any @locks completion->mu */
void el_completion_clear(el_completion *completion, unsigned events);

/* el_completion_arm has |id| pushed to |wake| once, when |event| is set.
 * Returns false, and pushes nothing, if |event| is set already. |wake| must
 * live until the push or el_completion_disarm.
 * @thread any @locks completion->mu */
bool el_completion_arm(el_completion *completion, unsigned event, el_wake *wake,
                       uint64_t id);

/* el_completion_disarm undoes el_completion_arm with |event| and |id|, if |id|
 * has not been pushed. @thread any @locks completion->mu */
void el_completion_disarm(el_completion *completion, unsigned event,
                          uint64_t id);

/* el_completion_has returns whether |event| is set.
 * @thread any @locks completion->mu */
bool el_completion_has(el_completion *completion, unsigned event);

/* el_completion_wait blocks until |event| is set, at most |timeout_ms|
 * milliseconds; 0 does not block. Returns whether |event| is set. Signals do
 * not end the wait: a caller that wants Ctrl-C to work waits repeatedly for a
 * short time. @thread any @locks completion->mu */
bool el_completion_wait(el_completion *completion, unsigned event,
                        int64_t timeout_ms);

#endif
