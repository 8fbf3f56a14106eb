/* simulation checks: what etcdlock promises. */
#include "checks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "world.h"

enum {
  REVS_MAX = 1 << 16, /* more revisions than a history has */
  WRITES_MAX = 1 << 12,
  LEASES_MAX = 512,
  KEY_MAX = 80, /* bytes of a key */
  GONE_MAX = 256,
  DELETED_MAX = 16,
  DELAYED_MAX = 64,
  LATE_MS = 250, /* by which a call may outlast its timeout */
  /* Round trips until a free lock is granted without faults. A batch may be in flight when the lock
   * becomes free, and another one when the waiter has seen that. */
  PROMPT_ROUNDS = 4,
  CONNECT_ROUNDS = 3,      /* until a client has a lease */
  TURNS_US = 5 * WORLD_MS, /* that fibers wait for their turns */
  LOOK_US = 200 * WORLD_MS,
  HANDOFF_US = 50 * WORLD_MS + 20 * WORLD_MS, /* handoff_time, and a reserve */
  /* by when a free lock is granted if one of three members hangs */
  HANG_US = 2500 * WORLD_MS,
  REREAD_MS = 10000,    /* a waiter reads again every max(TTL, this) */
  KEEPALIVE_DIV = 3,    /* a client renews and reads a key each TTL / this */
  STEADY_TTL_MS = 5000, /* the loss of one member ends no hold with this TTL */
  /* A hold ends at least 200 ms before its lease. 10 ms of that are for clocks of other rates. */
  MARGIN_US = 190 * WORLD_MS,
  /* How long after an admin has deleted a key its client may still be granted the lock: an answer
   * may take so long. */
  FRESH_US = 15 * WORLD_S,
  EFFECT_US = 15 * WORLD_S, /* how long faults have effects after their end */
  LONG_AGO_US = -1000 * WORLD_S,
  OLD_US = 10 * WORLD_S, /* after the faults, how long an old key may stay */
  /* failed attempts of a client without faults: its first connection may be slow */
  FAILED_MAX = 2,
  /* a call with a shorter timeout may get no answer in time, also without faults */
  SHORT_MS = 2500
};

/* A key of a lock, parsed here and not by the product. */
typedef struct lock_key {
  int name; /* negative: it is no key of a lock */
  el_mode mode;
  int64_t lease;
  int permits;
} lock_key;

/* A key that is gone while its hold may look valid. */
typedef struct gone_key {
  int64_t create_rev;
  int64_t at_us;
  char text[KEY_MAX];
  size_t len;
} gone_key;

/* A hold that ended by a crash, or because it was not proven in time, and so blocks others for its
 * lock delay. */
typedef struct delayed_hold {
  wish wish;
  int64_t token, until_us;
} delayed_hold;

typedef struct name_record {
  int64_t last_token; /* of exclusive holds */
  int last_program, last_generation;
  int64_t
      chain_token; /* of the last hold; the first one with it began at |chain_us| */
  int64_t chain_us;
  int n_holds;
  /* the hold of this token was released at |passed_us|, while |passed_to| waited; that user had
   * joined at |passed_joined_us| */
  int64_t passed_token, passed_us, passed_joined_us;
  user *passed_to;
  /* the key that the readers of each program share, and when the first of them was granted */
  int64_t read_token[PROGRAMS_MAX], read_us[PROGRAMS_MAX];
} name_record;

/* A lease with which a client has put keys. */
typedef struct lease_record {
  int64_t lease;
  int program, generation;
} lease_record;

