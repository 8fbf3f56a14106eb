/* L3 entry: one place in the queue of a lock, as a pure step function. */
#include "entry.h"

#include <assert.h>
#include <string.h>

enum {
  BACKOFF_FIRST_MS = 50,
  BACKOFF_MAX_MS = 1000,
  /* etcd gives up a request after 7 s (5 s and two elections, config.go
   * ReqTimeout), so what was sent this long ago is not applied any more. */
  SUSPECT_MS = 8000,
  SWEEP_EVERY_MS = 1000,
  /* A hold that lasts longer than this watches its own key; a short one is
   * spared the cost. */
  WATCH_HOLD_AFTER_MS = 50
};

const char *const el_entry_state_str[] = {
    [EL_ENTRY_IDLE] = "idle",           [EL_ENTRY_TRYING] = "trying",
    [EL_ENTRY_ENQUEUING] = "enqueuing", [EL_ENTRY_WAITING] = "waiting",
    [EL_ENTRY_PROVING] = "proving",     [EL_ENTRY_HELD] = "held",
    [EL_ENTRY_RELEASING] = "releasing", [EL_ENTRY_SWEEPING] = "sweeping",
    [EL_ENTRY_DEAD] = "dead",
};

int64_t el_backoff_ms(int n) {
  int64_t ms = BACKOFF_FIRST_MS;
  while (--n > 0 && ms < BACKOFF_MAX_MS) {
    ms *= 2;
  }
  return ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS;
}

void el_entry_init(el_entry *entry, int64_t lease, int64_t ttl_ms) {
  memset(entry, 0, sizeof *entry);
  entry->lease = lease;
  entry->reread_ms = ttl_ms > 10000 ? ttl_ms : 10000;
}

bool el_entry_is_free(const el_entry *entry) {
  return !entry->wanted &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_SWEEPING);
}

bool el_entry_is_over(const el_entry *entry) {
  return entry->busy == EL_REQUEST_NONE &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_DEAD);
}

/* ---- actions ---- */

static el_entry_action *push(el_entry_actions *out, int kind) {
  el_entry_action *action = &out->list[out->n++];
  assert(out->n <= EL_ENTRY_ACTIONS_MAX);
  memset(action, 0, sizeof *action);
  action->kind = kind;
  return action;
}

static el_entry_action *send(el_entry *entry, el_entry_actions *out,
                             el_request request) {
  el_entry_action *action = push(out, EL_ENTRY_SEND);
  assert(entry->busy == EL_REQUEST_NONE);
  entry->busy = request;
  entry->wake_at = 0;
  action->request = request;
  return action;
}

static void send_look(el_entry *entry, el_entry_actions *out, bool serializable,
                      bool all) {
  el_entry_action *action = send(entry, out, EL_REQUEST_LOOK);
  action->serializable = serializable;
  action->all = all;
}

static void send_try(el_entry *entry, el_entry_actions *out, bool all) {
  el_entry_action *action = send(entry, out, EL_REQUEST_TRY);
  action->bound = entry->bound;
  action->all = all;
}

static void watch(el_entry *entry, el_entry_actions *out, el_place place) {
  push(out, EL_ENTRY_WATCH)->place = place;
  entry->watching = true;
  entry->watch_rev = 0;
}

static void unwatch(el_entry *entry, el_entry_actions *out) {
  if (entry->watching) {
    push(out, EL_ENTRY_UNWATCH);
  }
  entry->watching = false;
  entry->watch_rev = 0;
  entry->again = false;
}

static void retry_later(el_entry *entry, int64_t now_ms) {
  entry->wake_at = now_ms + el_backoff_ms(++entry->attempts);
}

/* ---- ways out ---- */

/* Takes the next step towards "nothing of ours is there". A key whose
 * revision isn't known is looked for, never deleted blindly: a delete that is
 * guarded by its revision can't hit a later key of ours, however late it is
 * applied. */
