/* handoff_budget: how many holds, and for how long, one client may hand a key off locally.
 *
 * A handoff spares etcd two writes but lets the clients wait that queue behind the key. So it is
 * bounded: a number of holds and a time, counted from the moment since which another client may be
 * waiting. That moment is the grant by etcd; a contention query that finds no waiter moves it to
 * the time at which the query was sent. The client queries when half of the budget is spent, so
 * that nothing waits for the answer, and at its end if it did not before. Once a waiter was seen,
 * the budget is not extended. (Cohort locks, Dice et al. 2012, have the same bound.)
 */
#ifndef ETCDLOCK_PROTOCOL_HANDOFF_BUDGET_H
#define ETCDLOCK_PROTOCOL_HANDOFF_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* el_contention is the answer to a contention query: whether other keys wait for ours. */
typedef enum el_contention {
  EL_CONTENTION_UNKNOWN, /* there was no answer */
  EL_CONTENTION_NONE,
  EL_CONTENTION_WAITERS, /* a key waits, or may wait: too much user data
                            hides it */
  EL_CONTENTION_KEY_LOST /* our key is gone, or is detached from our lease */
} el_contention;

/* el_handoff_limits is the size of a handoff budget. */
typedef struct el_handoff_limits {
  int32_t holds; /* of one budget; below 2: no handoff */
  int64_t ms;    /* another hold may begin only within this time, in ms */
} el_handoff_limits;

/* el_handoff_budget is how much of the budget one key has spent. Zero: nothing is held. Times are
 * el_now_ms. */
typedef struct el_handoff_budget {
  int64_t start_ms;    /* the last moment at which no other client waited */
  int64_t query_ms;    /* when a query was sent; 0: none is in flight; -1: it
                          found a waiter */
  int32_t holds;       /* begun since start_ms */
  int32_t query_holds; /* |holds| when the query was sent */
} el_handoff_budget;

/* el_handoff_budget_start begins a budget with one hold: etcd has granted the key at |now_ms|.
 * @thread any */
void el_handoff_budget_start(el_handoff_budget *budget, int64_t now_ms);

/* el_handoff_budget_has_room tells whether one more hold may begin without etcd. @thread any */
bool el_handoff_budget_has_room(const el_handoff_budget *budget,
                                const el_handoff_limits *limits,
                                int64_t now_ms);

/* el_handoff_budget_spend counts a hold that begins at |now_ms|. True: send a contention query now;
 * el_handoff_budget_end_query is to be called with its answer. @thread any */
bool el_handoff_budget_spend(el_handoff_budget *budget,
                             const el_handoff_limits *limits, int64_t now_ms);

/* el_handoff_budget_begin_query begins a contention query that may extend the spent budget, unless
 * one is in flight or has found a waiter. True: send it, and call el_handoff_budget_end_query with
 * its answer. @thread any */
bool el_handoff_budget_begin_query(el_handoff_budget *budget, int64_t now_ms);

/* el_handoff_budget_end_query records the answer to the query: the contention when it was sent.
 * @thread any */
void el_handoff_budget_end_query(el_handoff_budget *budget,
                                 el_contention contention);

#endif
