/* wake: who is told that a wait is over, where no thread may block in it.
 *
 * Whoever waits arms a completion with a number of its own (completion.h). When
 * the event comes, the number is pushed here. What becomes of it then is up to
 * the kind: wake_queue.h, nginx/wake_server.h.
 */
#ifndef ETCDLOCK_BASE_WAKE_H
#define ETCDLOCK_BASE_WAKE_H

#include <stdint.h>

typedef struct el_wake el_wake;

/* What a kind of wake has as a member. */
struct el_wake {
  /* Takes |id|; on any thread, so it must not block, nor take a lock under which
   * a completion is told of something. */
  void (*push)(el_wake *wake, uint64_t id);
};

#endif
