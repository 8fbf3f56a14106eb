/* sim net: carries requests to the store and answers back, with faults. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "message.h"
#include "world.h"

/* The longest time until the store applies a request. */
enum { NET_WAY_MAX_MS = 45000 };

/* Sends |what|. |on_reply| runs at the peer with ev->call and ev->reply, at least once: with the
 * answer, an error or a timeout. The receiver ignores a second reply to one call. */
void net_send(world *wd, const call *what, event_run on_reply);

/* The same for the keepalive stream, which has no timeouts. */
void net_keep_alive(world *wd, const call *what, event_run on_reply);

#endif
