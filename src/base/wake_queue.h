/* wake_queue: reports ended waits through one file descriptor.
 *
 * The queue holds the IDs of ended waits. Its descriptor is readable as long as the queue is not
 * empty. So an event loop polls one descriptor for any number of waits.
 */
#ifndef ETCDLOCK_BASE_WAKE_QUEUE_H
#define ETCDLOCK_BASE_WAKE_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/completion.h"

/* el_wake_queue is a queue of IDs with its descriptor. Its own mutex guards it. */
typedef struct el_wake_queue el_wake_queue;

/* el_wake_queue_new returns an empty queue, or NULL if there is no memory or no descriptor.
 * @thread any */
el_wake_queue *el_wake_queue_new(void);

/* el_wake_queue_free frees |queue|, which may be NULL. No completion may still be armed with the
 * wake of |queue|. @thread any */
void el_wake_queue_free(el_wake_queue *queue);

/* el_wake_queue_wake returns the wake that pushes IDs into |queue|. A push locks queue->mu.
 * @thread any */
el_wake *el_wake_queue_wake(el_wake_queue *queue);

/* el_wake_queue_fd returns the descriptor to poll for reading, or a negative number after
 * el_wake_queue_close_fd. @thread lua */
int el_wake_queue_fd(const el_wake_queue *queue);

/* el_wake_queue_close_fd closes the descriptor, which must not be polled any more. IDs can still be
 * taken from the queue. @thread any */
void el_wake_queue_close_fd(el_wake_queue *queue);

/* el_wake_queue_take moves up to |max| IDs, the oldest first, to |ids| and returns their number. If
 * more IDs are left, the descriptor stays readable. @thread any @locks queue->mu */
size_t el_wake_queue_take(el_wake_queue *queue, uint64_t *ids, size_t max);

#endif
