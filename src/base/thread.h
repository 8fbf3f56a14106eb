/* thread: threads of ours, which no signal of the program's may reach. */
#ifndef ETCDLOCK_BASE_THREAD_H
#define ETCDLOCK_BASE_THREAD_H

#include <pthread.h>

/* Starts |run| with |arg|, all signals blocked. 0 or an errno. @thread any */
int el_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
