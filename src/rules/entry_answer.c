/* entry_answer: what an entry concludes from etcd's answers. */
#include <assert.h>

#include "rules/entry_int.h"

/* To look after fewer deletions than necessary does no harm. */
static void note_missing(el_entry *entry, const el_entry_event *event) {
  entry->missing =
      event->missing < UINT16_MAX ? (uint16_t)event->missing : UINT16_MAX;
}

static void wait_behind(el_entry *entry, const el_entry_event *event,
                        int64_t now_ms, el_entry_actions *out) {
  if (entry->trying) {
    el_entry_refuse(entry, EL_ENTRY_LOCKED, out);
    return;
  }
  entry->state = EL_ENTRY_WAITING;
  entry->ahead = event->older;
  note_missing(entry, event);
  entry->again = false;
  el_entry_watch(entry, out, event->older, event->rev - event->batched);
  entry->wake_at = now_ms + entry->reread_ms;
}

/* A quorum has seen our key. */
static void prove(const el_entry_event *event, el_entry_actions *out) {
  el_entry_action *proof = el_entry_push(out, EL_ENTRY_PROOF);
  proof->sent_ms = event->outcome.sent_ms;
  proof->term = event->term;
  proof->rev = event->rev;
}

/* The answer at hand shows our key and none older: ours, once the session can
 * prove that its lease lives. */
static void win(el_entry *entry, const el_entry_event *event,
                el_entry_actions *out) {
  el_entry_unwatch(entry, out);
  entry->state = EL_ENTRY_PROVING;
  entry->fresh = true;
  entry->failures = 0;
  entry->wake_at = 0;
  if (!event->serializable) prove(event, out);
}

/* An enqueue or a try that was not answered: it may be carried out yet. A repeat is
 * harmless (it puts only if absent), but whoever gives up has to look for what may
 * still come. */
static void on_put_failed(el_entry *entry, const el_entry_event *event,
                          int64_t now_ms, el_entry_actions *out) {
  if (!event->outcome.is_definite) {
    el_entry_push(out, EL_ENTRY_UNSURE);
  }
  if (!entry->wanted) {
    el_entry_take_out_next(entry, out);
  } else if (event->outcome.is_retriable) {
    el_entry_retry_later(entry, event, now_ms);
  } else {
    el_entry_refuse(entry, EL_ENTRY_REFUSED, out);
  }
}

static void on_enqueued(el_entry *entry, const el_entry_event *event,
                        int64_t now_ms, el_entry_actions *out) {
  entry->rev = event->mine.rev;
  entry->failures = 0;
  if (!entry->wanted) {
    el_entry_take_out_next(entry, out);
  } else if (event->unsure) {
    entry->state = EL_ENTRY_WAITING;
    entry->ahead = (el_place){0};
    el_entry_send_look(entry, out, false, false);
  } else if (event->older.rev != 0) {
    prove(event, out);
    wait_behind(entry, event, now_ms, out);
  } else {
    win(entry, event, out);
  }
}

/* A try asks twice: with bound 1 it succeeds if nothing at all is below the name.
 * If only keys are there that don't count, these are excepted by their age, and the
 * second try fails only if something has come in between. Where much comes and goes
 * below the name that would go on and on: then it queues, and leaves if it isn't
 * the first. */
static void on_tried(el_entry *entry, const el_entry_event *event,
                     el_entry_actions *out) {
  entry->rev = event->mine.rev;
  entry->failures = 0;
  if (!entry->wanted) {
    el_entry_take_out_next(entry, out);
  } else if (event->locked) {
    el_entry_refuse(entry, EL_ENTRY_LOCKED, out);
  } else if (event->unsure) {
    el_entry_send_try(entry, out, true);
  } else if (event->partial ||
             (event->mine.rev != 0 && event->mine.lease != entry->lease)) {
    el_entry_refuse(entry, EL_ENTRY_PLACE_LOST, out);
  } else if (event->mine.rev != 0) {
    win(entry, event, out);
  } else if (entry->bound == 1) {
    /* Only keys that don't count: take it if nothing has come since. */
    entry->bound = event->rev + 1;
    el_entry_send_try(entry, out, true);
  } else {
    entry->state = EL_ENTRY_ENQUEUING;
    el_entry_send_enqueue(entry, out);
  }
}

/* A member may be behind the others for long, so that it tells of the predecessor's end
 * after our key has gone as well. One that has come as far as the proof isn't. */
static bool is_proven(const el_entry_event *look) {
  return !look->serializable ||
         (look->proven_rev != 0 && look->rev >= look->proven_rev);
}

static bool is_stale(const el_entry *entry, const el_entry_event *event) {
  return event->serializable &&
         (event->rev < entry->rev || event->rev < entry->watch_rev);
}

/* Keys older than ours can only disappear, so what a serializable read shows
 * of them is final as soon as its revision isn't before our key's. That our own key
 * is still there needs a linearizable one, unless it was just proven that its lease
 * lives: then only an admin can have taken it, in this moment. */
