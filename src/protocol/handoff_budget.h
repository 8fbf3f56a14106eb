/* handoff_budget: limits the holds, and the time, for which a client hands one key off between its
 * waiters.
 *
 * A handoff saves etcd two writes, but makes the other clients that queue behind the key wait
 * longer. So a budget limits the number of holds and the time. Both count from the grant by etcd,
 * because other clients may wait from then on.
 *
 * A contention query asks etcd whether other keys wait for this key. If it finds none, the budget
 * counts from the time at which that query was sent. The client sends a query when half of the
 * budget is spent, so that no local waiter has to wait for the answer. Readers that want to share a
 * key whose budget is spent send a query, too, if none was sent before (local_queue.h). Once a
 * query has found a waiter, the budget is not extended any more. (Cohort locks, Dice et al. 2012,
 * have the same bound.)
 */
#ifndef ETCDLOCK_PROTOCOL_HANDOFF_BUDGET_H
#define ETCDLOCK_PROTOCOL_HANDOFF_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* el_contention is the answer to a contention query: whether younger keys wait for our key. */
typedef enum el_contention {
  EL_CONTENTION_UNKNOWN, /* there was no answer */
  EL_CONTENTION_NONE,
  /* a key waits; or the query reached its limit before it could tell, because other keys, for
   * example user data, are younger */
  EL_CONTENTION_WAITERS,
  EL_CONTENTION_KEY_LOST /* our key is gone, or is detached from our lease */
} el_contention;

/* el_handoff_limits is the size of a handoff budget. */
typedef struct el_handoff_limits {
  int32_t holds; /* the holds of one budget; below 2: no handoff */
  int64_t ms;    /* milliseconds after which no further hold may begin */
} el_handoff_limits;

/* el_handoff_budget is how much of its budget one key has spent. All zero: no hold has begun. Times
 * are el_now_ms. */
typedef struct el_handoff_budget {
  /* when the budget began: at the grant, or when the last query that found no waiter was sent */
  int64_t start_ms;
  /* when the query in flight was sent; 0: none is in flight; -1: a query has found a waiter */
  int64_t query_ms;
  /* holds since start_ms, with the one that was running then */
  int32_t holds;
  int32_t query_holds; /* |holds| when the query was sent */
} el_handoff_budget;

/* el_handoff_budget_start begins a budget with its first hold, because etcd has granted the key at
 * |now_ms|. @thread any */
void el_handoff_budget_start(el_handoff_budget *budget, int64_t now_ms);

/* el_handoff_budget_has_room tells whether one more hold may begin without etcd. @thread any */
bool el_handoff_budget_has_room(const el_handoff_budget *budget,
                                const el_handoff_limits *limits,
                                int64_t now_ms);

/* el_handoff_budget_spend counts a hold that begins at |now_ms|. If it returns true, the caller
 * sends a contention query now, and calls el_handoff_budget_end_query with the answer.
 * @thread any */
bool el_handoff_budget_spend(el_handoff_budget *budget,
                             const el_handoff_limits *limits, int64_t now_ms);

/* el_handoff_budget_begin_query begins a contention query, which may extend the budget. If it
 * returns true, the caller sends the query, and calls el_handoff_budget_end_query with the answer.
 * It returns false if a query is in flight, or if an earlier one has found a waiter. @thread any */
bool el_handoff_budget_begin_query(el_handoff_budget *budget, int64_t now_ms);

/* el_handoff_budget_end_query records |contention|, the answer to the query in flight. If no key
 * waited, the budget counts from the time at which the query was sent. @thread any */
void el_handoff_budget_end_query(el_handoff_budget *budget,
                                 el_contention contention);

#endif