static void take_out_next(el_entry *entry, int64_t now_ms,
                          el_entry_actions *out) {
  entry->wake_at = 0;
  if (entry->rev != 0) {
    entry->state = EL_ENTRY_RELEASING;
    send(entry, out, EL_REQUEST_DELETE)->guard = entry->rev;
  } else if (entry->suspect_until > now_ms) {
    entry->state = EL_ENTRY_SWEEPING;
    send_look(entry, out, false, false);
  } else {
    entry->state = EL_ENTRY_IDLE;
  }
}

/* Nobody wants the entry any more: its key goes. */
static void take_out(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  entry->wanted = false;
  entry->state = EL_ENTRY_RELEASING;
  entry->wake_at = 0;
  unwatch(entry, out);
  if (entry->busy == EL_REQUEST_NONE) {
    take_out_next(entry, now_ms, out);
  }
}

/* The same when the key is known to be gone. */
static void forget(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  entry->rev = 0;
  take_out(entry, now_ms, out);
}

static void lose(el_loss loss, el_entry_actions *out) {
  push(out, EL_ENTRY_LOST)->loss = loss;
}

static void refuse(el_entry *entry, int64_t now_ms, int verdict,
                   el_entry_actions *out) {
  push(out, verdict);
  take_out(entry, now_ms, out);
}

/* ---- ways in ---- */

static void begin(el_entry *entry, el_entry_actions *out) {
  entry->rev = 0;
  entry->bound = 1;
  entry->attempts = 0;
  entry->maybe_deleted = false;
  if (entry->trying) {
    entry->state = EL_ENTRY_TRYING;
    send_try(entry, out, false);
  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    send(entry, out, EL_REQUEST_ENQUEUE);
  }
}

static void on_start(el_entry *entry, bool trying, el_entry_actions *out) {
  assert(el_entry_is_free(entry));
  entry->wanted = true;
  entry->trying = trying;
  if (entry->busy == EL_REQUEST_NONE) {
    begin(entry, out);
  } /* else when the sweep's look is answered */
}

static void wait_behind(el_entry *entry, el_place place, int64_t now_ms,
                        el_entry_actions *out) {
  entry->state = EL_ENTRY_WAITING;
  entry->ahead = place;
  entry->again = false;
  watch(entry, out, place);
  entry->wake_at = now_ms + entry->reread_ms;
}

/* The answer at hand shows our key and none older: ours, once the session can
 * prove that its lease lives. */
static void win(el_entry *entry, const el_entry_event *event,
                el_entry_actions *out) {
  el_entry_action *proof;
  unwatch(entry, out);
  entry->state = EL_ENTRY_PROVING;
  entry->fresh = true;
  entry->attempts = 0;
  entry->wake_at = 0;
  proof = push(out, EL_ENTRY_PROOF);
  proof->sent_ms = event->sent_ms;
  proof->term = event->term;
}

/* ---- answers ---- */

/* An enqueue or a try that was not answered. */
static void on_put_failed(el_entry *entry, const el_entry_event *event,
                          int64_t now_ms, el_entry_actions *out) {
  if (!event->definite && entry->suspect_until < event->sent_ms + SUSPECT_MS) {
    entry->suspect_until = event->sent_ms + SUSPECT_MS;
  }
  if (!entry->wanted) {
    take_out_next(entry, now_ms, out);
  } else if (event->retriable) {
    retry_later(entry, now_ms);
  } else {
    refuse(entry, now_ms, EL_ENTRY_REFUSED, out);
  }
}

static void on_enqueued(el_entry *entry, const el_entry_event *event,
                        int64_t now_ms, el_entry_actions *out) {
  entry->rev = event->mine.rev;
  entry->attempts = 0;
  if (!entry->wanted) {
    take_out_next(entry, now_ms, out);
  } else if (event->unsure) {
    entry->state = EL_ENTRY_WAITING;
    entry->ahead = (el_place){0};
    send_look(entry, out, false, false);
  } else if (event->older.rev != 0) {
    wait_behind(entry, event->older, now_ms, out);
  } else {
    win(entry, event, out);
  }
}

