/* simulation program: a client process and its users. */
#include "program.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/container_of.h"
#include "checks.h"
#include "costs.h"
#include "lock/guarded.h"
#include "network.h"
#include "world.h"

enum {
  SLICE_MS = 1000, /* for which one call of a wait blocks at most */
  CLOSE_MS = 2000  /* what a close may take: the client may have to connect */
};

behaviour programs_behave;
program programs[PROGRAMS_MAX];
int n_programs;

/* ---- one user at a time runs Lua ---- */

static void take_lua(program *of) {
  while (of->is_lua_taken)
    fiber_wait(&of->is_lua_taken, INT64_MAX);
  of->is_lua_taken = true;
}

static void leave_lua(program *of) {
  of->is_lua_taken = false;
  fiber_wake(&of->is_lua_taken, 1);
}

/* ---- waits ---- */

/* A wake that is pushed when the event of a user's wait has occurred. */
typedef struct user_wake {
  el_wake wake;
  user *of;
} user_wake;

static void on_wake(el_wake *wake, uint64_t id) {
  (void)id;
  fiber_wake(EL_CONTAINER_OF(wake, user_wake, wake)->of, 1);
}

/* Waits for |event| of |completion|, for at most |timeout_ms| (negative: no limit), or until the
 * program crashes; returns whether the event has occurred. A program with one user blocks in the
 * call, as a script does. One with several waits as an event loop does: others run meanwhile. */
static bool await(user *of, el_completion *completion, unsigned event,
                  int64_t timeout_ms) {
  int64_t begun_us = process_clock_us(&of->in->process);
  user_wake woken = {{on_wake}, of};
  for (;;) {
    int64_t left_ms =
        timeout_ms < 0
            ? SLICE_MS
            : timeout_ms -
                  (process_clock_us(&of->in->process) - begun_us) / WORLD_MS;
    if (el_completion_has(completion, event)) return true;
    if (left_ms <= 0 || of->in->has_crashed) return false;
    if (of->in->n_users == 1) {
      el_shared_wait(el_lock_shared(of->lock), completion, event,
                     left_ms < SLICE_MS ? left_ms : SLICE_MS);
    } else if (el_completion_arm(completion, event, &woken.wake, 1)) {
      leave_lua(of->in);
      fiber_wait(of, world_now_us() + left_ms * WORLD_MS);
      take_lua(of->in);
      el_completion_disarm(completion, event, 1);
    }
  }
}

/* Sleeps while other users of the program run. */
static void rest(user *of, int64_t us) {
  leave_lua(of->in);
  fiber_sleep(us);
  take_lua(of->in);
}

/* ---- one acquisition ---- */

static int pick_names(int *names, int n_of) {
  int n = (int)world_random(2, n_of), n_left = n_of, left[NAMES_MAX];
  for (int i = 0; i < n_of; i++)
    left[i] = i;
  for (int i = 0; i < n; i++) {
    int k = (int)world_random(0, n_left - 1);
    names[i] = left[k];
    left[k] = left[--n_left];
  }
  return n;
}

static el_mode pick_mode(void) {
  switch (programs_behave.kinds) {
    case KINDS_READ_WRITE:
      return world_chance(200)   ? EL_MODE_LOCK
             : world_chance(400) ? EL_MODE_WRITE
                                 : EL_MODE_READ;
    case KINDS_PERMIT: /* a permit conflicts with no lock */
      return world_chance(100) ? EL_MODE_LOCK : EL_MODE_PERMIT;
    case KINDS_MULTI:
      return world_chance(300)   ? EL_MODE_LOCK
             : world_chance(300) ? EL_MODE_READ
                                 : EL_MODE_MULTI;
    default:
      return EL_MODE_LOCK;
  }
}

static wish make_wish(const user *of) {
  const behaviour *how = &programs_behave;
  wish it = {.mode = pick_mode(), .n_names = 1, .timeout_ms = -1};
  it.names[0] = (int)world_random(0, how->n_names - 1);
  if (it.mode == EL_MODE_MULTI) it.n_names = pick_names(it.names, how->n_names);
  if (it.mode == EL_MODE_PERMIT) it.permits = world_chance(100) ? 3 : 2;
  it.try_once = world_chance(how->trying);
  if (it.try_once || world_chance(how->timing_out)) {
    it.timeout_ms = it.try_once ? 5000 : world_random(1, 5000);
  }
  if (world_chance(how->max_holding)) it.max_hold_ms = world_random(1, 1000);
  /* the library refuses the other combinations */
  if (world_chance(of->in->lingering) && of->in->lock_delay_ms == 0 &&
      it.mode != EL_MODE_PERMIT && it.mode != EL_MODE_MULTI) {
    it.linger_ms = world_random(1, of->in->linger_max_ms);
  }
  return it;
}

