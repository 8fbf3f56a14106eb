/* loop: the I/O thread of one client.
 *
 * Start: grpc_init, queue, doorbell, thread. Stop, in this order and nowhere
 * else:
 *   1. the owner calls el_loop_stop on the I/O thread;
 *   2. every call is cancelled once, and events are dispatched until none of
 *      them is left (a queue that is shut with a live call never drains);
 *   3. closed = true under the mutex: from here no post is taken and nobody
 *      rings (starting a batch on a shut queue aborts the process);
 *   4. what is left in the inbox runs, then stopped;
 *   5. el_loop_join may return: nobody waits for what follows;
 *   6. what lingers is looked at until it can be freed;
 *   7. doorbell and queue are destroyed, and whoever comes last, the thread or
 *      the joiner, pairs grpc_init with grpc_shutdown.
 */
#include "net/loop.h"

#include <assert.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/completion.h"
#include "base/limits.h"
#include "base/of.h"
#include "base/plain_locale.h"
#include "base/thread.h"
#include "net/grpc_log.h"
#include "net/leader.h"
#include "net/net_int.h"

/* gRPC is started with 6 threads and 4 descriptors, and takes some more when it is
 * used. It hangs or aborts if it gets none. Where it runs, a loop needs its own
 * thread, and a connection. */
enum { GRPC_THREADS = 10, GRPC_DESCRIPTORS = 8, OWN_DESCRIPTORS = 4 };

static atomic_int running; /* loops that have started gRPC */

/* The one event of its completion. */
enum { ENDED = 1 };

STAILQ_HEAD(command_list, el_command);
TAILQ_HEAD(call_list, el_live_call);

/* How often what lingers is looked at. */
enum { LINGERERS_LOOK_MS = 20 };

/* What can't be freed yet, and is looked at until it can. */
typedef struct lingerer {
  bool (*look)(void *arg);
  void *arg;
  LIST_ENTRY(lingerer) link;
} lingerer;

/* Those of one loop. */
typedef struct lingerers {
  el_timers *timers;
  el_timer timer;
  LIST_HEAD(, lingerer) all;
} lingerers;

struct el_loop {
  pthread_mutex_t inbox_mu; /* guards inbox, rung and closed */
  struct command_list inbox;
  bool rung;   /* the doorbell's event is on its way */
  bool closed; /* no post, no ring */

  el_leader leader;

  /* Held by who is at work: the leader, except while he sleeps, and then whoever runs a
   * command of his own (el_loop_run). Guards what follows. Never waited for with
   * inbox_mu. */
  pthread_mutex_t work_mu;
  int64_t
      wakes_at_ms; /* the leader, by himself or because it was rung for that */
  grpc_completion_queue *queue;
  grpc_channel *lame;  /* where the doorbell's call lives */
  grpc_call *doorbell; /* never sent: empty batches on it wake the thread */
  el_tag doorbell_tag;
  el_timers timers;
  struct call_list calls;
  lingerers lingerers;
  bool stopping;
  el_loop_events events;
  void *arg;

  /* For the joiner. */
  atomic_int refs;
  pthread_t thread;
  el_completion ended; /* all work is done */
  bool lingers;        /* written before that: the thread goes on */
};

/* The loop in which this thread is at work. */
static _Thread_local const el_loop *io_loop;

bool el_loop_is_io(const el_loop *loop) { return io_loop == loop; }

el_timers *el_loop_timers(el_loop *loop) { return &loop->timers; }

grpc_completion_queue *el_loop_queue(el_loop *loop) { return loop->queue; }

gpr_timespec el_deadline_in(int64_t ms) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(ms, GPR_TIMESPAN));
}

/* ---- inbox and doorbell ---- */

/* An empty batch completes at once, without the network (grpc.h); gRPC core
 * has no public alarm. Rung under the mutex, because "is the loop open?" and
 * the ring must be one step. */
static void ring(el_loop *loop) {
  grpc_call_error rc =
      grpc_call_start_batch(loop->doorbell, NULL, 0, &loop->doorbell_tag, NULL);
  assert(rc == GRPC_CALL_OK);
  (void)rc;
  loop->rung = true;
}

/* Wakes the leader; under inbox_mu. */
static void wake_leader(el_loop *loop) {
  if (!loop->closed && !loop->rung && el_leader_is_there(&loop->leader)) {
    ring(loop);
  }
}