static void on_tried(el_entry *entry, const el_entry_event *event,
                     int64_t now_ms, el_entry_actions *out) {
  entry->rev = event->mine.rev;
  entry->attempts = 0;
  if (!entry->wanted) {
    take_out_next(entry, now_ms, out);
  } else if (event->mine.rev != 0 && !event->locked) {
    win(entry, event, out);
  } else if (event->locked) {
    refuse(entry, now_ms, EL_ENTRY_LOCKED, out);
  } else if (event->unsure) {
    send_try(entry, out, true);
  } else {
    /* Only keys that don't count: take it if nothing has come since. */
    entry->bound = event->rev + 1;
    send_try(entry, out, true);
  }
}

static bool is_stale(const el_entry *entry, const el_entry_event *event) {
  return event->serializable &&
         (event->rev < entry->rev || event->rev < entry->watch_rev);
}

/* Keys older than ours can only disappear, so what a serializable read shows
 * of them is final as soon as its revision isn't before our key's; that our
 * own key is still there needs a linearizable one. */
static void on_looked_waiting(el_entry *entry, const el_entry_event *event,
                              int64_t now_ms, el_entry_actions *out) {
  if (is_stale(entry, event)) {
    send_look(entry, out, false, false);
  } else if (event->mine.rev != entry->rev) {
    push(out, EL_ENTRY_PLACE_LOST);
    forget(entry, now_ms, out);
  } else if (event->unsure) {
    send_look(entry, out, false, true);
  } else if (entry->again || (event->older.rev == 0 && event->serializable)) {
    entry->again = false;
    send_look(entry, out, false, false);
  } else if (event->older.rev == 0) {
    win(entry, event, out);
  } else if (event->older.rev == entry->ahead.rev) {
    entry->wake_at = now_ms + entry->reread_ms;
  } else {
    wait_behind(entry, event->older, now_ms, out);
  }
}

static void on_looked_held(el_entry *entry, const el_entry_event *event,
                           int64_t now_ms, el_entry_actions *out) {
  if (is_stale(entry, event)) {
    send_look(entry, out, false, false);
  } else if (event->mine.rev != entry->rev) {
    lose(EL_LOSS_DELETED, out);
    forget(entry, now_ms, out);
  } else if (event->mine.lease != entry->lease) {
    lose(EL_LOSS_REPLACED, out);
    take_out(entry, now_ms, out);
  } else if (entry->again) {
    entry->again = false;
    send_look(entry, out, false, false);
  }
}

static void on_swept(el_entry *entry, const el_entry_event *event,
                     int64_t now_ms, el_entry_actions *out) {
  if (entry->wanted) {
    begin(entry, out);
  } else if (!event->done) {
    retry_later(entry, now_ms);
  } else if (event->mine.rev != 0) {
    entry->rev = event->mine.rev;
    entry->attempts = 0;
    take_out_next(entry, now_ms, out);
  } else if (event->sent_ms >= entry->suspect_until) {
    entry->state = EL_ENTRY_IDLE;
  } else {
    entry->attempts = 0;
    entry->wake_at = entry->suspect_until < now_ms + SWEEP_EVERY_MS
                         ? entry->suspect_until
                         : now_ms + SWEEP_EVERY_MS;
    if (entry->wake_at <= now_ms) entry->wake_at = now_ms + 1;
  }
}

static void on_looked(el_entry *entry, const el_entry_event *event,
                      int64_t now_ms, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_SWEEPING:
      on_swept(entry, event, now_ms, out);
      return;
    case EL_ENTRY_RELEASING:
      take_out_next(entry, now_ms, out);
      return;
    case EL_ENTRY_WAITING:
    case EL_ENTRY_HELD:
      break;
    default:
      assert(!"a look is answered in a state that sends none");
      return;
  }
  if (!event->done && event->retriable) {
    retry_later(entry, now_ms);
  } else if (!event->done && entry->state == EL_ENTRY_WAITING) {
    refuse(entry, now_ms, EL_ENTRY_REFUSED, out);
  } else if (!event->done) {
    entry->wake_at = 0; /* the session's own proofs decide about the hold */
  } else if (entry->state == EL_ENTRY_WAITING) {
    entry->attempts = 0;
    on_looked_waiting(entry, event, now_ms, out);
  } else {
    entry->attempts = 0;
    on_looked_held(entry, event, now_ms, out);
  }
}

