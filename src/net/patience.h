/* patience: how long an answer may take now.
 *
 * The estimate follows TCP's retransmission timer (RFC 6298): SRTT is the smoothed time of the
 * answers, RTTVAR their smoothed deviation, and an answer may take SRTT + 4 * RTTVAR, but at least
 * EL_ANSWER_MS. Each answer resets the doublings. There are six differences to the RFC, with the
 * rows of `make networks` or `build/simulation/simulation scenes` that need them:
 * - After the first answer, a limit that has passed in vain doubles only if no other member is left
 *   to try (leave in channel.c): during an election, a request to the next member helps more than a
 *   long wait. Rows: leaders stand still.
 * - RTTVAR counts as at least 3/4 SRTT, so that the limit is at least 4 SRTT. In RFC 6298 an answer
 *   confirms a packet. Our answers may wait until TCP has sent a lost packet again, which takes one
 *   round trip or two more. Rows: rtt 500 and more, loss.
 * - It is known for each answer to which attempt it belongs. So each answer is a sample: Karn's
 *   algorithm, which leaves out ambiguous answers, is not needed.
 * - Until the first answer, the least limit is EL_FIRST_ANSWER_MS: a connection tells how far etcd
 *   is, but not how slow its disk is. Rows: rtt 700 and more; disk 300 ms and more.
 * - A sample counts as at most EL_SAMPLE_MOST_ANSWERS times the limit: the process may have stood
 *   still while it waited (regression 304).
 * - If there is no other member, el_health_limit_ms lengthens the limit (EL_ALONE_FACTOR). And
 *   keepalives that are late beside other answers double only the limit of keepalives
 *   (n_late in health.h): etcd may be slow with keepalives only. Rows: 1 member, loss or a busy
 *   disk; keepalives are late. */
#ifndef ETCDLOCK_NET_PATIENCE_H
#define ETCDLOCK_NET_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

/* el_patience is the estimate for one client. All zero: nothing is known. */
typedef struct el_patience {
  int64_t srtt_8, rttvar_4; /* in parts of a millisecond: eighths, quarters */
  bool is_measured;         /* a connection was made, or an answer has come */
  bool is_answered;         /* an answer has come */
  int n_doublings;
} el_patience;

/* el_patience_connected tells that one round trip has taken |took_ms|. It counts only until the
 * first answer. @thread any */
void el_patience_connected(el_patience *patience, int64_t took_ms);

/* el_patience_answered tells that an answer has taken |took_ms|. @thread any */
void el_patience_answered(el_patience *patience, int64_t took_ms);

/* el_patience_expired tells that an answer took longer than it may. @thread any */
void el_patience_expired(el_patience *patience);

/* el_patience_reset forgets how often el_patience_expired was called. @thread any */
void el_patience_reset(el_patience *patience);

/* el_patience_ms returns how long an answer may take, in milliseconds. @thread any */
int64_t el_patience_ms(const el_patience *patience);

/* el_patience_round_trip_ms returns how long an answer takes: SRTT. 0: nothing was measured.
 * @thread any */
int64_t el_patience_round_trip_ms(const el_patience *patience);

/* el_patience_estimate_ms returns the same as el_patience_ms, but without the least limit and the
 * doublings: what the answers themselves show. 0: nothing was measured. @thread any */
int64_t el_patience_estimate_ms(const el_patience *patience);

#endif
