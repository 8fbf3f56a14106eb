/* L3 entry_io: drives an entry: its actions become transactions, watches and
 * timers; what those bring becomes its events. I/O thread only. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "client_int.h"
#include "clock.h"

/* ---- requests ---- */

static void count_request(el_client *cl, el_request request) {
  EL_COUNT(cl, tries, request == EL_REQUEST_TRY);
  EL_COUNT(cl, enqueues, request == EL_REQUEST_ENQUEUE);
  EL_COUNT(cl, looks, request == EL_REQUEST_LOOK);
  EL_COUNT(cl, deletes, request == EL_REQUEST_DELETE);
}

static void note_outcome(el_slot *slot, const el_txn_answer *answer) {
  if (answer->err.code != EL_OK) {
    slot->last_err = answer->err;
    EL_COUNT(slot->cl, failed_attempts, 1);
  } else {
    slot->last_err.code = EL_OK;
  }
  el_client_note_contact(slot->cl, &answer->err);
}

/* An entry that was told that its lease is gone waits for the session to die
 * of the same news: it was never in the queue, so it starts again. */
static void tell_lease_gone(el_slot *slot, const el_error *err,
                            el_entry_event *event) {
  el_session_event gone = {.kind = EL_SESSION_LEASE_GONE};
  event->definite = event->retriable = true;
  el_trouble_note(&slot->cl->trouble, err);
  if (slot->line != NULL) {
    el_session_io_step(slot->cl, &gone);
  }
}

/* What the answer can tell about the cluster. */
static int seen_how(const el_slot *slot, const el_txn_answer *answer) {
  if (slot->sent.request == EL_REQUEST_LOOK) {
    return slot->sent.serializable ? EL_SEEN_LOCAL : EL_SEEN_READ;
  }
  return answer->succeeded ? EL_SEEN_WRITTEN : EL_SEEN_APPLIED;
}

static void on_answer(void *arg, el_txn_answer *answer) {
  el_slot *slot = arg;
  el_entry_event event;
  if (slot->cl->stopping) {
    slot->m.busy = EL_REQUEST_NONE;
    el_txn_answer_free(answer);
    return;
  }
  el_client_note_txn(slot->cl, answer, seen_how(slot, answer), slot->rev_then,
                     (el_bytes){slot->queue.key, slot->queue.key_len});
  note_outcome(slot, answer);
  el_recipe_read(&slot->queue, &slot->sent, answer, &event);
  if (answer->err.lease_gone) {
    tell_lease_gone(slot, &answer->err, &event);
  }
  el_txn_answer_free(answer);
  el_slot_step(slot, &event);
}

static void send(el_slot *slot, const el_entry_action *action) {
  el_lock *front = slot->line != NULL ? slot->line->active : NULL;
  el_bytes value = {0};
  if (front != NULL) {
    value = (el_bytes){front->value, front->value_len};
  }
  slot->sent = *action;
  slot->rev_then = slot->cl->cluster.rev;
  count_request(slot->cl, action->request);
  el_recipe_send(slot->cl->auth, &slot->queue, action, slot->m.rev, value,
                 EL_ATTEMPT_MS, on_answer, slot);
}

/* ---- watch ---- */

static void on_watch_event(el_watch *watch, const el_watch_event *from) {
  static const int kinds[] = {
      [EL_WATCH_CREATED] = EL_ENTRY_WATCH_CREATED,
      [EL_WATCH_DELETED] = EL_ENTRY_WATCH_DELETED,
      [EL_WATCH_PUT] = EL_ENTRY_WATCH_PUT,
      [EL_WATCH_REFUSED] = EL_ENTRY_WATCH_REFUSED,
  };
  el_slot *slot = (el_slot *)((char *)watch - offsetof(el_slot, watch));
  el_entry_event event = {.rev = from->rev, .lease = from->lease};
  event.kind = kinds[from->kind];
  if (from->kind == EL_WATCH_REFUSED) {
    slot->last_err = from->err;
  }
  el_slot_step(slot, &event);
}

