/* sim faults: which faults one history has, how often, and when.
 *
 * They are drawn from the seed. A third of the histories have none, so that normal operation is
 * tested, too; some have many. Events of a whole cluster (elections, partitions, admins) are in
 * trouble.c.
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "figures.h"
#include "random.h"

enum { PEERS_MAX = 4 };

/* The faults of one peer at the moment. */
typedef struct condition {
  int64_t partition_until; /* no message passes */
  int64_t stopped_until;   /* the process is stopped */
  bool crashed;            /* the process was killed */
  int64_t clock_ahead_ms;  /* offset of its clock, ... */
  int64_t clock_ppm;       /* ... and how much faster it runs */

  /* It is connected to a deposed leader, or to a member that lags. */
  int64_t deposed_until;
  bool deposed_times_out; /* linearizable requests time out there */
  int64_t old_rev;        /* what that member has applied */
  uint64_t old_term;
  int64_t deposed_since;

  /* The member that it is connected to applies writes late. */
  int64_t lagging_until;
  int64_t lag_ms;
  int64_t lag_due; /* when it has applied all writes so far */
  int64_t lag_rev; /* what it has applied */
} condition;

typedef struct faults {
  bool calm;          /* no faults of messages */
  bool meddled;       /* but admins change keys */
  int chance[FAULTS]; /* per mille, for faults of single messages */
  int times[FAULTS];  /* how often, for all other faults */
  int64_t latency_min_ms, latency_max_ms;
  int batching; /* per mille of writes that leave in a batch */
  int slow;     /* per mille of messages that are slow */
  int64_t slow_max_ms;
  int tick_late_ms;   /* largest delay of a timer */
  int64_t attempt_ms; /* time limit of a unary call */
  condition peers[PEERS_MAX];
} faults;

/* Draws the faults of a history with leases of |ttl_ms|. */
void faults_draw(faults *fl, rng *dice, int64_t ttl_ms);

/* Ends all faults. */
void faults_clear(faults *fl);

/* Draws the latency of one message. */
int64_t faults_latency(const faults *fl, rng *dice);

bool faults_is_partitioned(const faults *fl, int peer, int64_t now_ms);

bool faults_is_deposed(const faults *fl, int peer, int64_t now_ms);

bool faults_is_lagging(const faults *fl, int peer, int64_t now_ms);

/* Returns when the member of |peer| applies a write of |now_ms|. */
int64_t faults_lag_due(faults *fl, int peer, int64_t now_ms);

/* Returns the revision that the member of |peer| has applied; |rev| is that of the store. */
int64_t faults_member_rev(const faults *fl, int peer, int64_t now_ms,
                          int64_t rev);

#endif