static struct {
  checks_options options;
  /* no faults but stale reads, silent watches and changes by an admin */
  bool is_calm;
  int64_t peace_us; /* when the last effects of faults are over; 0: unknown */
  /* by create_revision: when an admin has changed the key; 0: none has */
  int64_t sabotaged_us[REVS_MAX];
  /* when an admin has last changed a key of each program */
  int64_t last_sabotage_us[PROGRAMS_MAX];
  bool was_granted[REVS_MAX];
  /* by create_revision: since when no user wants the key, or its lease is old; 0: neither */
  int64_t idle_us[REVS_MAX];
  gone_key gone[GONE_MAX];
  int n_gone;
  gone_key deleted[DELETED_MAX]; /* the last keys that an admin has deleted */
  int n_deleted;
  delayed_hold delayed[DELAYED_MAX];
  int n_delayed;
  name_record names[NAMES_MAX];
  int last_written[NAMES_MAX]; /* the number of the last write */
  int n_writes;
  bool is_applied[WRITES_MAX], is_refused[WRITES_MAX];
  lease_record leases[LEASES_MAX];
  int n_leases;
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
  if (it.lease == key->lease && it.lease != 0) it.name = text[1] - '0';
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

static const lease_record *find_lease(int64_t lease) {
  for (int i = 0; i < checks.n_leases; i++) {
    if (checks.leases[i].lease == lease) return &checks.leases[i];
  }
  return NULL;
}

/* Tells whether |from| is a lease of the present client of |of|. |from| may be NULL. */
static bool is_lease_of(const lease_record *from, const program *of) {
  return from != NULL && from->program == of->process.id &&
         from->generation == of->generation;
}

static bool is_sabotaged(int64_t create_rev) {
  return checks.sabotaged_us[create_rev] != 0;
}

void checks_on_sabotage(const etcd_key *key) {
  const lease_record *from = find_lease(key->lease);
  checks.sabotaged_us[key->create_rev] = world_now_us();
  if (from != NULL) checks.last_sabotage_us[from->program] = world_now_us();
}

/* Returns how long a client may take without faults for what it does at once. If an admin has
 * revoked its lease, the client first has to notice that, and to get another one. */
static int64_t prompt_us(void) {
  int n = checks.options.has_peaceful_admin ? 2 * PROMPT_ROUNDS : PROMPT_ROUNDS;
  return n * checks.options.round_us + TURNS_US + checks.options.login_us;
}

/* Tells whether |of| need not know yet that an admin has changed its key. Without faults its client
 * reads one of its keys every TTL/3, one after the other. With faults the hold may last until its
 * deadline, or a late answer may grant the lock. */
static bool is_exempt(const user *of) {
  int64_t ttl_us = of->in->ttl_ms * WORLD_MS;
  return is_sabotaged(of->token) &&
         world_now_us() <=
             checks.sabotaged_us[of->token] +
                 (checks.is_calm
                      ? USERS_MAX * NAMES_MAX * ttl_us / KEEPALIVE_DIV +
                            prompt_us()
                      : ttl_us + FRESH_US);
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

/* Returns by how much a hold ends before its lease: TTL/10, 0.2 s to 4 s. */
static int64_t hold_margin_us(const program *of) {
  int64_t ms = of->ttl_ms / 10;
  return (ms < 200 ? 200 : ms > 4000 ? 4000 : ms) * WORLD_MS;
}

/* Records the lock delay of |of|, whose hold ended at |ended_us| without a release. It begins when
 * the TTL is over. */
static void add_delay(const user *of, int64_t ended_us) {
  of->in->delayed_until_us = world_now_us() + hold_margin_us(of->in) +
                             of->in->lock_delay_ms * WORLD_MS;
  if (of->in->lock_delay_ms == 0 || is_exempt(of)) return;
  if (checks.n_delayed == DELAYED_MAX) checks.n_delayed = 0;
  checks.delayed[checks.n_delayed++] =
      (delayed_hold){of->wish, of->token,
                     ended_us + MARGIN_US + of->in->lock_delay_ms * WORLD_MS};
}

/* As user_holds, but by the clock of the process of |of|. Records the lock delay of a hold that has
 * expired. If max_hold and the hold deadline have both passed in a stop, the client may keep the
 * key for the lock delay, but need not. */
static bool holds(user *of, int64_t *left_us) {
  bool it;
  el_loss loss;
  const process *own;
  if (of->state != USER_HOLDS || of->in->has_crashed) return false;
  own = process_swap_clock(&of->in->process);
  it = user_holds(of, left_us);
  loss = el_lock_loss(of->lock);
  if (!it && !of->is_delayed &&
      (loss == EL_LOSS_EXPIRED ||
       (loss == EL_LOSS_MAX_HOLD && of->in->stopped_us != of->stopped_us))) {
    of->is_delayed = true;
    add_delay(of, loss == EL_LOSS_EXPIRED ? of->proven_until_us : LONG_AGO_US);
  }
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
        it->wish.names[0] != of->wish.names[0] || is_exempt(it) ||
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
  if (is_exempt(of)) return;
  if (of->wish.mode == EL_MODE_PERMIT) {
    check_permits(of);
    return;
  }
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it != of && wishes_conflict(&it->wish, &of->wish) && !is_exempt(it) &&
        holds(it, &left_us)) {
      world_violate("mutual exclusion", "%s is granted, while %s holds",
                    describe(of), describe(it));
    }
  }
}

/* ---- order ---- */

/* Tells whether the writer with |key| has become a reader: a marker key has the lease of |key|. */
static bool is_downgraded(const etcd_key *key, int name) {
  char text[KEY_MAX];
  int len = snprintf(text, sizeof text, "n%d/write/read/%" PRIx64, name,
                     key->create_rev);
  const etcd_key *marker =
      etcd_find(checks.options.cluster, (el_bytes){text, (size_t)len});
  return marker != NULL && marker->lease == key->lease;
}

/* Returns how many keys of |name| are older than |token| and conflict with |mode|. */
static int count_older(int name, int64_t token, el_mode mode) {
  int n = 0;
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    lock_key it = parse(key);
    if (it.name == name && key->create_rev < token &&
        modes_conflict(it.mode, mode) &&
        (mode != EL_MODE_READ || it.mode != EL_MODE_WRITE ||
         !is_downgraded(key, name))) {
      n++;
    }
  }
  return n;
}

static void check_queue(user *of, int name) {
  int n_older = count_older(name, of->token, of->wish.mode);
  if (n_older > 0 &&
      (of->wish.mode != EL_MODE_PERMIT || n_older >= of->wish.permits)) {
    world_violate("order of the queue", "%s is granted before %d older keys",
                  describe(of), n_older);
  }
}

