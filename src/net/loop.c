/* loop: the event loop of one client.
 *
 * Start: grpc_init, completion queue, wake-up call, I/O thread. Only this file stops a loop, in
 * this order:
 *   1. The owner calls el_loop_stop in the loop.
 *   2. The I/O thread cancels each call, and dispatches events until no call is left. (A completion
 *      queue that is shut down while a call is live never drains.)
 *   3. It sets is_closed under inbox_mu. From then on the loop accepts no command and sends no
 *      wake-up. (To start a batch on a queue that is shut down aborts the process.)
 *   4. It runs the rest of the inbox, then calls on_stopped.
 *   5. If no free is deferred, it destroys the wake-up call and the queue. Then el_loop_join
 *      returns.
 *   6. If a free is deferred, el_loop_join returns first. The I/O thread tries the deferred frees
 *      until each has succeeded, then destroys the wake-up call and the queue.
 *   7. Both the I/O thread and the thread that joins release the loop. The thread that does so last
 *      also calls grpc_shutdown, the counterpart of grpc_init.
 */
#include "net/loop.h"

#include <assert.h>
#include <grpc/support/cpu.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/completion.h"
#include "base/container_of.h"
#include "base/process.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/times.h"
#include "net/grpc_log.h"
#include "net/loop_driver.h"
#include "net/net_int.h"

/* What must be available when a loop starts. gRPC starts 4 threads and one for each core, but for
 * at least 2 and at most 32 cores (measured: 6 threads with 2 cores, 12 with 8, 20 with 16, 36 with
 * 64). When it is used, it takes some more threads and descriptors. If gRPC cannot get them, it
 * hangs or aborts. If gRPC already runs, a new loop needs only its own thread and the descriptors
 * of a connection. */
enum {
  GRPC_THREADS = 8,
  GRPC_CORES_MIN = 2,
  GRPC_CORES_MAX = 32,
  GRPC_DESCRIPTORS = 8,
  OWN_DESCRIPTORS = 4
};

/* The only event of the completion |ended|. */
enum { ENDED = 1 };

/* The number of loops in this process that use gRPC. */
static atomic_int n_loops;

STAILQ_HEAD(command_list, el_command);
TAILQ_HEAD(call_list, el_live_call);

/* An object that cannot be freed yet, because gRPC may still use it. */
typedef struct deferred_free {
  bool (*try_free)(void *arg); /* returns true if it has freed the object */
  void *arg;
  LIST_ENTRY(deferred_free) link;
} deferred_free;

struct el_loop {
  pthread_mutex_t inbox_mu; /* guards the next three */
  struct command_list inbox;
  bool is_wakeup_sent; /* a wake-up was sent since the inbox last ran */
  bool is_closed;      /* no command is accepted, no wake-up is sent */

  el_loop_driver driver; /* which thread drives the loop */

  /* the thread that holds work_mu; 0: none. Any thread may read it */
  _Atomic pthread_t at_work;

  /* Held by the thread at work in the loop. That is the thread that drives, except while it sleeps
   * in gRPC. Then, or if no thread drives, a thread in el_loop_run_command may hold it. It guards
   * the fields down to |arg|, except |queue| and the wakeup_ fields, which do not change while the
   * loop runs. A thread that holds inbox_mu may only try to lock this mutex, and must not block. */
  pthread_mutex_t work_mu;
  /* by el_now_ms: when the thread that drives wakes up by itself, or the earlier time for which a
   * wake-up was sent */
  int64_t wakes_at_ms;
  grpc_completion_queue *queue;
  /* a "lame" channel, because a call needs a channel */
  grpc_channel *wakeup_channel;
  /* never sent; an empty batch on this call wakes up the thread that sleeps in gRPC */
  grpc_call *wakeup_call;
  el_tag
      wakeup_tag; /* of such a batch; when it completes, dispatch runs the inbox */
  el_timers timers;
  struct call_list calls; /* under way */
  LIST_HEAD(, deferred_free) deferred_frees;
  el_timer deferred_timer; /* set while deferred_frees is not empty */
  bool is_stopping;
  el_loop_events events;
  void *arg; /* passed to the callbacks in |events| */

