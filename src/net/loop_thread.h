/* loop_thread: decides which thread drives a loop.
 *
 * Normally the I/O thread does. A Lua thread that blocks until its request is answered would have
 * to wake up the I/O thread with the request, and be woken up with the answer: two context
 * switches. So that Lua thread drives the loop itself (the leader/followers pattern). When it has
 * its answer it releases the loop to no thread, because a Lua thread that makes one request after
 * the other is back at once. If none comes back within 2 ms, the I/O thread drives the loop again.
 */
#ifndef ETCDLOCK_NET_LOOP_THREAD_H
#define ETCDLOCK_NET_LOOP_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"

typedef struct el_loop_thread {
  pthread_mutex_t mu; /* guards the rest; while it is held, only the
                         mutex of a completion may be locked */
  pthread_cond_t released;
  enum { EL_LOOP_IO_THREAD, EL_LOOP_LUA_THREAD, EL_LOOP_NO_THREAD } current;
  int64_t changed_ms;         /* el_now_ms when |current| last changed;
                                 unused while |current| is the I/O thread */
  bool was_released;          /* since the I/O thread acquired the loop last */
  bool is_io_thread_sleeping; /* until |released| is signalled */
  /* The event that a Lua thread waits for while another thread drives; NULL: none. */
  el_completion *awaited;
  unsigned event;
} el_loop_thread;

/* el_loop_thread_init sets the I/O thread as the one that drives. @thread lua */
void el_loop_thread_init(el_loop_thread *lt);

/* el_loop_thread_destroy frees what |lt| holds. @thread any */
void el_loop_thread_destroy(el_loop_thread *lt);

/* el_loop_thread_acquire blocks the I/O thread until it drives the loop. Returns whether the loop
 * was released since the last call: commands may have been posted without a wake-up.
 * @thread io @locks loop_thread->mu */
bool el_loop_thread_acquire(el_loop_thread *lt);

/* el_loop_thread_yield is called by the I/O thread between two events. It releases the loop if the
 * completion that a Lua thread waits for has come: that thread may be back at once.
 * @thread io @locks loop_thread->mu */
void el_loop_thread_yield(el_loop_thread *lt);

/* el_loop_thread_try_acquire is called by a Lua thread that is about to wait for |event|. Returns
 * true if that thread drives the loop now; otherwise another thread drives, and if that is the I/O
 * thread, it releases the loop when |event| has come. @thread lua @locks loop_thread->mu */
bool el_loop_thread_try_acquire(el_loop_thread *lt, el_completion *awaited,
                                unsigned event);

/* el_loop_thread_release ends the wait of a Lua thread; |is_driving| is what
 * el_loop_thread_try_acquire returned. @thread lua @locks loop_thread->mu */
void el_loop_thread_release(el_loop_thread *lt, bool is_driving);

/* el_loop_thread_is_lua returns whether a Lua thread drives the loop.
 * @thread any @locks loop_thread->mu */
bool el_loop_thread_is_lua(el_loop_thread *lt);

/* el_loop_thread_exists returns whether any thread drives the loop, and may have to be woken up
 * for a command. If none does, the next one looks at the inbox first.
 * @thread any @locks loop_thread->mu */
bool el_loop_thread_exists(el_loop_thread *lt);

/* el_loop_thread_return_to_io makes the I/O thread drive a loop that no thread drives, without
 * waiting for a Lua thread to come back. @thread any @locks loop_thread->mu */
void el_loop_thread_return_to_io(el_loop_thread *lt);

#endif
