/* counters: what a client has done so far, and has now. */
#include "lock/counters.h"

void el_counters_add(el_counters *counters, size_t offset, int64_t n) {
  atomic_fetch_add_explicit(&counters->values[offset / sizeof(int64_t)], n,
                            memory_order_relaxed);
}

void el_counters_read(const el_counters *counters, el_stats *stats) {
  int64_t *field = (int64_t *)(void *)stats;
  for (size_t i = 0; i < sizeof *stats / sizeof *field; i++) {
    field[i] = atomic_load_explicit(&counters->values[i], memory_order_relaxed);
  }
}
