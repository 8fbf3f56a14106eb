/* simulation checks: what etcdlock promises. */
#include "checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

enum {
  REVS_MAX = 1 << 15, /* more revisions than a history has */
  KEY_MAX = 80,       /* bytes of a key */
  GONE_MAX = 256,
  DELAYED_MAX = 64,
  LATE_MS = 250,       /* by which a call may outlast its timeout */
  PROMPT_US = WORLD_S, /* without faults, by when a free lock is granted */
  LOOK_US = 200 * WORLD_MS,
  HANDOFFS_MAX = 33, /* the budget, and the first hold */
  /* a call with a shorter timeout may get no answer in time, also without faults */
  SHORT_MS = 1000
};

/* A key of a lock, parsed here and not by the product. */
typedef struct lock_key {
  int name; /* negative: no such key */
  el_mode mode;
  int64_t lease;
  int permits;
} lock_key;

/* A key that is gone while its hold may look valid. */
typedef struct gone_key {
  int64_t create_rev;
  char text[KEY_MAX];
  size_t len;
} gone_key;

/* A hold that ended by a crash, and so blocks others for its lock delay. */
typedef struct delayed_hold {
  wish wish;
  int64_t token, until_us;
} delayed_hold;

typedef struct name_record {
  int64_t last_token; /* of exclusive holds */
  int last_program, last_generation;
  int n_handed_off; /* since another program waits */
  int64_t chain_token;
} name_record;

static struct {
  etcd *cluster;
  bool is_calm;
  bool is_sabotaged[REVS_MAX]; /* by create_revision */
  gone_key gone[GONE_MAX];
  int n_gone;
  delayed_hold delayed[DELAYED_MAX];
  int n_delayed;
  name_record names[NAMES_MAX];
  process process; /* of the fiber below */
  bool is_ended, has_fiber;
  int64_t n_grants;
} checks;

int64_t checks_n_grants(void) { return checks.n_grants; }

/* ---- keys and modes ---- */

static bool has_prefix(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

static lock_key parse(const etcd_key *key) {
  lock_key it = {.name = -1, .mode = EL_MODE_LOCK};
  char text[80], *rest, *end;
  if (key->key.len >= sizeof text || key->key.len < 4) return it;
  memcpy(text, key->key.data, key->key.len);
  text[key->key.len] = '\0';
  rest = text + 3;
  if (has_prefix(rest, "write/read/") || has_prefix(rest, "write/order/") ||
      has_prefix(text, "data/")) {
    return it;
  }
  if (has_prefix(rest, "read/")) it.mode = EL_MODE_READ;
  if (has_prefix(rest, "write/")) it.mode = EL_MODE_WRITE;
  if (has_prefix(rest, "permit/")) it.mode = EL_MODE_PERMIT;
  if (it.mode != EL_MODE_LOCK) rest = strchr(rest, '/') + 1;
  it.lease = (int64_t)strtoull(rest, &end, 16);
  if (*end == '-') {
    if (it.mode == EL_MODE_LOCK) it.mode = EL_MODE_MULTI;
    strtoul(end + 1, &end, 16);
  }
  if (*end == '.') it.permits = (int)strtol(end + 1, NULL, 16);
  if (it.lease == key->lease) it.name = text[1] - '0';
  return it;
}

static bool modes_conflict(el_mode a, el_mode b) {
  if (a == EL_MODE_PERMIT || b == EL_MODE_PERMIT) return a == b;
  return a != EL_MODE_READ || b != EL_MODE_READ;
}

static bool wants_name(const wish *it, int name) {
  for (int i = 0; i < it->n_names; i++) {
    if (it->names[i] == name) return true;
  }
  return false;
}

static bool wishes_conflict(const wish *a, const wish *b) {
  for (int i = 0; i < a->n_names; i++) {
    if (wants_name(b, a->names[i])) return modes_conflict(a->mode, b->mode);
  }
  return false;
}

static bool is_sabotaged(int64_t create_rev) {
  return checks.is_sabotaged[create_rev];
}

void checks_on_sabotage(int64_t create_rev) {
  checks.is_sabotaged[create_rev] = true;
}

/* ---- users ---- */

static user *next_user(user *of) {
  program *in = of == NULL ? &programs[0] : of->in;
  int id = of == NULL ? 0 : of->id + 1;
  while (id >= in->n_users || in->client == NULL) {
    if (++in == &programs[n_programs]) return NULL;
    id = 0;
  }
  return &in->users[id];
}

/* As user_holds, but by the clock of the process of |of|. */
static bool holds(user *of, int64_t *left_us) {
  bool it;
  const process *own;
  if (of->state != USER_HOLDS || of->in->has_crashed) return false;
  own = process_swap_clock(&of->in->process);
  it = user_holds(of, left_us);
  process_swap_clock(own);
  return it;
}

static const char *describe(const user *of) {
  static char texts[4][80];
  static int next;
  char *to = texts[next++ % 4];
  snprintf(to, sizeof texts[0], "p%d u%d (%s n%d, token %" PRId64 ")",
           of->in->process.id, of->id, el_mode_names[of->wish.mode],
           of->wish.names[0], of->token);
  return to;
}

/* ---- mutual exclusion ---- */

static void check_permits(user *of) {
  int64_t left_us;
  int n = 0, most = 0;
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->wish.mode != EL_MODE_PERMIT ||
        it->wish.names[0] != of->wish.names[0] || is_sabotaged(it->token) ||
        !holds(it, &left_us)) {
      continue;
    }
    n++;
    if (it->wish.permits > most) most = it->wish.permits;
  }
  if (n > most) {
    world_violate("mutual exclusion", "%d permits of %d are held, with %s", n,
                  most, describe(of));
  }
}

