/* request_queue: the requests (transactions) of one client that have not left yet, and their
 * batches.
 *
 * A request leaves at once if few are in flight; otherwise it waits, and leaves with others in one
 * batch. Background requests are limited in number and rate. After an attempt that found etcd
 * unreachable no request leaves for a pause, then one request leaves as an attempt
 * (lock/contact.h). Each answer is checked to be from the same cluster as earlier answers. After a
 * failure the sender decides whether a request is sent again (protocol/retry.h). The queue itself
 * sends again only the requests of some failed batches, one by one. I/O thread only.
 *
 * Measured: without batches, 64 owners that use a lock each are 15 times slower, because etcd
 * writes to its disk for each request. */
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

/* el_request_queue is the request queue of one client. */
typedef struct el_request_queue el_request_queue;

/* el_request is one transaction on its way to etcd; embedded in an object of the sender. The sender
 * sets the fields up to |may_be_slow|. The other fields must be zero before the first send. */
typedef struct el_request el_request;
struct el_request {
  /* done is called once for each send that is not withdrawn, and must free |answer|. If |answer| is
   * NULL, the client stops, and the sender may only free its own memory. That call may come before
   * el_request_queue_send returns. @thread io */
  void (*done)(el_request *request, el_txn_answer *answer);
  bool is_background; /* no caller waits for it, so it is rate-limited */
  /* offset in el_stats of the counter of this kind of request */
  size_t counted_as;
  int64_t deadline_ms; /* no attempt goes on after this (el_now_ms); 0: none */
  /* el_keys_queue_hash of the lock queue into which the request puts a key, or from which it
   * deletes one; 0: neither */
  uint64_t lock_queue;
  bool is_enqueue; /* it puts a key into the lock queue */
  /* The request writes, and has several keys, whose permissions may differ. It must not be in a
   * batch, because some versions of etcd would check only one of them (batch.c). */
  bool is_unbatched;
  /* Unless etcd is unreachable, the request may take until |deadline_ms|, and with a single member
   * the health check does not cancel it (net/call.h). After a timeout its outcome is unknown, and
   * it is not sent again. So a slow answer is better than an early timeout. */
  bool may_be_slow;

  /* Set by the request queue. */
  el_request_queue *queue;
  el_packed_txn packed;
  /* the largest revision of the store that was known when the request was sent */
  int64_t rev_at_send;
  bool is_queued; /* the request has not left yet */
  /* a batch with this request failed, perhaps because of another one: this one is sent alone now */
  bool was_refused_in_batch;
  int64_t timeout_ms; /* of the last attempt */
  /* |timeout_ms| was less than el_channel_attempt_ms */
  bool has_short_timeout;
  bool is_attempt; /* etcd was unreachable when the request left */
  TAILQ_ENTRY(el_request) link;
};

/* el_request_queue_new returns an empty queue. |shared| must outlive it. @thread io */
el_request_queue *el_request_queue_new(el_shared *shared);

/* el_request_queue_free frees |queue|; no request may be in flight. @thread io */
void el_request_queue_free(el_request_queue *queue);

/* el_request_queue_send copies |txn|, to be sent as soon as it may leave. |request| must live
 * until |done| is called. @thread io */
void el_request_queue_send(el_request_queue *queue, el_request *request,
                           const el_txn *txn);

/* el_request_queue_send_ready sends the requests that may leave now. settle calls it at the end of
 * each event, so that the requests of one event can leave in one batch. @thread io */
void el_request_queue_send_ready(el_request_queue *queue);

/* el_request_queue_withdraw removes |request| from the queue, and |done| is not called. Returns
 * false if the request has left or was never sent. @thread io */
bool el_request_queue_withdraw(el_request_queue *queue, el_request *request);

/* el_request_queue_expedite makes |request| a foreground request, because a caller waits for it
 * now. @thread io */
void el_request_queue_expedite(el_request_queue *queue, el_request *request);

/* el_request_queue_stop stops the queue: |done| is called with NULL for each request. This happens
 * at once for requests that have not left, and for the others when they are answered. @thread io */
void el_request_queue_stop(el_request_queue *queue);

/* el_request_queue_check_lease_answer updates the backoff and the cluster identity from |answer|,
 * the answer to a lease call. Returns false if |answer| is from another cluster. @thread io */
bool el_request_queue_check_lease_answer(el_request_queue *queue,
                                         const el_lease_answer *answer);

/* el_request_queue_wait_limit_ms returns how long a wait without a timeout may last. INT64_MAX:
 * there is no limit, because etcd has answered. Until then the address may be wrong, and the limit
 * is EL_CALL_MS if it is known why all connections fail, otherwise EL_FIRST_CONTACT_MS.
 * @thread io */
int64_t el_request_queue_wait_limit_ms(const el_request_queue *queue);

/* el_request_queue_wrong_cluster returns the error that says that another cluster answers. NULL:
 * all answers so far are from the same cluster. @thread io */
const el_error *el_request_queue_wrong_cluster(const el_request_queue *queue);

/* el_request_queue_address returns the address of the member in use, for messages. @thread io */
const char *el_request_queue_address(const el_request_queue *queue);

#endif
