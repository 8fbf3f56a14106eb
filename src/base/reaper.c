/* reaper: finishes in a thread of its own what would stop the program for too long. */
#include "base/reaper.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/thread.h"

typedef struct job {
  void (*finish)(void *arg);
  void *arg;
} job;

static struct {
  pthread_mutex_t mu; /* guards n_running; a leaf */
  pthread_cond_t finished;
  unsigned n_running;
  atomic_uint fork_generation; /* of the process whose threads they are */
} reaper = {.mu = PTHREAD_MUTEX_INITIALIZER,
            .finished = PTHREAD_COND_INITIALIZER};

static void count(int by) {
  pthread_mutex_lock(&reaper.mu);
  reaper.n_running += (unsigned)by;
  atomic_store(&reaper.fork_generation, el_fork_generation());
  pthread_cond_broadcast(&reaper.finished);
  pthread_mutex_unlock(&reaper.mu);
}

static void *run(void *arg) {
  job *one = arg;
  pthread_setname_np(pthread_self(), "etcdlock-reaper");
  one->finish(one->arg);
  free(one);
  count(-1);
  return NULL;
}

bool el_reaper_start(void (*finish)(void *arg), void *arg) {
  job *one = malloc(sizeof *one);
  pthread_t thread;
  if (one == NULL) return false;
  *one = (job){finish, arg};
  count(1);
  if (el_thread_start(&thread, run, one) != 0) {
    count(-1);
    free(one);
    return false;
  }
  pthread_detach(thread);
  return true;
}

/* A forked child has none of its parent's threads, one of which may have held mu. */
void el_reaper_wait(void) {
  if (atomic_load(&reaper.fork_generation) != el_fork_generation()) return;
  pthread_mutex_lock(&reaper.mu);
  while (reaper.n_running > 0) {
    pthread_cond_wait(&reaper.finished, &reaper.mu);
  }
  pthread_mutex_unlock(&reaper.mu);
}
