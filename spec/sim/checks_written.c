/* sim checks_written: a guarded write is applied only during its hold, once, in the order of the
 * calls, and its result is true. */
#include <inttypes.h>

#include "caller.h"
#include "checks.h"
#include "queue.h"

enum {
  ANSWERS_MAX = 20 /* more answers to one write than late touches can cause */
};

/* ---- writes that etcd applies ---- */

/* Tells whether the key of this create_revision is an entry. */
static bool is_entry(const world *wd, int key_id, int64_t lease_id,
                     int64_t rev) {
  const key *it = store_find(&wd->store, key_id, lease_id);
  return it != NULL && it->create_rev == rev && key_is_entry(it);
}

/* Checks that the writer's key |key_id| is an entry that may hold. */
static void check_key(world *wd, const call *what, int key_id) {
  const key *older = NULL;
  if (!is_entry(wd, key_id, what->lease, what->rev)) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes by key %" PRId64
                  " of n%d, which is gone, or off its lease",
                  what->peer, what->rev, key_id);
  }
  if (queue_count_older(&wd->store, key_id_name(key_id), what->rev,
                        key_id_mode(key_id), &older) >= queue_limit(key_id)) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes by key %" PRId64 " of n%d, before %" PRId64,
                  what->peer, what->rev, key_id, older->create_rev);
  }
}

static void check_token(world *wd, const call *what, int key_id) {
  int64_t *last = &wd->names[key_id_name(key_id)].last_written;
  if (key_id_mode(key_id) == EL_MODE_PERMIT) return; /* several hold at once */
  if (what->rev < *last) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes by key %" PRId64 " of n%d after %" PRId64,
                  what->peer, what->rev, key_id, *last);
  }
  *last = what->rev;
}

/* Tells whether the latest write of |datum| was made by another permit than |what|. A caller may
 * hold several permits and write by each; only the writes by one permit have an order. */
static bool is_of_another_hold(world *wd, const call *what, int datum) {
  bool is_same = wd->writes.last_rev[datum] == what->rev;
  wd->writes.last_rev[datum] = what->rev;
  return !is_same && key_id_mode(what->key_id) == EL_MODE_PERMIT;
}

static void check_order(world *wd, const call *what, int key_id) {
  int datum = key_id_datum(key_id, what->caller);
  uint32_t *last = &wd->writes.last_of_rev[datum];
  uint32_t number = what->write.number;
  if (!is_of_another_hold(wd, what, datum) && number <= *last) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes number %" PRIu32 " by n%d after %" PRIu32,
                  what->peer, number, key_id, *last);
  }
  *last = number;
  if (number > wd->writes.last[datum]) wd->writes.last[datum] = number;
}

static bool is_whole(const world *wd, int key_id, int64_t lease_id,
                     int64_t rev) {
  int key_ids[NAMES_MAX], n = key_id_all(key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (!is_entry(wd, key_ids[i], lease_id, rev)) return false;
  }
  return true;
}

/* Tells whether the key that orders the writes of the hold still has the mod_revision by which
 * |what| is guarded. */
static bool is_in_order(const world *wd, const call *what) {
  int key_ids[NAMES_MAX];
  int marker = key_id_make(key_id_name(what->key_id), EL_MARKER_WRITE_ORDER, 0);
  const key *it;
  key_id_all(what->key_id, key_ids);
  it = key_id_mode(what->key_id) == EL_MODE_WRITE
           ? store_find(&wd->store, marker, what->rev)
           : store_find(&wd->store, key_ids[0], what->lease);
  return (it != NULL && it->create_rev != 0 ? it->mod_rev : 0) ==
         what->order.mod_rev;
}

static void check_barred(world *wd, const call *what) {
  bool is_touch = what->kind == CALL_TOUCH;
  if (!is_whole(wd, what->key_id, what->lease, what->rev)) return;
  wd->figures->writes_late += !is_touch;
  if (is_touch || is_in_order(wd, what)) {
    world_violate(wd, "I11 guarded writes",
                  "p%d may not write by key %" PRId64 " of n%d, which exists",
                  what->peer, what->rev, what->key_id);
  }
}

