/* sessions: those of one client. */
#include "lock/sessions.h"

#include <stdlib.h>

#include "base/alloc.h"

struct el_sessions {
  el_session_world common;
  el_entry_world world;
  el_entry_world *first;
  int n_lock_delays;
};

/* ---- what other threads may read of them, but for claims ---- */

/* A client is as alive as the one of its sessions that is so for longest, and is due as
 * soon as the first of them. */
static void publish(void *arg) {
  const el_sessions *sessions = arg;
  el_shared *shared = sessions->common.handle;
  int64_t lease = 0, alive_until = 0, due_at = 0;
  const el_entry_world *world = sessions->first;
  for (; world != NULL; world = world->next) {
    const el_session *ses = el_session_driver_session(world->session);
    int64_t until = ses->last.sent_ms + ses->last.ttl_ms;
    if (ses->wake_at != 0 && (due_at == 0 || ses->wake_at < due_at)) {
      due_at = ses->wake_at;
    }
    if (ses->state != EL_SESSION_ALIVE) continue;
    if (lease == 0) lease = ses->id;
    if (until > alive_until) alive_until = until;
  }
  atomic_store(&shared->lease, lease);
  atomic_store(&shared->due_ms, due_at);
  atomic_store(&shared->alive_until_ms, alive_until);
}

/* ---- life ---- */

static el_entry_world *add(el_sessions *sessions, int64_t lock_delay_ms) {
  el_session_world session = sessions->common;
  el_entry_world *world = el_alloc(sizeof *world), **last = &sessions->first;
  session.lock_delay_ms = lock_delay_ms;
  *world = sessions->world;
  world->session = el_session_driver_new(&session);
  world->lock_delay_ms = lock_delay_ms;
  TAILQ_INIT(&world->proving);
  while (*last != NULL) {
    last = &(*last)->next;
  }
  *last = world;
  return world;
}

el_sessions *el_sessions_new(const el_session_world *session,
                             const el_entry_world *world) {
  el_sessions *sessions = el_alloc(sizeof *sessions);
  sessions->common = *session;
  sessions->common.changed = publish;
  sessions->common.changed_arg = sessions;
  sessions->world = *world;
  add(sessions, 0);
  return sessions;
}

void el_sessions_stop(el_sessions *sessions) {
  const el_entry_world *world = sessions->first;
  for (; world != NULL; world = world->next) {
    el_session_driver_stop(world->session);
  }
  atomic_store(&sessions->common.handle->due_ms, 0);
}

void el_sessions_free(el_sessions *sessions) {
  el_entry_world *world;
  while ((world = sessions->first) != NULL) {
    sessions->first = world->next;
    el_session_driver_free(world->session);
    free(world);
  }
  free(sessions);
}

/* ---- which ---- */

el_entry_world *el_sessions_first(const el_sessions *sessions) {
  return sessions->first;
}

/* One for a lock delay that nobody asks for any more; NULL: there is none. */
static el_entry_world *find_unused(const el_sessions *sessions) {
  el_entry_world *world = sessions->first->next;
  while (world != NULL && world->users > 0) {
    world = world->next;
  }
  return world;
}

el_entry_world *el_sessions_find(el_sessions *sessions, int64_t lock_delay_ms) {
  el_entry_world *world = sessions->first;
  for (; world != NULL; world = world->next) {
    if (world->lock_delay_ms == lock_delay_ms) return world;
  }
  if (sessions->n_lock_delays < EL_LOCK_DELAYS_MAX) {
    sessions->n_lock_delays++;
    return add(sessions, lock_delay_ms);
  }
  world = find_unused(sessions);
  if (world != NULL) {
    world->lock_delay_ms = lock_delay_ms;
    el_session_driver_change_lock_delay(world->session, lock_delay_ms);
  }
  return world;
}

bool el_sessions_have_news(const el_sessions *sessions) {
  const el_entry_world *world = sessions->first;
  while (world != NULL && !el_session_driver_has_news(world->session)) {
    world = world->next;
  }
  return world != NULL;
}

/* The end of a lease takes the keys along; before a session that leaves it is over, its
 * entries delete them. */
static bool is_over(const el_entry_world *world) {
  return el_session_driver_is_over(world->session) &&
         (el_session_driver_end(world->session) != EL_SESSION_LEFT ||
          world->users == 0);
}

bool el_sessions_are_over(const el_sessions *sessions) {
  const el_entry_world *world = sessions->first;
  while (world != NULL && is_over(world)) {
    world = world->next;
  }
  return world == NULL;
}
