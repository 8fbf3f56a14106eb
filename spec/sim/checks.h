/* sim checks: the invariants of every history, whatever faults it has. The checks look for false
 * success and for false failure.
 *
 *   I1  mutual exclusion   No two callers hold one name, unless both only read. No more callers
 *                          hold permits of a semaphore than the largest number of permits that
 *                          one of them names. A hold deadline is at least the margin earlier
 *                          than the time at which the store may end the lease.
 *   I2  growing tokens     A token is larger than all earlier tokens of the name. A reader's token
 *                          is larger than all earlier tokens of writers. Permits have no order.
 *   I3  FIFO               No key is granted while an older key blocks it. For a multi-lock this
 *                          holds in each of its queues.
 *   I4  no stray key       An idle entry has no key. Only a put of unknown outcome may leave one,
 *                          until an audit finds it. At the end there are no keys.
 *   I5  progress           Each wait for a grant ends, and a holder learns that its key was
 *                          deleted. Without faults both happen soon. There is no deadlock.
 *   I6  a loss is final    A lost hold is never valid again.
 *   I7  safe delete        A delete removes no key that is validly held.
 *   I8  one true result    Each acquisition gets exactly one result, and the result is true.
 *   I9  no false failure   Without faults no hold is lost and no acquisition is refused.
 *   I10 fairness           While a key waits behind another one, that key is handed off for a
 *                          limited number of holds and a limited time.
 *   I11 guarded writes     A write is applied only while all keys of the hold exist, and at most
 *                          once. The writes under one name are applied in the order of the
 *                          tokens, and within a hold in the order of the calls. A write that was
 *                          reported as done is applied. A write that was reported as certainly
 *                          failed is never applied.
 *   I12 atomic multi-lock  The keys of a multi-lock are put together, and no key is left after
 *                          its release.
 *   I13 lock delay         A hold that was neither released nor ended by a close blocks others
 *                          after its hold deadline for the lock delay of its client, even if the
 *                          client is closed meanwhile. A close leaves a lease to expire for no
 *                          other reason, and no other key on that lease.
 *   I14 true holder        The key that a waiter names as the holder is the oldest of its queue.
 *
 * Keys that an admin has deleted or overwritten, or whose lease an admin has revoked, are exempt
 * from I1 to I3: no client can know of such a change at once. */
#ifndef SIM_CHECKS_H
#define SIM_CHECKS_H

#include "caller.h"
#include "peer.h"
#include "world.h"

void checks_on_change(world *wd, const change *what);

/* Checks the change |what| if it is a change of a downgrade marker. */
void checks_on_marker(world *wd, const change *what);

/* Checks the change |what| if it puts a key that existed before. */
void checks_on_put(world *wd, const change *what);

/* Checks that each key on the lease of |pr| belongs to an entry in use. Does nothing while a put of
 * the session has an unknown outcome. */
void checks_all_known(world *wd, const sim_peer *pr);

/* Checks that each key on the lease of |pr| belongs to an entry in use, even after a put of unknown
 * outcome. The session must have lived long enough for its audits to find each key. */
void checks_after_audits(world *wd, const sim_peer *pr);

/* Checks for a deadlock when |at| starts to wait for a key of another entry. */
void checks_on_wait(world *wd, const sim_peer *pr, const peer_entry *at);

/* Checks that a waiter that no key blocks is granted soon. Called after the faults have ended. */
void checks_prompt_grants(world *wd);

/* Checks that a hold whose key was deleted ends soon, even if no watch reports the deletion. Called
 * after the faults have ended. */
void checks_prompt_losses(world *wd);

void checks_before_apply(world *wd, const call *what);

void checks_after_apply(world *wd, const call *what);

/* Checks the effect of |what| on a multi-lock: all its keys exist, or none. */
void checks_all_or_none(world *wd, const call *what);

/* Checks a guarded write or a touch that etcd has applied, or has refused because of its guards. */
void checks_on_written(world *wd, const call *what,
                       const el_write_event *answer);

/* Returns the number of a write that is about to begin. Returns 0 if the history has had WRITES_MAX
 * writes. */
uint32_t checks_on_write(world *wd);

/* Checks that |at| has no other write in flight when a write begins with |action|. */
void checks_on_write_begun(world *wd, const sim_peer *pr, const peer_entry *at,
                           el_write_action action);

/* Checks a guarded write, or the touch before it, when it is sent. */
void checks_on_write_sent(world *wd, const sim_peer *pr, const peer_entry *at,
                          call_kind kind);

/* Checks the result |how| that the holder gets for the write in progress. */
void checks_on_write_reported(world *wd, const sim_peer *pr,
                              const peer_entry *at, el_write_action how);

void checks_on_granted(world *wd, const sim_peer *pr, const peer_entry *at,
                       int64_t token);

/* Records the state of the lock just before |caller| joins its local queue. */
void checks_on_join(world *wd, struct caller *caller);

/* Checks that |caller|, which has joined, was granted the lock if it could be granted at once. */
void checks_after_join(world *wd, const struct caller *caller);

/* Checks that all waits of |pr| have failed, because etcd is unreachable. */
void checks_after_fail_waiting(world *wd, const sim_peer *pr);