void checks_on_written(world *wd, const call *what,
                       const el_write_event *answer) {
  int key_ids[NAMES_MAX], n = key_id_all(what->key_id, key_ids);
  bool is_touch = what->kind == CALL_TOUCH;
  if (!answer->outcome.is_done) return;
  if (!answer->succeeded) {
    wd->figures->writes_barred += !is_touch;
    check_barred(wd, what);
    return;
  }
  wd->figures->writes += !is_touch;
  wd->figures->touches += is_touch;
  for (int i = 0; i < n; i++) {
    check_key(wd, what, key_ids[i]);
    if (is_touch) continue;
    check_token(wd, what, key_ids[i]);
    check_order(wd, what, key_ids[i]);
  }
  if (!is_touch && wd->writes.refused[what->write.number]) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes number %" PRIu32
                  ", which was reported as never applied",
                  what->peer, what->write.number);
  }
}

/* Checks that no key of a reader or writer is put again, because a put raises the mod_revision of
 * the key, and Go's recipe does not wait for a key whose mod_revision is above that of its own
 * key. */
void checks_on_put(world *wd, const change *what) {
  const key *is = &what->after;
  el_mode mode = key_id_mode(is->key_id);
  if ((mode == EL_MODE_READ || mode == EL_MODE_WRITE) && key_is_entry(is) &&
      what->before.create_rev != 0) {
    world_violate(wd, "I3 FIFO",
                  "key %" PRId64
                  " of n%d, a reader's or writer's, is put again",
                  is->create_rev, is->key_id);
  }
}

/* ---- writes of a holder, and their results ---- */

uint32_t checks_on_write(world *wd) {
  if (wd->writes.n + 1 == WRITES_MAX) return 0;
  return ++wd->writes.n;
}

void checks_on_write_begun(world *wd, const sim_peer *pr, const peer_entry *at,
                           el_write_action action) {
  if (at->writes.n > 0 && action != EL_WRITE_WAIT) {
    world_violate(wd, "I11 guarded writes",
                  "p%d has two writes by n%d in flight", pr->id, at->key_id);
  }
}

void checks_on_write_sent(world *wd, const sim_peer *pr, const peer_entry *at,
                          call_kind kind) {
  const sim_caller *caller =
      at->writes.caller != NONE ? &wd->callers[at->writes.caller] : NULL;
  if (caller == NULL || !caller->is_holder || caller->token != at->writes.rev) {
    world_violate(wd, "I11 guarded writes",
                  "p%d writes by n%d, which it has released", pr->id,
                  at->key_id);
  }
  if (kind == CALL_TOUCH && wd->faults.calm && !wd->faults.meddled) {
    world_violate(wd, "I9 no false failure",
                  "p%d touches n%d without a write in doubt", pr->id,
                  at->key_id);
  }
  if (at->writes.answers > ANSWERS_MAX) {
    world_violate(wd, "I5 progress",
                  "p%d repeats its writes by n%d without end", pr->id,
                  at->key_id);
  }
}

static bool is_there(const world *wd, const peer_entry *at, uint32_t number) {
  int key_ids[NAMES_MAX], n = key_id_all(at->key_id, key_ids);
  for (int i = 0; i < n; i++) {
    if (wd->writes.last[key_id_datum(key_ids[i], at->writes.of)] < number)
      return false;
  }
  return true;
}

void checks_on_write_reported(world *wd, const sim_peer *pr,
                              const peer_entry *at, el_write_action how) {
  const sim_write *told = &at->writes.waiting[0];
  bool is_refused = how == EL_WRITE_REPORT_UNSENT ||
                    how == EL_WRITE_REPORT_NOT_HELD ||
                    how == EL_WRITE_REPORT_KEY_GONE;
  if (how == EL_WRITE_REPORT_DONE && !is_there(wd, at, told->number)) {
    world_violate(wd, "I11 guarded writes",
                  "p%d gets the result that number %" PRIu32
                  " was applied, but it was not",
                  pr->id, told->number);
  }
  if (how == EL_WRITE_REPORT_KEY_GONE &&
      is_whole(wd, at->key_id, at->core.lease, at->writes.rev)) {
    world_violate(
        wd, "I8 one true result",
        "p%d gets the result of a write that n%d is gone, but it exists",
        pr->id, at->key_id);
  }
  wd->writes.refused[told->number] |= is_refused;
}
