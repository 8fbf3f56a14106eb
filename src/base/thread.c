/* thread: threads with all signals blocked, and waits with a time limit. */
#include "base/thread.h"

void el_thread_block_signals(sigset_t *previous) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, previous);
}

/* A thread inherits the signal mask of the thread that creates it. */
int el_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg) {
  sigset_t previous;
  int rc;
  el_thread_block_signals(&previous);
  rc = pthread_create(thread, NULL, run, arg);
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  return rc;
}

void el_cond_init(pthread_cond_t *cond) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(cond, &attr);
  pthread_condattr_destroy(&attr);
}

struct timespec el_cond_deadline(int64_t ms) {
  struct timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  deadline.tv_sec += (time_t)(ms / 1000);
  deadline.tv_nsec += (long)(ms % 1000) * 1000000L;
  if (deadline.tv_nsec >= 1000000000L) {
    deadline.tv_sec++;
    deadline.tv_nsec -= 1000000000L;
  }
  return deadline;
}
