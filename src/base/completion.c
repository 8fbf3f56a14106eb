/* completion: tells other threads that events have occurred. */
#include "base/completion.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

struct el_armed_wake {
  el_wake *wake;
  uint64_t id; /* pushed to |wake| when |event| is set */
  unsigned event;
};

void el_completion_init(el_completion *completion) {
  pthread_mutex_init(&completion->mu, NULL);
  el_cond_init(&completion->cond);
  completion->events = 0;
  completion->armed = NULL;
  completion->n_armed = 0;
}

void el_completion_destroy(el_completion *completion) {
  pthread_cond_destroy(&completion->cond);
  pthread_mutex_destroy(&completion->mu);
  free(completion->armed);
}

/* Removes armed[i]; the order of the others may change. */
static void remove_armed(el_completion *completion, unsigned i) {
  completion->armed[i] = completion->armed[--completion->n_armed];
  if (completion->n_armed == 0) {
    free(completion->armed);
    completion->armed = NULL;
  }
}

void el_completion_complete(el_completion *completion, unsigned events) {
  pthread_mutex_lock(&completion->mu);
  completion->events |= events;
  pthread_cond_broadcast(&completion->cond);
  for (unsigned i = completion->n_armed; i-- > 0;) {
    if ((completion->armed[i].event & events) != 0) {
      el_wake *wake = completion->armed[i].wake;
      wake->push(wake, completion->armed[i].id);
      remove_armed(completion, i);
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
  bool is_armed;
  pthread_mutex_lock(&completion->mu);
  is_armed = (completion->events & event) == 0;
  if (is_armed) {
    completion->armed =
        el_realloc(completion->armed,
                   (completion->n_armed + 1) * sizeof *completion->armed);
    completion->armed[completion->n_armed++] =
        (struct el_armed_wake){wake, id, event};
  }
  pthread_mutex_unlock(&completion->mu);
  return is_armed;
}

void el_completion_disarm(el_completion *completion, unsigned event,
                          uint64_t id) {
  pthread_mutex_lock(&completion->mu);
  for (unsigned i = 0; i < completion->n_armed; i++) {
    if (completion->armed[i].id == id && completion->armed[i].event == event) {
      remove_armed(completion, i);
      break;
    }
  }
  pthread_mutex_unlock(&completion->mu);
}

bool el_completion_has(el_completion *completion, unsigned event) {
  bool is_set;
  pthread_mutex_lock(&completion->mu);
  is_set = (completion->events & event) != 0;
  pthread_mutex_unlock(&completion->mu);
  return is_set;
}

bool el_completion_wait(el_completion *completion, unsigned event,
                        int64_t timeout_ms) {
  struct timespec deadline = el_cond_deadline(timeout_ms);
  bool is_set;
  pthread_mutex_lock(&completion->mu);
  while ((completion->events & event) == 0 && timeout_ms > 0 &&
         pthread_cond_timedwait(&completion->cond, &completion->mu,
                                &deadline) == 0) {
  }
  is_set = (completion->events & event) != 0;
  pthread_mutex_unlock(&completion->mu);
  return is_set;
}
