/* slots: the numbers that tell apart those of one client who want several names.
 *
 * A number is used again: each key that there ever was stays in etcd's index until the
 * store is compacted, and whoever looks at a queue passes all that were ever in it. But not
 * that of a place of which some request may still be carried out in the same session (the
 * next one has another lease in its keys): of several keys the delete takes out what it
 * finds (rules/recipe.h), whosever it is.
 */
#ifndef ETCDLOCK_LOCK_SLOTS_H
#define ETCDLOCK_LOCK_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: none was taken yet. @thread io */
typedef struct el_slots {
  uint32_t last;  /* none above it was ever taken */
  uint32_t *free; /* those that can be had again; the latest is the last */
  size_t n_free, size;
} el_slots;

/* One that nobody has; not 0. @thread io */
uint32_t el_slots_take(el_slots *slots);

/* |slot| can be had again. @thread io */
void el_slots_give_back(el_slots *slots, uint32_t slot);

/* Can it be had again, so that on the lease that lives there is nothing of it in etcd?
 * @thread io */
bool el_slots_is_free(const el_slots *slots, uint32_t slot);

/* @thread io */
void el_slots_destroy(el_slots *slots);

#endif