static void run_inbox(el_loop *loop) {
  struct command_list taken = STAILQ_HEAD_INITIALIZER(taken);
  pthread_mutex_lock(&loop->inbox_mu);
  STAILQ_CONCAT(&taken, &loop->inbox);
  loop->rung = false;
  pthread_mutex_unlock(&loop->inbox_mu);
  while (!STAILQ_EMPTY(&taken)) {
    el_command *command = STAILQ_FIRST(&taken);
    STAILQ_REMOVE_HEAD(&taken, link);
    command->run(command);
    loop->events.after_each(loop->arg);
  }
}

/* The inbox is run by the dispatch loop. */
static void on_doorbell(el_tag *tag, bool ok) { (void)tag, (void)ok; }

/* ---- in a thread of Lua's ---- */

/* What the thread had before. */
typedef struct borrowed {
  sigset_t signals;
  locale_t locale;
} borrowed;

/* Signals wait: each that comes would have gRPC sleep anew for as long as it was told,
 * and a handler of the program's has no business amid gRPC's locks. gRPC's errors have
 * the system's words in them, which are to be the same in every locale. */
static void begin_work(el_loop *loop, borrowed *before) {
  el_thread_block_signals(&before->signals);
  before->locale = el_plain_locale_enter();
  io_loop = loop;
}

static void end_work(el_loop *loop, const borrowed *before) {
  io_loop = NULL;
  pthread_mutex_unlock(&loop->work_mu);
  el_plain_locale_leave(before->locale);
  pthread_sigmask(SIG_SETMASK, &before->signals, NULL);
}

/* What is set up here may be due before the leader wakes, and an end is his to bring. */
static void run_here(el_loop *loop) {
  bool is_urgent;
  borrowed before;
  begin_work(loop, &before);
  run_inbox(loop);
  is_urgent = el_timers_next(&loop->timers) < loop->wakes_at_ms;
  if (is_urgent) loop->wakes_at_ms = el_timers_next(&loop->timers);
  is_urgent = is_urgent || loop->stopping;
  end_work(loop, &before);
  if (is_urgent) {
    pthread_mutex_lock(&loop->inbox_mu);
    wake_leader(loop);
    pthread_mutex_unlock(&loop->inbox_mu);
  }
}

/* Is nobody at work? Then the caller is. Who waits for an answer, and leads, has to see
 * it come. */
static bool begin_here(el_loop *loop) {
  if (pthread_mutex_trylock(&loop->work_mu) != 0) return false;
  if (!el_leader_is_waiter(&loop->leader)) return true;
  pthread_mutex_unlock(&loop->work_mu);
  return false;
}

static bool hand_over(el_loop *loop, el_command *command, bool may_run) {
  bool open, runs = false;
  pthread_mutex_lock(&loop->inbox_mu);
  open = !loop->closed;
  if (open) {
    STAILQ_INSERT_TAIL(&loop->inbox, command, link);
    runs = may_run && begin_here(loop);
    if (!runs) wake_leader(loop);
  }
  pthread_mutex_unlock(&loop->inbox_mu);
  if (runs) run_here(loop);
  return open;
}

bool el_loop_post(el_loop *loop, el_command *command) {
  return hand_over(loop, command, false);
}

bool el_loop_run(el_loop *loop, el_command *command) {
  return hand_over(loop, command, true);
}

/* ---- the thread ---- */

static void dispatch(el_loop *loop, gpr_timespec deadline) {
  grpc_event event;
  pthread_mutex_unlock(&loop->work_mu);
  event = grpc_completion_queue_next(loop->queue, deadline, NULL);
  pthread_mutex_lock(&loop->work_mu);
  if (event.type == GRPC_OP_COMPLETE) {
    el_tag *tag = event.tag;
    if (tag == &loop->doorbell_tag) {
      run_inbox(loop);
    } else {
      tag->done(tag, event.success != 0);
      loop->events.after_each(loop->arg);
    }
  }
}

/* The longest sleep: a wait on the monotonic clock doesn't notice that the
 * machine was suspended, so timers are looked at this often at least. */
enum { MAX_SLEEP_MS = 1000 };

