/* sim peer_handoff: a key that is handed on among the callers of a peer. */
#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"

/* Smaller than the real ones, so that a turn is over more often. */
const el_turn_limits peer_limits = {.holds = 4, .ms = 400};

static void on_census(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  if (at->census_call != ev->call.id) return; /* answered, or forgotten */
  at->census_call = 0;
  el_turn_note(&at->turn, ev->reply.behind);
  if (ev->reply.behind == EL_BEHIND_LOST) {
    entry_key_gone(wd, pr, ev->call.entry, ev->call.rev);
  }
  peer_settle(wd, pr);
}

static void ask(world *wd, const sim_peer *pr, peer_entry *at) {
  call what = entry_call(wd, pr, at, CALL_CENSUS);
  at->census_call = what.id;
  net_send(wd, &what, on_census);
}

void peer_downgrade(world *wd, int id, int caller) {
  peer_find_driven(&wd->peers[id], caller)->is_downgraded = true;
  peer_write(wd, id, caller, WRITE_DOWNGRADE);
}

void handoff_begin(const world *wd, const sim_peer *pr, peer_entry *at) {
  at->census_call = 0;
  at->passes_behind = 0;
  at->behind_ms = 0;
  at->is_downgraded = false;
  writes_begin(at, at->core.rev);
  el_turn_begin(&at->turn, clock_now(wd, pr->id));
}

static bool may_pass(const world *wd, const sim_peer *pr,
                     const peer_entry *at) {
  const caller_line *queue = &pr->lines[key_id_line(at->key_id)];
  int64_t now_ms = clock_now(wd, pr->id);
  return !pr->closed && !at->is_downgraded && queue->n > 0 &&
         !caller_is_trying(wd, queue->callers[0]) &&
         at->core.state == EL_ENTRY_HELD && at->session == pr->session &&
         el_session_can_claim(&pr->sessions[at->session].core, now_ms) &&
         el_turn_has_room(&at->turn, &peer_limits, now_ms) &&
         el_write_order_pass(&at->writes.order) >= 0;
}

bool handoff_pass(world *wd, sim_peer *pr, peer_entry *at) {
  caller_line *queue = &pr->lines[key_id_line(at->key_id)];
  if (!may_pass(wd, pr, at)) return false;
  wd->figures->handed_over++;
  at->caller = queue->callers[0];
  writes_begin(at, el_write_order_pass(&at->writes.order));
  queue->driven = true;
  checks_on_handed_over(wd, pr, at);
  caller_on_granted(wd, at->caller, at->core.rev);
  if (el_turn_pass(&at->turn, &peer_limits, clock_now(wd, pr->id))) {
    ask(wd, pr, at);
  }
  return true;
}
