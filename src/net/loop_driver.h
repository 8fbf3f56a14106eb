/* loop_driver: decides which thread drives a loop, that is, waits for events and dispatches them.
 *
 * Normally the I/O thread drives. But then a Lua thread that waits for the answer to a request
 * would cost two context switches: it would have to wake up the I/O thread for the request, and the
 * I/O thread would have to wake up the Lua thread for the answer. So a waiting Lua thread drives
 * the loop itself (the leader/followers pattern). When it has its answer, it releases the loop, and
 * no thread drives. The I/O thread does not take over at once, because a Lua thread that makes one
 * request after the other soon drives again. If no Lua thread drives within 2 to 4 ms, the I/O
 * thread does.
 *
 * Measured, with etcd's data in memory: if only the I/O thread drives, a loop of lock and unlock is
 * 7 % slower and costs twice the context switches. */
#ifndef ETCDLOCK_NET_LOOP_DRIVER_H
#define ETCDLOCK_NET_LOOP_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/completion.h"

/* el_loop_driver records which thread drives a loop: the I/O thread, a Lua thread, or none. */
typedef struct el_loop_driver {
  /* Guards the rest; while it is held, only the mutex of a completion may be locked. */
  pthread_mutex_t mu;
  pthread_cond_t released; /* signalled when the I/O thread may drive again */
  enum { EL_LOOP_IO_THREAD, EL_LOOP_LUA_THREAD, EL_LOOP_NO_THREAD } current;
  int64_t changed_ms; /* el_now_ms when |current| last changed;
                                 unused while |current| is the I/O thread */
  /* the loop was released since the I/O thread last acquired it */
  bool was_released;
  /* the I/O thread sleeps until |released| is signalled */
  bool is_io_thread_sleeping;
  /* The event that a Lua thread waits for while another thread drives; NULL: none. */
  el_completion *awaited;
  unsigned event;
} el_loop_driver;

/* el_loop_driver_init sets |driver| to the state in which the I/O thread drives. @thread lua */
void el_loop_driver_init(el_loop_driver *driver);

/* el_loop_driver_destroy frees what |driver| holds. @thread any */
void el_loop_driver_destroy(el_loop_driver *driver);

/* el_loop_driver_acquire blocks the I/O thread until it drives the loop. Returns whether the loop
 * was released since the last call. If so, the inbox may hold commands for which no wake-up was
 * sent. @thread io @locks loop_driver->mu */
bool el_loop_driver_acquire(el_loop_driver *driver);

/* el_loop_driver_yield is called by the I/O thread between two events. If the event that a Lua
 * thread waits for has come, it releases the loop, because that Lua thread may soon make its next
 * request. @thread io @locks loop_driver->mu */
void el_loop_driver_yield(el_loop_driver *driver);

/* el_loop_driver_try_acquire is called by a Lua thread that is about to wait for |event|. Returns
 * true if the Lua thread drives the loop from now on. Returns false if another thread drives. If
 * that is the I/O thread, it releases the loop when |event| has come.
 * @thread lua @locks loop_driver->mu */
bool el_loop_driver_try_acquire(el_loop_driver *driver, el_completion *awaited,
                                unsigned event);

/* el_loop_driver_release ends the wait of a Lua thread. |is_driving| is what
 * el_loop_driver_try_acquire returned to that thread. If it is true, the loop is released.
 * @thread lua @locks loop_driver->mu */
void el_loop_driver_release(el_loop_driver *driver, bool is_driving);

/* el_loop_driver_is_lua returns whether a Lua thread drives the loop.
 * @thread any @locks loop_driver->mu */
bool el_loop_driver_is_lua(el_loop_driver *driver);

/* el_loop_driver_exists returns whether any thread drives the loop. If none does, a command needs
 * no wake-up, because the next thread that drives runs the inbox first.
 * @thread any @locks loop_driver->mu */
bool el_loop_driver_exists(el_loop_driver *driver);

/* el_loop_driver_return_to_io makes the I/O thread drive at once if no thread drives the loop.
 * Without this call, the I/O thread would wait up to 4 ms for a Lua thread to drive.
 * @thread any @locks loop_driver->mu */
void el_loop_driver_return_to_io(el_loop_driver *driver);

#endif
