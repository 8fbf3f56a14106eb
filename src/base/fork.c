/* fork: knows whether this process is a forked child. */
#include "base/fork.h"

#include <pthread.h>
#include <stdatomic.h>

static unsigned generation; /* changes only in a new child's only thread */
static bool spoilt;         /* the same */
static atomic_bool used;

static void on_child(void) {
  generation++;
  spoilt = spoilt || atomic_load(&used);
}

static void install(void) { pthread_atfork(NULL, NULL, on_child); }

unsigned el_fork_generation(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
  return generation;
}

bool el_fork_enter(void) {
  el_fork_generation();
  if (spoilt) return false;
  atomic_store(&used, true);
  return true;
}