static gpr_timespec next_deadline(el_loop *loop) {
  int64_t next = el_timers_next(&loop->timers), now = el_now_ms();
  loop->wakes_at_ms = next;
  if (next == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (next > now + MAX_SLEEP_MS) loop->wakes_at_ms = now + MAX_SLEEP_MS;
  return el_deadline_in(next > now ? loop->wakes_at_ms - now : 0);
}

static void run_once(el_loop *loop, gpr_timespec until) {
  gpr_timespec next = next_deadline(loop);
  dispatch(loop, gpr_time_cmp(next, until) < 0 ? next : until);
  if (el_timers_next(&loop->timers) <= el_now_ms()) {
    el_timers_run(&loop->timers, el_now_ms());
    loop->events.after_each(loop->arg);
  }
}

/* Returns at work. */
static void run_until_stopped(el_loop *loop) {
  bool was_left = el_leader_take(&loop->leader);
  pthread_mutex_lock(&loop->work_mu);
  while (!loop->stopping) {
    if (was_left) {
      run_inbox(loop);
    } else {
      run_once(loop, gpr_inf_future(GPR_CLOCK_MONOTONIC));
      el_leader_step_aside(&loop->leader);
    }
    pthread_mutex_unlock(&loop->work_mu);
    was_left = el_leader_take(&loop->leader);
    pthread_mutex_lock(&loop->work_mu);
  }
}

/* ---- in a thread that waits ---- */

static void lead_until(el_loop *loop, el_completion *awaited, unsigned event,
                       int64_t timeout_ms) {
  gpr_timespec until = el_deadline_in(timeout_ms);
  borrowed before;
  pthread_mutex_lock(&loop->work_mu);
  begin_work(loop, &before);
  run_inbox(loop);
  while (!loop->stopping && !el_completion_has(awaited, event) &&
         gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until) < 0) {
    run_once(loop, until);
  }
  end_work(loop, &before);
}

bool el_loop_wait(el_loop *loop, el_completion *awaited, unsigned event,
                  int64_t timeout_ms) {
  if (timeout_ms > 0 && !el_completion_has(awaited, event)) {
    bool leads = el_leader_try(&loop->leader, awaited, event);
    if (leads) {
      lead_until(loop, awaited, event, timeout_ms);
    } else {
      el_completion_wait(awaited, event, timeout_ms);
    }
    el_leader_leave(&loop->leader, leads);
  }
  return el_completion_has(awaited, event);
}

