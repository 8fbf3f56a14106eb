/* channel: the way to a cluster: one connection for each of its members,
 * of which one is in use at a time.
 *
 * Everything goes to the member in use: calls and streams alike, so that a
 * member that has fallen silent, or is cut off from the others, is left as a
 * whole. When a call there fails for a reason of the member's, the channel
 * moves on to the next one and tells those who have streams open.
 */
#ifndef ETCDLOCK_NET_CHANNEL_H
#define ETCDLOCK_NET_CHANNEL_H

#include <sys/queue.h>

#include "net/endpoint.h"
#include "base/error.h"
#include "net/loop.h"
#include "tls/tls.h"

typedef struct el_channel el_channel;

/* Somebody who wants to know when another member is used. */
typedef struct el_move el_move;
struct el_move {
  void (*moved)(el_move *move, const el_error *why);
  TAILQ_ENTRY(el_move) link;
};

/* Somebody who wants to know why a member can't be reached. |reason| is NULL when
 * no more was found than the failure has said. */
typedef struct el_reason_wait el_reason_wait;
struct el_reason_wait {
  void (*done)(el_reason_wait *wait, const el_error *reason);
  STAILQ_ENTRY(el_reason_wait) link;
};

/* A channel to the |n| members at |endpoints|, which are copied. |tls| is taken
 * over; NULL if no endpoint wants it. Connecting is left to the first call.
 * @thread io */
el_channel *el_channel_new(el_loop *loop, const el_endpoint *endpoints,
                           size_t n, el_tls *tls);

/* Frees |ch|; its calls must have ended. Who waits for a reason gets none.
 * @thread io */
void el_channel_free(el_channel *ch);

/* The address of member |member|, for messages. @thread io */
const char *el_channel_address(const el_channel *ch, size_t member);

/* What the way to member |member| is. @thread io */
el_transport el_channel_transport(const el_channel *ch, size_t member);

/* The member in use. @thread io */
size_t el_channel_member(const el_channel *ch);

/* How many members there are. @thread io */
size_t el_channel_count(const el_channel *ch);

/* The loop on which calls of |ch| complete. @thread io */
el_loop *el_channel_loop(const el_channel *ch);

/* The token that every call carries from now on; copied. NULL: none.
 * @thread io */
void el_channel_set_token(el_channel *ch, const char *token);

/* That token, NULL if there is none; only until the next call that sets it.
 * @thread io */
const char *el_channel_token(const el_channel *ch);

/* Leaves |member|, because of |why|, if it is still in use and there is another.
 * @thread io */
void el_channel_leave(el_channel *ch, size_t member, const el_error *why);

/* Has the member in use not failed just now? @thread io */
bool el_channel_is_fresh(const el_channel *ch);

/* Is it being found out why |member| can't be reached? Then wait->done is called
 * once, later, with what was found. @thread io */
bool el_channel_await_reason(el_channel *ch, size_t member,
                             el_reason_wait *wait);

/* Calls move->moved after each move until the channel is freed. @thread io */
void el_channel_add_move(el_channel *ch, el_move *move);

#endif