static void on_deleted(el_entry *entry, const el_entry_event *event,
                       int64_t now_ms, el_entry_actions *out) {
  if (event->done) {
    push(out, EL_ENTRY_RELEASED)->found =
        event->deleted || entry->maybe_deleted;
    entry->rev = 0;
    entry->attempts = 0;
    entry->maybe_deleted = false;
    take_out_next(entry, now_ms, out);
    return;
  }
  if (!event->definite) {
    entry->maybe_deleted = true;
  } else if (!event->retriable && entry->attempts == 0) {
    push(out, EL_ENTRY_REFUSED);
  }
  retry_later(entry, now_ms);
}

static void on_answer(el_entry *entry, const el_entry_event *event,
                      int64_t now_ms, el_entry_actions *out) {
  el_request request = entry->busy;
  entry->busy = EL_REQUEST_NONE;
  if (entry->state == EL_ENTRY_DEAD) return;
  switch (request) {
    case EL_REQUEST_TRY:
    case EL_REQUEST_ENQUEUE:
      if (!event->done) {
        on_put_failed(entry, event, now_ms, out);
      } else if (request == EL_REQUEST_TRY) {
        on_tried(entry, event, now_ms, out);
      } else {
        on_enqueued(entry, event, now_ms, out);
      }
      return;
    case EL_REQUEST_LOOK:
      on_looked(entry, event, now_ms, out);
      return;
    case EL_REQUEST_DELETE:
      on_deleted(entry, event, now_ms, out);
      return;
    case EL_REQUEST_NONE:
      assert(!"an answer to no request");
  }
}

/* ---- what else happens ---- */

static void on_timer(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  entry->wake_at = 0;
  if (entry->busy != EL_REQUEST_NONE) return;
  switch (entry->state) {
    case EL_ENTRY_TRYING:
      send_try(entry, out, entry->bound > 1);
      return;
    case EL_ENTRY_ENQUEUING:
      send(entry, out, EL_REQUEST_ENQUEUE);
      return;
    case EL_ENTRY_HELD:
      if (!entry->watching) {
        watch(entry, out, (el_place){.rev = entry->rev, .lease = entry->lease});
        return;
      }
      /* fall through */
    case EL_ENTRY_WAITING:
    case EL_ENTRY_SWEEPING:
      send_look(entry, out, false, false);
      return;
    case EL_ENTRY_RELEASING:
      take_out_next(entry, now_ms, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_PROVING:
    case EL_ENTRY_DEAD:
      return;
  }
}

/* Something changed that only a look can explain. */
static void look_soon(el_entry *entry, bool serializable,
                      el_entry_actions *out) {
  if (entry->busy == EL_REQUEST_NONE) {
    send_look(entry, out, serializable, false);
  } else {
    entry->again = true;
  }
}

static void on_watch(el_entry *entry, const el_entry_event *event,
                     int64_t now_ms, el_entry_actions *out) {
  bool held = entry->state == EL_ENTRY_HELD;
  if (!entry->watching) return;
  if (event->kind == EL_ENTRY_WATCH_CREATED) {
    entry->watch_rev = event->rev;
    look_soon(entry, true, out);
  } else if (event->kind == EL_ENTRY_WATCH_DELETED && !held) {
    look_soon(entry, false, out);
  } else if (event->kind == EL_ENTRY_WATCH_DELETED) {
    /* A restored member may replay the end of an earlier key (#15271). */
    if (event->rev > entry->rev) {
      lose(EL_LOSS_DELETED, out);
      forget(entry, now_ms, out);
    }
  } else if (held && event->rev > entry->rev && event->lease != entry->lease) {
    lose(EL_LOSS_REPLACED, out);
    take_out(entry, now_ms, out);
  }
}

static void on_claimed(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_PROVING) return;
  if (entry->fresh) {
    entry->state = EL_ENTRY_HELD;
    entry->wake_at = now_ms + WATCH_HOLD_AFTER_MS;
    push(out, EL_ENTRY_GRANTED)->place =
        (el_place){.rev = entry->rev, .lease = entry->lease};
  } else {
    /* Time has passed since our key was seen: look once more. */
    entry->state = EL_ENTRY_WAITING;
    entry->ahead = (el_place){0};
    send_look(entry, out, false, false);
  }
}

