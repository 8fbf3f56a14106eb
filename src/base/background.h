/* background: functions that run in threads of their own.
 *
 * If Lua's garbage collector finds a client that was not closed, such a thread closes it. To close
 * a client takes about half a second if etcd does not answer, which is too long for the program's
 * thread. At the end of a Lua state, el_background_wait waits for all these threads.
 */
#ifndef ETCDLOCK_BASE_BACKGROUND_H
#define ETCDLOCK_BASE_BACKGROUND_H

#include <stdbool.h>

/* el_background_start calls |run| with |arg| in a new thread. Returns false, without a call of
 * |run|, if there is not enough memory or no thread can be started.
 * @thread lua @locks background.mu */
bool el_background_start(void (*run)(void *arg), void *arg);

/* el_background_wait waits until all functions that el_background_start has called in this process
 * have returned. @thread lua @locks background.mu */
void el_background_wait(void);

#endif