static bool has_own_keys(const user *of) {
  int n = 0;
  for (const el_keys *at = el_lock_keys(of->lock); at != NULL; at = at->next) {
    const etcd_key *key = etcd_find(checks.options.cluster, el_keys_own(at));
    if (key != NULL && key->create_rev == of->token &&
        key->lease == of->lease) {
      n++;
    }
  }
  return n == of->wish.n_names;
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

/* Readers share the key of their program if they come within HANDOFF_US. Later ones have another
 * key, behind the writers that wait. */
static void check_readers(const user *of, name_record *record) {
  int id = of->in->process.id;
  if (record->read_token[id] != of->token || of->is_downgraded) {
    record->read_token[id] = of->token;
    record->read_us[id] = world_now_us();
  }
  if (of->in->lingering == 0 && of->in->stopped_us == of->stopped_us &&
      world_now_us() > record->read_us[id] + HANDOFF_US) {
    world_violate("fairness", "%s shares a key %.1f ms after the first reader",
                  describe(of),
                  (double)(world_now_us() - record->read_us[id]) / WORLD_MS);
  }
}

/* A key has at most |handoff| holds, all of which begin within HANDOFF_US. Not checked if the
 * program lingers (its users then take their key again), or was stopped. */
static void check_fairness(const user *of, int name) {
  name_record *record = &checks.names[name];
  if (of->wish.mode == EL_MODE_PERMIT) return;
  if (of->wish.mode == EL_MODE_READ) {
    check_readers(of, record);
    return;
  }
  if (record->chain_token != of->token) {
    record->chain_token = of->token;
    record->chain_us = world_now_us();
    record->n_holds = 0;
  }
  record->n_holds++;
  if (of->in->lingering > 0 || of->in->stopped_us != of->stopped_us) return;
  if (record->n_holds > of->in->handoff ||
      world_now_us() > record->chain_us + HANDOFF_US) {
    world_violate("fairness",
                  "%s is the hold number %d, %.1f ms after the first",
                  describe(of), record->n_holds,
                  (double)(world_now_us() - record->chain_us) / WORLD_MS);
  }
}

static bool waits_beside(const user *it, const user *of) {
  return it != of && it->state == USER_WAITS && !it->wish.try_once &&
         it->wish.mode == of->wish.mode &&
         it->wish.names[0] == of->wish.names[0];
}

/* |of| is about to release. If another user of its program waits, and the limits of check_fairness
 * leave time for a handoff, records that this user must get the key. */
static void record_handoff(const user *of) {
  name_record *record = &checks.names[of->wish.names[0]];
  if ((of->wish.mode != EL_MODE_LOCK && of->wish.mode != EL_MODE_WRITE) ||
      of->in->lingering > 0 || of->wish.max_hold_ms > 0 || !checks.is_calm ||
      checks.options.has_peaceful_admin || record->chain_token != of->token ||
      record->n_holds >= of->in->handoff ||
      world_now_us() >= record->chain_us + HANDOFF_US / 2) {
    return;
  }
  for (user *it = of->in->users; it < of->in->users + of->in->n_users; it++) {
    if (waits_beside(it, of)) {
      record->passed_token = of->token;
      record->passed_us = world_now_us();
      record->passed_to = it;
      record->passed_joined_us = it->joined_us;
    }
  }
}

static bool waits_still(const user *it, int64_t joined_us) {
  return it->state == USER_WAITS && it->joined_us == joined_us &&
         !el_completion_has(el_lock_completion(it->lock), EL_LOCK_DECIDED);
}

static void check_handoff(const user *of) {
  name_record *record = &checks.names[of->wish.names[0]];
  const user *next = record->passed_to;
  bool is_own = next != NULL && next->in == of->in && !of->wish.try_once &&
                next->wish.mode == of->wish.mode &&
                of->joined_us < record->passed_us;
  if (record->passed_token != 0 && of->token != record->passed_token &&
      (is_own ||
       (next->in != of->in && waits_still(next, record->passed_joined_us)))) {
    world_violate("handoff", "%s is granted, in place of token %" PRId64,
                  describe(of), record->passed_token);
  }
  record->passed_token = 0;
}

/* Users of one program get a lock or a write lock in the order of their calls. Not checked: tries;
 * readers, which share a key; permits and multi-locks, whose order is etcd's, because each has keys
 * of its own. */
static void check_turn(user *of) {
  if ((of->wish.mode != EL_MODE_LOCK && of->wish.mode != EL_MODE_WRITE) ||
      of->wish.try_once) {
    return;
  }
  for (user *it = of->in->users; it < of->in->users + of->in->n_users; it++) {
    if (it->state == USER_WAITS && it->wish.mode == of->wish.mode &&
        it->wish.names[0] == of->wish.names[0] && !it->wish.try_once &&
        it->joined_us < of->joined_us &&
        !el_completion_has(el_lock_completion(it->lock), EL_LOCK_DECIDED) &&
        of->state == USER_HOLDS) {
      world_violate("order in one program", "%s is granted before u%d",
                    describe(of), it->id);
    }
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
  if (!holds(of, &left_us) || of->wish.max_hold_ms != 0) return;
  add_delay(of, world_now_us() + left_us);
}

/* ---- what is in the way ---- */

/* Tells whether the entry |it| of etcd conflicts with the wish of |of|. */
static bool is_rival(const user *of, const lock_key *it) {
  return it->name >= 0 && wants_name(&of->wish, it->name) &&
         modes_conflict(it->mode, of->wish.mode);
}

/* Tells whether the client of |from| has created keys with a later lease: for the client, the lease
 * of |from| has ended then. */
static bool is_old(const lease_record *from) {
  for (const lease_record *it = from + 1; it < checks.leases + checks.n_leases;
       it++) {
    if (it->program == from->program && it->generation == from->generation) {
      return true;
    }
  }
  return false;
}

/* Tells whether |key| is the key or the marker of a hold whose lock delay is recorded. */
static bool is_delayed(const etcd_key *key) {
  for (int i = 0; i < checks.n_delayed; i++) {
    const delayed_hold *it = &checks.delayed[i];
    char marker[KEY_MAX];
    int len = snprintf(marker, sizeof marker, "n%d/write/read/%" PRIx64,
                       it->wish.names[0], it->token);
    if (it->token == key->create_rev ||
        el_bytes_are_equal(key->key, (el_bytes){marker, (size_t)len})) {
      return true;
    }
  }
  return false;
}

/* Tells whether |key|, with the entry |it|, may be the key with which |of| waits, or one that its
 * client deletes or grants again meanwhile. */
static bool is_own(const user *of, const etcd_key *key, const lock_key *it) {
  const lease_record *from = find_lease(key->lease);
  return is_lease_of(from, of->in) && !is_old(from) && !is_delayed(key) &&
         it->mode == of->wish.mode;
}

/* Tells whether |key|, with the entry |it|, may be in the way of |of|. Without faults, a key that
 * no other user wants is not in the way: it lingers, and must be given up, or taken by |of|. With
 * faults, each key that conflicts is in the way, unless is_own. */
static bool is_in_the_way(const user *of, const etcd_key *key,
                          const lock_key *it) {
  if (!is_rival(of, it)) return false;
  if (!checks.is_calm) return !is_own(of, key, it);
  for (user *at = next_user(NULL); at != NULL; at = next_user(at)) {
    if (at != of && at->state != USER_IDLE && wants_name(&at->wish, it->name)) {
      return true;
    }
  }
  return false;
}

/* Returns the create_revision of the youngest key that may belong to |of|, which waits for a
 * permit; 0: there is none. */
static int64_t youngest_rev(const user *of) {
  int64_t rev = 0;
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    const lease_record *from = find_lease(key->lease);
    lock_key it = parse(key);
    if (is_rival(of, &it) && it.permits == of->wish.permits && from != NULL &&
        from->program == of->in->process.id && key->create_rev > rev) {
      rev = key->create_rev;
    }
  }
  return rev;
}

/* Tells whether all permits are taken: by other users that hold one or joined before |of|, or by
 * older keys in etcd. */
static bool are_permits_taken(const user *of) {
  int64_t rev = youngest_rev(of);
  int n = 0;
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it != of && it->state != USER_IDLE &&
        wishes_conflict(&it->wish, &of->wish) &&
        (it->state != USER_WAITS || it->joined_us <= of->joined_us)) {
      n++;
    }
  }
  return n >= of->wish.permits ||
         (rev != 0 && count_older(of->wish.names[0], rev, EL_MODE_PERMIT) >=
                          of->wish.permits);
}

