/* sim faults: which faults one history has, how often, and when.
 *
 * The faults are drawn from the seed of the history. In 3 of 10 histories no message has a fault,
 * so that normal operation is tested, too; in one of these three, admins change keys. In the others
 * the number of faults differs widely. Faults of a whole peer or cluster (elections, partitions,
 * admins) are carried out by trouble.c. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "figures.h"
#include "random.h"

enum { PEERS_MAX = 4 };

/* The faults that affect one peer at present. */
typedef struct condition {
  int64_t partition_until; /* until this time no message passes */
  int64_t stopped_until;   /* until this time the process is stopped */
  bool crashed;            /* the process was killed */
  int64_t clock_ahead_ms;  /* offset of its clock from the world's clock */
  int64_t clock_ppm;       /* how much faster its clock runs, in millionths */

  /* Until this time the peer is connected to a deposed leader. */
  int64_t deposed_until;
  bool deposed_times_out; /* that leader lets linearizable requests time out */
  int64_t old_rev;        /* revision that the deposed leader has applied */
  uint64_t old_term;
  int64_t deposed_since;

  /* Until this time the peer is connected to a member that applies writes late. */
  int64_t lagging_until;
  int64_t lag_ms;
  int64_t lag_due; /* when that member will have applied all writes */
  int64_t lag_rev; /* revision that the member has applied */
} condition;

typedef struct faults {
  bool calm;         /* no faults except changes by admins */
  bool meddled;      /* calm, and admins change keys */
  bool hides_rivals; /* no watch reports the keys behind one that may linger */
  bool has_hidden_leases; /* an answer had no leases (FAULT_NO_LEASES) */
  int chance[FAULTS];     /* per mille, for faults of single messages */
  int times[FAULTS];      /* how often each other fault happens */
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

/* Ends all faults, and limits the latency to 20 ms. Stopped and crashed peers, and the clocks, stay
 * as they are. */
void faults_clear(faults *fl);

/* Draws the latency of one message. */
int64_t faults_latency(const faults *fl, rng *dice);

bool faults_is_partitioned(const faults *fl, int peer, int64_t now_ms);

bool faults_is_deposed(const faults *fl, int peer, int64_t now_ms);

bool faults_is_lagging(const faults *fl, int peer, int64_t now_ms);

/* Returns the time at which the member of |peer| has applied a write of |now_ms|. */
int64_t faults_lag_due(faults *fl, int peer, int64_t now_ms);

/* Returns the revision that the member of |peer| has applied; |rev| is that of the store. */
int64_t faults_member_rev(const faults *fl, int peer, int64_t now_ms,
                          int64_t rev);

#endif