static void check_exclusion(user *of) {
  int64_t left_us;
  if (is_sabotaged(of->token)) return;
  if (of->wish.mode == EL_MODE_PERMIT) {
    check_permits(of);
    return;
  }
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it != of && wishes_conflict(&it->wish, &of->wish) &&
        !is_sabotaged(it->token) && holds(it, &left_us)) {
      world_violate("mutual exclusion", "%s is granted, while %s holds",
                    describe(of), describe(it));
    }
  }
}

/* ---- order ---- */

static void check_queue(user *of, int name) {
  int n_older = 0;
  for (size_t i = 0; i < etcd_n_keys(checks.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.cluster, i);
    lock_key it = parse(key);
    if (it.name == name && key->create_rev < of->token &&
        modes_conflict(it.mode, of->wish.mode)) {
      n_older++;
    }
  }
  if (n_older > 0 &&
      (of->wish.mode != EL_MODE_PERMIT || n_older >= of->wish.permits)) {
    world_violate("order of the queue", "%s is granted before %d older keys",
                  describe(of), n_older);
  }
}

static void check_own_keys(user *of) {
  int n = 0;
  for (const el_keys *at = el_lock_keys(of->lock); at != NULL; at = at->next) {
    const etcd_key *key = etcd_find(checks.cluster, el_keys_own(at));
    if (key != NULL && key->create_rev == of->token &&
        key->lease == of->lease) {
      n++;
    }
  }
  if (n != of->wish.n_names) {
    world_violate("a grant has its keys", "%s has %d keys", describe(of), n);
  }
}

static void check_token(user *of, int name) {
  name_record *record = &checks.names[name];
  bool is_same = record->last_program == of->in->process.id &&
                 record->last_generation == of->in->generation;
  if (of->token < record->last_token ||
      (of->token == record->last_token && !is_same)) {
    world_violate("growing tokens", "%s after token %" PRId64, describe(of),
                  record->last_token);
  }
  if (of->wish.mode == EL_MODE_READ) return;
  record->last_token = of->token;
  record->last_program = of->in->process.id;
  record->last_generation = of->in->generation;
}

/* ---- fairness ---- */

/* Tells whether another program waits for |name| behind the key with |token|. */
static bool others_wait(user *of, int name) {
  for (size_t i = 0; i < etcd_n_keys(checks.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.cluster, i);
    lock_key it = parse(key);
    if (it.name == name && key->create_rev > of->token &&
        it.lease != of->lease && modes_conflict(of->wish.mode, it.mode)) {
      return true;
    }
  }
  return false;
}

static void check_fairness(user *of, int name) {
  name_record *record = &checks.names[name];
  if (of->wish.mode == EL_MODE_PERMIT || of->wish.mode == EL_MODE_READ) return;
  if (record->chain_token != of->token || !others_wait(of, name)) {
    record->chain_token = of->token;
    record->n_handed_off = 0;
  } else if (++record->n_handed_off > HANDOFFS_MAX && of->in->lingering == 0) {
    world_violate("fairness", "%s is handed off %d times while others wait",
                  describe(of), record->n_handed_off);
  }
}

/* ---- lock delay ---- */

static void check_delays(user *of) {
  for (int i = 0; i < checks.n_delayed; i++) {
    const delayed_hold *it = &checks.delayed[i];
    if (it->until_us > world_now_us() && !is_sabotaged(it->token) &&
        it->wish.mode != EL_MODE_PERMIT &&
        wishes_conflict(&it->wish, &of->wish)) {
      world_violate("lock delay", "%s is granted %.1f ms before its end",
                    describe(of),
                    (double)(it->until_us - world_now_us()) / WORLD_MS);
    }
  }
}