static void on_looked_waiting(el_entry *entry, const el_entry_event *event,
                              int64_t now_ms, el_entry_actions *out) {
  if (is_stale(entry, event)) {
    el_entry_send_look(entry, out, false, false);
  } else if (event->mine.rev != entry->rev || event->partial) {
    el_entry_push(out, EL_ENTRY_PLACE_LOST);
    el_entry_forget(entry, out);
  } else if (event->mine.lease != entry->lease) {
    el_entry_refuse(entry, EL_ENTRY_PLACE_LOST, out);
  } else if (event->unsure) {
    el_entry_send_look(entry, out, false, true);
  } else if (entry->again || (event->older.rev == 0 && !is_proven(event))) {
    entry->again = false;
    el_entry_send_look(entry, out, false, false);
  } else if (event->older.rev == 0) {
    win(entry, event, out);
  } else if (el_place_is_same(&event->older, &entry->ahead)) {
    note_missing(entry, event);
    entry->wake_at = now_ms + entry->reread_ms;
  } else {
    wait_behind(entry, event, now_ms, out);
  }
}

static void on_looked_held(el_entry *entry, const el_entry_event *event,
                           el_entry_actions *out) {
  if (is_stale(entry, event)) {
    el_entry_send_look(entry, out, false, false);
  } else if (event->mine.rev != entry->rev || event->partial) {
    el_entry_lose(EL_LOSS_DELETED, out);
    el_entry_forget(entry, out);
  } else if (event->mine.lease != entry->lease) {
    el_entry_lose(EL_LOSS_REPLACED, out);
    el_entry_take_out(entry, out);
  } else if (entry->again) {
    entry->again = false;
    el_entry_send_look(entry, out, false, false);
  }
}

static void on_swept(el_entry *entry, const el_entry_event *event,
                     int64_t now_ms, el_entry_actions *out) {
  if (entry->wanted) {
    el_entry_begin(entry, out);
  } else if (!event->outcome.is_done && event->outcome.is_retriable) {
    el_entry_retry_later(entry, event, now_ms);
  } else {
    entry->rev = event->mine.rev; /* 0: it has gone, or we may not look */
    entry->failures = 0;
    el_entry_take_out_next(entry, out);
  }
}

static void on_looked(el_entry *entry, const el_entry_event *event,
                      int64_t now_ms, el_entry_actions *out) {
  switch (entry->state) {
    case EL_ENTRY_SWEEPING:
      on_swept(entry, event, now_ms, out);
      return;
    case EL_ENTRY_RELEASING:
      el_entry_take_out_next(entry, out);
      return;
    case EL_ENTRY_LOCK_DELAY:
      return;
    case EL_ENTRY_WAITING:
    case EL_ENTRY_HELD:
      break;
    default:
      assert(!"a look is answered in a state that sends none");
      return;
  }
  if (!event->outcome.is_done && event->outcome.is_retriable) {
    el_entry_retry_later(entry, event, now_ms);
  } else if (!event->outcome.is_done && entry->state == EL_ENTRY_WAITING) {
    el_entry_refuse(entry, EL_ENTRY_REFUSED, out);
  } else if (!event->outcome.is_done) {
    entry->wake_at = 0; /* the session's own proofs decide about the hold */
  } else if (entry->state == EL_ENTRY_WAITING) {
    entry->failures = 0;
    on_looked_waiting(entry, event, now_ms, out);
  } else {
    entry->failures = 0;
    on_looked_held(entry, event, out);
  }
}

static void on_delete_failed(el_entry *entry, const el_entry_event *event,
                             int64_t now_ms, el_entry_actions *out) {
  bool is_refused = el_outcome_is_final(&event->outcome);
  if (!event->outcome.is_definite) {
    entry->maybe_deleted = true;
  } else if (is_refused && entry->owed) {
    entry->owed = false; /* told once; at the latest the lease takes the key */
    el_entry_push(out, EL_ENTRY_REFUSED);
  }
  if (is_refused && entry->orphaned) {
    entry->state = EL_ENTRY_DEAD;
  } else {
    el_entry_retry_later(entry, event, now_ms);
  }
}

/* Repeated until its fate is known: a key that stays would be a holder whom nobody
 * can ask to go. "Not found" after an attempt of unknown fate is taken for that
 * attempt's success, if the lease was there until then: else the key may have been
 * gone before we asked, and somebody else's turn have come. */
static void on_deleted(el_entry *entry, const el_entry_event *event,
                       int64_t now_ms, el_entry_actions *out) {
  if (!event->outcome.is_done) {
    on_delete_failed(entry, event, now_ms, out);
  } else if (event->partial) {
    el_entry_end_release(entry, false, out);
  } else if (entry->owed && !event->deleted && entry->maybe_deleted &&
             !entry->orphaned) {
    entry->state = EL_ENTRY_CONFIRMING;
    entry->confirm_ms = now_ms;
    el_entry_push(out, EL_ENTRY_CONFIRM);
  } else {
    el_entry_end_release(
        entry, event->deleted || (entry->maybe_deleted && !entry->cut_short),
        out);
  }
}

void el_entry_on_answer(el_entry *entry, const el_entry_event *event,
                        int64_t now_ms, el_entry_actions *out) {
  el_request_kind request = entry->busy;
  entry->busy = EL_REQUEST_NONE;
  if (request != EL_REQUEST_LOOK && !event->outcome.is_done &&
      !event->outcome.is_definite) {
    entry->uncertain = true;
  }
  if (entry->state == EL_ENTRY_DEAD) return;
  switch (request) {
    case EL_REQUEST_TRY:
    case EL_REQUEST_ENQUEUE:
      if (!event->outcome.is_done) {
        on_put_failed(entry, event, now_ms, out);
      } else if (request == EL_REQUEST_TRY) {
        on_tried(entry, event, out);
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
