/* L3 session_io: drives the session: its actions become leases, keepalives
 * and probes; what those answer becomes its events. I/O thread only. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "alloc.h"
#include "client_int.h"
#include "clock.h"
#include "retry.h"

/* A question that outlives the session that asked it is told apart by the
 * session's generation. */
typedef struct question {
  el_client *cl;
  unsigned generation;
  el_queue queue;         /* probe: whose key */
  el_entry_action action; /* probe */
  int64_t rev;            /* probe: the key's create_revision */
  int64_t rev_then;       /* probe: the cluster's revision when it was sent */
} question;

static question *ask(el_client *cl) {
  question *q = el_alloc(sizeof *q);
  q->cl = cl;
  q->generation = cl->ses_generation;
  return q;
}

static bool is_current(const question *q) {
  return q->generation == q->cl->ses_generation;
}

static void note_outcome(el_client *cl, const el_error *err) {
  if (err->code != EL_OK) {
    EL_COUNT(cl, failed_attempts, 1);
    el_trouble_note(&cl->trouble, err);
  }
  cl->ses_err = *err;
  el_client_note_contact(cl, err);
}

static el_session_event event_of(int kind, const el_lease_answer *answer) {
  el_session_event event = {.done = answer->err.code == EL_OK,
                            .definite = answer->err.definite,
                            .retriable = answer->err.retriable,
                            .elsewhere = answer->err.elsewhere,
                            .id = answer->id,
                            .ttl_ms = answer->ttl_ms,
                            .sent_ms = answer->sent_ms,
                            .term = answer->term};
  event.kind = kind;
  return event;
}

/* ---- grant and revoke ---- */

static int64_t random_lease_id(void) {
  uint64_t id = 0;
  while (id == 0) {
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id) id = 0;
    id &= INT64_MAX; /* etcd's ids are positive; 0 asks it to choose */
  }
  return (int64_t)id;
}

static void revoke(el_client *cl, int64_t id);

static void on_granted(void *arg, const el_lease_answer *answer) {
  question *q = arg;
  el_client *cl = q->cl;
  el_session_event event = event_of(EL_SESSION_GRANTED, answer);
  cl->revocable--;
  if (!cl->stopping && is_current(q) && el_client_note_lease(cl, answer)) {
    note_outcome(cl, &answer->err);
    el_session_io_step(cl, &event);
  } else if (!cl->stopping && !answer->err.definite) {
    revoke(cl, answer->id);
  }
  free(q);
}

static void grant(el_client *cl) {
  EL_COUNT(cl, grants, 1);
  cl->revocable++;
  el_lease_grant(cl->auth, random_lease_id(), cl->ttl_ms, EL_ATTEMPT_MS,
                 on_granted, ask(cl));
}

static void on_revoked(void *arg, const el_lease_answer *answer) {
  question *q = arg;
  el_client *cl = q->cl;
  el_session_event event = event_of(EL_SESSION_REVOKED, answer);
  cl->revocable--;
  if (!cl->stopping && is_current(q)) {
    el_session_io_step(cl, &event);
  }
  free(q);
}

static void revoke(el_client *cl, int64_t id) {
  EL_COUNT(cl, revokes, 1);
  cl->revocable++;
  el_lease_revoke(cl->auth, id, EL_ATTEMPT_MS, on_revoked, ask(cl));
}

/* ---- keepalive ---- */

static void on_kept(void *arg, const el_lease_answer *answer) {
  el_client *cl = arg;
  el_session_event event = event_of(EL_SESSION_KEPT, answer);
  if (cl->stopping || !el_client_note_lease(cl, answer)) return;
  note_outcome(cl, &answer->err);
  el_session_io_step(cl, &event);
}

/* ---- probe ---- */

/* The lock whose key was probed, if it is still the same. */
static el_slot *probed_slot(const question *q) {
  el_line *line = NULL;
  HASH_FIND(hh, q->cl->lines, q->queue.name, q->queue.name_len, line);
  if (line == NULL || line->slot == NULL || line->slot->m.rev != q->rev) {
    return NULL;
  }
  return line->slot;
}

static void on_probed(void *arg, el_txn_answer *answer) {
  question *q = arg;
  el_client *cl = q->cl;
  bool current = !cl->stopping && is_current(q);
  el_entry_event look;
  el_session_event event;
  if (current) {
    el_client_note_txn(cl, answer, EL_SEEN_READ, q->rev_then,
                       (el_bytes){q->queue.key, q->queue.key_len});
  }
  event = (el_session_event){.kind = EL_SESSION_PROBED,
                             .done = answer->err.code == EL_OK,
                             .definite = answer->err.definite,
                             .retriable = answer->err.retriable,
                             .elsewhere = answer->err.elsewhere,
                             .sent_ms = answer->sent_ms,
                             .term = answer->term};
  el_recipe_read(&q->queue, &q->action, answer, &look);
  event.exists = event.done && look.mine.rev == q->rev;
  if (current) {
    note_outcome(cl, &answer->err);
    if (event.done && !event.exists && probed_slot(q) != NULL) {
      el_slot_signal(probed_slot(q), EL_ENTRY_KEY_GONE);
    }
    el_session_io_step(cl, &event);
  }
  el_txn_answer_free(answer);
  free(q);
}