/* Tells whether another user of the program, or a key in etcd, may keep |of| from its lock. */
static bool is_wanted(const user *of) {
  for (const user *it = of->in->users; it < of->in->users + of->in->n_users;
       it++) {
    if (it != of && it->state != USER_IDLE &&
        wishes_conflict(&it->wish, &of->wish)) {
      return true;
    }
  }
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    lock_key it = parse(key);
    bool is_reader_key = it.mode == EL_MODE_WRITE && it.name >= 0 &&
                         of->wish.mode == EL_MODE_READ &&
                         is_downgraded(key, it.name);
    if (!is_reader_key && is_in_the_way(of, key, &it)) return true;
  }
  return false;
}

static bool is_blocked(const user *of) {
  return of->wish.mode == EL_MODE_PERMIT && checks.is_calm
             ? are_permits_taken(of)
             : is_wanted(of);
}

/* Tells whether another client has a key that makes a try of |of| fail, even if it lingers. */
static bool has_rival(const user *of) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    const lease_record *from = find_lease(key->lease);
    lock_key it = parse(key);
    if (is_rival(of, &it) && from != NULL && !is_lease_of(from, of->in)) {
      return true;
    }
  }
  return false;
}

/* Returns how soon |of| gets a free lock. A plain lock takes longer if it reads the keys of permits
 * below its name, part by part; a permit does if a try before it waits for a key's release. */
static int64_t free_us(const user *of) {
  if (programs_behave.kinds != KINDS_PERMIT) return prompt_us();
  return of->wish.mode == EL_MODE_LOCK ? 3 * prompt_us() : 2 * prompt_us();
}

/* Returns for how long |of| may wait although nothing is in its way. */
static int64_t limit_us(const user *of) {
  int64_t ttl_ms = 0;
  for (int i = 0; i < n_programs; i++) {
    if (programs[i].ttl_ms > ttl_ms) ttl_ms = programs[i].ttl_ms;
  }
  switch (checks.options.mood) {
    case MOOD_CALM:
      return free_us(of);
    case MOOD_DEAF:
      return ((ttl_ms > REREAD_MS ? ttl_ms : REREAD_MS) +
              ttl_ms / KEEPALIVE_DIV) *
                 WORLD_MS +
             2 * prompt_us();
    case MOOD_MILD:
      return checks.options.login_us + CHECKS_MILD_LAG_MS * WORLD_MS +
             (of->saw_other
                  ? ttl_ms / KEEPALIVE_DIV * WORLD_MS + HANG_US + prompt_us()
                  : HANG_US);
    default:
      return INT64_MAX;
  }
}

/* Returns the later of |since_us| and the time by which the client of |of| has its lease. */
static int64_t ready_us(const user *of, int64_t since_us) {
  int64_t connected_us =
      of->in->begun_us + CONNECT_ROUNDS * checks.options.round_us;
  return since_us > connected_us ? since_us : connected_us;
}

/* Tells whether |of| has waited too long for a lock that was free. */
static bool is_late(const user *of) {
  return of->freed_us != 0 &&
         world_now_us() - ready_us(of, of->freed_us) > limit_us(of);
}

static void look_at_waiters(void) {
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->state != USER_WAITS) continue;
    it->saw_other = it->saw_other || has_rival(it) || is_wanted(it);
    if (is_blocked(it)) {
      it->freed_us = 0;
    } else if (it->freed_us == 0) {
      it->freed_us = world_now_us();
    } else if (is_late(it)) {
      world_violate("progress", "%s waits for a free lock", describe(it));
    }
  }
}

static bool is_used(const program *in, int name) {
  for (const user *it = in->users; it < in->users + in->n_users; it++) {
    if (it->state != USER_IDLE && wants_name(&it->wish, name)) return true;
  }
  return false;
}

/* After the faults, a client soon deletes what it has left with an old lease, for example by a
 * request that etcd has applied late. With a lock delay the key of a lost hold stays. */
static void look_at_old_keys(void) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    const lease_record *from = find_lease(key->lease);
    int64_t *old_us = &checks.idle_us[key->create_rev];
    const program *in = from != NULL ? &programs[from->program] : NULL;
    if (in == NULL || in->generation != from->generation || in->is_closing ||
        in->has_crashed || in->lock_delay_ms > 0 || !is_old(from) ||
        in->process.stopped_until_us > world_now_us() - OLD_US) {
      *old_us = 0;
    } else if (*old_us == 0) {
      *old_us = world_now_us();
    } else if (world_now_us() > *old_us + OLD_US) {
      world_violate("a key of an old lease is deleted", "%.*s of p%d",
                    (int)key->key.len, key->key.data, from->program);
    }
  }
}

