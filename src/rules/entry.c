/* entry: one place in the queue of a lock, as a pure step function. */
#include "rules/entry.h"

#include <assert.h>
#include <string.h>

#include "rules/entry_int.h"

/* A hold that lasts longer than this, or is handed off, watches its own key; a short one
 * is spared the cost. */
enum { WATCH_HOLD_AFTER_MS = 50 };

const char *const el_entry_state_str[] = {
    [EL_ENTRY_IDLE] = "idle",
    [EL_ENTRY_TRYING] = "trying",
    [EL_ENTRY_ENQUEUING] = "enqueuing",
    [EL_ENTRY_WAITING] = "waiting",
    [EL_ENTRY_PROVING] = "proving",
    [EL_ENTRY_HELD] = "held",
    [EL_ENTRY_LOCK_DELAY] = "lock delay",
    [EL_ENTRY_RELEASING] = "releasing",
    [EL_ENTRY_SWEEPING] = "sweeping",
    [EL_ENTRY_CONFIRMING] = "confirming",
    [EL_ENTRY_DEAD] = "dead",
};

const struct el_loss_names el_losses[] = {
    [EL_LOSS_EXPIRED] = {"expired",
                         "no proof came in time that its lease lives"},
    [EL_LOSS_REVOKED] = {"revoked", "its lease ended in etcd"},
    [EL_LOSS_DELETED] = {"deleted", "its key was deleted"},
    [EL_LOSS_REPLACED] = {"replaced", "its key was overwritten"},
    [EL_LOSS_MAX_HOLD] = {"max_hold", "max_hold has passed"},
    [EL_LOSS_CLUSTER] = {"cluster_changed",
                         "another cluster answers, or an earlier state of this "
                         "one"},
    [EL_LOSS_CLOSED] = {"closed", "the client was closed"},
};

void el_entry_init(el_entry *entry, el_mode mode, const el_session *ses) {
  memset(entry, 0, sizeof *entry);
  entry->mode = mode;
  entry->lease = ses->id;
  entry->reread_ms = ses->ttl_ms > 10000 ? (int32_t)ses->ttl_ms : 10000;
  entry->lock_delay_ms = (int32_t)ses->lock_delay_ms;
}

bool el_entry_is_free(const el_entry *entry) {
  return !entry->wanted &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_SWEEPING);
}

bool el_entry_is_over(const el_entry *entry) {
  return entry->busy == EL_REQUEST_NONE &&
         (entry->state == EL_ENTRY_IDLE || entry->state == EL_ENTRY_DEAD);
}

bool el_entry_is_certain(const el_entry *entry) { return !entry->uncertain; }

static void on_start(el_entry *entry, bool trying, el_entry_actions *out) {
  assert(el_entry_is_free(entry));
  entry->wanted = true;
  entry->trying = trying;
  if (entry->busy == EL_REQUEST_NONE) {
    el_entry_begin(entry, out);
  } /* else when the sweep's look is answered */
}

/* ---- what else happens ---- */

/* Watches the key of a hold, if it is not watched yet. */
static bool watch_own(el_entry *entry, el_entry_actions *out) {
  if (entry->watching) return false;
  el_entry_watch(entry, out, (el_place){0}, entry->rev);
  return true;
}

