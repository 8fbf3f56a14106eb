/* sim net: carries requests to the store and answers back, with faults. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "message.h"
#include "world.h"

/* The longest time in milliseconds until the store applies a request, unless a partition delays
 * it. */
enum { NET_WAY_MAX_MS = 45000 };

/* Sends |what|. |on_reply| runs at the peer with the call in ev->call, and with the answer, an
 * error or a timeout in ev->reply. It runs at least once. If it runs again for the same call, the
 * receiver ignores that. */
void net_send(world *wd, const call *what, event_run on_reply);

/* Sends |what| on the keepalive stream. |on_reply| runs only if an answer comes or the stream
 * breaks, because the stream has no timeouts. */
void net_keep_alive(world *wd, const call *what, event_run on_reply);

#endif
