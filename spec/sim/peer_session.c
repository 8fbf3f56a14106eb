/* sim peer_session: carries out the actions of a session. */
#include <stdlib.h>
#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"

/* ---- requests ---- */

static call call_of(world *wd, const sim_peer *pr, int session,
                    call_kind kind) {
  call what = {.kind = kind, .peer = pr->id, .session = session};
  what.id = world_new_id(wd);
  what.sent_ms = clock_now(wd, pr->id);
  what.lease = pr->sessions[session].core.id;
  return what;
}

static void step_answer(world *wd, const world_event *ev, int kind) {
  const el_entry_event *answer = &ev->reply.event;
  el_session_event event = {.kind = kind,
                            .outcome = answer->outcome,
                            .id = ev->call.lease,
                            .ttl_ms = ev->reply.ttl_ms,
                            .term = answer->term,
                            .rev = answer->rev,
                            .is_found = answer->own.rev != 0};
  sim_peer *pr = &wd->peers[ev->peer];
  session_step(wd, pr, ev->call.session, &event);
  peer_settle(wd, pr);
}

/* Tells whether |ev| is the first answer to the call |*awaited|, and clears that ID. */
static bool is_awaited(const world_event *ev, uint32_t *awaited) {
  if (ev->call.id != *awaited) return false;
  *awaited = 0;
  return true;
}

static peer_session *session_of(world *wd, const world_event *ev) {
  return &wd->peers[ev->peer].sessions[ev->call.session];
}

static void on_granted(world *wd, const world_event *ev) {
  if (!is_awaited(ev, &session_of(wd, ev)->grant_call)) return;
  step_answer(wd, ev, EL_SESSION_ON_GRANT_ANSWER);
}

static void on_kept(world *wd, const world_event *ev) {
  if (!is_awaited(ev, &session_of(wd, ev)->keep_call)) return;
  step_answer(wd, ev, EL_SESSION_ON_KEEPALIVE_ANSWER);
}

static void on_revoked(world *wd, const world_event *ev) {
  if (!is_awaited(ev, &session_of(wd, ev)->revoke_call)) return;
  step_answer(wd, ev, EL_SESSION_ON_REVOKE_ANSWER);
}

static bool is_there(const peer_session *ses, const world_event *ev) {
  const el_entry_event *seen = &ev->reply.event;
  return seen->own.rev == ses->read_rev && !seen->is_partial;
}

/* Handles the answer to the read of a held key. If the key is gone, its entry is told so only if it
 * still has this key: meanwhile it may have released the key, or have got another one. */
static void on_key_read(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_session *ses = session_of(wd, ev);
  const peer_entry *at = &pr->entries[ses->read_entry];
  world_event told = *ev;
  if (!is_awaited(ev, &ses->read_call)) return;
  if (ev->reply.event.outcome.is_done &&
      (!is_there(ses, ev) || ev->reply.event.own.lease != ev->call.lease)) {
    told.reply.event.own.rev = 0;
    if (at->used && at->session == ev->call.session &&
        at->core.rev == ses->read_rev) {
      entry_key_gone(wd, pr, ses->read_entry, ses->read_rev, is_there(ses, ev));
    }
  }
  step_answer(wd, &told, EL_SESSION_ON_READ_ANSWER);
}

/* ---- actions ---- */

static void grant(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  call what = call_of(wd, pr, session, CALL_GRANT);
  what.lease = ses->grant_id = store_new_id(&wd->store);
  what.ttl_ms = el_session_lease_ms(&ses->core);
  ses->grant_call = what.id;
  net_send(wd, &what, on_granted);
}

static void keep_alive(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  call what = call_of(wd, pr, session, CALL_KEEPALIVE);
  ses->keep_call = what.id;
  if (wd->now_ms >= ses->second_ms + 1000) {
    ses->second_ms = wd->now_ms;
    ses->keepalives = 0;
  }
  figures_record_max(&wd->figures->keepalives_per_s, ++ses->keepalives);
  net_keep_alive(wd, &what, on_kept);
}

static bool can_be_read(const peer_entry *at, int session) {
  return at->used && at->session == session &&
         (at->core.state == EL_ENTRY_HELD ||
          at->core.state == EL_ENTRY_PROVING);
}

static void on_no_key_to_read(world *wd, const world_event *ev) {
  if (!is_awaited(ev, &session_of(wd, ev)->read_call)) return;
  step_answer(wd, ev, EL_SESSION_ON_READ_ANSWER);
}

static void probe(world *wd, sim_peer *pr, int session) {
  peer_session *ses = &pr->sessions[session];
  call what = call_of(wd, pr, session, CALL_READ_KEY);
  ses->read_call = what.id;
  for (int i = 0; i < pr->n_entries; i++) {
    int index = (ses->next_read + i) % pr->n_entries;
    const peer_entry *at = &pr->entries[index];
    if (!can_be_read(at, session)) continue;
    ses->next_read = index + 1;
    ses->read_entry = index;
    what.ask.request = EL_REQUEST_READ;
    ses->read_rev = at->core.rev;
    what.key_id = at->key_id;
    net_send(wd, &what, on_key_read);
    return;
  }
  world_event *ev = world_post(wd, wd->now_ms, pr->id, on_no_key_to_read);
  ev->call = what;
  memset(&ev->reply, 0, sizeof ev->reply);
}

static void revoke(world *wd, sim_peer *pr, int session, int64_t id) {
  peer_session *ses = &pr->sessions[session];
  call what = call_of(wd, pr, session, CALL_REVOKE);
  what.lease = id;
  ses->revoke_call = what.id;
  net_send(wd, &what, on_revoked);
}

/* Handles the answer to an audit: tells the entry of each key that the key was found. If no caller
 * wants the key, its entry deletes it. */
