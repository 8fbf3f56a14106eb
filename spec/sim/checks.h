/* sim checks: the invariants of every history, whatever faults it has. Both directions are checked:
 * no false success and no false failure.
 *
 *   I1  mutual exclusion   no two callers hold one name, unless both only read; no more callers
 *                          hold a permit than the largest number of permits that one of them
 *                          names; a hold deadline is well before the store may end the lease
 *   I2  growing tokens     a token is larger than all earlier ones of the name, a reader's than all
 *                          earlier ones of writers; permits have no order
 *   I3  FIFO               no grant while an older key blocks it, in any queue of a multi-lock
 *   I4  no stray key       an idle entry has no key, now or later, except one of a put in doubt,
 *                          which does not stay; at the end there are no keys
 *   I5  progress           no wait is endless, and without faults none is long: neither for a grant
 *                          nor for the report of a deleted key; no deadlock
 *   I6  a loss is final    a lost hold is never valid again
 *   I7  safe delete        a delete removes no key that is validly held
 *   I8  one true result    each acquisition gets one result, which is true
 *   I9  no false failure   without faults nothing is lost or refused
 *   I10 fairness           a key that waits behind one that is handed off is granted in time
 *   I11 guarded writes     a write is applied only while all keys of the hold exist, at most once,
 *                          on one name in the order of the tokens, and within a hold in the order
 *                          of the calls; a write reported as done is applied, one reported as
 *                          failed for certain never is
 *   I12 atomic multi-lock  the keys of a multi-lock are put together, and none is left after its
 *                          release
 *   I13 lock delay         a hold that was neither released nor ended by a close blocks others for
 *                          the lock delay of its client after its hold deadline, also if the client
 *                          closes meanwhile; a close leaves no lease for another reason, and no
 *                          other key on it
 *   I14 true holder        the key that a waiter names as the holder is the oldest of its queue
 *
 * Keys that an admin has deleted, overwritten or revoked are exempt from I1 to I3: no client can
 * know that at once.
 */
#ifndef SIM_CHECKS_H
#define SIM_CHECKS_H

#include "caller.h"
#include "peer.h"
#include "world.h"

void checks_on_change(world *wd, const change *what);

/* The same for a change of a marker. */
void checks_on_marker(world *wd, const change *what);

/* The same for a put of a key that existed. */
void checks_on_put(world *wd, const change *what);

/* Each key of the session's lease belongs to an entry that is in use, except that of a put in
 * doubt. */
void checks_all_known(world *wd, const sim_peer *pr);

/* The same for all keys: the session of |pr| has lived long enough for its audits to find each. */
void checks_after_audits(world *wd, const sim_peer *pr);

/* |at| starts to wait for a key of another entry. */
void checks_on_wait(world *wd, const sim_peer *pr, const peer_entry *at);

/* Without faults, a waiter that no key blocks is granted soon. */
void checks_prompt_grants(world *wd);

/* A hold whose key was deleted ends soon, even if no watch reports it. */
void checks_prompt_losses(world *wd);

void checks_before_apply(world *wd, const call *what);

void checks_after_apply(world *wd, const call *what);

/* The effect of |what| on the keys of a multi-lock. */
void checks_all_or_none(world *wd, const call *what);

/* A guarded write, or a touch, was applied, or refused by its guards. */
void checks_on_written(world *wd, const call *what,
                       const el_write_event *answer);

/* Returns the number of a write that is about to begin; 0: there were enough. */
uint32_t checks_on_write(world *wd);

/* The write begins with |action|. */
void checks_on_write_begun(world *wd, const sim_peer *pr, const peer_entry *at,
                           el_write_action action);

/* The write, or its touch, is sent. */
void checks_on_write_sent(world *wd, const sim_peer *pr, const peer_entry *at,
                          call_kind kind);

/* The write in progress ends with |how| for its holder. */
void checks_on_write_reported(world *wd, const sim_peer *pr,
                              const peer_entry *at, el_write_action how);

void checks_on_granted(world *wd, const sim_peer *pr, const peer_entry *at,
                       int64_t token);

/* |caller| is about to join its local queue. */
void checks_on_join(world *wd, struct caller *caller);

/* |caller| has joined. */
void checks_after_join(world *wd, const struct caller *caller);

/* All waits of |pr| have failed: etcd is unreachable. */
void checks_after_fail_waiting(world *wd, const sim_peer *pr);

