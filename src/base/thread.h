/* thread: threads with all signals blocked, and waits with a time limit. */
#ifndef ETCDLOCK_BASE_THREAD_H
#define ETCDLOCK_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

/* el_thread_block_signals blocks all signals in the calling thread and stores
 * its previous signal mask in |previous|. @thread any */
void el_thread_block_signals(sigset_t *previous);

/* el_thread_start starts a thread that calls |run| with |arg|. All signals are blocked in the new
 * thread, so that the program's signal handlers run in the program's own threads. Returns 0 or an
 * errno value. @thread any */
int el_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* el_cond_init initializes |cond|, whose timed waits use the monotonic clock.
 * @thread any */
void el_cond_init(pthread_cond_t *cond);

/* el_cond_deadline returns the time |ms| milliseconds from now, for pthread_cond_timedwait on a
 * condition that el_cond_init has initialized. @thread any */
struct timespec el_cond_deadline(int64_t ms);

#endif
