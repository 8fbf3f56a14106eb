/* background: functions that run in threads of their own. */
#include "base/background.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/process.h"
#include "base/thread.h"

typedef struct task {
  void (*run)(void *arg);
  void *arg;
} task;

static struct {
  pthread_mutex_t mu; /* guards n_running; no other mutex is locked under it */
  pthread_cond_t ended;
  unsigned n_running; /* threads that have not ended */
  /* the fork generation of the process that runs these threads */
  atomic_uint fork_generation;
} background = {.mu = PTHREAD_MUTEX_INITIALIZER,
                .ended = PTHREAD_COND_INITIALIZER};

static void count_running(int change) {
  pthread_mutex_lock(&background.mu);
  background.n_running += (unsigned)change;
  atomic_store(&background.fork_generation, el_fork_generation());
  pthread_cond_broadcast(&background.ended);
  pthread_mutex_unlock(&background.mu);
}

static void *run_task(void *arg) {
  task *started = arg;
  pthread_setname_np(pthread_self(), "etcdlock-bg");
  started->run(started->arg);
  free(started);
  count_running(-1);
  return NULL;
}

bool el_background_start(void (*run)(void *arg), void *arg) {
  task *started = malloc(sizeof *started);
  pthread_t thread;
  if (started == NULL) return false;
  *started = (task){run, arg};
  count_running(1);
  if (el_thread_start(&thread, run_task, started) != 0) {
    count_running(-1);
    free(started);
    return false;
  }
  pthread_detach(thread);
  return true;
}

void el_background_wait(void) {
  /* A forked child does not wait, because it has none of its parent's threads. It must not lock the
   * mutex either, because one of those threads may have held the mutex at the fork. */
  if (atomic_load(&background.fork_generation) != el_fork_generation()) return;
  pthread_mutex_lock(&background.mu);
  while (background.n_running > 0) {
    pthread_cond_wait(&background.ended, &background.mu);
  }
  pthread_mutex_unlock(&background.mu);
}