/* All waits of |pr| for a lease have failed: etcd grants none. */
void checks_after_refusal(world *wd, const sim_peer *pr);

/* The queue of |at| got the answer that no key waits behind that of |at|. */
void checks_after_no_contender(world *wd, const sim_peer *pr,
                               const peer_entry *at);

/* |caller| gets a grant: it holds by the key of |at|, from etcd or by a handoff. */
void checks_on_grant_reported(world *wd, const sim_peer *pr, peer_entry *at,
                              const struct caller *caller);

/* |caller| is about to end its hold. */
void checks_on_release(world *wd, const struct caller *caller, el_leave how);

/* |caller| has ended its hold: its key was handed off or lingers, if it may. */
void checks_after_release(world *wd, const struct caller *caller);

/* The entry |at| is about to release its key. */
void checks_on_stop(world *wd, const sim_peer *pr, const peer_entry *at);

/* An acquisition gets the result of its release. */
void checks_on_release_reported(world *wd, const sim_peer *pr,
                                const sim_acquisition *owner,
                                const el_local_action *released);

/* The queue gets the event that a key waits behind that of |at|. */
void checks_on_contended(const world *wd, peer_entry *at);

/* The watch for such keys begins or ends. */
void checks_on_contender_watch(world *wd, const sim_peer *pr,
                               const peer_entry *at, bool begins);

/* |at| is about to be freed. */
void checks_on_forgotten(world *wd, const sim_peer *pr, const peer_entry *at);

/* The local queues of |pr|, after each event. */
void checks_local_queues(world *wd, const sim_peer *pr);

/* Tells whether an admin has removed a key of |token|, or its lease. */
bool checks_is_sabotaged(const store *st, int key_id, int64_t lease_id,
                         int64_t token);

/* Tells whether |caller| holds by the key of |at|. */
bool checks_is_by(const sim_peer *pr, const struct caller *caller,
                  const peer_entry *at);

/* |caller| was granted: all lock delays that concern it are over. */
void checks_delay(world *wd, const struct caller *caller);

/* |pr| was closed and has left the lease of |left| to expire. */
void checks_lease_left(world *wd, const sim_peer *pr, const el_session *left);

/* The hold of |caller| has ended with its session. */
void checks_on_left(world *wd, struct caller *caller);

/* |caller| holds by the key of |at| after a handoff, or shares it. */
void checks_on_handed_off(world *wd, const sim_peer *pr, peer_entry *at,
                          const struct caller *caller);

/* etcd has granted the key of |at| to |caller|, soon enough. */
void checks_on_prompt(world *wd, const sim_peer *pr, const peer_entry *at,
                      const struct caller *caller);

void checks_on_locked(world *wd, const struct caller *caller);

/* A change may have put a key before a caller that tries. */
void checks_seen_others(world *wd);

/* A change may have put a key behind another one. */
void checks_keys_behind(world *wd, const change *what);

/* Each waiter is blocked by another one, or is granted soon. */
void checks_blocked_waiters(world *wd);

/* Each key of |pr| is wanted, or is deleted soon. */
void checks_unwanted_keys(world *wd, const sim_peer *pr);

/* Tells whether |caller|, which is about to join, can hold at once by a key of its client. */
bool checks_is_due(const world *wd, const struct caller *caller);

/* Tells whether the key of |at| may linger. */
bool checks_may_linger(const world *wd, const sim_peer *pr,
                       const peer_entry *at);

void checks_on_lost(world *wd, const sim_peer *pr, const peer_entry *at,
                    el_loss loss);

/* |caller| releases its hold, or gets the report that it is lost. */
void checks_on_hold_end(world *wd, const struct caller *caller);

/* The answer |said| to a read of |at| may name the holder of the lock. */
void checks_on_holder(world *wd, const sim_peer *pr, const peer_entry *at,
                      const reply *said);

void checks_on_delete_answered(world *wd, const sim_peer *pr,
                               const peer_entry *at, const el_outcome *outcome);

void checks_on_released(world *wd, const sim_peer *pr, const peer_entry *at,
                        bool found);

void checks_after_session(world *wd, const sim_peer *pr, int session);

void checks_after_entry(world *wd, const sim_peer *pr, const peer_entry *at);

void checks_after_peer(world *wd, sim_peer *pr);

/* Tells whether all work is over. A key that should be gone is a violation. */
bool checks_is_clean(world *wd);

/* The history has taken too long: reports what has not ended. */
void checks_report_unfinished(world *wd);

#endif
