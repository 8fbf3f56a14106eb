/* L3 line: those of one client who want one lock, first come, first served.
 *
 * The one in front drives the client's entry in etcd's queue: there is one
 * key for each name and client, however many wait here. I/O thread only. */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "alloc.h"
#include "client_int.h"
#include "clock.h"

void el_line_touch(el_line *line) {
  if (!line->dirty) {
    line->dirty = true;
    TAILQ_INSERT_TAIL(&line->cl->dirty, line, dirty_link);
  }
}

static el_line *find_or_add(el_client *cl, const char *name, size_t len) {
  el_line *line = NULL;
  HASH_FIND(hh, cl->lines, name, len, line);
  if (line == NULL) {
    line = el_alloc(sizeof *line);
    line->cl = cl;
    line->name = el_strndup(name, len);
    line->name_len = len;
    TAILQ_INIT(&line->waiting);
    HASH_ADD_KEYPTR(hh, cl->lines, line->name, line->name_len, line);
  }
  return line;
}

static void free_line(el_line *line) {
  if (line->slot != NULL) {
    el_slot_free(line->slot);
  }
  HASH_DEL(line->cl->lines, line);
  free(line->name);
  free(line);
}

/* ---- verdicts ---- */

static bool is_waiting(const el_lock *lk) { return lk != lk->line->active; }

/* Takes |lk| out of its line; the line's reference goes with it. */
static void detach(el_lock *lk) {
  el_line *line = lk->line;
  if (is_waiting(lk)) {
    TAILQ_REMOVE(&line->waiting, lk, link);
  } else {
    line->active = NULL;
  }
  el_timers_stop(el_loop_timers(line->cl->loop), &lk->timer);
  lk->line = NULL;
  el_line_touch(line);
}

static void fail(el_lock *lk, const el_error *err) {
  EL_COUNT(lk->cl, waiting, -1);
  detach(lk);
  el_lock_fail(lk, err);
  el_lock_unref(lk);
}

/* What stood in the way last, if anything did. */
static const el_error *last_trouble(const el_line *line) {
  if (line->slot != NULL && line->slot->last_err.code != EL_OK) {
    return &line->slot->last_err;
  }
  if (line->cl->ses_err.code != EL_OK) return &line->cl->ses_err;
  return el_trouble_now(&line->cl->trouble);
}

/* Has etcd answered that the lock isn't free? */
static bool is_queued(const el_line *line) {
  const el_entry *entry = line->slot != NULL ? &line->slot->m : NULL;
  if (entry == NULL) return false;
  return entry->state == EL_ENTRY_WAITING || entry->state == EL_ENTRY_PROVING ||
         entry->state == EL_ENTRY_HELD ||
         (entry->state == EL_ENTRY_RELEASING && entry->rev != 0);
}

static void fail_in_time(el_lock *lk, double waited_s) {
  const el_error *trouble = last_trouble(lk->line);
  el_error err;
  if (trouble != NULL) {
    el_error_set(&err, EL_UNAVAILABLE, "lock \"%.80s\" not taken in %.3g s: %s",
                 lk->name, waited_s, trouble->text);
  } else if (!is_queued(lk->line)) {
    el_error_set(&err, EL_UNAVAILABLE,
                 "lock \"%.80s\" not taken in %.3g s: no answer from etcd %s",
                 lk->name, waited_s, el_client_address(lk->cl));
  } else {
    el_error_set(&err, EL_TIMEOUT, "lock \"%.80s\" was not free within %.3g s",
                 lk->name, waited_s);
  }
  fail(lk, &err);
}

static void fail_refused(el_lock *lk) {
  const el_error *trouble = last_trouble(lk->line);
  el_error err;
  el_error_set(&err, trouble ? trouble->code : EL_UNAVAILABLE,
               "lock \"%.80s\": %s", lk->name,
               trouble ? trouble->text : "etcd refused it");
  fail(lk, &err);
}

static void fail_locked(el_lock *lk) {
  el_error err;
  el_error_set(&err, EL_LOCKED, "lock \"%.80s\" is held by somebody else",
               lk->name);
  fail(lk, &err);
}

static void fail_place_lost(el_lock *lk) {
  el_error err;
  el_error_set(&err, EL_LOST,
               "lock \"%.80s\": our key in the queue was deleted, or our lease "
               "ended, while we waited",
               lk->name);
  fail(lk, &err);
}