static void record_delay(user *of) {
  int64_t left_us;
  if (of->wish.lock_delay_ms == 0 || is_sabotaged(of->token) ||
      !holds(of, &left_us) || of->wish.max_hold_ms != 0) {
    return;
  }
  if (checks.n_delayed == DELAYED_MAX) checks.n_delayed = 0;
  checks.delayed[checks.n_delayed++] = (delayed_hold){
      of->wish, of->token,
      world_now_us() + left_us + of->wish.lock_delay_ms * WORLD_MS};
}

/* ---- what is in the way ---- */

/* Tells whether the entry |it| of etcd, with |key|, may be in the way of |of|. Without faults, a key
 * of its own client that nobody uses is not: it lingers, and |of| can take it. */
static bool is_in_the_way(const user *of, const etcd_key *key,
                          const lock_key *it) {
  bool is_own = false, is_used = false;
  if (it->name < 0 || !wants_name(&of->wish, it->name) ||
      !modes_conflict(it->mode, of->wish.mode)) {
    return false;
  }
  for (const user *at = of->in->users; at < of->in->users + of->in->n_users;
       at++) {
    if (at->lease == key->lease) is_own = true;
    if (at != of && at->state != USER_IDLE && wants_name(&at->wish, it->name)) {
      is_used = true;
    }
  }
  return !is_own || is_used || !checks.is_calm;
}

static bool is_blocked(const user *of) {
  for (const user *it = of->in->users; it < of->in->users + of->in->n_users;
       it++) {
    if (it != of && it->state != USER_IDLE &&
        wishes_conflict(&it->wish, &of->wish)) {
      return true;
    }
  }
  for (size_t i = 0; i < etcd_n_keys(checks.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.cluster, i);
    lock_key it = parse(key);
    if (is_in_the_way(of, key, &it)) return true;
  }
  return false;
}

static void look_at_waiters(void) {
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->state != USER_WAITS) continue;
    if (is_blocked(it)) {
      it->saw_other = true;
      it->freed_us = 0;
    } else if (it->freed_us == 0) {
      it->freed_us = world_now_us();
    } else if (checks.is_calm && world_now_us() - it->freed_us > PROMPT_US) {
      world_violate("progress", "%s waits for a free lock", describe(it));
    }
  }
}

/* ---- users' calls ---- */

void checks_on_join(user *of) {
  of->saw_other = false;
  of->freed_us = 0;
  look_at_waiters();
}

static void check_time(const user *of, int64_t limit_ms) {
  int64_t took_us =
      world_now_us() - of->joined_us - (of->in->stopped_us - of->stopped_us);
  if (took_us > (limit_ms + LATE_MS) * WORLD_MS) {
    world_violate("a call ends in time", "%s took %" PRId64 " ms of %" PRId64,
                  describe(of), took_us / WORLD_MS, limit_ms);
  }
}

static void check_failure(user *of, const el_error *err) {
  bool is_locked = err->code == EL_LOCKED;
  world_trace("p%d u%d: %s: %s", of->in->process.id, of->id,
              el_code_str(err->code), err->text);
  if (is_locked && (!of->wish.try_once || !of->saw_other)) {
    world_violate("true failure", "%s: %s", describe(of), err->text);
  }
  if (err->code == EL_TIMEOUT && of->wish.timeout_ms < 0) {
    world_violate("true failure", "%s has no timeout: %s", describe(of),
                  err->text);
  }
  if (checks.is_calm && !is_locked && err->code != EL_TIMEOUT &&
      (err->code != EL_UNAVAILABLE || of->wish.timeout_ms < 0 ||
       of->wish.timeout_ms > SHORT_MS)) {
    world_violate("no false failure", "%s: %s", describe(of), err->text);
  }
}

static void check_grant(user *of) {
  int64_t left_us, now_us = world_now_us();
  if (is_sabotaged(of->token) || !holds(of, &left_us)) return;
  check_exclusion(of);
  /* the look at another hold may have waited for a mutex of a process that is stopped */
  if (world_now_us() != now_us) return;
  check_own_keys(of);
  check_delays(of);
  for (int i = 0; i < of->wish.n_names; i++) {
    check_queue(of, of->wish.names[i]);
    check_fairness(of, of->wish.names[i]);
    if (of->wish.mode != EL_MODE_PERMIT) check_token(of, of->wish.names[i]);
  }
}

