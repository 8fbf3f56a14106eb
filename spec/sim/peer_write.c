/* sim peer_write: sends the guarded writes of a holder one at a time, as lock/guarded.c does. A
 * read hold writes nothing, because lock:put raises an error. A write hold counts as a read hold
 * from the call of lock:downgrade on. */
#include <string.h>

#include "caller.h"
#include "checks.h"
#include "clock.h"
#include "net.h"
#include "peer.h"
#include "protocol/retry.h"

enum { WRITE_FOR_MS = 5000 };

void writes_begin(peer_entry *at, int caller, int64_t mod_rev) {
  at->writes =
      (peer_writes){.of = caller, .caller = caller, .rev = at->core.rev};
  el_write_order_init(&at->writes.order, mod_rev);
}

int64_t writes_end(peer_entry *at, int caller) {
  if (at->writes.caller != caller) return 0;
  at->writes.caller = NONE;
  return el_write_order_handoff_rev(&at->writes.order);
}

static el_write_action step(const world *wd, peer_entry *at,
                            el_write_event event) {
  event.is_held =
      at->writes.caller != NONE && wd->callers[at->writes.caller].is_holder;
  return el_write_order_step(&at->writes.order, &event);
}

static el_write_action start(const world *wd, peer_entry *at,
                             const sim_write *what) {
  el_write_event event = {.kind = EL_WRITE_ON_START,
                          .has_order_key = what->what == WRITE_OWN};
  return step(wd, at, event);
}

static void on_answer(world *wd, const world_event *ev);
static void on_time(world *wd, const world_event *ev);

static void send(world *wd, const sim_peer *pr, peer_entry *at,
                 call_kind kind) {
  call what = entry_call(wd, pr, at, kind);
  what.write = at->writes.waiting[0];
  what.caller = at->writes.of;
  what.order = at->writes.order;
  at->writes.call = what.id;
  checks_on_write_sent(wd, pr, at, kind);
  net_send(wd, &what, on_answer);
}

/* Schedules the next attempt of the write in progress. Returns false if that would be after the
 * time limit of the write. */
static bool rest(world *wd, const sim_peer *pr, peer_entry *at,
                 const el_outcome *failed) {
  peer_writes *writes = &at->writes;
  int64_t at_ms;
  world_event *ev;
  at_ms = el_retry_next(failed, clock_now(wd, pr->id), &writes->failures,
                        (uint64_t)pr->id);
  if (at_ms >= writes->waiting[0].until_ms) return false;
  writes->call = world_new_id(wd);
  ev = world_post(wd, clock_when(wd, pr->id, at_ms), pr->id, on_time);
  ev->call = (call){.id = writes->call, .entry = (int)(at - pr->entries)};
  return true;
}

/* Ends the write in progress with the result |how|. Starts the next write and returns the action to
 * carry out for it. */
static el_write_action leave(world *wd, sim_peer *pr, peer_entry *at,
                             el_write_action how) {
  peer_writes *writes = &at->writes;
  checks_on_write_reported(wd, pr, at, how);
  if (how == EL_WRITE_REPORT_KEY_GONE) {
    entry_key_gone(wd, pr, (int)(at - pr->entries), writes->rev,
                   writes->detached);
  }
  writes->call = 0;
  writes->failures = 0;
  writes->answers = 0;
  memmove(writes->waiting, writes->waiting + 1,
          (size_t)--writes->n * sizeof *writes->waiting);
  if (writes->n == 0) return EL_WRITE_WAIT;
  return clock_now(wd, pr->id) < writes->waiting[0].until_ms
             ? start(wd, at, &writes->waiting[0])
             : EL_WRITE_REPORT_UNSENT;
}

static void perform(world *wd, sim_peer *pr, peer_entry *at,
                    el_write_action action, const el_outcome *outcome) {
  static const el_write_event stop = {.kind = EL_WRITE_ON_CANCEL};
  while (action != EL_WRITE_WAIT) {
    switch (action) {
      case EL_WRITE_SEND_TOUCH:
        send(wd, pr, at, CALL_TOUCH);
        return;
      case EL_WRITE_SEND_WRITE:
        send(wd, pr, at, CALL_WRITE);
        return;
      case EL_WRITE_RETRY_LATER:
        if (rest(wd, pr, at, outcome)) return;
        action = step(wd, at, stop);
        break;
      default:
        action = leave(wd, pr, at, action);
    }
  }
}

static void on_answer(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  el_write_event event = ev->reply.written;
  if (!at->used || at->writes.call != ev->call.id) return;
  event.kind = EL_WRITE_ON_ANSWER;
  event.outcome = ev->reply.event.outcome;
  at->writes.answers += event.outcome.is_done;
  at->writes.detached = event.is_detached;
  perform(wd, pr, at, step(wd, at, event), &event.outcome);
  peer_settle(wd, pr);
}

static void on_time(world *wd, const world_event *ev) {
  static const el_write_event retry = {.kind = EL_WRITE_ON_RETRY};
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  if (!at->used || at->writes.call != ev->call.id) return;
  perform(wd, pr, at, step(wd, at, retry), NULL);
  peer_settle(wd, pr);
}

void peer_write(world *wd, int id, int caller_id, int what) {
  sim_peer *pr = &wd->peers[id];
  peer_entry *at = peer_entry_of(&wd->callers[caller_id]);
  peer_writes *writes = &at->writes;
  sim_write *added = &writes->waiting[writes->n];
  bool only_reads = wd->callers[caller_id].mode == EL_MODE_READ;
  uint32_t number;
  el_write_action action;
  if (only_reads && what != WRITE_DOWNGRADE) return;
  number = checks_on_write(wd);
  if (number == 0 || writes->n == WRITES_WAITING_MAX) return;
  *added = (sim_write){.what = what,
                       .number = number,
                       .until_ms = clock_now(wd, id) + WRITE_FOR_MS};
  action = start(wd, at, added);
  checks_on_write_begun(wd, pr, at, action);
  writes->n++;
  perform(wd, pr, at, action, NULL);
  peer_settle(wd, pr);
}