static void grant(el_line *line, el_place place) {
  el_lock *lk = line->active;
  int64_t now = el_now_ms();
  EL_COUNT(line->cl, waiting, -1);
  EL_COUNT(line->cl, held, 1);
  EL_COUNT(line->cl, acquired, 1);
  el_lock_grant(lk, place, &line->slot->queue, line->cl->claim, now);
  el_timers_stop(el_loop_timers(line->cl->loop), &lk->timer);
  if (lk->max_hold_ms > 0) {
    el_timers_set(el_loop_timers(line->cl->loop), &lk->timer,
                  now + lk->max_hold_ms);
  }
}

static void lose(el_line *line, el_loss loss) {
  el_lock *lk = line->active;
  el_error err;
  EL_COUNT(line->cl, held, -1);
  EL_COUNT(line->cl, lost, 1);
  detach(lk);
  el_lock_lose(lk, loss);
  el_error_set(&err, EL_LOST, "lock \"%.80s\" was lost", lk->name);
  el_lock_finish(lk, &err);
  el_lock_unref(lk);
}

/* The key of the lock that was let go is out, or etcd refuses to take it. */
static void finish(el_line *line, const el_error *err) {
  el_lock *lk = line->releasing;
  line->releasing = NULL;
  el_lock_finish(lk, err);
  el_lock_unref(lk);
}

static void on_released(el_line *line, bool found) {
  el_error err = {.code = EL_OK};
  if (line->releasing == NULL) return; /* a wait that was given up */
  if (!found) {
    el_error_set(&err, EL_LOST,
                 "lock \"%.80s\": the key was gone before it was released",
                 line->releasing->name);
  }
  finish(line, &err);
}

static void on_refused(el_line *line) {
  if (line->active != NULL) {
    fail_refused(line->active);
  } else if (line->releasing != NULL) {
    finish(line, &line->slot->last_err);
  }
}

void el_line_on_action(el_line *line, const el_entry_action *action) {
  el_lock *lk = line->active;
  if (lk == NULL && action->kind != EL_ENTRY_RELEASED &&
      action->kind != EL_ENTRY_REFUSED) {
    return; /* the caller has gone, or was told already */
  }
  switch (action->kind) {
    case EL_ENTRY_GRANTED:
      grant(line, action->place);
      return;
    case EL_ENTRY_REFUSED:
      on_refused(line);
      return;
    case EL_ENTRY_LOCKED:
      fail_locked(lk);
      return;
    case EL_ENTRY_PLACE_LOST:
      fail_place_lost(lk);
      return;
    case EL_ENTRY_RESTART:
      /* Back to the front; settle starts it on the next session. */
      line->active = NULL;
      TAILQ_INSERT_HEAD(&line->waiting, lk, link);
      return;
    case EL_ENTRY_LOST:
      lose(line, action->loss);
      return;
    case EL_ENTRY_RELEASED:
      on_released(line, action->found);
      return;
    default:
      assert(!"an action that is not the line's");
  }
}

/* ---- time ---- */

/* One who waits without a time limit waits out an outage like another holder;
 * but where etcd has never been, he would wait for a typing mistake. */
static bool waits_for_contact(const el_lock *lk) {
  return lk->deadline_ms == INT64_MAX && !lk->cl->contacted;
}

static void on_deadline(el_lock *lk) {
  bool active = !is_waiting(lk);
  el_line *line = lk->line;
  bool endless = lk->deadline_ms == INT64_MAX;
  if (endless && !waits_for_contact(lk)) return; /* it has come meanwhile */
  fail_in_time(lk,
               (double)(endless ? EL_FIRST_CONTACT_MS : lk->timeout_ms) / 1000);
  if (active && line->slot != NULL) {
    el_slot_signal(line->slot, EL_ENTRY_STOP);
  }
}

static void on_timer(el_timer *timer) {
  el_lock *lk = (el_lock *)((char *)timer - offsetof(el_lock, timer));
  if (atomic_load(&lk->state) == EL_HOLD_PENDING) {
    on_deadline(lk);
  } else if (el_now_ms() < atomic_load(&lk->hold_until)) {
    el_line_expire(lk); /* it was moved meanwhile */
  } else if (lk->line->slot != NULL) {
    el_slot_signal(lk->line->slot, EL_ENTRY_MAX_HOLD);
  }
}