/* Without faults, a key that no user of its client wants stays only as long as it may linger. */
static void look_at_keys(void) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    const lease_record *from = find_lease(key->lease);
    lock_key it = parse(key);
    int64_t *idle_us = &checks.idle_us[key->create_rev];
    const program *in;
    if (it.name < 0 || from == NULL) continue;
    in = &programs[from->program];
    if (in->is_closing || is_used(in, it.name)) {
      *idle_us = 0;
    } else if (*idle_us == 0) {
      *idle_us = world_now_us();
    } else if (world_now_us() >
               *idle_us + in->linger_max_ms * WORLD_MS + prompt_us()) {
      world_violate("a key does not linger for ever", "%.*s of p%d",
                    (int)key->key.len, key->key.data, from->program);
    }
  }
}

/* ---- users' calls ---- */

void checks_on_join(user *of) {
  costs_on_join(of);
  of->saw_other = false;
  of->freed_us = 0;
  look_at_waiters();
}

static void check_time(const user *of, int64_t took_us, int64_t limit_ms) {
  if (took_us > (limit_ms + LATE_MS) * WORLD_MS) {
    world_violate("a call ends in time", "%s took %" PRId64 " ms of %" PRId64,
                  describe(of), took_us / WORLD_MS, limit_ms);
  }
}

/* A wait ends by its timeout. Without faults, a try ends at once; it begins again if an admin
 * revokes the client's lease. */
static void check_wait(const user *of) {
  int64_t sabotage_us = checks.last_sabotage_us[of->in->process.id];
  int64_t begun_us = of->joined_us > sabotage_us ? of->joined_us : sabotage_us;
  int64_t took_us =
      world_now_us() - of->joined_us - (of->in->stopped_us - of->stopped_us);
  if (of->wish.timeout_ms >= 0) check_time(of, took_us, of->wish.timeout_ms);
  if (checks.is_calm && of->wish.try_once) {
    check_time(of, took_us + of->joined_us - ready_us(of, begun_us),
               free_us(of) / WORLD_MS);
  }
}

void checks_on_end_of_call(const user *of, int64_t begun_us,
                           int64_t timeout_ms) {
  if (of->in->is_closing || of->in->process.stopped_until_us > world_now_us()) {
    return;
  }
  check_time(of, world_now_us() - begun_us, timeout_ms);
}

/* If an admin deletes its key, a wait may end as lost. If an admin revokes its lease, it begins
 * again, and fails as unavailable if its timeout ends before etcd has granted a new lease. */
static bool is_failed_by_admin(const user *of, const el_error *err) {
  return checks.options.has_peaceful_admin &&
         (err->code == EL_LOST ||
          (err->code == EL_UNAVAILABLE &&
           of->joined_us <= checks.last_sabotage_us[of->in->process.id]));
}

static void check_failure(user *of, const el_error *err) {
  bool is_locked = err->code == EL_LOCKED;
  world_trace("p%d u%d: %s: %s", of->in->process.id, of->id,
              el_code_str(err->code), err->text);
  if (is_locked &&
      (!of->wish.try_once ||
       (!of->saw_other && world_now_us() >= of->in->delayed_until_us))) {
    world_violate("true failure", "%s: %s", describe(of), err->text);
  }
  if (err->code == EL_TIMEOUT && of->wish.timeout_ms < 0) {
    world_violate("true failure", "%s has no timeout: %s", describe(of),
                  err->text);
  }
  if (err->code == EL_LOST && checks.options.is_true &&
      checks.last_sabotage_us[of->in->process.id] == 0) {
    world_violate("only an admin makes a wait end as lost", "%s: %s",
                  describe(of), err->text);
  }
  if (is_failed_by_admin(of, err)) return;
  if (checks.is_calm && !is_locked && err->code != EL_TIMEOUT &&
      (err->code != EL_UNAVAILABLE || of->wish.timeout_ms < 0 ||
       of->wish.timeout_ms > SHORT_MS + checks.options.login_us / WORLD_MS)) {
    world_violate("no false failure", "%s: %s", describe(of), err->text);
  }
}

static bool is_key_of(const user *of, el_bytes key);

/* A key that an admin has deleted must not lead to a grant. Not checked after a handoff
 * (was_granted): the client then learns of the deletion only from its watch, or from its next read
 * of the key. */
static void check_deleted(const user *of) {
  if (of->wish.mode == EL_MODE_READ || of->wish.mode == EL_MODE_PERMIT ||
      checks.was_granted[of->token] || of->in->stopped_us != of->stopped_us) {
    return;
  }
  for (int i = 0; i < DELETED_MAX; i++) {
    const gone_key *it = &checks.deleted[i];
    if (it->create_rev == of->token && it->at_us + FRESH_US < world_now_us() &&
        is_key_of(of, (el_bytes){it->text, it->len})) {
      world_violate("a grant has its keys", "%s, deleted %.0f ms before",
                    describe(of),
                    (double)(world_now_us() - it->at_us) / WORLD_MS);
    }
  }
}

static void check_grant(user *of) {
  int64_t left_us, now_us = world_now_us();
  check_deleted(of);
  checks.was_granted[of->token] = true;
  if (is_exempt(of) || !holds(of, &left_us)) return;
  check_exclusion(of);
  /* check_exclusion has waited for a mutex of a stopped process: the hold may have ended since */
  if (world_now_us() != now_us) return;
  if (!has_own_keys(of)) {
    world_violate("a grant has its keys", "%s", describe(of));
  }
  check_turn(of);
  check_handoff(of);
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
  costs_on_decided(of);
  check_wait(of);
  if (err->code != EL_OK) {
    check_failure(of, err);
    return;
  }
  if (is_late(of)) {
    world_violate("progress", "%s has waited for a free lock", describe(of));
  }
  checks.n_grants++;
  checks.idle_us[of->token] = 0;
  world_trace("%s is granted", describe(of));
  check_grant(of);
}