static el_lock *begin(user *of, el_error *err) {
  char names[NAMES_MAX * 3 + 1], value[16];
  size_t len = 0;
  el_lock_options options = {.mode = of->wish.mode,
                             .permits = (uint16_t)of->wish.permits,
                             .try_once = of->wish.try_once,
                             .timeout_ms = of->wish.timeout_ms,
                             .max_hold_ms = of->wish.max_hold_ms,
                             .linger_ms = of->wish.linger_ms};
  for (int i = 0; i < of->wish.n_names; i++) {
    len += (size_t)snprintf(names + len, sizeof names - len, "%sn%d",
                            i > 0 ? "_" : "", of->wish.names[i]);
  }
  for (size_t i = 0; i < len; i++) {
    if (names[i] == '_') names[i] = '\0'; /* see el_list_pop */
  }
  options.name = (el_bytes){names, len};
  options.value.data = value;
  options.value.len = (size_t)snprintf(value, sizeof value, "p%du%d",
                                       of->in->process.id, of->id);
  return el_lock_new(el_client_shared(of->in->client), &options, err);
}

/* ---- one hold ---- */

enum { WRITE_MIN_MS = 2000, WRITE_MAX_MS = 5000 };

/* Sends |guarded| and returns the answer; NULL: it was not sent, or the program has crashed. */
static const el_txn_answer *commit(user *of, el_guarded *guarded,
                                   int64_t timeout_ms) {
  el_error err;
  if (!el_guarded_start(guarded, timeout_ms, &err) ||
      !await(of, el_guarded_completion(guarded), EL_GUARDED_ANSWERED, -1)) {
    return NULL;
  }
  return el_guarded_wait(guarded, 0);
}

static void write_data(user *of) {
  int64_t begun_us = world_now_us(), stopped_us = of->in->stopped_us;
  int64_t timeout_ms = world_random(WRITE_MIN_MS, WRITE_MAX_MS);
  char key[16], value[DATUM_MAX];
  int number = checks_on_write(of, key, value);
  costs_on_write(of);
  el_guarded *guarded;
  el_op put = {.kind = EL_OP_PUT};
  if (number == 0) return;
  guarded = el_guarded_new(el_lock_shared(of->lock));
  put.key = (el_bytes){key, strlen(key)};
  put.value = (el_bytes){value, strlen(value)};
  el_guarded_guard_lock(guarded, of->lock);
  if (el_guarded_add(guarded, &put)) {
    const el_txn_answer *answer = commit(of, guarded, timeout_ms);
    if (answer != NULL) checks_on_written(of, number, answer);
    if (answer != NULL && stopped_us == of->in->stopped_us) {
      checks_on_end_of_call(of, begun_us, timeout_ms);
    }
  }
  el_guarded_drop(guarded);
}

/* Makes a write hold a read hold. The user counts as a reader from the call on. */
static void downgrade(user *of) {
  el_guarded *guarded = el_guarded_new(el_lock_shared(of->lock));
  costs_on_write(of);
  of->wish.mode = EL_MODE_READ;
  of->is_downgraded = true;
  el_lock_downgrade(of->lock);
  if (el_guarded_downgrade(guarded, of->lock)) {
    commit(of, guarded, world_random(WRITE_MIN_MS, WRITE_MAX_MS));
  }
  el_guarded_drop(guarded);
}

static void use(user *of) {
  bool is_beside_permits =
      of->wish.mode == EL_MODE_LOCK && programs_behave.kinds == KINDS_PERMIT;
  if (of->wish.mode != EL_MODE_READ && !is_beside_permits &&
      world_chance(programs_behave.writing)) {
    write_data(of);
  }
  if (of->wish.mode == EL_MODE_WRITE &&
      world_chance(programs_behave.downgrading)) {
    downgrade(of);
  }
}

static void wait_lost(user *of, int64_t hold_us) {
  int64_t stopped_us = of->in->stopped_us;
  bool is_told;
  of->waits_lost = true;
  is_told = await(of, el_lock_completion(of->lock), EL_LOCK_ENDED,
                  hold_us / WORLD_MS);
  of->waits_lost = false;
  if (!of->in->has_crashed && stopped_us == of->in->stopped_us) {
    checks_on_waited(of, is_told);
  }
}

static void hold(user *of) {
  int64_t begun_us = world_now_us(),
          hold_us = world_random(0, programs_behave.hold_us), left_us;
  use(of);
  if (world_chance(300)) {
    wait_lost(of, hold_us);
    return;
  }
  while (world_now_us() < begun_us + hold_us && !of->in->is_closing &&
         user_holds(of, &left_us)) {
    rest(of, world_random(0, hold_us / 4 + 1));
    if (user_holds(of, &left_us)) use(of);
  }
}

static void end(user *of, el_lock *lock) {
  el_error err;
  bool was_held = of->state == USER_HOLDS;
  if (was_held) checks_on_release(of);
  of->state = USER_RELEASES;
  el_lock_release(lock);
  if (!was_held) return;
  of->stopped_us = of->in->stopped_us;
  if (await(of, el_lock_completion(lock), EL_LOCK_RELEASED, 2000)) {
    el_lock_wait_released(lock, 0, &err);
    checks_on_released(of, &err);
  }
}

