/* requests: the gate through which every transaction leaves and returns.
 *
 * It counts them, has those that come together leave together (lane.h), keeps
 * those that nobody waits for few, holds all of them back for a moment where etcd
 * has just been found away, and judges whether the cluster that answers is still
 * the one that we began with. When to repeat what has failed is for those who ask
 * (rules/retry.h), and what they have asked for in vain they withdraw, as long as
 * it hasn't left.
 */
#ifndef ETCDLOCK_LOCK_REQUESTS_H
#define ETCDLOCK_LOCK_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "etcd/lease.h"
#include "lock/events.h"
#include "lock/lane.h"
#include "lock/shared.h"
#include "net/loop.h"

/* @thread io */
el_requests *el_requests_new(el_auth *auth, el_timers *timers,
                             el_counters *counters, el_events *events);

/* Nothing may be out any more. @thread io */
void el_requests_free(el_requests *requests);

/* Sends |txn|, which is copied, as soon as it may leave. @thread io */
void el_requests_send(el_requests *requests, el_request *request,
                      const el_txn *txn);

/* Takes |request| back; false if it has left, or was never sent.
 * @thread io */
bool el_requests_withdraw(el_requests *requests, el_request *request);

/* Somebody waits for |request| now. @thread io */
void el_requests_hurry(el_requests *requests, el_request *request);

/* From now on whatever returns is only tidied up. @thread io */
void el_requests_stop(el_requests *requests);

/* Judges the answer to a question about a lease; false: it is another
 * cluster's. Takes note of its end, too. @thread io */
bool el_requests_judge_lease(el_requests *requests,
                             const el_lease_answer *answer);

/* Has an etcd ever answered? @thread io */
bool el_requests_have_contact(const el_requests *requests);

/* Why nothing that this cluster says concerns us any more; NULL: it is ours.
 * @thread io */
const el_error *el_requests_wrong_cluster(const el_requests *requests);

/* Has a request been answered, good or bad, since |ms|? @thread io */
bool el_requests_heard_since(const el_requests *requests, int64_t ms);

/* Why requests are held back; NULL: they aren't. @thread io */
const el_error *el_requests_away(const el_requests *requests);

/* When etcd was found out of reach last, by a request or by a question about a lease,
 * and |*why|; 0: it was heard since. @thread io */
int64_t el_requests_outage(const el_requests *requests, const el_error **why);

/* The member in use, for messages. @thread io */
const char *el_requests_address(const el_requests *requests);

#endif
