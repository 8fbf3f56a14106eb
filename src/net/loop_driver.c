/* loop_driver: decides which thread drives a loop. */
#include "net/loop_driver.h"

#include "base/clock.h"
#include "base/thread.h"
#include "base/times.h"

void el_loop_driver_init(el_loop_driver *driver) {
  pthread_mutex_init(&driver->mu, NULL);
  el_cond_init(&driver->released);
  driver->current = EL_LOOP_IO_THREAD;
  driver->changed_ms = 0;
  driver->was_released = driver->is_io_thread_sleeping = false;
  driver->awaited = NULL;
  driver->event = 0;
}

void el_loop_driver_destroy(el_loop_driver *driver) {
  pthread_cond_destroy(&driver->released);
  pthread_mutex_destroy(&driver->mu);
}

/* Lets the I/O thread sleep while it does not drive. If |is_long|, a Lua thread has driven for at
 * least 2 ms, and will probably go on. Then the I/O thread sleeps until that Lua thread signals the
 * end of its wait. Otherwise the I/O thread sleeps up to 2 ms and checks again, which spares the
 * Lua thread the cost of a signal. */
static void sleep_io_thread(el_loop_driver *driver, bool is_long) {
  if (is_long) {
    driver->is_io_thread_sleeping = true;
    pthread_cond_wait(&driver->released, &driver->mu);
    driver->is_io_thread_sleeping = false;
  } else {
    struct timespec until = el_cond_deadline(EL_RELEASED_MS);
    pthread_cond_timedwait(&driver->released, &driver->mu, &until);
  }
}

bool el_loop_driver_acquire(el_loop_driver *driver) {
  bool was_released;
  pthread_mutex_lock(&driver->mu);
  while (driver->current != EL_LOOP_IO_THREAD) {
    bool is_long = el_now_ms() - driver->changed_ms >= EL_RELEASED_MS;
    if (is_long && driver->current == EL_LOOP_NO_THREAD) {
      driver->current = EL_LOOP_IO_THREAD;
    } else {
      sleep_io_thread(driver, is_long);
    }
  }
  was_released = driver->was_released;
  driver->was_released = false;
  pthread_mutex_unlock(&driver->mu);
  return was_released;
}

static void release_to_none(el_loop_driver *driver) {
  driver->was_released = true;
  driver->current = EL_LOOP_NO_THREAD;
  driver->changed_ms = el_now_ms();
}

void el_loop_driver_yield(el_loop_driver *driver) {
  pthread_mutex_lock(&driver->mu);
  if (driver->awaited != NULL &&
      el_completion_has(driver->awaited, driver->event)) {
    driver->awaited = NULL;
    release_to_none(driver);
  }
  pthread_mutex_unlock(&driver->mu);
}

bool el_loop_driver_try_acquire(el_loop_driver *driver, el_completion *awaited,
                                unsigned event) {
  bool is_driving;
  pthread_mutex_lock(&driver->mu);
  is_driving = driver->current == EL_LOOP_NO_THREAD;
  if (is_driving) {
    driver->current = EL_LOOP_LUA_THREAD;
    driver->changed_ms = el_now_ms();
  } else {
    driver->awaited = awaited;
    driver->event = event;
  }
  pthread_mutex_unlock(&driver->mu);
  return is_driving;
}

void el_loop_driver_release(el_loop_driver *driver, bool is_driving) {
  pthread_mutex_lock(&driver->mu);
  driver->awaited = NULL;
  if (is_driving) {
    release_to_none(driver);
    if (driver->is_io_thread_sleeping) {
      pthread_cond_signal(&driver->released);
    }
  }
  pthread_mutex_unlock(&driver->mu);
}

static int current_thread(el_loop_driver *driver) {
  int current;
  pthread_mutex_lock(&driver->mu);
  current = driver->current;
  pthread_mutex_unlock(&driver->mu);
  return current;
}

bool el_loop_driver_is_lua(el_loop_driver *driver) {
  return current_thread(driver) == EL_LOOP_LUA_THREAD;
}

bool el_loop_driver_exists(el_loop_driver *driver) {
  return current_thread(driver) != EL_LOOP_NO_THREAD;
}

void el_loop_driver_return_to_io(el_loop_driver *driver) {
  pthread_mutex_lock(&driver->mu);
  if (driver->current == EL_LOOP_NO_THREAD) {
    driver->current = EL_LOOP_IO_THREAD;
    pthread_cond_signal(&driver->released);
  }
  pthread_mutex_unlock(&driver->mu);
}