/* Reads one held key; the next probe reads the next one. */
static void probe(el_client *cl) {
  el_slot *slot = TAILQ_FIRST(&cl->held);
  el_session_event none = {.kind = EL_SESSION_PROBED, .sent_ms = el_now_ms()};
  question *q;
  if (slot == NULL) { /* let go a moment ago */
    el_session_io_step(cl, &none);
    return;
  }
  TAILQ_REMOVE(&cl->held, slot, held_link);
  TAILQ_INSERT_TAIL(&cl->held, slot, held_link);
  q = ask(cl);
  q->queue = slot->queue;
  q->rev = slot->m.rev;
  q->rev_then = cl->cluster.rev;
  q->action =
      (el_entry_action){.kind = EL_ENTRY_SEND, .request = EL_REQUEST_LOOK};
  EL_COUNT(cl, probes, 1);
  el_recipe_send(cl->auth, &q->queue, &q->action, 0, (el_bytes){0},
                 EL_ATTEMPT_MS, on_probed, q);
}

/* ---- step ---- */

static void carry_out(el_client *cl, const el_session_action *action) {
  switch (action->kind) {
    case EL_SESSION_GRANT:
      grant(cl);
      return;
    case EL_SESSION_KEEPALIVE:
      EL_COUNT(cl, keepalives, 1);
      el_keepalive_send(cl->ka, cl->ses.id);
      return;
    case EL_SESSION_RESET:
      el_error_set(&cl->ses_err, EL_UNAVAILABLE,
                   "etcd %s: a keepalive was not answered in time",
                   el_client_address(cl));
      el_trouble_note(&cl->trouble, &cl->ses_err);
      el_keepalive_leave(cl->ka);
      return;
    case EL_SESSION_PROBE:
      probe(cl);
      return;
    case EL_SESSION_REVOKE:
      revoke(cl, action->id);
      return;
    case EL_SESSION_READY:
      cl->ready = true;
      return;
    case EL_SESSION_REFUSED:
      cl->refused = true;
      return;
    case EL_SESSION_LAPSED:
      cl->lapsed = true;
      return;
    case EL_SESSION_GONE:
      cl->gone = true;
      return;
  }
}

/* What other threads may read of the session. The claim is published by
 * settle, after lost locks have been marked (claim.h). */
static void publish(el_client *cl) {
  bool alive = cl->ses.state == EL_SESSION_ALIVE;
  atomic_store(&cl->lease, alive ? cl->ses.id : 0);
  atomic_store(&cl->alive_until,
               alive ? cl->ses.last.sent_ms + cl->ses.last.ttl_ms : 0);
}

void el_session_io_step(el_client *cl, const el_session_event *event) {
  el_session_actions actions;
  int64_t claimed = cl->ses.claim_until;
  el_session_step(&cl->ses, event, el_now_ms(), &actions);
  if (cl->ses.claim_until > claimed) {
    el_trouble_end(&cl->trouble);
    cl->barren = 0;
  }
  if (cl->ses.wake_at != 0) {
    el_timers_set(el_loop_timers(cl->loop), &cl->ses_timer, cl->ses.wake_at);
  } else {
    el_timers_stop(el_loop_timers(cl->loop), &cl->ses_timer);
  }
  publish(cl);
  for (int i = 0; i < actions.n; i++) {
    carry_out(cl, &actions.list[i]);
  }
}

static void on_timer(el_timer *timer) {
  el_client *cl = (el_client *)((char *)timer - offsetof(el_client, ses_timer));
  el_session_event event = {.kind = EL_SESSION_TIMER};
  el_session_io_step(cl, &event);
}

/* ---- life ---- */

void el_session_io_drop(el_client *cl) {
  el_session_event event = {.kind = EL_SESSION_LEASE_GONE};
  if (cl->ses.state != EL_SESSION_ALIVE) {
    event.kind = EL_SESSION_CLOSE; /* nothing to revoke yet */
  }
  el_session_io_step(cl, &event);
}

void el_session_io_init(el_client *cl) {
  el_session_init(&cl->ses, cl->ttl_ms, 0);
  cl->claim = el_claim_new();
  cl->ka = el_keepalive_new(cl->auth, on_kept, cl);
  cl->ses_timer.due = on_timer;
}

/* When a new session may begin: at once, unless leases keep dying before
 * anything could be claimed on their strength. */
static int64_t next_grant_at(const el_client *cl) {
  el_outcome failed = {.retriable = true, .sent_ms = el_now_ms()};
  return cl->barren == 0 ? 0 : el_retry_at(&failed, failed.sent_ms, cl->barren);
}

void el_session_io_renew(el_client *cl) {
  cl->ses_generation++;
  el_timers_stop(el_loop_timers(cl->loop), &cl->ses_timer);
  el_keepalive_reset(cl->ka);
  el_claim_set(cl->claim, 0);
  el_claim_unref(cl->claim);
  cl->claim = el_claim_new();
  el_session_init(&cl->ses, cl->ttl_ms, next_grant_at(cl));
  cl->barren++; /* until it proves otherwise */
  publish(cl);
}
