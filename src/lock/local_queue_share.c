/* local_queue_share: readers of one client who hold by one key, or wait with it. */
#include "lock/local_queue_int.h"

/* Who must share tries where he can't: behind a writer who waits for those of his own
 * program he would wait for ever. */
bool el_local_queue_tries(const el_owner *owner) {
  return owner->try_once || owner->must_share;
}

/* Has |next| hold by a key that others have? */
static el_sharing share_hold(el_local_queue *queue, el_owner *next) {
  const el_turn_limits *limits = el_local_queue_limits(queue);
  el_local_place *at;
  el_sharing best = EL_SHARE_NOT;
  TAILQ_FOREACH(at, &queue->places, link) {
    el_sharing how;
    if (TAILQ_EMPTY(&at->fronts) || at->driver.entry.state != EL_ENTRY_HELD) {
      continue;
    }
    how = next->must_share && el_session_driver_can_claim(queue->world->session)
              ? EL_SHARE_NOW
              : el_handoff_share(&at->handoff, &at->driver, limits);
    if (how == EL_SHARE_NOW) {
      el_local_queue_share(at, next);
      return how;
    }
    if (how == EL_SHARE_SOON) best = how;
  }
  return best;
}

/* Does |next| wait with others? One who tries asks for himself. */
static bool share_wait(el_local_queue *queue, el_owner *next) {
  el_local_place *at;
  if (el_local_queue_tries(next)) return false;
  TAILQ_FOREACH(at, &queue->places, link) {
    if (!TAILQ_EMPTY(&at->fronts) && !at->driver.entry.trying &&
        at->driver.entry.state != EL_ENTRY_HELD) {
      el_local_queue_put_in_front(at, next);
      return true;
    }
  }
  return false;
}

el_sharing el_local_queue_share_turn(el_local_queue *queue, el_owner *next) {
  el_sharing how;
  if (!is_shared(queue)) return EL_SHARE_NOT;
  how = share_hold(queue, next);
  return how == EL_SHARE_NOT && share_wait(queue, next) ? EL_SHARE_NOW : how;
}