static void end_calls(el_loop *loop) {
  el_live_call *entry;
  TAILQ_FOREACH(entry, &loop->calls, link) { entry->cancel(entry); }
  while (!TAILQ_EMPTY(&loop->calls)) {
    dispatch(loop, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  }
}

static void close_inbox(el_loop *loop) {
  pthread_mutex_lock(&loop->inbox_mu);
  loop->closed = true;
  pthread_mutex_unlock(&loop->inbox_mu);
  run_inbox(loop);
}

static void destroy_queue(el_loop *loop) {
  grpc_event event;
  grpc_call_unref(loop->doorbell);
  grpc_channel_destroy(loop->lame);
  grpc_completion_queue_shutdown(loop->queue);
  do {
    event = grpc_completion_queue_next(
        loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  } while (event.type != GRPC_QUEUE_SHUTDOWN);
  grpc_completion_queue_destroy(loop->queue);
  el_timers_destroy(&loop->timers);
}

/* Both the thread and the joiner let go of it. */
static void release(el_loop *loop) {
  if (atomic_fetch_sub(&loop->refs, 1) != 1) return;
  el_completion_destroy(&loop->ended);
  el_leader_destroy(&loop->leader);
  pthread_mutex_destroy(&loop->work_mu);
  pthread_mutex_destroy(&loop->inbox_mu);
  free(loop);
  atomic_fetch_sub(&running, 1);
  grpc_shutdown();
}

/* ---- what lingers ---- */

static bool any_lingers(const lingerers *all_of) {
  return !LIST_EMPTY(&all_of->all);
}

/* Looks at all of them; is anything left? */
static bool look_at_lingerers(lingerers *all_of) {
  lingerer *one, *next;
  for (one = LIST_FIRST(&all_of->all); one != NULL; one = next) {
    next = LIST_NEXT(one, link);
    if (!one->look(one->arg)) {
      LIST_REMOVE(one, link);
      free(one);
    }
  }
  return any_lingers(all_of);
}

static void look_again(lingerers *all_of) {
  el_timers_set(all_of->timers, &all_of->timer,
                el_now_ms() + LINGERERS_LOOK_MS);
}

static void on_timer(el_timer *timer) {
  lingerers *all_of = EL_OF(timer, lingerers, timer);
  if (look_at_lingerers(all_of)) look_again(all_of);
}

static void init_lingerers(lingerers *all_of, el_timers *timers) {
  all_of->timers = timers;
  all_of->timer.due = on_timer;
  LIST_INIT(&all_of->all);
}

/* From now on |look| is called with |arg|, by the timer, until it returns false: it is
 * freed. */
static void add_lingerer(lingerers *all_of, bool (*look)(void *arg),
                         void *arg) {
  lingerer *one = el_alloc(sizeof *one);
  one->look = look;
  one->arg = arg;
  LIST_INSERT_HEAD(&all_of->all, one, link);
  look_again(all_of);
}

void el_loop_linger(el_loop *loop, bool (*look)(void *arg), void *arg) {
  add_lingerer(&loop->lingerers, look, arg);
}

/* Nothing but gRPC's own events can come any more. */
static void linger(el_loop *loop) {
  while (look_at_lingerers(&loop->lingerers)) {
    dispatch(loop, el_deadline_in(LINGERERS_LOOK_MS));
  }
}

static void ignore(void *arg) { (void)arg; }

static void *io_main(void *arg) {
  el_loop *loop = arg;
  el_plain_locale_enter(); /* for as long as the thread lives */
  io_loop = loop;
  run_until_stopped(loop);
  loop->events.stopping(loop->arg);
  end_calls(loop);
  close_inbox(loop);
  loop->events.stopped(loop->arg);
  loop->lingers = any_lingers(&loop->lingerers);
  if (loop->lingers) {
    loop->events.after_each = ignore; /* its owner may be gone */
    pthread_detach(pthread_self());
    el_completion_complete(&loop->ended, ENDED);
    linger(loop);
    destroy_queue(loop);
  } else {
    destroy_queue(loop);
    el_completion_complete(&loop->ended, ENDED);
  }
  pthread_mutex_unlock(&loop->work_mu);
  release(loop);
  return NULL;
}

/* ---- start, stop, join ---- */

static int start_thread(el_loop *loop) {
  int rc = el_thread_start(&loop->thread, io_main, loop);
  if (rc == 0) {
    pthread_setname_np(loop->thread, "etcdlock-io");
  }
  return rc;
}

static void open_doorbell(el_loop *loop) {
  grpc_slice method = grpc_slice_from_static_string("/doorbell");
  loop->lame = grpc_lame_client_channel_create("doorbell", GRPC_STATUS_UNKNOWN,
                                               "never sent");
  loop->doorbell = grpc_channel_create_call(
      loop->lame, NULL, GRPC_PROPAGATE_DEFAULTS, loop->queue, method, NULL,
      gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
  loop->doorbell_tag.done = on_doorbell;
}

static bool has_room(el_error *err) {
  return atomic_load(&running) > 0
             ? el_limits_allow(1, OWN_DESCRIPTORS, err)
             : el_limits_allow(GRPC_THREADS + 1, GRPC_DESCRIPTORS, err);
}

el_loop *el_loop_start(const el_loop_events *events, void *arg, el_error *err) {
  el_loop *loop;
  sigset_t before;
  int rc;
  if (!has_room(err)) return NULL;
  loop = calloc(1, sizeof *loop);
  if (loop == NULL) {
    el_error_set(err, EL_NOMEM, "no memory for a client");
    return NULL;
  }
  el_grpc_log_tame();
  el_thread_block_signals(&before); /* for gRPC's own threads, too */
  grpc_init();
  atomic_fetch_add(&running, 1);
  loop->events = *events;
  loop->arg = arg;
  pthread_mutex_init(&loop->inbox_mu, NULL);
  pthread_mutex_init(&loop->work_mu, NULL);
  el_leader_init(&loop->leader);
  atomic_init(&loop->refs, 2);
  STAILQ_INIT(&loop->inbox);
  TAILQ_INIT(&loop->calls);
  init_lingerers(&loop->lingerers, &loop->timers);
  el_completion_init(&loop->ended);
  loop->queue = grpc_completion_queue_create_for_next(NULL);
  open_doorbell(loop);
  /* Some of gRPC's threads begin with its first channel. */
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  rc = start_thread(loop);
  if (rc != 0) {
    el_error_set(err, EL_NOMEM, "can't start the I/O thread: %s",
                 el_errno_text(rc));
    destroy_queue(loop);
    atomic_store(&loop->refs, 1);
    release(loop);
    return NULL;
  }
  return loop;
}

void el_loop_stop(el_loop *loop) {
  assert(el_loop_is_io(loop));
  loop->stopping = true;
}

bool el_loop_has_ended(el_loop *loop) {
  return el_completion_has(&loop->ended, ENDED);
}

void el_loop_join(el_loop *loop) {
  el_leader_recall(&loop->leader);
  while (!el_completion_wait(&loop->ended, ENDED, MAX_SLEEP_MS)) {
  }
  if (!loop->lingers) {
    pthread_join(loop->thread, NULL);
  }
  release(loop);
}

/* ---- calls ---- */

void el_loop_add_call(el_loop *loop, el_live_call *entry) {
  assert(el_loop_is_io(loop));
  TAILQ_INSERT_TAIL(&loop->calls, entry, link);
}

void el_loop_remove_call(el_loop *loop, el_live_call *entry) {
  assert(el_loop_is_io(loop));
  TAILQ_REMOVE(&loop->calls, entry, link);
}
