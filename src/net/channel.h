/* channel: the connections of a client to the members of a cluster.
 *
 * There is one gRPC channel per member. All streams, and all calls but those to a numbered member
 * (pinned_member in call.h), go to one member, the member in use. So if this member does not
 * answer, or is cut off from the others, all streams and calls leave it together. If a call fails
 * because of the member in use, the channel fails over: the next member becomes the one in use.
 * Then the channel calls its listeners, for example the owners of streams.
 */
#ifndef ETCDLOCK_NET_CHANNEL_H
#define ETCDLOCK_NET_CHANNEL_H

#include <sys/queue.h>

#include "base/error.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "net/patience.h"
#include "tls/tls.h"

/* el_channel holds the connections of one client. */
typedef struct el_channel el_channel;

/* el_failover_listener is called after each failover, even if the same member remains in use;
 * embedded in its owner. |cause| tells why the channel left the member in use. */
typedef struct el_failover_listener el_failover_listener;
struct el_failover_listener {
  void (*on_failover)(el_failover_listener *listener, const el_error *cause);
  /* called when another leader was elected; NULL: the owner need not know */
  void (*on_new_leader)(el_failover_listener *listener);
  TAILQ_ENTRY(el_failover_listener) link;
};

/* el_diagnosis_wait waits for the end of a diagnosis; embedded in its owner. |cause| tells why
 * connections to the member fail; NULL: no cause was found. */
typedef struct el_diagnosis_wait el_diagnosis_wait;
struct el_diagnosis_wait {
  void (*done)(el_diagnosis_wait *wait, const el_error *cause);
  STAILQ_ENTRY(el_diagnosis_wait) link;
};

/* el_channel_new returns a channel to the |n| members at |endpoints|, which are copied. The channel
 * takes over the caller's reference to |tls|. |tls| is NULL if no endpoint uses TLS. The first call
 * to a member opens the connection. @thread io */
el_channel *el_channel_new(el_loop *loop, const el_endpoint *endpoints,
                           size_t n, el_tls *tls);

/* el_channel_free frees |ch|, whose calls must have ended. Each el_diagnosis_wait that has not
 * ended is called with NULL. @thread io */
void el_channel_free(el_channel *ch);

/* el_channel_address returns the address of |member| (from 0), for messages. @thread io */
const char *el_channel_address(const el_channel *ch, size_t member);

/* el_channel_transport returns the transport to |member|. @thread io */
el_transport el_channel_transport(const el_channel *ch, size_t member);

/* el_channel_member returns the member in use. @thread io */
size_t el_channel_member(const el_channel *ch);

/* el_channel_count returns the number of members. @thread io */
size_t el_channel_count(const el_channel *ch);

/* el_channel_loop returns the loop on which the calls of |ch| complete. @thread io */
el_loop *el_channel_loop(const el_channel *ch);

/* el_channel_set_token copies |token|, which later streams carry, and later calls unless they have
 * has_no_token. NULL: they carry none. @thread io */
void el_channel_set_token(el_channel *ch, const char *token);

/* el_channel_token returns the token, or NULL if there is none. The token is valid until the next
 * el_channel_set_token. @thread io */
const char *el_channel_token(const el_channel *ch);

/* el_channel_client_name calls el_tls_client_name for |ch|. Returns false also if no member uses
 * TLS. @thread io */
bool el_channel_client_name(const el_channel *ch, char *to, int size);

/* el_channel_leave leaves |member| because of |cause|, as if it were silent. It does nothing if
 * |member| is not in use. @thread io */
void el_channel_leave(el_channel *ch, size_t member, const el_error *cause);

/* el_channel_is_healthy returns false if a call to the member in use has failed because of that
 * member in the last EL_FAILED_MS. Otherwise it returns true. @thread io */
bool el_channel_is_healthy(const el_channel *ch);

/* el_channel_saw_term tells that an answer has the raft term |term| (0: unknown). If the term is
 * higher than that of earlier answers, another leader was elected, and a call that a member had
 * forwarded to the last leader may never be answered. So all calls that the health check watches,
 * except keepalives, are cancelled, for their callers to send them again, and the listeners are
 * told. @thread io */
void el_channel_saw_term(el_channel *ch, uint64_t term);

/* el_channel_patience returns the estimate of how long answers take. @thread io */
const el_patience *el_channel_patience(const el_channel *ch);

/* el_channel_note_answer tells that |member| has taken |took_ms| to answer a call that the health
 * check leaves out. If that was long, other answers may take long, too. @thread io */
void el_channel_note_answer(el_channel *ch, size_t member, int64_t took_ms);

/* el_channel_is_doubtful tells whether the member in use has not answered since the last failover.
 * Before the first failover it returns false. @thread io */
bool el_channel_is_doubtful(const el_channel *ch);

/* el_channel_term returns the largest raft term of an answer; 0: none has come. @thread io */
uint64_t el_channel_term(const el_channel *ch);

/* el_channel_left_member returns at which member a read shall wait for a new leader, besides the
 * member in use: the one that was left last, if it was silent or late. If it had failed, there is
 * none: returns the member that came into use in its place. @thread io */
size_t el_channel_left_member(const el_channel *ch);

/* el_channel_saw_leader records that |member| has answered a read that needs a leader, in the raft
 * term |term|. |old_term| is the largest term that was known when the read was sent; 0: none. If
 * |term| is later than a known |old_term|, and el_channel_is_doubtful, |member| is used from now
 * on; at most once a term. @thread io */
void el_channel_saw_leader(el_channel *ch, size_t member, uint64_t old_term,
                           uint64_t term);

/* el_channel_attempt_ms returns the timeout of one attempt of a call that need not end earlier.
 * @thread io */
int64_t el_channel_attempt_ms(const el_channel *ch);

/* el_channel_is_connected tells whether there is a connection to |member|. @thread io */
bool el_channel_is_connected(const el_channel *ch, size_t member);

/* el_channel_connecting_ms returns how long it may take to connect to the member in use; 0: it is
 * connected. @thread io */
int64_t el_channel_connecting_ms(const el_channel *ch);

/* el_channel_is_failing tells whether connections to each member fail, and it is known why: for
 * example because they are refused, not because they are slow. @thread io */
bool el_channel_is_failing(const el_channel *ch);

/* el_channel_await_diagnosis has wait->done called once, later, with the result of the diagnosis of
 * |member|. Returns false, and does nothing, if no diagnosis is under way. @thread io */
bool el_channel_await_diagnosis(el_channel *ch, size_t member,
                                el_diagnosis_wait *wait);

/* el_channel_add_listener has |listener| called after each failover and election of a leader, until
 * the channel is freed. @thread io */
void el_channel_add_listener(el_channel *ch, el_failover_listener *listener);

#endif
