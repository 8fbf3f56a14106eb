/* limits: whether the process has room for what gRPC starts. They are tried rather
 * than computed: limits of a control group, of memory and of others' use can't be
 * asked for. */
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/thread.h"

enum { TRIED_MAX = 32 };

static bool allow_descriptors(int n, el_error *err) {
  int opened[TRIED_MAX];
  int got = 0, why = 0;
  struct rlimit limit = {0};
  while (got < n &&
         (opened[got] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
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
               n, got, strerror(why), (long long)limit.rlim_cur);
  return false;
}

/* Stays until it may lock what its maker holds. */
static void *stay(void *arg) {
  pthread_mutex_lock(arg);
  pthread_mutex_unlock(arg);
  return NULL;
}

static bool allow_threads(int n, el_error *err) {
  pthread_t started[TRIED_MAX];
  pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
  int got = 0, why = 0;
  pthread_mutex_lock(&mu);
  while (got < n && (why = el_thread_start(&started[got], stay, &mu)) == 0) {
    got++;
  }
  pthread_mutex_unlock(&mu);
  for (int i = 0; i < got; i++) {
    pthread_join(started[i], NULL);
  }
  if (got == n) return true;
  el_error_set(err, EL_NOMEM,
               "a client needs %d threads, and %d can be started: %s (the "
               "limits are ulimit -u, RLIMIT_NPROC, pids.max of the control "
               "group, and memory for their stacks)",
               n, got, strerror(why));
  return false;
}

bool el_limits_allow(int n_threads, int n_descriptors, el_error *err) {
  return allow_descriptors(n_descriptors, err) && allow_threads(n_threads, err);
}