static void on_audited(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  if (!is_awaited(ev, &session_of(wd, ev)->audit_call)) return;
  for (int i = 0; i < ev->reply.n_key_ids && pr->session == ev->call.session;
       i++) {
    int key_id = ev->reply.key_ids[i];
    if (!key_id_is_marker(key_id) && !caller_can_repeat(wd, key_id)) {
      entry_step_simple(wd, pr, entry_of_key(pr, key_id),
                        EL_ENTRY_ON_KEY_FOUND);
    }
  }
  step_answer(wd, ev, EL_SESSION_ON_AUDIT_ANSWER);
  checks_all_known(wd, pr);
}

static void audit(world *wd, sim_peer *pr, int session) {
  call what = call_of(wd, pr, session, CALL_AUDIT);
  pr->sessions[session].audit_call = what.id;
  net_send(wd, &what, on_audited);
}

static void perform(world *wd, sim_peer *pr, int session,
                    const el_session_action *action) {
  peer_session *ses = &pr->sessions[session];
  switch (action->kind) {
    case EL_SESSION_SEND_GRANT:
      grant(wd, pr, session);
      return;
    case EL_SESSION_SEND_KEEPALIVE:
      keep_alive(wd, pr, session);
      return;
    case EL_SESSION_RESET_STREAM:
      ses->keep_call = 0;
      return;
    case EL_SESSION_READ_KEY:
      probe(wd, pr, session);
      return;
    case EL_SESSION_AUDIT_LEASE:
      audit(wd, pr, session);
      return;
    case EL_SESSION_SEND_REVOKE:
      revoke(wd, pr, session, action->id);
      return;
    case EL_SESSION_REPORT_READY:
      return; /* settle reads the state */
    case EL_SESSION_REPORT_REFUSED:
      ses->refused = true;
      return;
    case EL_SESSION_REPORT_EXPIRED:
      ses->expired = true;
      return;
    case EL_SESSION_REPORT_ENDED:
      ses->gone = true;
      return;
  }
}

static void trace_step(const world *wd, const sim_peer *pr,
                       const el_session *was, const el_session *is,
                       const el_session_event *event,
                       const el_session_actions *out) {
  static const char *const events[] = {
      "needed",        "grant answer", "keepalive answer",
      "read answer",   "proof",        "lease gone",
      "holds changed", "close",        "abandon",
      "revoke answer", "put in doubt", "audit answer",
      "unused",        "confirm",      "timer"};
  static const char *const actions[] = {
      "SEND_GRANT",     "SEND_KEEPALIVE", "RESET_STREAM", "READ_KEY",
      "AUDIT_LEASE",    "SEND_REVOKE",    "REPORT_READY", "REPORT_REFUSED",
      "REPORT_EXPIRED", "REPORT_ENDED"};
  char did[200] = "";
  if (!wd->tracing) return;
  for (int i = 0; i < out->n; i++) {
    strcat(strcat(did, " "), actions[out->list[i].kind]);
  }
  world_trace(wd, "p%d session %d %s%s: %s -> %s hold deadline %lld%s", pr->id,
              (int)is->id, events[event->kind],
              event->outcome.is_done ? " done" : "",
              el_session_state_str[was->state], el_session_state_str[is->state],
              (long long)is->hold_deadline, did);
}

void session_step(world *wd, sim_peer *pr, int session,
                  const el_session_event *event) {
  el_session *core = &pr->sessions[session].core;
  el_session was = *core;
  el_session_actions out;
  el_session_step(core, event, clock_now(wd, pr->id), &out);
  trace_step(wd, pr, &was, core, event, &out);
  for (int i = 0; i < out.n; i++) {
    perform(wd, pr, session, &out.list[i]);
  }
  if (was.audit_at != 0 && core->audit_at > was.audit_at) {
    world_violate(wd, "I5 progress", "p%d delays an audit", pr->id);
  }
  checks_after_session(wd, pr, session);
  if (core->state != was.state || core->hold_deadline != was.hold_deadline) {
    queues_change(pr);
  }
}

/* ---- begin and end of a session ---- */

static bool can_be_reused(const peer_session *ses) {
  return !ses->used || (ses->core.state == EL_SESSION_ENDED && !ses->gone &&
                        ses->grant_call == 0 && ses->revoke_call == 0 &&
                        ses->audit_call == 0);
}

static bool is_referred_to(const sim_peer *pr, int session) {
  for (int i = 0; i < pr->n_entries; i++) {
    if (pr->entries[i].used && pr->entries[i].session == session) return true;
  }
  return false;
}

static int add_session(sim_peer *pr, int64_t ttl_ms) {
  for (int i = 0; i < SESSIONS_MAX; i++) {
    peer_session *ses = &pr->sessions[i];
    if (i < pr->n_sessions && (!can_be_reused(ses) || is_referred_to(pr, i))) {
      continue;
    }
    if (i == pr->n_sessions) pr->n_sessions++;
    memset(ses, 0, sizeof *ses);
    ses->used = true;
    el_session_init(&ses->core, ttl_ms, pr->lock_delay_ms, 0, (uint64_t)pr->id);
    return i;
  }
  abort();
}

void session_want(world *wd, sim_peer *pr) {
  el_session_event want = {.kind = EL_SESSION_ON_NEEDED};
  if (pr->session == NONE) {
    pr->session = add_session(pr, wd->ttl_ms);
  }
  if (pr->sessions[pr->session].core.state == EL_SESSION_NEW) {
    session_step(wd, pr, pr->session, &want);
  }
}

int session_count_holds(const sim_peer *pr, int session) {
  int n = 0;
  for (int i = 0; i < pr->n_entries; i++) {
    if (can_be_read(&pr->entries[i], session)) n++;
  }
  return n;
}
