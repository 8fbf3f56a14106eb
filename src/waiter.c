/* L0 waiter: a one-shot signal from one thread to another. */
#include "waiter.h"

#include <stdlib.h>
#include <time.h>

#include "alloc.h"

struct el_arm {
  el_wake *wake;
  uint64_t id;
};

void el_waiter_init(el_waiter *w) {
  pthread_condattr_t attr;
  pthread_mutex_init(&w->mu, NULL);
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&w->cond, &attr);
  pthread_condattr_destroy(&attr);
  w->done = false;
  w->arms = NULL;
  w->n_arms = 0;
}

void el_waiter_destroy(el_waiter *w) {
  pthread_cond_destroy(&w->cond);
  pthread_mutex_destroy(&w->mu);
  free(w->arms);
}

void el_waiter_complete(el_waiter *w) {
  pthread_mutex_lock(&w->mu);
  w->done = true;
  pthread_cond_broadcast(&w->cond);
  for (size_t i = 0; i < w->n_arms; i++) {
    el_wake_push(w->arms[i].wake, w->arms[i].id);
  }
  w->n_arms = 0;
  pthread_mutex_unlock(&w->mu);
}

bool el_waiter_arm(el_waiter *w, el_wake *wake, uint64_t id) {
  bool armed;
  pthread_mutex_lock(&w->mu);
  armed = !w->done;
  if (armed) {
    w->arms = el_realloc(w->arms, (w->n_arms + 1) * sizeof *w->arms);
    w->arms[w->n_arms++] = (struct el_arm){wake, id};
  }
  pthread_mutex_unlock(&w->mu);
  return armed;
}

void el_waiter_disarm(el_waiter *w, uint64_t id) {
  pthread_mutex_lock(&w->mu);
  for (size_t i = 0; i < w->n_arms; i++) {
    if (w->arms[i].id == id) {
      w->arms[i] = w->arms[--w->n_arms];
      break;
    }
  }
  pthread_mutex_unlock(&w->mu);
}

bool el_waiter_wait(el_waiter *w, int64_t timeout_ms) {
  struct timespec until;
  bool done;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(timeout_ms / 1000);
  until.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
  if (until.tv_nsec >= 1000000000L) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000L;
  }
  pthread_mutex_lock(&w->mu);
  while (!w->done && timeout_ms > 0 &&
         pthread_cond_timedwait(&w->cond, &w->mu, &until) == 0) {
  }
  done = w->done;
  pthread_mutex_unlock(&w->mu);
  return done;
}
