/* loop_thread: decides which thread drives a loop. */
#include "net/loop_thread.h"

#include "base/clock.h"
#include "base/thread.h"

/* How long no thread drives before the I/O thread does. Most Lua threads are back sooner. Timers
 * and the report of a lost hold are late by this much at most. */
enum { RELEASED_MS = 2 };

void el_loop_thread_init(el_loop_thread *lt) {
  pthread_mutex_init(&lt->mu, NULL);
  el_cond_init(&lt->released);
  lt->current = EL_LOOP_IO_THREAD;
  lt->changed_ms = 0;
  lt->was_released = lt->is_io_thread_sleeping = false;
  lt->awaited = NULL;
  lt->event = 0;
}

void el_loop_thread_destroy(el_loop_thread *lt) {
  pthread_cond_destroy(&lt->released);
  pthread_mutex_destroy(&lt->mu);
}

/* A Lua thread that has driven the loop for 2 ms will probably do so for longer: the I/O thread
 * sleeps until that thread signals the end of its wait. For a shorter wait the I/O thread polls,
 * so that the Lua thread is spared the cost of a signal. */
static void sleep_io_thread(el_loop_thread *lt, bool is_long) {
  if (is_long) {
    lt->is_io_thread_sleeping = true;
    pthread_cond_wait(&lt->released, &lt->mu);
    lt->is_io_thread_sleeping = false;
  } else {
    struct timespec until = el_cond_deadline(RELEASED_MS);
    pthread_cond_timedwait(&lt->released, &lt->mu, &until);
  }
}

bool el_loop_thread_acquire(el_loop_thread *lt) {
  bool was_released;
  pthread_mutex_lock(&lt->mu);
  while (lt->current != EL_LOOP_IO_THREAD) {
    bool is_long = el_now_ms() - lt->changed_ms >= RELEASED_MS;
    if (is_long && lt->current == EL_LOOP_NO_THREAD) {
      lt->current = EL_LOOP_IO_THREAD;
    } else {
      sleep_io_thread(lt, is_long);
    }
  }
  was_released = lt->was_released;
  lt->was_released = false;
  pthread_mutex_unlock(&lt->mu);
  return was_released;
}

static void release_to_none(el_loop_thread *lt) {
  lt->was_released = true;
  lt->current = EL_LOOP_NO_THREAD;
  lt->changed_ms = el_now_ms();
}

void el_loop_thread_yield(el_loop_thread *lt) {
  pthread_mutex_lock(&lt->mu);
  if (lt->awaited != NULL && el_completion_has(lt->awaited, lt->event)) {
    lt->awaited = NULL;
    release_to_none(lt);
  }
  pthread_mutex_unlock(&lt->mu);
}

bool el_loop_thread_try_acquire(el_loop_thread *lt, el_completion *awaited,
                                unsigned event) {
  bool is_driving;
  pthread_mutex_lock(&lt->mu);
  is_driving = lt->current == EL_LOOP_NO_THREAD;
  if (is_driving) {
    lt->current = EL_LOOP_LUA_THREAD;
    lt->changed_ms = el_now_ms();
  } else {
    lt->awaited = awaited;
    lt->event = event;
  }
  pthread_mutex_unlock(&lt->mu);
  return is_driving;
}

void el_loop_thread_release(el_loop_thread *lt, bool is_driving) {
  pthread_mutex_lock(&lt->mu);
  lt->awaited = NULL;
  if (is_driving) {
    release_to_none(lt);
    if (lt->is_io_thread_sleeping) {
      pthread_cond_signal(&lt->released);
    }
  }
  pthread_mutex_unlock(&lt->mu);
}

static int current_thread(el_loop_thread *lt) {
  int current;
  pthread_mutex_lock(&lt->mu);
  current = lt->current;
  pthread_mutex_unlock(&lt->mu);
  return current;
}

bool el_loop_thread_is_lua(el_loop_thread *lt) {
  return current_thread(lt) == EL_LOOP_LUA_THREAD;
}

bool el_loop_thread_exists(el_loop_thread *lt) {
  return current_thread(lt) != EL_LOOP_NO_THREAD;
}

void el_loop_thread_return_to_io(el_loop_thread *lt) {
  pthread_mutex_lock(&lt->mu);
  if (lt->current == EL_LOOP_NO_THREAD) {
    lt->current = EL_LOOP_IO_THREAD;
    pthread_cond_signal(&lt->released);
  }
  pthread_mutex_unlock(&lt->mu);
}
