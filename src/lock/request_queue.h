/* request_queue: the requests (transactions) of one client that have not left yet, and their
 * batches.
 *
 * A request leaves at once if few are in flight; otherwise it waits, and leaves with others in one
 * batch. Background requests are limited in number and rate. After an attempt that found etcd
 * unreachable the queue backs off: no request leaves for up to 160 ms, then one as a probe. Each
 * answer is checked to be from the same cluster as before. The queue repeats nothing: the sender
 * decides whether to send again (protocol/retry.h). I/O thread only. */
#ifndef ETCDLOCK_LOCK_REQUEST_QUEUE_H
#define ETCDLOCK_LOCK_REQUEST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "etcd/kv.h"
#include "etcd/lease.h"
#include "lock/events.h"
#include "lock/shared.h"
#include "net/loop.h"

enum {
  /* The timeout of one attempt. If a member answers nothing at all, most attempts end earlier
   * (net/health.h). etcd's own limit is 7 s. */
  EL_ATTEMPT_MS = 3000
};

/* el_request_queue is the request queue of one client. */
typedef struct el_request_queue el_request_queue;

/* el_request is one transaction on its way to etcd; embedded in an object of the sender. The sender
 * sets the fields up to |may_be_slow|; the others are zero to begin with. */
typedef struct el_request el_request;
struct el_request {
  /* done is called once for each send that is not withdrawn. It owns |answer|. NULL, which may come
   * before el_request_queue_send returns: the client stops, and the sender may only free its
   * memory. @thread io */
  void (*done)(el_request *request, el_txn_answer *answer);
  bool is_background;  /* nothing waits for it: it is rate-limited */
  size_t counted_as;   /* offset of its counter in el_stats */
  int64_t deadline_ms; /* when an attempt must end (el_now_ms); 0: never */
  /* el_keys_queue_hash of the queue into which it puts a key; 0: it puts none */
  uint64_t lock_queue;
  /* It has several keys. It must not be in a batch, because some versions of etcd check the
   * permission for one key of a nested transaction only (batch.c). */
  bool is_unbatched;
  /* A timeout would leave its outcome unknown and it is not sent again, so a slow answer is better
   * than an early timeout. */
  bool may_be_slow;

  /* Set by the request queue. */
  el_request_queue *queue;
  el_packed_txn packed;
  /* the largest revision of the store known when it was sent */
  int64_t rev_at_send;
  bool is_queued; /* it has not left yet */
  /* a batch with it failed for one of its members */
  bool was_refused_in_batch;
  bool has_short_timeout; /* its last attempt had less than EL_ATTEMPT_MS */
  bool is_probe;          /* it was sent during a backoff */
  TAILQ_ENTRY(el_request) link;
};

/* el_request_queue_new returns an empty queue. All arguments must outlive it. @thread io */
el_request_queue *el_request_queue_new(el_auth *auth, el_timers *timers,
                                       el_counters *counters,
                                       el_events *events);

/* el_request_queue_free frees |queue|; no request may be in flight. @thread io */
void el_request_queue_free(el_request_queue *queue);

/* el_request_queue_send copies |txn| and sends it as soon as it may leave. |request| must live
 * until its |done|. @thread io */
void el_request_queue_send(el_request_queue *queue, el_request *request,
                           const el_txn *txn);

/* el_request_queue_withdraw removes |request| from the queue; |done| is not called. Returns false
 * if it has left, or was never sent. @thread io */
bool el_request_queue_withdraw(el_request_queue *queue, el_request *request);

/* el_request_queue_expedite makes |request| a foreground request, because a caller waits for it
 * now. @thread io */
void el_request_queue_expedite(el_request_queue *queue, el_request *request);

/* el_request_queue_stop calls |done| with NULL for all requests, now or when they are answered.
 * @thread io */
void el_request_queue_stop(el_request_queue *queue);

/* el_request_queue_check_lease_answer updates the backoff and the cluster identity from the answer
 * of a lease call. Returns false if it is from another cluster. @thread io */
bool el_request_queue_check_lease_answer(el_request_queue *queue,
                                         const el_lease_answer *answer);

/* el_request_queue_has_contact tells whether etcd has ever answered. @thread io */
bool el_request_queue_has_contact(const el_request_queue *queue);

/* el_request_queue_wrong_cluster returns the error that says that another cluster answers; NULL: it
 * is the same one. @thread io */
const el_error *el_request_queue_wrong_cluster(const el_request_queue *queue);

/* el_request_queue_was_answered_since tells whether a request was answered, also by a definite
 * error, after |ms| (el_now_ms). @thread io */
bool el_request_queue_was_answered_since(const el_request_queue *queue,
                                         int64_t ms);

/* el_request_queue_backoff_error returns the error for which the queue backs off; NULL: it does
 * not. @thread io */
const el_error *el_request_queue_backoff_error(const el_request_queue *queue);

/* el_request_queue_last_unreachable returns when a request or a lease call found etcd unreachable
 * last (el_now_ms), and |*why|; 0: etcd has answered since. @thread io */
int64_t el_request_queue_last_unreachable(const el_request_queue *queue,
                                          const el_error **why);

/* el_request_queue_address returns the address of the member in use, for messages. @thread io */
const char *el_request_queue_address(const el_request_queue *queue);

#endif