static void start_watch(el_slot *slot, const el_place *place) {
  el_bytes key = {slot->watched_key, 0};
  el_watch_stop(slot->cl->watches, &slot->watch);
  key.len = el_lock_key(slot->watched_key, slot->queue.name,
                        slot->queue.name_len, place->mode, place->lease);
  EL_COUNT(slot->cl, watches, 1);
  if (slot->m.state == EL_ENTRY_WAITING && slot->line != NULL &&
      slot->line->active != NULL) {
    slot->line->active->waited = true;
  }
  el_watch_start(slot->cl->watches, &slot->watch, key);
}

/* ---- step ---- */

static void prove(el_slot *slot, const el_entry_action *action) {
  el_session_event proof = {.kind = EL_SESSION_PROOF,
                            .sent_ms = action->sent_ms,
                            .term = action->term};
  el_session_io_step(slot->cl, &proof);
}

static void carry_out(el_slot *slot, const el_entry_action *action) {
  switch (action->kind) {
    case EL_ENTRY_SEND:
      send(slot, action);
      return;
    case EL_ENTRY_WATCH:
      start_watch(slot, &action->place);
      return;
    case EL_ENTRY_UNWATCH:
      el_watch_stop(slot->cl->watches, &slot->watch);
      return;
    case EL_ENTRY_PROOF:
      prove(slot, action);
      return;
    default:
      if (slot->line != NULL) {
        el_line_on_action(slot->line, action);
      }
  }
}

static void note_proving(el_slot *slot, bool proving) {
  if (proving && !slot->in_proving) {
    TAILQ_INSERT_TAIL(&slot->cl->proving, slot, proving_link);
  } else if (!proving && slot->in_proving) {
    TAILQ_REMOVE(&slot->cl->proving, slot, proving_link);
  }
  slot->in_proving = proving;
}

static void note_held(el_slot *slot, bool held) {
  el_client *cl = slot->cl;
  if (held && !slot->in_held) {
    TAILQ_INSERT_TAIL(&cl->held, slot, held_link);
    cl->n_held++;
  } else if (!held && slot->in_held) {
    TAILQ_REMOVE(&cl->held, slot, held_link);
    cl->n_held--;
  }
  slot->in_held = held;
}

/* Keeps the client's lists and the timer in step with the entry. */
static void note_state(el_slot *slot) {
  el_client *cl = slot->cl;
  bool proving = slot->m.state == EL_ENTRY_PROVING;
  note_proving(slot, proving);
  note_held(slot, proving || slot->m.state == EL_ENTRY_HELD);
  if (slot->m.wake_at != 0) {
    el_timers_set(el_loop_timers(cl->loop), &slot->timer, slot->m.wake_at);
  } else {
    el_timers_stop(el_loop_timers(cl->loop), &slot->timer);
  }
}

void el_slot_step(el_slot *slot, const el_entry_event *event) {
  el_entry_actions actions;
  el_entry_step(&slot->m, event, el_now_ms(), &actions);
  note_state(slot);
  for (int i = 0; i < actions.n; i++) {
    carry_out(slot, &actions.list[i]);
  }
  if (slot->line != NULL) {
    el_line_touch(slot->line);
  } else if (el_entry_is_over(&slot->m)) {
    el_slot_free(slot);
  }
}

void el_slot_signal(el_slot *slot, int kind) {
  el_entry_event event = {0};
  event.kind = kind;
  el_slot_step(slot, &event);
}

static void on_timer(el_timer *timer) {
  el_slot *slot = (el_slot *)((char *)timer - offsetof(el_slot, timer));
  el_slot_signal(slot, EL_ENTRY_TIMER);
}

/* ---- life ---- */

el_slot *el_slot_new(el_line *line) {
  el_client *cl = line->cl;
  el_slot *slot = el_alloc(sizeof *slot);
  slot->cl = cl;
  slot->line = line;
  el_entry_init(&slot->m, cl->ses.id, cl->ses.ttl_ms);
  el_queue_init(&slot->queue, line->name, line->name_len, cl->ses.id);
  slot->timer.due = on_timer;
  slot->watch.on_event = on_watch_event;
  TAILQ_INSERT_TAIL(&cl->slots, slot, link);
  return slot;
}

void el_slot_free(el_slot *slot) {
  el_client *cl = slot->cl;
  el_timers_stop(el_loop_timers(cl->loop), &slot->timer);
  el_watch_stop(cl->watches, &slot->watch);
  note_proving(slot, false);
  note_held(slot, false);
  TAILQ_REMOVE(&cl->slots, slot, link);
  free(slot);
}
