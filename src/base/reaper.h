/* reaper: finishes in a thread of its own what would stop the program for too long.
 *
 * Lua's collector hands it clients that the program has dropped: the end of one takes up
 * to half a second if etcd is silent. Lua waits for all of them when it closes.
 */
#ifndef ETCDLOCK_BASE_REAPER_H
#define ETCDLOCK_BASE_REAPER_H

#include <stdbool.h>

/* Calls |finish| with |arg| in another thread. False, and nothing is called: there is no
 * thread to be had. @thread lua @locks reaper.mu */
bool el_reaper_start(void (*finish)(void *arg), void *arg);

/* Waits until all that this process has started is finished. @thread lua @locks reaper.mu
 */
void el_reaper_wait(void);

#endif