static void acquire(user *of) {
  el_error err;
  el_lock *lock;
  of->wish = make_wish(of);
  of->joined_us = world_now_us();
  of->stopped_us = of->in->stopped_us;
  lock = begin(of, &err);
  if (lock == NULL) return; /* the client is being closed */
  of->lock = lock;
  of->state = USER_WAITS;
  checks_on_join(of);
  if (await(of, el_lock_completion(lock), EL_LOCK_DECIDED, -1)) {
    el_lock_wait(lock, 0, &err);
    if (err.code == EL_OK) {
      of->granted_us = world_now_us();
      of->proven_until_us = 0;
      of->gone_us = 0;
      of->is_downgraded = of->is_delayed = false;
      of->token = el_lock_token(lock);
      of->lease = el_lock_lease(lock);
      of->state = USER_HOLDS;
    }
    checks_on_decided(of, &err);
    if (err.code == EL_OK) hold(of);
  }
  end(of, lock);
  of->state = USER_IDLE;
  of->lock = NULL;
  el_lock_unref(lock);
}

bool user_holds(user *of, int64_t *left_us) {
  if (of->state != USER_HOLDS ||
      el_lock_hold(of->lock, left_us) != EL_HOLD_HELD) {
    return false;
  }
  of->proven_until_us = world_now_us() + *left_us;
  return true;
}

static void run_user(void *arg) {
  user *of = arg;
  program *in = of->in;
  take_lua(in);
  while (!in->is_closing && world_now_us() < programs_behave.end_us) {
    acquire(of);
    if (!in->is_closing) {
      rest(of, world_random(0, programs_behave.think_us));
    }
  }
  leave_lua(in);
  in->n_running--;
  fiber_wake(in, 1);
}

/* ---- the program ---- */

static el_client *connect_client(program *of) {
  el_error err;
  el_connect_options options = {.endpoints = of->endpoints,
                                .n_endpoints = (size_t)of->n_endpoints};
  options.user = of->has_user ? "user" : NULL;
  options.password = of->has_user ? "password" : NULL;
  options.allow_plaintext_auth = true;
  options.plain.ttl_ms = of->ttl_ms;
  options.plain.lock_delay_ms = of->lock_delay_ms;
  options.plain.handoff =
      (el_handoff_limits){.holds = of->handoff, .ms = HANDOFF_MS};
  el_client *client = el_client_new(&options, &err);
  if (client == NULL) world_violate("connect", "%s", err.text);
  return client;
}

/* Closes the client, and waits until the users have ended: their calls fail after the close. */
static void end_client(program *of) {
  take_lua(of);
  of->is_closing = true;
  of->closing_stopped_us = of->stopped_us;
  checks_on_end(of);
  world_trace("p%d: %s", of->process.id,
              of->has_crashed ? "crashed" : "closes its client");
  el_client_begin_close(of->client, of->has_crashed ? 0 : CLOSE_MS);
  while (!el_client_has_stopped(of->client))
    fiber_sleep(WORLD_MS);
  el_client_shut(of->client);
  el_client_join(of->client);
  leave_lua(of);
  while (of->n_running > 0)
    fiber_wait(of, INT64_MAX);
  checks_on_closed(of);
  el_client_free(of->client);
  of->client = NULL;
}

static void run_client(program *of) {
  of->generation++;
  of->process.client = of->generation * PROGRAMS_MAX + of->process.id;
  of->begun_us = world_now_us();
  of->client = connect_client(of);
  of->is_closing = of->has_crashed = of->wants_to_close = false;
  of->is_lua_taken = false;
  for (int i = 0; i < of->n_users; i++) {
    of->users[i] = (user){.id = i, .in = of};
    of->n_running++;
    fiber_detach(fiber_start(&of->process, run_user, &of->users[i]));
  }
  while (of->n_running > 0 && !of->wants_to_close)
    fiber_wait(of, INT64_MAX);
  end_client(of);
}

static void run_program(void *arg) {
  program *of = arg;
  do {
    run_client(of);
    network_plug_in(&of->process);
    fiber_sleep(world_random(0, 500 * WORLD_MS));
  } while (world_now_us() < programs_behave.end_us);
  of->generation = 0;
}

void program_start(int id) {
  program *of = &programs[id];
  of->process.id = id;
  of->generation = 1;
  fiber_detach(fiber_start(&of->process, run_program, of));
}

bool program_has_ended(const program *of) { return of->generation == 0; }

void program_close(program *of) {
  of->wants_to_close = true;
  fiber_wake(of, 1);
}

void program_crash(program *of) {
  if (of->client == NULL || of->is_closing) return;
  of->has_crashed = true;
  network_unplug(&of->process);
  program_close(of);
}

void program_stop(program *of, int64_t until_us) {
  if (of->process.stopped_until_us > world_now_us()) return;
  world_trace("p%d is stopped for %.0f ms", of->process.id,
              (double)(until_us - world_now_us()) / WORLD_MS);
  of->process.stopped_until_us = until_us;
  of->stopped_us += until_us - world_now_us();
}
