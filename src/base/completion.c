/* completion: what has become of something, from one thread to others. */
#include "base/completion.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

struct el_arm {
  el_wake *wake;
  uint64_t id;
  unsigned event;
};

void el_completion_init(el_completion *completion) {
  pthread_mutex_init(&completion->mu, NULL);
  el_cond_init(&completion->cond);
  completion->events = 0;
  completion->arms = NULL;
  completion->n_arms = 0;
}

void el_completion_destroy(el_completion *completion) {
  pthread_cond_destroy(&completion->cond);
  pthread_mutex_destroy(&completion->mu);
  free(completion->arms);
}

/* Takes the arm at |i| out; the order of the others doesn't matter. */
static void drop_arm(el_completion *completion, unsigned i) {
  completion->arms[i] = completion->arms[--completion->n_arms];
  if (completion->n_arms == 0) {
    free(completion->arms);
    completion->arms = NULL;
  }
}

void el_completion_complete(el_completion *completion, unsigned events) {
  pthread_mutex_lock(&completion->mu);
  completion->events |= events;
  pthread_cond_broadcast(&completion->cond);
  for (unsigned i = completion->n_arms; i-- > 0;) {
    if ((completion->arms[i].event & events) != 0) {
      el_wake *wake = completion->arms[i].wake;
      wake->push(wake, completion->arms[i].id);
      drop_arm(completion, i);
    }
  }
  pthread_mutex_unlock(&completion->mu);
}

void el_completion_clear(el_completion *completion, unsigned events) {
  pthread_mutex_lock(&completion->mu);
  completion->events &= ~events;
  pthread_mutex_unlock(&completion->mu);
}

bool el_completion_arm(el_completion *completion, unsigned event, el_wake *wake,
                       uint64_t id) {
  bool armed;
  pthread_mutex_lock(&completion->mu);
  armed = (completion->events & event) == 0;
  if (armed) {
    completion->arms = el_realloc(
        completion->arms, (completion->n_arms + 1) * sizeof *completion->arms);
    completion->arms[completion->n_arms++] = (struct el_arm){wake, id, event};
  }
  pthread_mutex_unlock(&completion->mu);
  return armed;
}

void el_completion_disarm(el_completion *completion, unsigned event,
                          uint64_t id) {
  pthread_mutex_lock(&completion->mu);
  for (unsigned i = 0; i < completion->n_arms; i++) {
    if (completion->arms[i].id == id && completion->arms[i].event == event) {
      drop_arm(completion, i);
      break;
    }
  }
  pthread_mutex_unlock(&completion->mu);
}

bool el_completion_has(el_completion *completion, unsigned event) {
  bool has;
  pthread_mutex_lock(&completion->mu);
  has = (completion->events & event) != 0;
  pthread_mutex_unlock(&completion->mu);
  return has;
}

bool el_completion_wait(el_completion *completion, unsigned event,
                        int64_t timeout_ms) {
  struct timespec until = el_cond_deadline(timeout_ms);
  bool done;
  pthread_mutex_lock(&completion->mu);
  while ((completion->events & event) == 0 && timeout_ms > 0 &&
         pthread_cond_timedwait(&completion->cond, &completion->mu, &until) ==
             0) {
  }
  done = (completion->events & event) != 0;
  pthread_mutex_unlock(&completion->mu);
  return done;
}
