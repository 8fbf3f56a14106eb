/* limits: whether the process has room for what gRPC starts. They are tried rather
 * than computed: limits of a control group, of memory and of others' use can't be
 * asked for. */
#include "base/limits.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/plain_locale.h"
#include "base/thread.h"

enum { TRIED_MAX = 32 };

/* gRPC crashes with stacks of 64 KiB. */
enum { STACK_MIN_KIB = 256 };

static bool allow_descriptors(int n, el_error *err) {
  int opened[TRIED_MAX];
  int got = 0, why = 0;
  struct rlimit limit = {0};
  while (got < n && (opened[got] = eventfd(0, EFD_CLOEXEC)) >= 0) {
    got++;
  }
  if (got < n) why = errno;
  for (int i = 0; i < got; i++) {
    close(opened[i]);
  }
  if (got == n) return true;
  getrlimit(RLIMIT_NOFILE, &limit);
  el_error_set(err, EL_NOMEM,
               "a client needs %d free descriptors, and there are %d: %s (this "
               "process may have %lld, RLIMIT_NOFILE, ulimit -n)",
               n, got, el_errno_text(why), (long long)limit.rlim_cur);
  return false;
}

static bool allow_stacks(el_error *err) {
  pthread_attr_t attr;
  size_t size = 0;
  pthread_getattr_default_np(&attr);
  pthread_attr_getstacksize(&attr, &size);
  pthread_attr_destroy(&attr);
  if (size >= STACK_MIN_KIB * 1024) return true;
  el_error_set(err, EL_NOMEM,
               "a client needs threads with stacks of %d KiB, and they get %zu "
               "KiB (RLIMIT_STACK, ulimit -s)",
               STACK_MIN_KIB, size / 1024);
  return false;
}

/* What the threads of a trial share. */
typedef struct trial {
  sem_t has_memory;
  pthread_mutex_t mu; /* they stay until they can lock it */
} trial;

/* malloc reserves 64 MiB of address space for each new thread if it can. Later threads
 * reuse that, but the stack of the next one may not fit any more. */
static void *stay(void *arg) {
  trial *all = arg;
  void *volatile memory = malloc(1);
  free(memory);
  sem_post(&all->has_memory);
  pthread_mutex_lock(&all->mu);
  pthread_mutex_unlock(&all->mu);
  return NULL;
}

static bool allow_threads(int n, el_error *err) {
  pthread_t started[TRIED_MAX];
  trial all = {.mu = PTHREAD_MUTEX_INITIALIZER};
  int got = 0, why = 0;
  sem_init(&all.has_memory, 0, 0);
  pthread_mutex_lock(&all.mu);
  while (got < n && (why = el_thread_start(&started[got], stay, &all)) == 0) {
    while (sem_wait(&all.has_memory) != 0) {
    }
    got++;
  }
  pthread_mutex_unlock(&all.mu);
  for (int i = 0; i < got; i++) {
    pthread_join(started[i], NULL);
  }
  sem_destroy(&all.has_memory);
  if (got == n) return true;
  el_error_set(err, EL_NOMEM,
               "a client needs %d threads, and %d can be started: %s (the "
               "limits are ulimit -u, RLIMIT_NPROC, pids.max of the control "
               "group, ulimit -v, RLIMIT_AS, and memory for their stacks)",
               n, got, el_errno_text(why));
  return false;
}

bool el_limits_allow(int n_threads, int n_descriptors, el_error *err) {
  return allow_stacks(err) && allow_descriptors(n_descriptors, err) &&
         allow_threads(n_threads, err);
}