void el_line_expire(el_lock *lk) {
  if (lk->line != NULL && atomic_load(&lk->state) == EL_HOLD_HELD) {
    el_timers_set(el_loop_timers(lk->cl->loop), &lk->timer,
                  atomic_load(&lk->hold_until));
  }
}

static void set_deadline(el_lock *lk) {
  int64_t at = waits_for_contact(lk) ? el_now_ms() + EL_FIRST_CONTACT_MS
                                     : lk->deadline_ms;
  lk->timer.due = on_timer;
  if (at != INT64_MAX) {
    el_timers_set(el_loop_timers(lk->cl->loop), &lk->timer, at);
  }
}

/* ---- joining and leaving ---- */

void el_line_join(el_lock *lk) {
  el_line *line;
  EL_COUNT(lk->cl, waiting, 1);
  el_lock_ref(lk);
  line = find_or_add(lk->cl, lk->name, lk->name_len);
  lk->line = line;
  lk->waited = line->active != NULL || !TAILQ_EMPTY(&line->waiting);
  TAILQ_INSERT_TAIL(&line->waiting, lk, link);
  el_line_touch(line);
  if (lk->cl->closing) {
    el_error err;
    el_error_set(&err, EL_CLOSED, "the client is closed");
    fail(lk, &err);
  } else if (lk->cl->wrong_cluster.code != EL_OK) {
    fail(lk, &lk->cl->wrong_cluster);
  } else if (lk->try_once &&
             (line->active != NULL || TAILQ_FIRST(&line->waiting) != lk)) {
    fail_locked(lk);
  } else {
    set_deadline(lk);
  }
}

/* Ends a hold of which its holder has let go. */
static void let_go(el_lock *lk) {
  el_line *line = lk->line;
  bool lost = el_lock_loss(lk) != EL_LOSS_NONE;
  EL_COUNT(lk->cl, held, -1);
  EL_COUNT(lk->cl, lost, lost);
  detach(lk);
  if (lost) {
    el_error err;
    el_error_set(&err, EL_LOST, "lock \"%.80s\" was lost", lk->name);
    el_lock_finish(lk, &err);
    el_lock_unref(lk);
  } else {
    assert(line->releasing == NULL);
    line->releasing = lk;
  }
  el_slot_signal(line->slot, EL_ENTRY_STOP);
}

void el_line_leave(el_lock *lk) {
  el_line *line = lk->line;
  el_error err;
  bool active;
  if (line == NULL) return; /* over already */
  if (atomic_load(&lk->state) != EL_HOLD_PENDING) {
    let_go(lk);
    return;
  }
  active = !is_waiting(lk);
  el_error_set(&err, EL_CANCELLED, "the wait for lock \"%.80s\" was given up",
               lk->name);
  fail(lk, &err);
  if (active && line->slot != NULL) {
    el_slot_signal(line->slot, EL_ENTRY_STOP);
  }
}

void el_line_fail(el_line *line, const el_error *err, el_loss loss) {
  if (line->active != NULL) {
    if (atomic_load(&line->active->state) == EL_HOLD_PENDING) {
      fail(line->active, err);
    } else {
      lose(line, loss);
    }
  }
  while (!TAILQ_EMPTY(&line->waiting)) {
    fail(TAILQ_FIRST(&line->waiting), err);
  }
}

/* ---- whose turn ---- */

void el_line_settle(el_line *line) {
  el_client *cl = line->cl;
  el_lock *next = TAILQ_FIRST(&line->waiting);
  if (next == NULL && line->active == NULL && line->releasing == NULL &&
      (line->slot == NULL || el_entry_is_over(&line->slot->m))) {
    free_line(line);
    return;
  }
  if (next == NULL || line->active != NULL) return;
  if (cl->ses.state != EL_SESSION_ALIVE) {
    cl->wanted = true;
    return;
  }
  if (line->slot == NULL) {
    line->slot = el_slot_new(line);
  }
  if (el_entry_is_free(&line->slot->m)) {
    TAILQ_REMOVE(&line->waiting, next, link);
    line->active = next;
    el_slot_signal(line->slot, next->try_once ? EL_ENTRY_TRY : EL_ENTRY_START);
  }
}
