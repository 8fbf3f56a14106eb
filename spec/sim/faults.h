/* sim faults: what goes wrong in one history, how often, and when.
 *
 * Drawn once from the seed: a third of the histories are calm, so that what a
 * user sees on a good day is tested too, and some are wild. The events of a
 * whole cluster (elections, partitions, admins) are in trouble.c.
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "figures.h"
#include "random.h"

enum { PEERS_MAX = 4 };

/* How one peer stands at the moment. */
typedef struct condition {
  int64_t partition_until; /* nothing passes */
  int64_t stopped_until;   /* it doesn't run */
  bool crashed;            /* it never runs again */
  int64_t clock_ahead_ms;  /* what its clock shows more than the store's, ... */
  int64_t clock_ppm;       /* and how much faster it runs, of a million */

  /* It hangs on a leader that was deposed, or on a member that lags. */
  int64_t deposed_until;
  bool deposed_times_out; /* and what needs the quorum doesn't get through */
  int64_t old_rev;        /* what that member has seen */
  uint64_t old_term;
  int64_t deposed_since;

  /* The member that it hangs on applies what the others have written only later. */
  int64_t lagging_until;
  int64_t lag_ms;
  int64_t lag_due; /* when it has applied all that was written so far */
  int64_t lag_rev; /* what it has applied */
} condition;

typedef struct faults {
  bool calm;          /* every message arrives soon */
  bool meddled;       /* but admins meddle */
  int chance[FAULTS]; /* per mille, of those that hit single messages */
  int times[FAULTS];  /* how often those come that hit more */
  int64_t latency_min_ms, latency_max_ms;
  int batching; /* per mille of the writes that go with others */
  int slow;     /* per mille of the messages that take longer */
  int64_t slow_max_ms;
  int tick_late_ms;   /* how late a timer may be */
  int64_t attempt_ms; /* what a unary call may take */
  condition peers[PEERS_MAX];
} faults;

/* For leases of |ttl_ms|. */
void faults_draw(faults *fl, rng *dice, int64_t ttl_ms);

/* From now on the sun shines. */
void faults_clear(faults *fl);

/* How long one message is on its way. */
int64_t faults_latency(const faults *fl, rng *dice);

bool faults_is_partitioned(const faults *fl, int peer, int64_t now_ms);

bool faults_is_deposed(const faults *fl, int peer, int64_t now_ms);

bool faults_is_lagging(const faults *fl, int peer, int64_t now_ms);

/* When its member applies what is written at |now_ms|. */
int64_t faults_lag_due(faults *fl, int peer, int64_t now_ms);

/* What its member has applied of the |rev| that are written. */
int64_t faults_member_rev(const faults *fl, int peer, int64_t now_ms,
                          int64_t rev);

#endif