/* Checks that all waits of |pr| for a lease have failed, because etcd grants no lease. */
void checks_after_refusal(world *wd, const sim_peer *pr);

/* Checks that all waiting readers share the key of |at|. Called after the queue of |at| got the
 * answer that no key waits behind this key. */
void checks_after_no_contender(world *wd, const sim_peer *pr,
                               const peer_entry *at);

/* Checks a grant of etcd, or a handoff, after which |caller| holds by the key of |at|. */
void checks_on_grant_reported(world *wd, const sim_peer *pr, peer_entry *at,
                              const struct caller *caller);

/* Records what must happen to the key when |caller| ends its hold. Called just before that. */
void checks_on_release(world *wd, const struct caller *caller, el_leave how);

/* Checks that the key of the hold that |caller| has ended was handed off or lingers, if it must. */
void checks_after_release(world *wd, const struct caller *caller);

/* Checks that a key does not linger too short. Called just before |at| releases its key. */
void checks_on_stop(world *wd, const sim_peer *pr, const peer_entry *at);

/* Checks the result of a release when the acquisition |owner| gets it. */
void checks_on_release_reported(world *wd, const sim_peer *pr,
                                const sim_acquisition *owner,
                                const el_local_action *released);

/* Records that the queue of |at| got the event that a key waits behind the key of |at|. */
void checks_on_contended(const world *wd, peer_entry *at);

/* Checks that the watch for keys behind that of |at| does not begin or end twice. */
void checks_on_contender_watch(world *wd, const sim_peer *pr,
                               const peer_entry *at, bool begins);

/* Checks that |at|, which is about to be freed, has neither a watch for contenders nor a timer. */
void checks_on_forgotten(world *wd, const sim_peer *pr, const peer_entry *at);

/* Checks the local queues of |pr| with el_local_queue_check. Called after each event. */
void checks_local_queues(world *wd, const sim_peer *pr);

/* Tells whether an admin has changed or deleted a key of |key_id| with create_revision |token|, or
 * has revoked its lease. */
bool checks_is_sabotaged(const store *st, int key_id, int64_t lease_id,
                         int64_t token);

/* Tells whether |caller| holds by the key of |at|. */
bool checks_is_by(const sim_peer *pr, const struct caller *caller,
                  const peer_entry *at);

/* Checks, when |caller| is granted a lock, that the lock delays of all earlier holds are over. */
void checks_delay(world *wd, const struct caller *caller);

/* Checks that |pr|, which was closed and left the lease of |left| to expire, did so because of a
 * lost hold. */
void checks_lease_left(world *wd, const sim_peer *pr, const el_session *left);

/* Records that the hold of |caller| has ended with its session. */
void checks_on_left(world *wd, struct caller *caller);

/* Checks a handoff after which |caller| holds by the key of |at|, alone or together with others. */
void checks_on_handed_off(world *wd, const sim_peer *pr, peer_entry *at,
                          const struct caller *caller);

/* Checks that the grant of the key of |at| to |caller| came soon enough. Only without faults. */
void checks_on_prompt(world *wd, const sim_peer *pr, const peer_entry *at,
                      const struct caller *caller);

void checks_on_locked(world *wd, const struct caller *caller);

/* Records for each caller that tries whether the lock is taken now. Called after each change. */
void checks_seen_others(world *wd);

/* Records for each held key of the name of |what| whether another key waits behind it. */
void checks_keys_behind(world *wd, const change *what);

/* Checks that each waiter is blocked by a key or by another acquisition, or is granted soon. */
void checks_blocked_waiters(world *wd);

/* Checks that a caller wants each held key of |pr|, or that the key may linger. */
void checks_unwanted_keys(world *wd, const sim_peer *pr);

/* Tells whether |caller|, which is about to join, must be granted the lock at once by a key that
 * its client keeps. */
bool checks_is_due(const world *wd, const struct caller *caller);

/* Tells whether the key of |at| may linger. */
bool checks_may_linger(const world *wd, const sim_peer *pr,
                       const peer_entry *at);

void checks_on_lost(world *wd, const sim_peer *pr, const peer_entry *at,
                    el_loss loss);

/* Checks that |caller| did not hold for long after its key was deleted. Called when the caller
 * releases its hold or is told that it is lost. */
void checks_on_hold_end(world *wd, const struct caller *caller);

/* Checks the holder of the lock that |said|, the answer to a request of |at|, may name. */
void checks_on_holder(world *wd, const sim_peer *pr, const peer_entry *at,
                      const reply *said);

void checks_on_delete_answered(world *wd, const sim_peer *pr,
                               const peer_entry *at, const el_outcome *outcome);

void checks_on_released(world *wd, const sim_peer *pr, const peer_entry *at,
                        bool found);

void checks_after_session(world *wd, const sim_peer *pr, int session);

void checks_after_entry(world *wd, const sim_peer *pr, const peer_entry *at);

void checks_after_peer(world *wd, sim_peer *pr);

/* Tells whether all work is over and no key is left. */
bool checks_is_clean(world *wd);

/* Reports as violations what has not ended, because the history has taken too long. */
void checks_report_unfinished(world *wd);

#endif
