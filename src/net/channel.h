/* channel: the connections of a client to the members of a cluster.
 *
 * There is one gRPC channel per member, and one member is in use at a time: all calls and streams
 * go to it, so that a member that does not answer, or that is cut off from the others, is left as a
 * whole. If a call fails because of the member, the channel fails over to the next member and tells
 * its listeners, which have streams open.
 */
#ifndef ETCDLOCK_NET_CHANNEL_H
#define ETCDLOCK_NET_CHANNEL_H

#include <sys/queue.h>

#include "base/error.h"
#include "net/endpoint.h"
#include "net/loop.h"
#include "tls/tls.h"

/* el_channel holds the connections of one client. */
typedef struct el_channel el_channel;

/* el_failover_listener is called after each failover; embedded in its owner. |cause| is why the
 * previous member was left. */
typedef struct el_failover_listener el_failover_listener;
struct el_failover_listener {
  void (*on_failover)(el_failover_listener *listener, const el_error *cause);
  TAILQ_ENTRY(el_failover_listener) link;
};

/* el_diagnosis_wait waits for the end of a diagnosis; embedded in its owner. |cause| is why
 * connections to the member fail; NULL: the diagnosis found no cause. */
typedef struct el_diagnosis_wait el_diagnosis_wait;
struct el_diagnosis_wait {
  void (*done)(el_diagnosis_wait *wait, const el_error *cause);
  STAILQ_ENTRY(el_diagnosis_wait) link;
};

/* el_channel_new returns a channel to the |n| members at |endpoints|, which are copied. The channel
 * takes over |tls|, NULL if no endpoint uses TLS. The first call connects. @thread io */
el_channel *el_channel_new(el_loop *loop, const el_endpoint *endpoints,
                           size_t n, el_tls *tls);

/* el_channel_free frees |ch|, whose calls must have ended. Waits for a diagnosis end with NULL.
 * @thread io */
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

/* el_channel_set_token sets the token that later calls carry; it is copied. NULL: none.
 * @thread io */
void el_channel_set_token(el_channel *ch, const char *token);

/* el_channel_token returns the token, NULL if there is none. It is valid until the next
 * el_channel_set_token. @thread io */
const char *el_channel_token(const el_channel *ch);

/* el_channel_fail_over leaves |member| because of |cause|, if it is in use and not the only one.
 * @thread io */
void el_channel_fail_over(el_channel *ch, size_t member, const el_error *cause);

/* el_channel_is_healthy returns whether no call to the member in use has failed in the last 0.3 s.
 * @thread io */
bool el_channel_is_healthy(const el_channel *ch);

/* el_channel_await_diagnosis has wait->done called once, later, with the result of the diagnosis of
 * |member|. Returns false, and does nothing, if no diagnosis is under way. @thread io */
bool el_channel_await_diagnosis(el_channel *ch, size_t member,
                                el_diagnosis_wait *wait);

/* el_channel_add_listener has listener->on_failover called after each failover, until the channel
 * is freed. @thread io */
void el_channel_add_listener(el_channel *ch, el_failover_listener *listener);

#endif
