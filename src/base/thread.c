/* thread: threads of ours, which no signal of the program's may reach. */
#include "base/thread.h"

#include <signal.h>

/* A thread inherits the mask of the one that makes it. */
int el_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg) {
  sigset_t all, before;
  int rc;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  rc = pthread_create(thread, NULL, run, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}