static void on_timer(el_entry *entry, el_entry_actions *out) {
  entry->wake_at = 0;
  if (entry->busy != EL_REQUEST_NONE && entry->state != EL_ENTRY_LOCK_DELAY) {
    return;
  }
  switch (entry->state) {
    case EL_ENTRY_TRYING:
      el_entry_send_try(entry, out, entry->bound > 1);
      return;
    case EL_ENTRY_ENQUEUING:
      el_entry_send_enqueue(entry, out);
      return;
    case EL_ENTRY_HELD:
      if (watch_own(entry, out)) return;
      /* fall through */
    case EL_ENTRY_WAITING:
    case EL_ENTRY_SWEEPING:
      el_entry_send_look(entry, out, false, false);
      return;
    case EL_ENTRY_RELEASING:
      el_entry_take_out_next(entry, out);
      return;
    case EL_ENTRY_LOCK_DELAY:
      el_entry_take_out(entry, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_PROVING:
    case EL_ENTRY_CONFIRMING:
    case EL_ENTRY_DEAD:
      return;
  }
}

/* Something changed that only a look can explain. */
static void look_soon(el_entry *entry, bool serializable,
                      el_entry_actions *out) {
  if (entry->busy == EL_REQUEST_NONE) {
    el_entry_send_look(entry, out, serializable, false);
  } else {
    entry->again = true;
  }
}

static void on_own_key(el_entry *entry, const el_entry_event *event,
                       el_entry_actions *out) {
  /* A restored member may replay the end of an earlier key (#15271). */
  if (event->rev <= entry->rev) return;
  if (event->kind == EL_ENTRY_WATCH_DELETED) {
    el_entry_lose(EL_LOSS_DELETED, out);
    el_entry_forget(entry, out);
  } else if (event->lease != entry->lease) {
    el_entry_lose(EL_LOSS_REPLACED, out);
    el_entry_take_out(entry, out);
  }
}

/* Nothing has come since the answer that led to it if it begins at the revision of that.
 * An earlier one is a member's that is behind, or another store's. */
static void on_watch_created(el_entry *entry, int64_t rev,
                             el_entry_actions *out) {
  if (!entry->watching || rev == entry->watch_rev) return;
  entry->watch_rev = rev;
  look_soon(entry, true, out);
}

static void on_watch(el_entry *entry, const el_entry_event *event,
                     el_entry_actions *out) {
  bool has_left = event->kind == EL_ENTRY_WATCH_DELETED || event->detached;
  if (!entry->watching) return;
  if (event->rev > entry->watch_rev && entry->state == EL_ENTRY_WAITING) {
    entry->watch_rev = event->rev;
  }
  if (entry->state == EL_ENTRY_HELD) {
    on_own_key(entry, event, out);
  } else if (has_left && entry->missing > 1 && entry->busy == EL_REQUEST_NONE) {
    entry->missing--; /* a look that is out may have counted it, or not */
  } else if (has_left ||
             entry->mode == EL_MODE_READ) { /* the writer may only read now */
    look_soon(entry, event->proven_rev != 0, out);
  }
}

static void on_claimed(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_PROVING) return;
  if (entry->fresh) {
    entry->state = EL_ENTRY_HELD;
    entry->wake_at = now_ms + WATCH_HOLD_AFTER_MS;
    el_entry_push(out, EL_ENTRY_GRANTED)->place.rev = entry->rev;
  } else {
    /* Time has passed since our key was seen: look once more. */
    entry->state = EL_ENTRY_WAITING;
    entry->ahead = (el_place){0};
    el_entry_send_look(entry, out, false, false);
  }
}

/* The news may be old, and about an earlier key. */
static void on_key_gone(el_entry *entry, const el_entry_event *event,
                        el_entry_actions *out) {
  if (event->rev != entry->rev) return;
  if (entry->state == EL_ENTRY_HELD) {
    el_entry_lose(event->detached ? EL_LOSS_REPLACED : EL_LOSS_DELETED, out);
  } else if (entry->state == EL_ENTRY_PROVING) {
    el_entry_push(out, EL_ENTRY_PLACE_LOST);
  } else {
    return;
  }
  if (event->detached) {
    el_entry_take_out(entry, out);
  } else {
    el_entry_forget(entry, out);
  }
}

/* Where a key of ours is expected, it is no news. */
static void on_key_found(el_entry *entry, el_entry_actions *out) {
  if (entry->state == EL_ENTRY_IDLE && entry->busy == EL_REQUEST_NONE) {
    entry->state = EL_ENTRY_SWEEPING;
    el_entry_send_look(entry, out, false, false);
  }
}

static void on_max_hold(el_entry *entry, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_HELD) return;
  el_entry_lose(EL_LOSS_MAX_HOLD, out);
  el_entry_take_out(entry, out);
}

/* Whoever held it may not know yet, and what he did last be on its way: as after a crash
 * nobody follows before the lock delay is over. */
static void on_lapsed(el_entry *entry, int64_t now_ms, el_entry_actions *out) {
  if (entry->state != EL_ENTRY_HELD) return;
  el_entry_lose(EL_LOSS_EXPIRED, out);
  if (entry->lock_delay_ms == 0) {
    el_entry_take_out(entry, out);
    return;
  }
  el_entry_unwatch(entry, out);
  entry->state = EL_ENTRY_LOCK_DELAY;
  entry->wanted = false;
  entry->wake_at = now_ms + entry->lock_delay_ms;
}