  atomic_int refs; /* one for the I/O thread, one for the thread that joins */
  pthread_t io_thread;
  el_completion ended; /* the work is done */
  /* the I/O thread goes on after |ended| is completed; written before that */
  bool has_deferred_frees;
};

bool el_loop_is_io(const el_loop *loop) {
  return pthread_equal(atomic_load(&loop->at_work), pthread_self());
}

static void lock_work(el_loop *loop) {
  pthread_mutex_lock(&loop->work_mu);
  atomic_store(&loop->at_work, pthread_self());
}

static void unlock_work(el_loop *loop) {
  atomic_store(&loop->at_work, 0);
  pthread_mutex_unlock(&loop->work_mu);
}

el_timers *el_loop_timers(el_loop *loop) { return &loop->timers; }

grpc_completion_queue *el_loop_queue(el_loop *loop) { return loop->queue; }

gpr_timespec el_deadline_in(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(ms, GPR_TIMESPAN));
}

/* ---- inbox and wake-up ---- */

/* Wakes up the thread that sleeps in gRPC. gRPC core has no public alarm, but an empty batch
 * completes at once, without the network (grpc.h). Called under inbox_mu, because the check of
 * is_closed and the start of the batch must be one step. */
static void send_wakeup(el_loop *loop) {
  grpc_call_error rc = grpc_call_start_batch(loop->wakeup_call, NULL, 0,
                                             &loop->wakeup_tag, NULL);
  assert(rc == GRPC_CALL_OK);
  (void)rc;
  loop->is_wakeup_sent = true;
}

/* Wakes up the thread that drives, if there is one. The caller holds inbox_mu. */
static void wake_up(el_loop *loop) {
  if (!loop->is_closed && !loop->is_wakeup_sent &&
      el_loop_driver_exists(&loop->driver)) {
    send_wakeup(loop);
  }
}

static void run_inbox(el_loop *loop) {
  struct command_list taken = STAILQ_HEAD_INITIALIZER(taken);
  pthread_mutex_lock(&loop->inbox_mu);
  STAILQ_CONCAT(&taken, &loop->inbox);
  loop->is_wakeup_sent = false;
  pthread_mutex_unlock(&loop->inbox_mu);
  while (!STAILQ_EMPTY(&taken)) {
    el_command *command = STAILQ_FIRST(&taken);
    STAILQ_REMOVE_HEAD(&taken, link);
    command->run(command);
    loop->events.after_event(loop->arg);
  }
}

/* ---- work in a Lua thread ---- */

/* The state of the calling thread that begin_work changes and end_work restores. */
typedef struct thread_state {
  sigset_t signals;
  locale_t locale;
} thread_state;

/* Blocks signals in the calling thread for two reasons. After each signal, gRPC would sleep again
 * for the full time. And a signal handler of the program must not run while gRPC holds its locks.
 * Sets the C locale, because gRPC's errors contain system error texts, which must be the same in
 * every locale. */
static void begin_work(thread_state *before) {
  el_thread_block_signals(&before->signals);
  before->locale = el_c_locale_enter();
}

