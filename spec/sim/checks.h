/* sim checks: what must hold in every history, whatever goes wrong.
 *
 *   I1 exclusion   no two callers claim one name, unless both only read; no more
 *                  claim a permit than the largest number that one of them
 *                  names; a claim ends well before the
 *                  store may end the lease
 *   I2 tokens      every grant of a name has a larger token than all before, a
 *                  reader's than all writers' before; permits have no order
 *   I3 FIFO        no grant while an older key lives, a reader's while a writer's
 *                  does; of several names, in none of their queues
 *   I4 nothing     an idle entry has no key, now or later, unless an enqueue of
 *      left        unknown fate brings one, and that doesn't stay; at the end
 *                  nobody has one
 *   I5 progress    nothing waits for ever, and on a calm day nothing waits long:
 *                  no grant, and no news of a key that was taken away; nobody waits
 *                  for himself, by way of others
 *   I6 lost once   what is lost stays lost
 *   I7 one key     a delete takes no key that is validly held
 *   I8 one verdict a request is told once, and the truth
 *   I9 calm        with nothing wrong, nothing is lost or refused
 *   I10 fair       who stands behind a key that is handed on gets his turn
 *   I11 guarded    a holder's write is carried out only while all of his keys are
 *                  there, once, on one name in the order of the tokens, and of one
 *                  hold in that in which they are wanted; what he is told was
 *                  written is there, and what he is told won't be never comes
 *   I12 all or     of several names all keys are put together, and none is left when
 *      none        they are let go
 *   I13 delay      a hold that has neither been released nor ended by a close keeps others
 *                  out for as long as its peer has said, from the end of its claim on, also
 *                  if the peer closes meanwhile; a peer that closes leaves no lease for
 *                  any other reason, and no other key on it
 *
 * What an admin has sabotaged is exempt from I1 to I3: no client can know at
 * once that its key has been taken away.
 */
#ifndef SIM_CHECKS_H
#define SIM_CHECKS_H

#include "caller.h"
#include "peer.h"
#include "world.h"

void checks_on_change(world *wd, const change *what);

/* If it is of a note. */
void checks_on_note(world *wd, const change *what);

/* If it is a key that was there. */
void checks_on_put(world *wd, const change *what);

/* Each key of the session's has an entry that has to do with it, unless an enqueue of
 * unknown fate may have brought it. */
void checks_all_known(world *wd, const sim_peer *pr);

/* The same for all keys: |pr| has kept its session for long enough to have been told of
 * every one. */
void checks_after_audits(world *wd, const sim_peer *pr);

/* |at| has begun to wait for somebody else's key. */
void checks_on_wait(world *wd, const sim_peer *pr, const peer_entry *at);

/* Without faults, a waiter with nobody before it does not wait for long. */
void checks_nobody_waits(world *wd);

/* Nor does anybody hold for long of whose keys one was taken, even if no watch tells it. */
void checks_nobody_is_deceived(world *wd);

void checks_before_apply(world *wd, const call *what);

void checks_after_apply(world *wd, const call *what);

/* What it has done to the keys of who wants several names. */
void checks_all_or_none(world *wd, const call *what);

/* A guarded write, or a touch, has been carried out, or barred. */
void checks_on_written(world *wd, const call *what,
                       const el_write_event *answer);

/* Somebody is about to write. The number of that; 0: there have been enough. */
uint32_t checks_on_write(world *wd);

/* Its holder does |action| first. */
void checks_on_write_begun(world *wd, const sim_peer *pr, const peer_entry *at,
                           el_write_action action);

/* That is sent, or its touch. */
void checks_on_write_sent(world *wd, const sim_peer *pr, const peer_entry *at,
                          call_kind kind);

/* That is how the first of those under way ends for its holder. */
void checks_on_write_told(world *wd, const sim_peer *pr, const peer_entry *at,
                          el_write_action how);

void checks_on_granted(world *wd, const sim_peer *pr, const peer_entry *at,
                       int64_t token);

/* The caller is about to ask. */
void checks_on_asked(world *wd, struct caller *who);

/* It has. */
void checks_after_asked(world *wd, const struct caller *who);