static void on_stop(el_entry *entry, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_SWEEPING:
      entry->wanted = false;
      return;
    case EL_ENTRY_TRYING:
    case EL_ENTRY_ENQUEUING:
    case EL_ENTRY_WAITING:
    case EL_ENTRY_PROVING:
      el_entry_take_out(entry, out);
      return;
    case EL_ENTRY_HELD:
      entry->owed = true;
      el_entry_take_out(entry, out);
      return;
    case EL_ENTRY_IDLE:
    case EL_ENTRY_LOCK_DELAY:
    case EL_ENTRY_RELEASING:
    case EL_ENTRY_CONFIRMING:
    case EL_ENTRY_DEAD:
      return;
  }
}

/* The lease lives on for another key, of a hold that was lost. Nobody wants this one any
 * more, and it would keep others waiting: it is deleted, if it is known or found. */
static void on_session_left(el_entry *entry, el_entry_actions *out) {
  entry->orphaned = true;
  entry->wanted = false;
  if (entry->state != EL_ENTRY_RELEASING && entry->state != EL_ENTRY_SWEEPING) {
    el_entry_take_out(entry, out);
  }
}

/* Does the end of the session leave its key in etcd, with nobody who wants it? */
static bool is_left_behind(const el_entry *entry, el_session_end end) {
  return end == EL_SESSION_LEFT && !entry->orphaned &&
         entry->state != EL_ENTRY_LOCK_DELAY &&
         entry->state != EL_ENTRY_CONFIRMING && entry->state != EL_ENTRY_DEAD;
}

/* A release that is owed to a holder outlives the session: only the delete's own
 * answer tells whether the key was still his. Told once more, it is given up. */
static void on_session_dead(el_entry *entry, const el_entry_event *event,
                            el_entry_actions *out) {
  if (is_left_behind(entry, event->end)) {
    on_session_left(entry, out);
    return;
  }
  if (entry->state == EL_ENTRY_RELEASING && entry->owed && !entry->orphaned) {
    entry->orphaned = true;
    entry->cut_short = event->end == EL_SESSION_CUT_SHORT;
    return;
  }
  if (entry->state == EL_ENTRY_CONFIRMING) {
    el_entry_push(out, EL_ENTRY_RELEASED)->found =
        event->end != EL_SESSION_CUT_SHORT;
  } else if (entry->state == EL_ENTRY_HELD) {
    el_entry_lose(EL_LOSS_REVOKED, out);
  } else if (entry->state == EL_ENTRY_WAITING ||
             entry->state == EL_ENTRY_PROVING) {
    el_entry_push(out, EL_ENTRY_PLACE_LOST);
  } else if (entry->wanted) {
    el_entry_push(out, EL_ENTRY_RESTART);
  }
  el_entry_unwatch(entry, out);
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
      on_stop(entry, out);
      return;
    case EL_ENTRY_ANSWER:
      el_entry_on_answer(entry, event, now_ms, out);
      return;
    case EL_ENTRY_WATCH_CREATED:
      on_watch_created(entry, event->rev, out);
      return;
    case EL_ENTRY_WATCH_DELETED:
    case EL_ENTRY_WATCH_PUT:
      on_watch(entry, event, out);
      return;
    case EL_ENTRY_WATCH_REFUSED:
      if (entry->state == EL_ENTRY_WAITING) {
        el_entry_refuse(entry, EL_ENTRY_REFUSED, out);
      }
      return;
    case EL_ENTRY_CLAIMED:
      on_claimed(entry, now_ms, out);
      return;
    case EL_ENTRY_UNPROVEN:
      entry->fresh = false;
      return;
    case EL_ENTRY_LAPSED:
      on_lapsed(entry, now_ms, out);
      return;
    case EL_ENTRY_RENEWED:
      if (entry->state == EL_ENTRY_CONFIRMING) {
        el_entry_end_release(entry, true, out);
      }
      return;
    case EL_ENTRY_MAX_HOLD:
      on_max_hold(entry, out);
      return;
    case EL_ENTRY_HANDED_OFF:
      if (entry->state == EL_ENTRY_HELD) watch_own(entry, out);
      return;
    case EL_ENTRY_KEY_FOUND:
      on_key_found(entry, out);
      return;
    case EL_ENTRY_KEY_GONE:
      on_key_gone(entry, event, out);
      return;
    case EL_ENTRY_SESSION_DEAD:
      on_session_dead(entry, event, out);
      return;
    case EL_ENTRY_TIMER:
      on_timer(entry, out);
      return;
  }
}
