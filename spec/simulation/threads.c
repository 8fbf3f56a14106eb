/* simulation threads: replaces functions that do not work in virtual time, by the linker's option
 * --wrap: of threads, mutexes, conditions, signal masks, the locale, the clock, random numbers, and
 * two of the product. */
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"
#include "fiber.h"
#include "tls/tls.h"
#include "world.h"

/* ---- threads ---- */

typedef struct thread_start {
  void *(*run)(void *arg);
  void *arg;
} thread_start;

static void run_thread(void *arg) {
  thread_start start = *(thread_start *)arg;
  free(arg);
  start.run(start.arg);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *arg), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *arg), void *arg) {
  thread_start *start = malloc(sizeof *start);
  if (start == NULL) abort();
  (void)attr;
  *start = (thread_start){run, arg};
  *thread = (pthread_t)fiber_start(process_self(), run_thread, start);
  return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result) {
  (void)result;
  fiber_join((fiber *)thread);
  return 0;
}

int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread) {
  fiber_detach((fiber *)thread);
  return 0;
}

pthread_t __wrap_pthread_self(void);
pthread_t __wrap_pthread_self(void) { return (pthread_t)fiber_self(); }

int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_setname_np(pthread_t thread, const char *name) {
  (void)thread;
  (void)name;
  return 0;
}

/* No signal comes in the simulation. */
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
  (void)how;
  (void)set;
  if (before != NULL) sigemptyset(before);
  return 0;
}

/* All threads of the simulation are fibers of one thread, which has one locale. */
locale_t __wrap_uselocale(locale_t locale);
locale_t __wrap_uselocale(locale_t locale) {
  if (locale != NULL) freelocale(locale);
  return NULL;
}

/* ---- mutexes and conditions ---- */

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  process *of = process_self();
  if (of != NULL && of->preempted > 0 && world_chance(of->preempted)) {
    fiber_yield();
  }
  while (pthread_mutex_trylock(mutex) != 0) {
    fiber_wait(mutex, INT64_MAX);
  }
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  __real_pthread_mutex_unlock(mutex);
  fiber_wake(mutex, 1);
  return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
  __wrap_pthread_mutex_unlock(mutex);
  fiber_wait(cond, INT64_MAX);
  return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until) {
  int64_t shown_us = (int64_t)until->tv_sec * WORLD_S + until->tv_nsec / 1000;
  bool is_signalled;
  __wrap_pthread_mutex_unlock(mutex);
  is_signalled =
      fiber_wait(cond, process_when_us(process_of_clock(), shown_us));
  __wrap_pthread_mutex_lock(mutex);
  return is_signalled ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond) {
  fiber_wake(cond, 1);
  return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond) {
  fiber_wake(cond, fibers_alive());
  return 0;
}

/* ---- clock and random numbers ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  const process *of = process_of_clock();
  int64_t us = of != NULL ? process_clock_us(of) : world_now_us();
  (void)clock;
  now->tv_sec = (time_t)(us / WORLD_S);
  now->tv_nsec = (long)(us % WORLD_S) * 1000;
  return 0;
}

ssize_t __wrap_getrandom(void *buffer, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *buffer, size_t n, unsigned flags) {
  unsigned char *bytes = buffer;
  (void)flags;
  for (size_t i = 0; i < n; i++) {
    bytes[i] = (unsigned char)world_random(0, 255);
  }
  return (ssize_t)n;
}

/* ---- what needs the real system ---- */

/* The limits of the simulator's own process say nothing about a simulated one. */
bool __wrap_el_process_has_room(int n_threads, int n_descriptors,
                                el_error *err);
bool __wrap_el_process_has_room(int n_threads, int n_descriptors,
                                el_error *err) {
  (void)n_threads;
  (void)n_descriptors;
  (void)err;
  return true;
}

/* The diagnosis speaks to a real server. Here it finds no cause. */
bool __wrap_el_tls_diagnose(el_tls *tls, const char *address, bool is_unix,
                            int timeout_ms, int stop_fd, el_error *err);
bool __wrap_el_tls_diagnose(el_tls *tls, const char *address, bool is_unix,
                            int timeout_ms, int stop_fd, el_error *err) {
  (void)tls;
  (void)address;
  (void)is_unix;
  (void)stop_fd;
  (void)err;
  fiber_sleep(world_random(0, timeout_ms) * WORLD_MS);
  return false;
}
