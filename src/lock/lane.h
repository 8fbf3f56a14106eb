/* lane: requests of one kind on their way, those that write or those that read.
 *
 * While some are out, the next ones gather, and leave as one when these return:
 * what etcd is asked at once costs it one turn of its log and one write to its
 * disk, however much that is. Nothing waits for company: who comes while there is
 * room leaves at once, alone. I/O thread only.
 */
#ifndef ETCDLOCK_LOCK_LANE_H
#define ETCDLOCK_LOCK_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/kv.h"

enum {
  /* One attempt of one request, at most; where a member answers nothing at all most
   * are given up sooner (net/health.h). etcd's own limit is 7 s. */
  EL_ATTEMPT_MS = 3000
};

typedef struct el_requests el_requests;

/* One transaction; embedded in, or made by, whoever asks. Zero-initialised but
 * for what stands first. */
typedef struct el_request el_request;
struct el_request {
  /* Takes over |answer|. Called once for each send that isn't withdrawn, later;
   * NULL, perhaps at once: the client stops, and whoever asked may only tidy up.
   * @thread io */
  void (*done)(el_request *request, el_txn_answer *answer);
  bool background;     /* nobody waits for it */
  size_t counted_as;   /* its field in el_stats */
  int64_t deadline_ms; /* an attempt ends then at the latest; 0: no limit */
  uint64_t queue; /* that it puts a key into (el_keys_queue); 0: into none */
  /* It has several keys: of what travels with others some etcds ask for rights on
   * one key only (batch.c). */
  bool by_itself;
  /* It isn't sent again where nobody knows what became of it: it would rather wait
   * for a slow answer than be given up. */
  bool patient;

  /* The rest is the gate's own. */
  el_requests *requests;
  el_packed_txn packed;
  int64_t rev_then; /* the cluster's revision when it left */
  bool is_queued;   /* it hasn't left */
  bool is_alone;    /* it was refused with others, for what one of them asked */
  bool is_short;    /* it left with less time than an attempt may take */
  bool is_scout;    /* it left to find out whether etcd is back */
  TAILQ_ENTRY(el_request) link;
};

TAILQ_HEAD(el_request_list, el_request);

/* Embedded in the gate. */
typedef struct el_lane el_lane;
struct el_lane {
  el_requests *requests; /* whose */
  el_auth *auth;
  /* |request| is about to leave; |shares| the round trip of another one. */
  void (*leaving)(el_request *request, bool shares);
  /* It is answered: takes over |answer|. */
  void (*answered)(el_request *request, el_txn_answer *answer);
  /* All that left together are. */
  void (*returned)(el_lane *lane);

  /* The lane's own. */
  struct el_request_list waiting;
  TAILQ_HEAD(, el_batch_out) out; /* the latest first */
  int64_t apart_until;            /* until then each leaves for itself */
};

/* |auth| and the three functions are set. @thread io */
void el_lane_init(el_lane *lane);

/* Has |request|, which is packed, wait until there is room. @thread io */
void el_lane_add(el_lane *lane, el_request *request);

/* Takes it back; it hasn't left. @thread io */
void el_lane_remove(el_lane *lane, el_request *request);

/* When there is room for those that wait: in the past, perhaps; INT64_MAX: nobody
 * waits. @thread io */
int64_t el_lane_ready_ms(const el_lane *lane);

/* Sends those who wait, or |only_one| of them; there is somebody. @thread io */
void el_lane_let_go(el_lane *lane, bool only_one);

/* Sends |request| alone, past those who wait. @thread io */
void el_lane_pass(el_lane *lane, el_request *request);

#endif