/* The loss "deleted" means that the key is gone, "replaced" that it has another lease, or that an
 * answer lacked its lease. */
static void check_cause(const user *of, el_loss loss) {
  const etcd_key *key =
      etcd_find(checks.options.cluster, el_keys_own(el_lock_keys(of->lock)));
  if (key != NULL && key->create_rev == of->token &&
      (loss == EL_LOSS_DELETED ||
       (key->lease == of->lease && !checks.options.omits_leases))) {
    world_violate("true loss", "%s: %s", describe(of), el_losses[loss].text);
  }
}

/* The holds of one lease end in one instant. A hold that began after that of |of| had ended is not
 * checked. */
static void check_end(const user *of) {
  int64_t left_us;
  for (user *it = of->in->users; it < of->in->users + of->in->n_users; it++) {
    if (it != of && it->lease == of->lease &&
        it->granted_us < of->proven_until_us && holds(it, &left_us)) {
      world_violate("the holds of a lease end at once", "%s ends before %s",
                    describe(of), describe(it));
    }
  }
}

static void check_loss(user *of) {
  el_loss loss = el_lock_loss(of->lock);
  if (loss == EL_LOSS_NONE) return;
  if (loss == EL_LOSS_EXPIRED || loss == EL_LOSS_REVOKED) check_end(of);
  world_trace("%s is lost: %d", describe(of), (int)loss);
  if (loss == EL_LOSS_MAX_HOLD && of->wish.max_hold_ms == 0) {
    world_violate("true loss", "%s has no max_hold", describe(of));
  }
  if ((loss == EL_LOSS_DELETED || loss == EL_LOSS_REPLACED) &&
      of->wish.n_names == 1) {
    check_cause(of, loss);
  }
  if (loss != EL_LOSS_MAX_HOLD && !is_sabotaged(of->token) &&
      (checks.is_calm ||
       (checks.options.mood == MOOD_MILD && of->in->ttl_ms >= STEADY_TTL_MS))) {
    world_violate("no false loss", "%s: %d", describe(of), (int)loss);
  }
}

void checks_on_release(user *of) {
  int64_t left_us;
  holds(of, &left_us); /* records the lock delay */
  if (of->in->is_closing) return;
  check_loss(of);
  record_handoff(of);
  world_trace("%s releases", describe(of));
}

/* Tells whether the key of |of| may stay for another user of its program, or linger. */
static bool may_pass_on(const user *of) {
  for (user *it = of->in->users; it < of->in->users + of->in->n_users; it++) {
    if (it != of && it->state != USER_IDLE &&
        wants_name(&it->wish, of->wish.names[0])) {
      return true;
    }
  }
  return of->wish.linger_ms > 0;
}

void checks_on_released(user *of, const el_error *err) {
  if (of->in->is_closing) return;
  if (err->code == EL_OK) {
    /* Not checked with faults: if a delete is repeated, the first may have deleted the key. Not
     * checked either if the key was gone before the hold deadline, and the deadline has passed:
     * without an answer to its delete, the client cannot tell a revoked lease from an expired
     * one. */
    if (of->gone_us != 0 && checks.is_calm && !may_pass_on(of) &&
        (of->gone_us >= of->proven_until_us ||
         world_now_us() < of->proven_until_us)) {
      world_violate("true release", "%s, whose key was gone before",
                    describe(of));
    }
    return;
  }
  world_trace("%s: the release: %s", describe(of), err->text);
  if (checks.is_calm && el_lock_loss(of->lock) == EL_LOSS_NONE &&
      !is_sabotaged(of->token)) {
    world_violate("no false failure", "%s: the release: %s", describe(of),
                  err->text);
  }
}

void checks_on_end(program *of) {
  int64_t left_us;
  for (int i = 0; i < of->n_users; i++)
    holds(&of->users[i], &left_us); /* records the lock delay */
  for (int i = 0; of->has_crashed && i < of->n_users; i++) {
    of->has_crashed = false; /* for |holds| */
    record_delay(&of->users[i]);
    of->has_crashed = true;
  }
}

/* Tells whether the hold of |of| was over LATE_MS ago. Sets the clock back for that, because a look
 * at the present would end the hold. */
static bool was_over(user *of) {
  process past = of->in->process;
  int64_t left_us, proven_until_us = of->proven_until_us;
  const process *own;
  bool it;
  past.clock_ahead_us -= LATE_MS * WORLD_MS;
  own = process_swap_clock(&past);
  it = !user_holds(of, &left_us);
  process_swap_clock(own);
  of->proven_until_us = proven_until_us;
  return it;
}

/* A loss is told within LATE_MS, also to a user that only waits for it. */
void checks_on_waited(user *of, bool is_told) {
  int64_t left_us;
  if (of->in->is_closing) return;
  if (is_told && el_lock_loss(of->lock) == EL_LOSS_NONE) {
    world_violate("true loss", "%s is told of an end that is none",
                  describe(of));
  }
  if (is_told) {
    holds(of, &left_us); /* records the lock delay */
  } else if (el_lock_loss(of->lock) == EL_LOSS_NONE && was_over(of)) {
    world_violate("a loss is told in time", "%s", describe(of));
  }
}

/* Tells whether |key| is the key or the marker of a hold whose key an admin has changed. */
static bool is_of_sabotaged(const etcd_key *key) {
  static const char marker[] = "/write/read/";
  char text[KEY_MAX], *at;
  snprintf(text, sizeof text, "%.*s", (int)key->key.len, key->key.data);
  at = strstr(text, marker);
  return is_sabotaged(key->create_rev) ||
         (at != NULL &&
          is_sabotaged(strtoll(at + sizeof marker - 1, NULL, 16)));
}

