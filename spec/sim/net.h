/* sim net: carries requests to the store and answers back, or doesn't. */
#ifndef SIM_NET_H
#define SIM_NET_H

#include "message.h"
#include "world.h"

/* A request may be on its way for so long until the store carries it out. */
enum { NET_WAY_MAX_MS = 45000 };

/* Sends |what|; |on_reply| runs at the peer with ev->call and ev->reply, at
 * least once: with the answer, with an error, or with a time-out. Whoever
 * hears of a call for the second time ignores it. */
void net_send(world *wd, const call *what, event_run on_reply);

/* The same for the keepalive stream, where silence is silence. */
void net_keep_alive(world *wd, const call *what, event_run on_reply);

#endif
