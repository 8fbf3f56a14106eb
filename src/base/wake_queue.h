/* wake_queue: a wake for programs that poll: numbers in, one descriptor, which
 * is readable until they are taken. So one descriptor serves any number of waits.
 */
#ifndef ETCDLOCK_BASE_WAKE_QUEUE_H
#define ETCDLOCK_BASE_WAKE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/wake.h"

typedef struct el_wake_queue el_wake_queue;

/* NULL if there is no memory or no descriptor to be had. @thread any */
el_wake_queue *el_wake_queue_new(void);

/* Nobody may push any more. NULL is ignored. @thread any */
void el_wake_queue_free(el_wake_queue *queue);

/* Where its numbers are pushed, under queue->mu. @thread any */
el_wake *el_wake_queue_wake(el_wake_queue *queue);

/* Readable while numbers are there; negative once it is shut. @thread lua */
int el_wake_queue_fd(const el_wake_queue *queue);

/* Closes the descriptor, which nobody may poll any more; numbers can still be
 * taken. @thread lua */
void el_wake_queue_shut(el_wake_queue *queue);

/* Takes up to |max| numbers, the oldest first, and returns how many; if there
 * are more, the descriptor stays readable. @thread any @locks queue->mu */
size_t el_wake_queue_take(el_wake_queue *queue, uint64_t *ids, size_t max);

#endif
