/* L0 fork_guard: knows whether this process is a forked child. */
#include "fork_guard.h"

#include <pthread.h>

static unsigned generation; /* changes only in a new child's only thread */

static void on_child(void) { generation++; }

static void install(void) { pthread_atfork(NULL, NULL, on_child); }

unsigned el_fork_generation(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  return generation;
}
