/* simulation fiber: threads that take turns. */
#include "fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <ucontext.h>

#include "base/container_of.h"
#include "world.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define IS_ASAN 1
#else
#define IS_ASAN 0
#endif

enum {
  STACK_BYTES = 256 * 1024,
  READY_MAX = 256,
  /* more turns than this without an event between them are an endless loop */
  TURNS_MAX = 1000 * 1000
};

struct fiber {
  ucontext_t context;
  void *stack;
  void *fake_stack; /* of the address sanitizer */
  process *of;
  const process *clock; /* normally |of| */
  void (*run)(void *arg);
  void *arg;
  const void *waits_on; /* NULL: it does not wait, or for the time only */
  bool is_woken;        /* by fiber_wake; false: by the time */
  bool is_ready, has_ended, is_detached;
  el_timer timer;
  TAILQ_ENTRY(fiber) link; /* in |all| */
  LIST_ENTRY(fiber) spare; /* in |spares| */
};

static TAILQ_HEAD(, fiber) all = TAILQ_HEAD_INITIALIZER(all);
static LIST_HEAD(, fiber) spares = LIST_HEAD_INITIALIZER(spares);
static fiber *ready[READY_MAX]; /* the fibers that can run */
static int n_ready, n_alive;
static fiber *current;
static ucontext_t scheduler;
#if IS_ASAN
static void *scheduler_fake_stack;
static const void *scheduler_bottom;
static size_t scheduler_size;
#endif

fiber *fiber_self(void) { return current; }

process *process_self(void) { return current != NULL ? current->of : NULL; }

const process *process_of_clock(void) {
  return current != NULL ? current->clock : NULL;
}

const process *process_swap_clock(const process *of) {
  const process *before = current->clock;
  current->clock = of;
  return before;
}

int fibers_alive(void) { return n_alive; }

/* ---- turns ---- */

static void make_ready(fiber *it) {
  if (it->is_ready) return;
  if (n_ready == READY_MAX) abort();
  it->is_ready = true;
  ready[n_ready++] = it;
}

static void enter(fiber *it) {
  current = it;
#if IS_ASAN
  __sanitizer_start_switch_fiber(&scheduler_fake_stack, it->stack, STACK_BYTES);
#endif
  swapcontext(&scheduler, &it->context);
#if IS_ASAN
  __sanitizer_finish_switch_fiber(scheduler_fake_stack, NULL, NULL);
#endif
  current = NULL;
}

/* Gives the turn back. Returns when the fiber has the next one. */
static void leave(fiber *it) {
#if IS_ASAN
  __sanitizer_start_switch_fiber(it->has_ended ? NULL : &it->fake_stack,
                                 scheduler_bottom, scheduler_size);
#endif
  swapcontext(&it->context, &scheduler);
#if IS_ASAN
  __sanitizer_finish_switch_fiber(it->fake_stack, NULL, NULL);
#endif
}

static void release(fiber *it) {
  TAILQ_REMOVE(&all, it, link);
  LIST_INSERT_HEAD(&spares, it, spare);
}

static void enter_first(void) {
  fiber *it = current;
#if IS_ASAN
  __sanitizer_finish_switch_fiber(NULL, &scheduler_bottom, &scheduler_size);
#endif
  it->run(it->arg);
  it->has_ended = true;
  n_alive--;
  fiber_wake(it, 1); /* fiber_join */
  leave(it);
}

static void on_time(el_timer *timer) {
  fiber *it = EL_CONTAINER_OF(timer, fiber, timer);
  it->waits_on = NULL;
  make_ready(it);
}

/* Takes a ready fiber at random. Returns NULL if the process of the fiber is stopped: the fiber is
 * ready again when the stop ends. */
static fiber *take_ready(void) {
  int i = (int)world_random(0, n_ready - 1);
  fiber *it = ready[i];
  ready[i] = ready[--n_ready];
  it->is_ready = false;
  if (it->of->stopped_until_us > world_now_us()) {
    world_set(&it->timer, it->of->stopped_until_us);
    return NULL;
  }
  return it;
}

void fibers_run(void) {
  for (int turns = 0; n_ready > 0; turns++) {
    fiber *it = take_ready();
    if (it == NULL) continue;
    world_stop(&it->timer);
    enter(it);
    if (it->has_ended && it->is_detached) release(it);
    if (turns == TURNS_MAX) {
      world_violate("no endless loop", "%d turns in no time", turns);
      return;
    }
  }
}

/* ---- life ---- */

static fiber *allocate(void) {
  fiber *it = LIST_FIRST(&spares);
  void *stack;
  if (it != NULL) {
    LIST_REMOVE(it, spare);
    stack = it->stack;
  } else {
    it = malloc(sizeof *it);
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (it == NULL || stack == MAP_FAILED) abort();
  }
  *it = (fiber){.stack = stack};
  return it;
}

static void make_context(ucontext_t *context, void *stack) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = STACK_BYTES;
  makecontext(context, enter_first, 0);
}

fiber *fiber_start(process *of, void (*run)(void *arg), void *arg) {
  fiber *it = allocate();
  it->of = of;
  it->clock = of;
  it->run = run;
  it->arg = arg;
  it->timer.on_due = on_time;
  make_context(&it->context, it->stack);
  TAILQ_INSERT_TAIL(&all, it, link);
  n_alive++;
  make_ready(it);
  return it;
}

void fiber_join(fiber *of) {
  while (!of->has_ended) {
    fiber_wait(of, INT64_MAX);
  }
  release(of);
}

void fiber_detach(fiber *of) {
  of->is_detached = true;
  if (of->has_ended) release(of);
}

/* ---- waits ---- */

bool fiber_wait(const void *on, int64_t until_us) {
  fiber *it = current;
  it->waits_on = on;
  it->is_woken = false;
  if (until_us != INT64_MAX) world_set(&it->timer, until_us);
  leave(it);
  return it->is_woken;
}

void fiber_wake(const void *on, int max) {
  fiber *it;
  TAILQ_FOREACH(it, &all, link) {
    if (max == 0) return;
    if (it->waits_on != on) continue;
    it->waits_on = NULL;
    it->is_woken = true;
    make_ready(it);
    max--;
  }
}

void fiber_yield(void) {
  make_ready(current);
  leave(current);
}

void fiber_sleep(int64_t us) { fiber_wait(NULL, world_now_us() + us); }

/* ---- clocks ---- */

/* Clocks begin at an hour, because the product takes 0 for "never". */
enum { BEGIN_S = 3600 };

int64_t process_clock_us(const process *of) {
  int64_t now_us = world_now_us();
  return (int64_t)BEGIN_S * WORLD_S + of->clock_ahead_us + now_us +
         now_us / 1000000 * of->clock_ppm;
}

int64_t process_when_us(const process *of, int64_t shown_us) {
  int64_t passed_us =
      shown_us - (int64_t)BEGIN_S * WORLD_S - of->clock_ahead_us;
  int64_t when_us =
      passed_us - passed_us / (1000000 + of->clock_ppm) * of->clock_ppm;
  if (shown_us <= process_clock_us(of)) return world_now_us();
  return when_us > world_now_us() ? when_us : world_now_us() + 1;
}