static void check_keys_left(const program *of) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    const lease_record *from = find_lease(key->lease);
    if (is_lease_of(from, of) && !is_delayed(key) && !is_of_sabotaged(key)) {
      world_violate("nothing left", "the key %.*s of p%d, after its close",
                    (int)key->key.len, key->key.data, of->process.id);
    }
  }
}

/* Returns how often the client of |of| may have logged in at most. */
static int count_logins(const program *of) {
  int64_t token_us = checks.options.token_us;
  return token_us == 0 ? 0
                       : 1 + (int)((world_now_us() - of->begun_us) / token_us);
}

/* Nothing is left of a client that was closed. */
void checks_on_closed(program *of) {
  el_stats stats;
  el_counters_read(&el_client_shared(of->client)->counters, &stats);
  if (stats.held != 0 || stats.waiting != 0) {
    world_violate("true counters", "p%d: %d held, %d waiting after the close",
                  of->process.id, (int)stats.held, (int)stats.waiting);
  }
  if ((checks.options.mood == MOOD_STOPS || checks.is_calm) &&
      of->stopped_us == of->closing_stopped_us) {
    check_keys_left(of);
  }
  costs_on_closed(of, count_logins(of));
  if (!checks.is_calm) return;
  if (stats.failed_attempts > FAILED_MAX && checks.options.login_us == 0 &&
      !checks.options.has_peaceful_admin) {
    world_violate("no false failure", "p%d: %d failed attempts", of->process.id,
                  (int)stats.failed_attempts);
  }
  for (int i = 0; i < checks.n_leases; i++) {
    const lease_record *it = &checks.leases[i];
    if (is_lease_of(it, of) &&
        etcd_has_lease(checks.options.cluster, it->lease)) {
      world_violate("nothing left", "a lease of p%d, after its close",
                    of->process.id);
    }
  }
}

/* ---- writes by a hold ---- */

int checks_on_write(const user *of, char *key, char *value) {
  int number = checks.n_writes + 1;
  if (number == WRITES_MAX) return 0;
  checks.n_writes = number;
  sprintf(key, "data/n%d", of->wish.names[0]);
  snprintf(value, DATUM_MAX, "%d %d %" PRId64 " %d %d", number,
           of->wish.names[0], of->token, of->in->process.id, of->id);
  return number;
}

/* Returns the key of |name| that was created as |token|, if it belongs to the queue. */
static const etcd_key *find_holder(int name, int64_t token) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    if (key->create_rev == token && parse(key).name == name) return key;
  }
  return NULL;
}

/* Tells whether another user than |writer| now holds |name| by the same key. */
static bool is_passed_on(const user *writer, int name, int64_t token) {
  for (const user *it = writer->in->users;
       it < writer->in->users + writer->in->n_users; it++) {
    if (it != writer && it->state == USER_HOLDS && it->token == token &&
        wants_name(&it->wish, name) && it->wish.mode != EL_MODE_READ &&
        it->wish.mode != EL_MODE_PERMIT) {
      return true;
    }
  }
  return false;
}

/* A write is applied only during its hold, once, and in the order of the calls. (Permits are held
 * by several users at once, so their writes have no order.) */
static void check_written(const etcd_key *datum) {
  char text[DATUM_MAX];
  int number, name, program_id, user_id, *last;
  int64_t token;
  const etcd_key *key;
  lock_key it;
  snprintf(text, sizeof text, "%.*s", (int)datum->value.len, datum->value.data);
  if (sscanf(text, "%d %d %" SCNd64 " %d %d", &number, &name, &token,
             &program_id, &user_id) != 5) {
    return;
  }
  last = &checks.last_written[name];
  key = find_holder(name, token);
  if (key == NULL) {
    world_violate("guarded writes", "%s, whose key is gone", text);
    return;
  }
  it = parse(key);
  if (checks.is_applied[number] || checks.is_refused[number] ||
      (it.mode != EL_MODE_PERMIT && number < *last)) {
    world_violate("guarded writes", "%s after %d, applied: %d, refused: %d",
                  text, *last, checks.is_applied[number],
                  checks.is_refused[number]);
  }
  *last = number;
  checks.is_applied[number] = true;
  if (count_older(name, token, it.mode) >=
          (it.mode == EL_MODE_PERMIT ? it.permits : 1) ||
      is_passed_on(&programs[program_id].users[user_id], name, token)) {
    world_violate("guarded writes", "%s, while another holds", text);
  }
}

void checks_on_written(user *of, int number, const el_txn_answer *answer) {
  bool is_done = answer->err.code == EL_OK && answer->succeeded;
  int64_t left_us;
  if (is_done && !checks.is_applied[number]) {
    world_violate("true write", "%d of %s is not applied", number,
                  describe(of));
  }
  if (is_done) return;
  world_trace("%s: write %d: %s", describe(of), number, answer->err.text);
  if (answer->err.code == EL_OK || answer->err.is_definite) {
    checks.is_refused[number] = true;
    if (checks.is_applied[number]) {
      world_violate("true write", "%d of %s is applied, but told as not",
                    number, describe(of));
    }
  }
  if (answer->err.code != EL_OK && !answer->err.is_definite &&
      answer->err.code != EL_UNAVAILABLE) {
    world_violate("an unknown outcome is told as such", "%s: write %d: %s",
                  describe(of), number, answer->err.text);
  }
  if (!user_holds(of, &left_us)) return;
  if (checks.is_calm && !of->in->is_closing) {
    world_violate("no false failure", "%s: write %d: %s", describe(of), number,
                  answer->err.text);
  }
  if (answer->err.code == EL_OK && !has_own_keys(of)) {
    world_violate("a refused write ends a hold without its key", "%s: write %d",
                  describe(of), number);
  }
}

/* ---- changes ---- */

