/* process: checks whether this process can use gRPC: forks and resource limits. */
#include "base/process.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"

/* ---- forks ---- */

/* Both are written only in a child, directly after the fork, when it has one thread. */
static unsigned fork_generation;
static bool is_grpc_unusable;

static atomic_bool is_grpc_used;

static void on_fork_in_child(void) {
  fork_generation++;
  is_grpc_unusable = is_grpc_unusable || atomic_load(&is_grpc_used);
}

static void install_fork_handler(void) {
  pthread_atfork(NULL, NULL, on_fork_in_child);
}

unsigned el_fork_generation(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install_fork_handler);
  return fork_generation;
}

bool el_process_use_grpc(void) {
  el_fork_generation(); /* installs the fork handler */
  if (is_grpc_unusable) return false;
  atomic_store(&is_grpc_used, true);
  return true;
}

/* ---- limits ----
 *
 * has_threads and has_descriptors acquire threads and descriptors, and give them back. What is left
 * cannot be computed: a process cannot always read the limits of its control group, nor how much of
 * a limit other processes use. */

enum { TRIED_MAX = 64, STACK_MIN_KIB = 256 /* gRPC crashes with 64 KiB */ };

static bool has_descriptors(int n, el_error *err) {
  int opened[TRIED_MAX];
  int n_opened = 0, failure = 0;
  struct rlimit limit = {0};
  while (n_opened < n && (opened[n_opened] = eventfd(0, EFD_CLOEXEC)) >= 0) {
    n_opened++;
  }
  if (n_opened < n) failure = errno;
  for (int i = 0; i < n_opened; i++) {
    close(opened[i]);
  }
  if (n_opened == n) return true;
  getrlimit(RLIMIT_NOFILE, &limit);
  el_error_set(err, EL_NOMEM,
               "a client needs %d free descriptors, but only %d can be opened: "
               "%s (the limit is %lld: RLIMIT_NOFILE, ulimit -n)",
               n, n_opened, el_errno_text(failure), (long long)limit.rlim_cur);
  return false;
}

static bool has_stack_size(el_error *err) {
  pthread_attr_t attr;
  size_t size = 0;
  pthread_getattr_default_np(&attr);
  pthread_attr_getstacksize(&attr, &size);
  pthread_attr_destroy(&attr);
  if (size >= STACK_MIN_KIB * 1024) return true;
  el_error_set(err, EL_NOMEM,
               "a client needs threads with stacks of %d KiB, but threads get "
               "%zu KiB (RLIMIT_STACK, ulimit -s)",
               STACK_MIN_KIB, size / 1024);
  return false;
}

/* trial is shared by the threads that has_threads starts. */
typedef struct trial {
  sem_t allocated;      /* posted by each thread after its first malloc */
  pthread_rwlock_t end; /* the threads live as long as has_threads holds it */
} trial;

/* Runs in each thread of a trial. It calls malloc because gRPC's threads do: the first malloc of a
 * new thread reserves 64 MiB of address space if it can, and then the stack of the next thread may
 * not fit any more. (Threads that start later reuse the space that was reserved here.) */
static void *run_trial_thread(void *arg) {
  trial *shared = arg;
  void *volatile memory = malloc(1);
  free(memory);
  sem_post(&shared->allocated);
  pthread_rwlock_rdlock(&shared->end);
  pthread_rwlock_unlock(&shared->end);
  return NULL;
}

/* The address space that must be left beside the threads: gRPC allocates memory before its last
 * threads start. */
enum { SPARE_BYTES = 32 * 1024 * 1024 };

/* Waits for the malloc of each thread only if the address space is limited, because the wait takes
 * long on a busy machine. */
static bool has_threads(int n, el_error *err) {
  pthread_t threads[TRIED_MAX];
  trial shared = {.end = PTHREAD_RWLOCK_INITIALIZER};
  struct rlimit space = {0};
  int n_started = 0, failure = 0;
  void *spare = mmap(NULL, SPARE_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare == MAP_FAILED) failure = errno;
  getrlimit(RLIMIT_AS, &space);
  sem_init(&shared.allocated, 0, 0);
  pthread_rwlock_wrlock(&shared.end);
  while (spare != MAP_FAILED && n_started < n &&
         (failure = el_thread_start(&threads[n_started], run_trial_thread,
                                    &shared)) == 0) {
    n_started++;
    while (space.rlim_cur != RLIM_INFINITY && sem_wait(&shared.allocated) != 0)
      ;
  }
  pthread_rwlock_unlock(&shared.end);
  for (int i = 0; i < n_started; i++) {
    pthread_join(threads[i], NULL);
  }
  sem_destroy(&shared.allocated);
  if (spare != MAP_FAILED) munmap(spare, SPARE_BYTES);
  if (n_started == n) return true;
  el_error_set(err, EL_NOMEM,
               "a client needs %d threads, but only %d can be started: %s (the "
               "limits are ulimit -u, RLIMIT_NPROC, pids.max of the control "
               "group, ulimit -v, RLIMIT_AS, and memory for their stacks)",
               n, n_started, el_errno_text(failure));
  return false;
}

bool el_process_has_room(int n_threads, int n_descriptors, el_error *err) {
  return has_stack_size(err) && has_descriptors(n_descriptors, err) &&
         has_threads(n_threads, err);
}