static void on_key_gone(el_entry *entry, int64_t now_ms,
                        el_entry_actions *out) {
  if (entry->state == EL_ENTRY_HELD) {
    lose(EL_LOSS_DELETED, out);
    forget(entry, now_ms, out);
  } else if (entry->state == EL_ENTRY_PROVING) {
    push(out, EL_ENTRY_PLACE_LOST);
    forget(entry, now_ms, out);
  }
}

static void on_loss(el_entry *entry, el_loss loss, int64_t now_ms,
                    el_entry_actions *out) {
  if (entry->state != EL_ENTRY_HELD) return;
  lose(loss, out);
  take_out(entry, now_ms, out);
}

static void on_stop(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_SWEEPING:
      entry->wanted = false;
      return;
    case EL_ENTRY_TRYING:
    case EL_ENTRY_ENQUEUING:
    case EL_ENTRY_WAITING:
    case EL_ENTRY_PROVING:
    case EL_ENTRY_HELD:
      take_out(entry, now_ms, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_RELEASING:
    case EL_ENTRY_DEAD:
      return;
  }
}

static void on_session_dead(el_entry *entry, el_entry_actions *out) {
  if (entry->state == EL_ENTRY_HELD) {
    lose(EL_LOSS_REVOKED, out);
  } else if (entry->state == EL_ENTRY_WAITING ||
             entry->state == EL_ENTRY_PROVING) {
    push(out, EL_ENTRY_PLACE_LOST);
  } else if (entry->state == EL_ENTRY_RELEASING) {
    push(out, EL_ENTRY_RELEASED)->found = true; /* it went with its lease */
  } else if (entry->wanted) {
    push(out, EL_ENTRY_RESTART);
  }
  unwatch(entry, out);
  entry->state = EL_ENTRY_DEAD;
  entry->wanted = false;
  entry->wake_at = 0;
}

void el_entry_step(el_entry *entry, const el_entry_event *event, int64_t now_ms,
                   el_entry_actions *out) {
  out->n = 0;
  switch (event->kind) {
    case EL_ENTRY_START:
    case EL_ENTRY_TRY:
      on_start(entry, event->kind == EL_ENTRY_TRY, out);
      return;
    case EL_ENTRY_STOP:
      on_stop(entry, now_ms, out);
      return;
    case EL_ENTRY_ANSWER:
      on_answer(entry, event, now_ms, out);
      return;
    case EL_ENTRY_WATCH_CREATED:
    case EL_ENTRY_WATCH_DELETED:
    case EL_ENTRY_WATCH_PUT:
      on_watch(entry, event, now_ms, out);
      return;
    case EL_ENTRY_WATCH_REFUSED:
      if (entry->state == EL_ENTRY_WAITING) {
        refuse(entry, now_ms, EL_ENTRY_REFUSED, out);
      }
      return;
    case EL_ENTRY_CLAIMED:
      on_claimed(entry, now_ms, out);
      return;
    case EL_ENTRY_UNPROVEN:
      entry->fresh = false;
      return;
    case EL_ENTRY_LAPSED:
      on_loss(entry, EL_LOSS_EXPIRED, now_ms, out);
      return;
    case EL_ENTRY_MAX_HOLD:
      on_loss(entry, EL_LOSS_MAX_HOLD, now_ms, out);
      return;
    case EL_ENTRY_KEY_GONE:
      on_key_gone(entry, now_ms, out);
      return;
    case EL_ENTRY_SESSION_DEAD:
      on_session_dead(entry, out);
      return;
    case EL_ENTRY_TIMER:
      on_timer(entry, now_ms, out);
      return;
  }
}
