/* entry_moves: what an entry can do next: ask, watch, enter, get out. */
#include <assert.h>
#include <string.h>

#include "rules/entry_int.h"
#include "rules/kind.h"
#include "rules/retry.h"

/* ---- actions ---- */

el_entry_action *el_entry_push(el_entry_actions *out, int kind) {
  el_entry_action *action = &out->list[out->n++];
  assert(out->n <= EL_ENTRY_ACTIONS_MAX);
  memset(action, 0, sizeof *action);
  action->kind = kind;
  return action;
}

static el_entry_action *send(el_entry *entry, el_entry_actions *out,
                             el_request_kind request) {
  el_entry_action *action = el_entry_push(out, EL_ENTRY_SEND);
  assert(entry->busy == EL_REQUEST_NONE);
  entry->busy = request;
  entry->wake_at = 0;
  action->request = request;
  return action;
}

void el_entry_send_look(el_entry *entry, el_entry_actions *out,
                        bool serializable, bool all) {
  el_entry_action *action = send(entry, out, EL_REQUEST_LOOK);
  action->serializable = serializable;
  action->all = all;
}

void el_entry_send_try(el_entry *entry, el_entry_actions *out, bool all) {
  el_entry_action *action = send(entry, out, EL_REQUEST_TRY);
  action->bound = entry->bound;
  action->all = all;
}

void el_entry_send_enqueue(el_entry *entry, el_entry_actions *out) {
  send(entry, out, EL_REQUEST_ENQUEUE);
}

void el_entry_watch(el_entry *entry, el_entry_actions *out, el_place place,
                    int64_t known_rev) {
  el_entry_push(out, EL_ENTRY_WATCH)->place = place;
  entry->watching = true;
  entry->watch_rev = known_rev;
}

void el_entry_unwatch(el_entry *entry, el_entry_actions *out) {
  if (entry->watching) {
    el_entry_push(out, EL_ENTRY_UNWATCH);
  }
  entry->watching = false;
  entry->watch_rev = 0;
  entry->again = false;
}

void el_entry_retry_later(el_entry *entry, const el_entry_event *event,
                          int64_t now_ms) {
  entry->wake_at = el_retry_next(&event->outcome, now_ms, &entry->failures,
                                 (uint64_t)entry->lease + (uint64_t)entry->rev);
}

/* ---- ways out ---- */

/* One step out at a time, each after the answer to the one before: a delete that
 * overtakes the enqueue it belongs to would leave a ghost. */
void el_entry_take_out_next(el_entry *entry, el_entry_actions *out) {
  entry->wake_at = 0;
  if (entry->rev != 0) {
    entry->state = EL_ENTRY_RELEASING;
    send(entry, out, EL_REQUEST_DELETE)->guard = entry->rev;
  } else {
    entry->state = EL_ENTRY_IDLE;
  }
}

void el_entry_end_release(el_entry *entry, bool found, el_entry_actions *out) {
  el_entry_push(out, EL_ENTRY_RELEASED)->found = found;
  entry->rev = 0;
  entry->failures = 0;
  entry->owed = entry->maybe_deleted = false;
  if (entry->orphaned) {
    entry->state = EL_ENTRY_DEAD;
  } else {
    el_entry_take_out_next(entry, out);
  }
}

void el_entry_take_out(el_entry *entry, el_entry_actions *out) {
  entry->wanted = false;
  entry->state = EL_ENTRY_RELEASING;
  entry->wake_at = 0;
  el_entry_unwatch(entry, out);
  if (entry->busy == EL_REQUEST_NONE) {
    el_entry_take_out_next(entry, out);
  }
}

void el_entry_forget(el_entry *entry, el_entry_actions *out) {
  if (!el_kind_leaves_more(entry->mode)) {
    entry->rev = 0;
  } /* else that is still to be taken out */
  el_entry_take_out(entry, out);
}

void el_entry_lose(el_loss loss, el_entry_actions *out) {
  el_entry_push(out, EL_ENTRY_LOST)->loss = loss;
}

void el_entry_refuse(el_entry *entry, int verdict, el_entry_actions *out) {
  el_entry_push(out, verdict);
  el_entry_take_out(entry, out);
}

/* ---- ways in ---- */

void el_entry_begin(el_entry *entry, el_entry_actions *out) {
  entry->rev = 0;
  entry->bound = 1;
  entry->failures = 0;
  entry->owed = entry->maybe_deleted = false;
  if (entry->trying) {
    entry->state = EL_ENTRY_TRYING;
    el_entry_send_try(entry, out, false);
  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    el_entry_send_enqueue(entry, out);
  }
}
