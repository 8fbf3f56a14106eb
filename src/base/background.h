/* background: functions that run in threads of their own.
 *
 * Lua's garbage collector closes abandoned clients this way: closing one takes
 * up to half a second if etcd does not answer, too long for the program's
 * thread. The end of the Lua state waits for all of them.
 */
#ifndef ETCDLOCK_BASE_BACKGROUND_H
#define ETCDLOCK_BASE_BACKGROUND_H

#include <stdbool.h>

/* el_background_start calls |run| with |arg| in a new thread. Returns false,
 * without calling |run|, if there is no memory or no thread.
 * @thread lua @locks background.mu */
bool el_background_start(void (*run)(void *arg), void *arg);

/* el_background_wait returns when all functions that this process has started
 * have returned. @thread lua @locks background.mu */
void el_background_wait(void);

#endif