/* All who waited were told that etcd is out of reach. */
void checks_after_fail_waiting(world *wd, const sim_peer *pr);

/* And all who waited for a lease that none is to be had. */
void checks_after_refusal(world *wd, const sim_peer *pr);

/* The readers of |queue| were told that nobody is behind the key of |at|. */
void checks_after_nobody(world *wd, const sim_peer *pr, const peer_entry *at);

/* The caller is told that it holds by the key of |at|: etcd has granted that, or another
 * caller had it. */
void checks_on_grant_told(world *wd, const sim_peer *pr, peer_entry *at,
                          const struct caller *who);

/* The caller lets go of what it holds. */
void checks_on_let_go(world *wd, const struct caller *who, el_leave how);

/* It has: another one has the key, or it lingers, if that may be. */
void checks_after_let_go(world *wd, const struct caller *who);

/* The entry of |at| is told to stop. */
void checks_on_stop(world *wd, const sim_peer *pr, const peer_entry *at);

/* It is told how that ended. */
void checks_on_release_told(world *wd, const sim_peer *pr,
                            const sim_owner *owner,
                            const el_local_action *released);

/* It is told that somebody is behind the key of |at|. */
void checks_on_contended(const world *wd, peer_entry *at);

/* The watch for that begins, or ends. */
void checks_on_contender_watch(world *wd, const sim_peer *pr,
                               const peer_entry *at, bool begins);

/* The peer forgets |at|. */
void checks_on_forgotten(world *wd, const sim_peer *pr, const peer_entry *at);

/* The local queues of |pr|, after each event. */
void checks_local_queues(world *wd, const sim_peer *pr);

/* Has an admin taken the key of |token|, or one of several, or their lease? */
bool checks_is_sabotaged(const store *st, int key_id, int64_t lease_id,
                         int64_t token);

/* Does |who| hold by the key of |at|? */
bool checks_is_by(const sim_peer *pr, const struct caller *who,
                  const peer_entry *at);

/* |who|, who was granted, was kept out for long enough. */
void checks_delay(world *wd, const struct caller *who);

/* |pr| has closed, and left the lease of |left| to end by itself. */
void checks_lease_left(world *wd, const sim_peer *pr, const el_session *left);

/* The hold of |who| has ended with its session. */
void checks_on_left(world *wd, struct caller *who);

/* |who| has the key of |at| from another caller of its peer, or with it. */
void checks_on_handed_over(world *wd, const sim_peer *pr, peer_entry *at,
                           const struct caller *who);

/* It has it from etcd, early enough. */
void checks_on_prompt(world *wd, const sim_peer *pr, const peer_entry *at,
                      const struct caller *who);

void checks_on_locked(world *wd, const struct caller *who);

/* Something has changed that may be before a caller that tries. */
void checks_seen_others(world *wd);

/* Something has changed that may be behind a key. */
void checks_behind(world *wd, const change *what);

/* Each waiter has another one before it, or is granted soon. */
void checks_nobody_is_kept(world *wd);

/* No key stays that nobody wants. */
void checks_nothing_is_kept(world *wd, const sim_peer *pr);

/* Is there a key of its client that |who|, which is about to ask, can have at once? */
bool checks_is_due(const world *wd, const struct caller *who);

/* May the key of |at| linger? */
bool checks_may_linger(const world *wd, const sim_peer *pr,
                       const peer_entry *at);

void checks_on_lost(world *wd, const sim_peer *pr, const peer_entry *at,
                    el_loss loss);

/* The caller releases, or is told that it has lost. */
void checks_on_hold_end(world *wd, const struct caller *who);

void checks_on_delete_answered(world *wd, const sim_peer *pr,
                               const peer_entry *at, const el_outcome *outcome);

void checks_on_released(world *wd, const sim_peer *pr, const peer_entry *at,
                        bool found);

void checks_after_session(world *wd, const sim_peer *pr, int session);

void checks_after_entry(world *wd, const sim_peer *pr, const peer_entry *at);

void checks_after_peer(world *wd, sim_peer *pr);

/* Whether everything is over; a key that should be gone is a violation. */
bool checks_is_clean(world *wd);

/* It has taken too long: says who is to blame. */
void checks_blame(world *wd);

#endif