void checks_on_decided(user *of, const el_error *err) {
  if (of->in->is_closing || of->in->process.stopped_until_us > world_now_us()) {
    return;
  }
  if (of->wish.timeout_ms >= 0) check_time(of, of->wish.timeout_ms);
  if (err->code != EL_OK) {
    check_failure(of, err);
    return;
  }
  checks.n_grants++;
  world_trace("%s is granted", describe(of));
  check_grant(of);
}

static void check_loss(user *of) {
  el_loss loss = el_lock_loss(of->lock);
  if (loss == EL_LOSS_NONE) return;
  world_trace("%s is lost: %d", describe(of), (int)loss);
  if (loss == EL_LOSS_MAX_HOLD && of->wish.max_hold_ms == 0) {
    world_violate("true loss", "%s has no max_hold", describe(of));
  }
  if (checks.is_calm && loss != EL_LOSS_MAX_HOLD) {
    world_violate("no false loss", "%s: %d", describe(of), (int)loss);
  }
}

void checks_on_release(user *of) {
  if (of->in->is_closing) return;
  check_loss(of);
  world_trace("%s releases", describe(of));
}

void checks_on_released(user *of, const el_error *err) {
  if (of->in->is_closing || err->code == EL_OK) return;
  world_trace("%s: the release: %s", describe(of), err->text);
  if (checks.is_calm && el_lock_loss(of->lock) == EL_LOSS_NONE) {
    world_violate("no false failure", "%s: the release: %s", describe(of),
                  err->text);
  }
}

void checks_on_end(program *of) {
  for (int i = 0; of->has_crashed && i < of->n_users; i++) {
    of->has_crashed = false; /* for |holds| */
    record_delay(&of->users[i]);
    of->has_crashed = true;
  }
}

/* ---- changes ---- */

/* A key that a client deletes, or that ends with its lease, must not look held. The change comes
 * outside of all fibers, so the fiber below looks, at the same time. */
void checks_on_change(void *arg, const etcd_change *change) {
  const etcd_key *key = change->after != NULL ? change->after : change->before;
  (void)arg;
  world_trace("etcd: rev %" PRId64 " %.*s %s", change->rev, (int)key->key.len,
              key->key.data, change->after != NULL ? "put" : "deleted");
  if (change->rev >= REVS_MAX) abort();
  if (change->after == NULL && change->cause != ETCD_BY_ADMIN) {
    if (checks.n_gone == GONE_MAX || key->key.len > KEY_MAX) abort();
    gone_key *gone = &checks.gone[checks.n_gone++];
    *gone = (gone_key){.create_rev = key->create_rev, .len = key->key.len};
    memcpy(gone->text, key->key.data, key->key.len);
  }
  fiber_wake(&checks, 1);
}

static bool is_key_of(const user *of, const gone_key *gone) {
  const el_keys *at = of->state == USER_HOLDS ? el_lock_keys(of->lock) : NULL;
  for (; at != NULL; at = at->next) {
    if (el_bytes_are_equal(el_keys_own(at),
                           (el_bytes){gone->text, gone->len})) {
      return true;
    }
  }
  return false;
}

static void check_gone(const gone_key *gone) {
  int64_t left_us;
  if (is_sabotaged(gone->create_rev)) return;
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->token == gone->create_rev && is_key_of(it, gone) &&
        holds(it, &left_us)) {
      world_violate("no hold without its key", "%s, for %.1f ms more",
                    describe(it), (double)left_us / WORLD_MS);
    }
  }
}

static void look(void *arg) {
  (void)arg;
  while (!checks.is_ended) {
    fiber_wait(&checks, world_now_us() + LOOK_US);
    for (int i = 0; i < checks.n_gone; i++)
      check_gone(&checks.gone[i]);
    checks.n_gone = 0;
    look_at_waiters();
  }
  checks.has_fiber = false;
}

/* ---- the history ---- */

void checks_begin(etcd *cluster, bool is_calm) {
  memset(&checks, 0, sizeof checks);
  checks.cluster = cluster;
  checks.is_calm = is_calm;
  checks.has_fiber = true;
  for (int i = 0; i < NAMES_MAX; i++)
    checks.names[i].last_program = -1;
  fiber_detach(fiber_start(&checks.process, look, NULL));
}

void checks_end(void) {
  checks.is_ended = true;
  fiber_wake(&checks, 1);
}

void checks_nothing_left(void) {
  for (size_t i = 0; i < etcd_n_keys(checks.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.cluster, i);
    world_violate("nothing left", "the key %.*s", (int)key->key.len,
                  key->key.data);
  }
  if (etcd_n_leases(checks.cluster) > 0) {
    world_violate("nothing left", "%zu leases", etcd_n_leases(checks.cluster));
  }
}