static void end_work(el_loop *loop, const thread_state *before) {
  unlock_work(loop);
  el_c_locale_leave(before->locale);
  pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* Runs the inbox in the calling thread, which holds work_mu, and unlocks work_mu. Wakes up the
 * thread that drives in two cases. First, a new timer is due before that thread would wake up.
 * Second, the loop was stopped, and the calling thread cannot carry out the stop. */
static void run_here(el_loop *loop) {
  bool is_urgent;
  thread_state before;
  begin_work(&before);
  run_inbox(loop);
  is_urgent = el_timers_next(&loop->timers) < loop->wakes_at_ms;
  if (is_urgent) loop->wakes_at_ms = el_timers_next(&loop->timers);
  is_urgent = is_urgent || loop->is_stopping;
  end_work(loop, &before);
  if (is_urgent) {
    pthread_mutex_lock(&loop->inbox_mu);
    wake_up(loop);
    pthread_mutex_unlock(&loop->inbox_mu);
  }
}

/* Locks work_mu and returns true if the calling thread may run the inbox. Returns false if another
 * thread is at work. Also returns false if a Lua thread drives, because that thread must be woken
 * up: the command may complete the event that it waits for. */
static bool try_begin_here(el_loop *loop) {
  if (pthread_mutex_trylock(&loop->work_mu) != 0) return false;
  atomic_store(&loop->at_work, pthread_self());
  if (!el_loop_driver_is_lua(&loop->driver)) return true;
  unlock_work(loop);
  return false;
}

static bool enqueue(el_loop *loop, el_command *command, bool may_run_here) {
  bool is_open, runs_here = false;
  pthread_mutex_lock(&loop->inbox_mu);
  is_open = !loop->is_closed;
  if (is_open) {
    STAILQ_INSERT_TAIL(&loop->inbox, command, link);
    runs_here = may_run_here && try_begin_here(loop);
    if (!runs_here) wake_up(loop);
  }
  pthread_mutex_unlock(&loop->inbox_mu);
  if (runs_here) run_here(loop);
  return is_open;
}

bool el_loop_post(el_loop *loop, el_command *command) {
  return enqueue(loop, command, false);
}

bool el_loop_run_command(el_loop *loop, el_command *command) {
  return enqueue(loop, command, true);
}

/* ---- events ---- */

/* Waits for one event and dispatches it. Holds work_mu, except while it waits. */
static void dispatch(el_loop *loop, gpr_timespec deadline) {
  grpc_event event;
  unlock_work(loop);
  event = grpc_completion_queue_next(loop->queue, deadline, NULL);
  lock_work(loop);
  if (event.type == GRPC_OP_COMPLETE) {
    el_tag *tag = event.tag;
    if (tag == &loop->wakeup_tag) {
      run_inbox(loop);
    } else {
      tag->done(tag, event.success != 0);
      loop->events.after_event(loop->arg);
    }
  }
}

static gpr_timespec next_deadline(el_loop *loop) {
  int64_t next = el_timers_next(&loop->timers), now = el_now_ms();
  loop->wakes_at_ms = next;
  if (next == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (next > now + EL_SLEEP_MOST_MS) loop->wakes_at_ms = now + EL_SLEEP_MOST_MS;
  return el_deadline_in(next > now ? loop->wakes_at_ms - now : 0);
}

static void run_once(el_loop *loop, gpr_timespec until) {
  gpr_timespec next = next_deadline(loop);
  dispatch(loop, gpr_time_cmp(next, until) < 0 ? next : until);
  if (el_timers_next(&loop->timers) <= el_now_ms()) {
    el_timers_run(&loop->timers, el_now_ms());
    loop->events.after_event(loop->arg);
  }
}

/* ---- the I/O thread ---- */

/* Returns with work_mu held. */
static void run_until_stopped(el_loop *loop) {
  bool was_released = el_loop_driver_acquire(&loop->driver);
  lock_work(loop);
  while (!loop->is_stopping) {
    if (was_released) {
      /* the inbox may hold commands for which no wake-up was sent */
      run_inbox(loop);
    } else {
      run_once(loop, gpr_inf_future(GPR_CLOCK_MONOTONIC));
      el_loop_driver_yield(&loop->driver);
    }
    unlock_work(loop);
    was_released = el_loop_driver_acquire(&loop->driver);
    lock_work(loop);
  }
}

/* ---- a Lua thread that waits ---- */

static void drive_until(el_loop *loop, el_completion *awaited, unsigned event,
                        int64_t timeout_ms) {
  gpr_timespec until = el_deadline_in(timeout_ms);
  thread_state before;
  lock_work(loop);
  begin_work(&before);
  run_inbox(loop);
  while (!loop->is_stopping && !el_completion_has(awaited, event) &&
         gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until) < 0) {
    run_once(loop, until);
  }
  end_work(loop, &before);
}

bool el_loop_wait(el_loop *loop, el_completion *awaited, unsigned event,
                  int64_t timeout_ms) {
  if (timeout_ms > 0 && !el_completion_has(awaited, event)) {
    bool is_driving = el_loop_driver_try_acquire(&loop->driver, awaited, event);
    if (is_driving) {
      drive_until(loop, awaited, event, timeout_ms);
    } else {
      el_completion_wait(awaited, event, timeout_ms);
    }
    el_loop_driver_release(&loop->driver, is_driving);
  }
  return el_completion_has(awaited, event);
}

/* ---- deferred frees ---- */

/* Tries to free each object. Returns whether at least one object is left. */
static bool try_deferred_frees(el_loop *loop) {
  deferred_free *deferred, *next;
  for (deferred = LIST_FIRST(&loop->deferred_frees); deferred != NULL;
       deferred = next) {
    next = LIST_NEXT(deferred, link);
    if (deferred->try_free(deferred->arg)) {
      LIST_REMOVE(deferred, link);
      free(deferred);
    }
  }
  return !LIST_EMPTY(&loop->deferred_frees);
}

static void set_deferred_timer(el_loop *loop) {
  el_timers_set(&loop->timers, &loop->deferred_timer,
                el_now_ms() + EL_FREE_EVERY_MS);
}

static void on_deferred_timer(el_timer *timer) {
  el_loop *loop = EL_CONTAINER_OF(timer, el_loop, deferred_timer);
  if (try_deferred_frees(loop)) set_deferred_timer(loop);
}

void el_loop_defer_free(el_loop *loop, bool (*try_free)(void *arg), void *arg) {
  deferred_free *deferred = el_alloc(sizeof *deferred);
  deferred->try_free = try_free;
  deferred->arg = arg;
  LIST_INSERT_HEAD(&loop->deferred_frees, deferred, link);
  set_deferred_timer(loop);
}

/* Step 6 of the stop. Now only gRPC's own events can come. */
static void finish_deferred_frees(el_loop *loop) {
  while (try_deferred_frees(loop)) {
    dispatch(loop, el_deadline_in(EL_FREE_EVERY_MS));
  }
}

/* ---- the end ---- */

static void end_calls(el_loop *loop) {
  el_live_call *call;
  TAILQ_FOREACH(call, &loop->calls, link) { call->cancel(call); }
  while (!TAILQ_EMPTY(&loop->calls)) {
    dispatch(loop, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  }
}

static void close_inbox(el_loop *loop) {
  pthread_mutex_lock(&loop->inbox_mu);
  loop->is_closed = true;
  pthread_mutex_unlock(&loop->inbox_mu);
  run_inbox(loop);
}

static void destroy_queue(el_loop *loop) {
  grpc_event event;
  grpc_call_unref(loop->wakeup_call);
  grpc_channel_destroy(loop->wakeup_channel);
  grpc_completion_queue_shutdown(loop->queue);
  do {
    event = grpc_completion_queue_next(
        loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  } while (event.type != GRPC_QUEUE_SHUTDOWN);
  grpc_completion_queue_destroy(loop->queue);
  el_timers_destroy(&loop->timers);
}

/* Drops one of two references: the I/O thread and the thread that joins call it once each. The
 * second call frees the loop. */
static void release(el_loop *loop) {
  if (atomic_fetch_sub(&loop->refs, 1) != 1) return;
  el_completion_destroy(&loop->ended);
  el_loop_driver_destroy(&loop->driver);
  pthread_mutex_destroy(&loop->work_mu);
  pthread_mutex_destroy(&loop->inbox_mu);
  free(loop);
  atomic_fetch_sub(&n_loops, 1);
  grpc_shutdown();
}

static void ignore(void *arg) { (void)arg; }

static void *io_main(void *arg) {
  el_loop *loop = arg;
  el_c_locale_enter(); /* until the thread ends */
  run_until_stopped(loop);
  loop->events.on_stopping(loop->arg);
  end_calls(loop);
  close_inbox(loop);
  loop->events.on_stopped(loop->arg);
  loop->has_deferred_frees = !LIST_EMPTY(&loop->deferred_frees);
  if (loop->has_deferred_frees) {
    loop->events.after_event = ignore; /* the owner of |arg| may be gone */
    pthread_detach(pthread_self());
    el_completion_complete(&loop->ended, ENDED);
    finish_deferred_frees(loop);
    destroy_queue(loop);
  } else {
    destroy_queue(loop);
    el_completion_complete(&loop->ended, ENDED);
  }
  unlock_work(loop);
  release(loop);
  return NULL;
}

/* ---- start, stop, join ---- */

static int start_thread(el_loop *loop) {
  int rc = el_thread_start(&loop->io_thread, io_main, loop);
  if (rc == 0) {
    pthread_setname_np(loop->io_thread, "etcdlock-io");
  }
  return rc;
}

static void open_wakeup_call(el_loop *loop) {
  grpc_slice method = grpc_slice_from_static_string("/wakeup");
  loop->wakeup_channel = grpc_lame_client_channel_create(
      "wakeup", GRPC_STATUS_UNKNOWN, "never sent");
  loop->wakeup_call = grpc_channel_create_call(
      loop->wakeup_channel, NULL, GRPC_PROPAGATE_DEFAULTS, loop->queue, method,
      NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
}

static int grpc_threads(void) {
  unsigned cores = gpr_cpu_num_cores();
  if (cores < GRPC_CORES_MIN) cores = GRPC_CORES_MIN;
  if (cores > GRPC_CORES_MAX) cores = GRPC_CORES_MAX;
  return GRPC_THREADS + (int)cores;
}

static bool has_room(el_error *err) {
  return atomic_load(&n_loops) > 0
             ? el_process_has_room(1, OWN_DESCRIPTORS, err)
             : el_process_has_room(grpc_threads() + 1, GRPC_DESCRIPTORS, err);
}

el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err) {
  el_loop *loop;
  sigset_t before;
  int rc;
  if (!el_clock_works(err) || !has_room(err)) return NULL;
  loop = calloc(1, sizeof *loop);
  if (loop == NULL) {
    el_error_set(err, EL_NOMEM, "not enough memory for a client");
    return NULL;
  }
  el_grpc_log_filter();
  /* gRPC's threads inherit the signal mask of this thread. Some of them start only with the first
   * channel, so signals stay blocked until open_wakeup_call has created it. */
  el_thread_block_signals(&before);
  grpc_init();
  atomic_fetch_add(&n_loops, 1);
  loop->events = *events;
  loop->arg = arg;
  pthread_mutex_init(&loop->inbox_mu, NULL);
  pthread_mutex_init(&loop->work_mu, NULL);
  el_loop_driver_init(&loop->driver);
  atomic_init(&loop->refs, 2);
  STAILQ_INIT(&loop->inbox);
  TAILQ_INIT(&loop->calls);
  LIST_INIT(&loop->deferred_frees);
  loop->deferred_timer.on_due = on_deferred_timer;
  el_completion_init(&loop->ended);
  loop->queue = grpc_completion_queue_create_for_next(NULL);
  open_wakeup_call(loop);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  rc = start_thread(loop);
  if (rc != 0) {
    el_error_set(err, EL_NOMEM, "cannot start the I/O thread: %s",
                 el_errno_text(rc));
    /* Nothing is freed. Probably gRPC could not start all its threads either, and its shutdown
     * would wait for them for ever. */
    atomic_fetch_sub(&n_loops, 1);
    return NULL;
  }
  return loop;
}

void el_loop_stop(el_loop *loop) {
  assert(el_loop_is_io(loop));
  loop->is_stopping = true;
}

bool el_loop_has_ended(el_loop *loop) {
  return el_completion_has(&loop->ended, ENDED);
}

void el_loop_join(el_loop *loop) {
  el_loop_driver_return_to_io(&loop->driver);
  while (!el_completion_wait(&loop->ended, ENDED, EL_SLEEP_MOST_MS)) {
  }
  if (!loop->has_deferred_frees) {
    pthread_join(loop->io_thread, NULL);
  }
  release(loop);
}

/* ---- calls ---- */

void el_loop_add_call(el_loop *loop, el_live_call *call) {
  assert(el_loop_is_io(loop));
  TAILQ_INSERT_TAIL(&loop->calls, call, link);
}

void el_loop_remove_call(el_loop *loop, el_live_call *call) {
  assert(el_loop_is_io(loop));
  TAILQ_REMOVE(&loop->calls, call, link);
}
