/* thread: threads of ours, which no signal of the program's may reach, and how one waits
 * for another. */
#ifndef ETCDLOCK_BASE_THREAD_H
#define ETCDLOCK_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

/* Has the calling thread hear of no signal until |before| is its mask again.
 * @thread any */
void el_thread_block_signals(sigset_t *before);

/* Starts |run| with |arg|, all signals blocked. 0 or an errno. @thread any */
int el_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* A condition that is waited for on the monotonic clock. @thread any */
void el_cond_init(pthread_cond_t *cond);

/* |ms| milliseconds from now, for pthread_cond_timedwait. @thread any */
struct timespec el_cond_deadline(int64_t ms);

#endif
