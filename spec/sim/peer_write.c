/* sim peer_write: what a holder writes, guarded by all of his keys. */
#include "net.h"
#include "peer.h"

/* A write that finds a key gone tells of the loss; one of unknown fate tells nothing. */
static void on_written(world *wd, const world_event *ev) {
  sim_peer *pr = &wd->peers[ev->peer];
  peer_entry *at = &pr->entries[ev->call.entry];
  if (!at->used || at->write_call != ev->call.id) return;
  at->write_call = 0;
  if (ev->reply.event.outcome.done && !ev->reply.written) {
    entry_key_gone(wd, pr, ev->call.entry, ev->call.rev);
  }
  peer_settle(wd, pr);
}

void peer_write(world *wd, int id, int caller) {
  sim_peer *pr = &wd->peers[id];
  peer_entry *at = peer_find_driven(pr, caller);
  call what = entry_call(wd, pr, at, CALL_WRITE);
  at->write_call = what.id;
  net_send(wd, &what, on_written);
}
