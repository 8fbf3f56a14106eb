/* leader: which thread runs a loop. */
#include "net/leader.h"

#include "base/clock.h"
#include "base/thread.h"

/* For how long nobody leads before the I/O thread does: longer than most need to come
 * back; and that by which news of a loss, and timers, are late at most. */
enum { VACANT_MS = 2 };

void el_leader_init(el_leader *leader) {
  pthread_mutex_init(&leader->mu, NULL);
  el_cond_init(&leader->left);
  leader->who = EL_LEADER_THREAD;
  leader->since_ms = 0;
  leader->was_left = leader->sleeps = false;
  leader->awaited = NULL;
  leader->event = 0;
}

void el_leader_destroy(el_leader *leader) {
  pthread_cond_destroy(&leader->left);
  pthread_mutex_destroy(&leader->mu);
}

/* Who has led for long may do so for longer; he wakes the I/O thread when he leaves.
 * Who hasn't is spared that. */
static void stand_by(el_leader *leader, bool is_long) {
  if (is_long) {
    leader->sleeps = true;
    pthread_cond_wait(&leader->left, &leader->mu);
    leader->sleeps = false;
  } else {
    struct timespec until = el_cond_deadline(VACANT_MS);
    pthread_cond_timedwait(&leader->left, &leader->mu, &until);
  }
}

bool el_leader_take(el_leader *leader) {
  bool was_left;
  pthread_mutex_lock(&leader->mu);
  while (leader->who != EL_LEADER_THREAD) {
    bool is_long = el_now_ms() - leader->since_ms >= VACANT_MS;
    if (is_long && leader->who == EL_LEADER_NOBODY) {
      leader->who = EL_LEADER_THREAD;
    } else {
      stand_by(leader, is_long);
    }
  }
  was_left = leader->was_left;
  leader->was_left = false;
  pthread_mutex_unlock(&leader->mu);
  return was_left;
}

static void vacate(el_leader *leader) {
  leader->was_left = true;
  leader->who = EL_LEADER_NOBODY;
  leader->since_ms = el_now_ms();
}

void el_leader_step_aside(el_leader *leader) {
  pthread_mutex_lock(&leader->mu);
  if (leader->awaited != NULL &&
      el_completion_has(leader->awaited, leader->event)) {
    leader->awaited = NULL;
    vacate(leader);
  }
  pthread_mutex_unlock(&leader->mu);
}

bool el_leader_try(el_leader *leader, el_completion *awaited, unsigned event) {
  bool leads;
  pthread_mutex_lock(&leader->mu);
  leads = leader->who == EL_LEADER_NOBODY;
  if (leads) {
    leader->who = EL_LEADER_WAITER;
    leader->since_ms = el_now_ms();
  } else {
    leader->awaited = awaited;
    leader->event = event;
  }
  pthread_mutex_unlock(&leader->mu);
  return leads;
}

void el_leader_leave(el_leader *leader, bool leads) {
  pthread_mutex_lock(&leader->mu);
  leader->awaited = NULL;
  if (leads) {
    vacate(leader);
    if (leader->sleeps) {
      pthread_cond_signal(&leader->left);
    }
  }
  pthread_mutex_unlock(&leader->mu);
}

static int who_leads(el_leader *leader) {
  int who;
  pthread_mutex_lock(&leader->mu);
  who = leader->who;
  pthread_mutex_unlock(&leader->mu);
  return who;
}

bool el_leader_is_waiter(el_leader *leader) {
  return who_leads(leader) == EL_LEADER_WAITER;
}

bool el_leader_is_there(el_leader *leader) {
  return who_leads(leader) != EL_LEADER_NOBODY;
}

void el_leader_recall(el_leader *leader) {
  pthread_mutex_lock(&leader->mu);
  if (leader->who == EL_LEADER_NOBODY) {
    leader->who = EL_LEADER_THREAD;
    pthread_cond_signal(&leader->left);
  }
  pthread_mutex_unlock(&leader->mu);
}
