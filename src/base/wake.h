/* wake: completions for a program that must not block: numbers in, one
 * descriptor that can be polled.
 *
 * Whoever waits arms a completion with a number of its own (completion.h). When
 * the event comes, the number is pushed here, and the descriptor becomes
 * readable until the numbers are taken. So one descriptor serves any number of
 * waits.
 */
#ifndef ETCDLOCK_BASE_WAKE_H
#define ETCDLOCK_BASE_WAKE_H

#include <stddef.h>
#include <stdint.h>

typedef struct el_wake el_wake;

/* NULL if there is no memory or no descriptor to be had. @thread any */
el_wake *el_wake_new(void);

/* Nobody may push any more. NULL is ignored. @thread any */
void el_wake_free(el_wake *wake);

/* Readable while numbers are there; negative once it is shut. @thread lua */
int el_wake_fd(const el_wake *wake);

/* Closes the descriptor, which nobody may poll any more; numbers can still be
 * taken. @thread lua */
void el_wake_shut(el_wake *wake);

/* Adds |id|. @thread any */
void el_wake_push(el_wake *wake, uint64_t id);

/* Takes up to |max| numbers, the oldest first, and returns how many; if there
 * are more, the descriptor stays readable. @thread any */
size_t el_wake_take(el_wake *wake, uint64_t *ids, size_t max);

#endif