static bool is_key_of(const user *of, el_bytes key) {
  const el_keys *at = of->state == USER_HOLDS ? el_lock_keys(of->lock) : NULL;
  while (at != NULL && !el_bytes_are_equal(el_keys_own(at), key))
    at = at->next;
  return at != NULL;
}

/* |key| of a hold is gone: if its lease has expired, its holders must have known before. |gone_us|
 * is not set if the client need not notice: with faults, it takes a key that it has tried to
 * delete, and then does not find, for deleted by itself if its lease is alive. */
static void check_ended(const etcd_key *key, etcd_cause cause) {
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->token != key->create_rev || !is_key_of(it, key->key)) continue;
    if (cause == ETCD_BY_EXPIRY || checks.is_calm ||
        (cause == ETCD_BY_REVOKE && checks.options.is_true)) {
      it->gone_us = world_now_us();
    }
    if (cause == ETCD_BY_EXPIRY && !is_sabotaged(key->create_rev) &&
        world_now_us() < it->proven_until_us + MARGIN_US) {
      world_violate("margin", "%s is held until %.1f ms before its key ends",
                    describe(it),
                    (double)(world_now_us() - it->proven_until_us) / WORLD_MS);
    }
  }
}

static void record_lease(const etcd_change *change) {
  if (find_lease(change->after->lease) != NULL ||
      checks.n_leases == LEASES_MAX) {
    return;
  }
  checks.leases[checks.n_leases++] =
      (lease_record){change->after->lease, change->client % PROGRAMS_MAX,
                     change->client / PROGRAMS_MAX};
}

/* A key that a client deletes, or that ends with its lease, must not look held. The change may
 * come outside of all fibers, so the fiber below looks, at the same time. */
void checks_on_change(const etcd_change *change) {
  const etcd_key *key = change->after != NULL ? change->after : change->before;
  world_trace("etcd: rev %" PRId64 " %.*s %s", change->rev, (int)key->key.len,
              key->key.data, change->after != NULL ? "put" : "deleted");
  if (change->rev >= REVS_MAX) abort();
  if (change->after == NULL) {
    bool is_deleted = change->cause == ETCD_BY_ADMIN;
    gone_key *gone = is_deleted
                         ? &checks.deleted[checks.n_deleted++ % DELETED_MAX]
                         : &checks.gone[checks.n_gone++];
    *gone = (gone_key){.create_rev = key->create_rev,
                       .at_us = world_now_us(),
                       .len = key->key.len};
    if (checks.n_gone == GONE_MAX || key->key.len > KEY_MAX) abort();
    memcpy(gone->text, key->key.data, key->key.len);
  }
  if (change->after == NULL && change->cause != ETCD_BY_TXN) {
    check_ended(key, change->cause);
  }
  if (change->after != NULL && change->client >= 0) {
    if (key->lease != 0) record_lease(change);
    if (has_prefix(key->key.data, "data/")) check_written(key);
  }
  costs_on_change(change);
  fiber_wake(&checks, 1);
}

static void check_gone(const gone_key *gone) {
  int64_t left_us;
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    if (it->token == gone->create_rev &&
        is_key_of(it, (el_bytes){gone->text, gone->len}) && !is_exempt(it) &&
        holds(it, &left_us)) {
      world_violate("no hold without its key", "%s, for %.1f ms more",
                    describe(it), (double)left_us / WORLD_MS);
    }
  }
}

/* Notes until when the holds are proven. The look itself ends a hold whose time is over, so it
 * skips a user that waits for the end of its hold. A hold whose key an admin has deleted is lost
 * when its key is read, every TTL/3, even if watches are silent. */
static void look_at_holds(void) {
  int64_t left_us;
  for (user *it = next_user(NULL); it != NULL; it = next_user(it)) {
    int64_t limit_us = it->in->ttl_ms / KEEPALIVE_DIV * WORLD_MS + prompt_us();
    if (it->waits_lost || it->in->process.stopped_until_us > world_now_us() ||
        !holds(it, &left_us)) {
      continue;
    }
    if (checks.is_calm && it->gone_us != 0 && it->in->n_users == 1 &&
        it->in->lingering == 0 && world_now_us() > it->gone_us + limit_us) {
      world_violate("a loss is told in time", "%s, whose key is gone",
                    describe(it));
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
    look_at_holds();
    look_at_waiters();
    costs_look();
    if (checks.is_calm) look_at_keys();
    if (checks.peace_us > 0 && world_now_us() > checks.peace_us) {
      look_at_old_keys();
    }
  }
  checks.has_fiber = false;
}

/* ---- the history ---- */

void checks_begin(const checks_options *options) {
  memset(&checks, 0, sizeof checks);
  checks.options = *options;
  checks.is_calm =
      checks.options.mood == MOOD_CALM || checks.options.mood == MOOD_DEAF;
  costs_begin(checks.options.mood == MOOD_CALM && !options->has_peaceful_admin
                  ? checks.options.cluster
                  : NULL,
              options->round_us);
  checks.has_fiber = true;
  for (int i = 0; i < NAMES_MAX; i++)
    checks.names[i].last_program = -1;
  fiber_detach(fiber_start(&checks.process, look, NULL));
}

void checks_on_peace(void) {
  if (!checks.is_calm) checks.peace_us = world_now_us() + EFFECT_US;
}

void checks_end(void) {
  checks.is_ended = true;
  fiber_wake(&checks, 1);
}

void checks_nothing_left(void) {
  for (size_t i = 0; i < etcd_n_keys(checks.options.cluster); i++) {
    const etcd_key *key = etcd_key_at(checks.options.cluster, i);
    world_violate("nothing left", "the key %.*s", (int)key->key.len,
                  key->key.data);
  }
  if (etcd_n_leases(checks.options.cluster) > 0) {
    world_violate("nothing left", "%zu leases",
                  etcd_n_leases(checks.options.cluster));
  }
}
