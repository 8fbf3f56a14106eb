/* slots: the numbers that tell apart those of one client who want several names. */
#include "lock/slots.h"

#include <stdlib.h>

#include "base/alloc.h"

uint32_t el_slots_take(el_slots *slots) {
  return slots->n_free > 0 ? slots->free[--slots->n_free] : ++slots->last;
}

void el_slots_give_back(el_slots *slots, uint32_t slot) {
  if (slots->n_free == slots->size) {
    slots->size = slots->size > 0 ? 2 * slots->size : 8;
    slots->free = el_realloc(slots->free, slots->size * sizeof *slots->free);
  }
  slots->free[slots->n_free++] = slot;
}

bool el_slots_is_free(const el_slots *slots, uint32_t slot) {
  for (size_t i = 0; i < slots->n_free; i++) {
    if (slots->free[i] == slot) return true;
  }
  return false;
}

void el_slots_destroy(el_slots *slots) { free(slots->free); }
