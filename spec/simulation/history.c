/* simulation history: draws the programs, the network and the faults of one history, and runs it.
 *
 * In 3 of 10 histories there are no faults, except that serializable reads may be stale, or watches
 * silent. In some there are only faults under which a client must still serve its users in time. In
 * some, programs are only stopped, and may then close their clients. In all these an admin may
 * change keys. In the others the kinds of faults and their number differ widely, and the programs
 * may go on for some time after the faults. In the end the users finish, and nothing may be
 * left. */
#include "history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "etcd.h"
#include "fiber.h"
#include "network.h"
#include "program.h"
#include "world.h"

enum {
  PEACE_US = 40 * WORLD_S,
  MILD_KINDS = 4, /* see make_mild */
  /* After a false renewal, the client that may count it may be cut off for FALSE_HOLD_US, beginning
   * within FALSE_PROOF_US, or within BACK_US after the return of the deposed leader. */
  FALSE_PROOF_US = 2 * WORLD_S,
  BACK_US = 500 * WORLD_MS,
  FALSE_HOLD_US = 12 * WORLD_S,
  REPLACEMENT_US = 15 * WORLD_S, /* in which one valid token may be replaced */
  REST_US = 3 * WORLD_S, /* in which clients leave a member that hangs */
  /* how long users and clients may take in the end, and leases after that */
  FINISH_US = 90 * WORLD_S,
  EXPIRY_US = 90 * WORLD_S
};

typedef enum trouble {
  TROUBLE_ELECTION,
  TROUBLE_CUT_OFF,
  TROUBLE_LAG,
  TROUBLE_RESTART,
  TROUBLE_PAUSE,
  TROUBLE_COMPACTION,
  TROUBLE_NO_SPACE,
  TROUBLE_PARTITION,
  TROUBLE_MUTE,
  TROUBLE_STOP,
  TROUBLE_CRASH,
  TROUBLE_CLOSE,
  TROUBLE_DELETE,
  TROUBLE_DETACH,
  TROUBLE_OVERWRITE,
  TROUBLE_REVOKE,
  TROUBLE_USER_DATA,
  TROUBLE_USER_ADDED,
  TROUBLES
} trouble;

/* The last address leads to a load balancer before all members. */
static const char *const names[ENDPOINTS_MAX + 1] = {
    "10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379", "10.0.0.9:2379"};

/* A process for which a deposed leader has renewed a lease. */
typedef struct falsely {
  int64_t renewed_us; /* when it did so last */
  int64_t wait_us;    /* until it is cut off */
  bool is_cutting;    /* it is about to be cut off */
} falsely;

static struct {
  etcd *cluster;
  etcd_options options;
  falsely falsely[PROGRAMS_MAX];
  address *addresses[ENDPOINTS_MAX + 1]; /* the members', the balancer's */
  mood mood;
  int n_members;
  bool has_admin;  /* an admin changes keys of locks */
  bool deposes;    /* the only troubles are leaders that are deposed */
  int mild_kind;   /* what happens in a mild history; MILD_KINDS: anything */
  int next_member; /* the next to fail in a mild history */
  int weights[TROUBLES]; /* how often each happens, relative to the others */
  int64_t pause_us;      /* the mean time between two */
  int64_t until_us;      /* when the faults end */
  process process;       /* of the fiber that makes them */
  bool is_over;          /* the faults have ended */
} history;

/* ---- troubles ---- */

static program *any_program(void) {
  return &programs[world_random(0, n_programs - 1)];
}

static int any_member(void) {
  return (int)world_random(0, history.n_members - 1);
}

static int64_t soon(int64_t max_ms) {
  return world_now_us() + world_random(1, max_ms) * WORLD_MS;
}

/* An admin deletes or detaches a key, attaches it to another lease, or revokes its lease. */
static void sabotage(trouble what) {
  size_t n = etcd_n_keys(history.cluster);
  etcd_key key;
  int64_t other;
  char text[80];
  if (n == 0) return;
  key = *etcd_key_at(history.cluster, (size_t)world_random(0, (int64_t)n - 1));
  if (key.lease == 0 || key.key.len >= sizeof text) return;
  snprintf(text, sizeof text, "%.*s", (int)key.key.len, key.key.data);
  if (strstr(text, "/write/read/") != NULL ||
      strstr(text, "/write/order/") != NULL) {
    return; /* not the hold's key */
  }
  if (key.value.len == 5 && memcmp(key.value.data, "admin", 5) == 0) return;
  key.key.data = text;
  other = etcd_key_at(history.cluster, (size_t)world_random(0, (int64_t)n - 1))
              ->lease;
  for (size_t i = 0; i < n; i++) {
    const etcd_key *at = etcd_key_at(history.cluster, i);
    if (at->create_rev == key.create_rev ||
        (what == TROUBLE_REVOKE && at->lease == key.lease)) {
      checks_on_sabotage(at);
    }
  }
  world_trace("an admin %s %.*s",
              what == TROUBLE_DELETE   ? "deletes"
              : what == TROUBLE_REVOKE ? "revokes the lease of"
                                       : "overwrites",
              (int)key.key.len, key.key.data);
  if (what == TROUBLE_DELETE) {
    etcd_admin_delete(history.cluster, key.key);
  } else if (what == TROUBLE_REVOKE) {
    etcd_admin_revoke(history.cluster, key.lease);
  } else {
    etcd_admin_put(history.cluster, key.key, (el_bytes){"admin", 5},
                   what == TROUBLE_OVERWRITE ? other : 0);
  }
}

/* An admin puts a key below the name of a lock. The key is in no queue, but looks like a key
 * without its lease, like the next key of a client, or like the marker of a writer that has become
 * a reader. */
static void put_user_data(void) {
  size_t n = etcd_n_keys(history.cluster);
  int64_t id = world_random(1, INT32_MAX);
  int name = (int)world_random(0, programs_behave.n_names - 1);
  char text[80], *at;
  snprintf(text, sizeof text, "n%d/%" PRIx64, name, id);
  if (n > 0 && world_chance(700)) {
    const etcd_key *key =
        etcd_key_at(history.cluster, (size_t)world_random(0, (int64_t)n - 1));
    snprintf(text, sizeof text, "%.*s", (int)key->key.len, key->key.data);
    at = strstr(text, "/write/");
    if (key->lease == 0) return;
    if (text[0] != 'n' || world_chance(500)) {
      snprintf(text, sizeof text, "n%d/%" PRIx64, name, key->lease);
    } else if (at == NULL || strchr(at + 7, '/') != NULL) {
      return;
    } else {
      sprintf(at + 7, "read/%" PRIx64, key->create_rev);
    }
  }
  if (etcd_find(history.cluster, (el_bytes){text, strlen(text)}) != NULL)
    return;
  world_trace("an admin puts %s", text);
  etcd_admin_put(history.cluster, (el_bytes){text, strlen(text)},
                 (el_bytes){"data", 4}, 0);
}

static void restart(int member) {
  network_break(history.cluster, member);
  etcd_restart(history.cluster, member, soon(3000));
}

/* One member closes its connections. If there are three members, it may hang or lag instead, or be
 * restarted if it does not lead. The members take turns, because a client that has lost one uses
 * the next. */
static void make_mild(void) {
  int member = history.next_member++ % history.n_members;
  int64_t until_us = soon(6000);
  int kind = history.mild_kind == MILD_KINDS
                 ? (int)world_random(0, MILD_KINDS - 1)
                 : history.mild_kind;
  switch (history.n_members == 1 ? 0 : kind) {
    case 0:
      network_break(history.cluster, member);
      break;
    case 1:
      network_pause(history.cluster, member, until_us);
      break;
    case 2:
      etcd_lag(history.cluster, member, until_us,
               world_random(1, CHECKS_MILD_LAG_MS) * WORLD_MS);
      break;
    default:
      if (member == etcd_leader(history.cluster)) return;
      network_break(history.cluster, member);
      etcd_restart(history.cluster, member, until_us);
      break;
  }
  world_trace("mild trouble with member %d", member);
  fiber_sleep(until_us + REST_US - world_now_us());
}

/* A program that goes on after a stop may close its client at once. */
static void stop(program *of) {
  program_stop(of, soon(6000));
  if (world_chance(history.mood == MOOD_STOPS ? 500 : 200)) program_close(of);
}

static void cut_path(int at, int id, int64_t until_us) {
  path *way = &history.addresses[at]->paths[id];
  if (way->partitioned_until_us < until_us) {
    way->partitioned_until_us = until_us;
  }
}

static void partition(void) {
  int id = any_program()->process.id;
  int64_t until_us = soon(8000);
  for (int i = 0; i <= history.n_members; i++) {
    if (history.n_members == 1 || world_chance(600)) cut_path(i, id, until_us);
  }
  world_trace("p%d is partitioned", id);
}

/* Cuts off the process of |arg| from all members for FALSE_HOLD_US. */
static void cut_process(void *arg) {
  falsely *of = arg;
  fiber_sleep(of->wait_us);
  for (int i = 0; i <= history.n_members && !history.is_over; i++)
    cut_path(i, (int)(of - history.falsely), world_now_us() + FALSE_HOLD_US);
  of->is_cutting = false;
  world_trace("p%d is cut off after a false renewal",
              (int)(of - history.falsely));
}

static void cut_soon(falsely *of, int64_t max_us) {
  if (of->is_cutting || history.is_over) return;
  of->is_cutting = true;
  of->wait_us = world_random(0, max_us);
  fiber_detach(fiber_start(&history.process, cut_process, of));
}

/* May cut clients off after a false renewal: a true renewal soon afterwards would hide that a
 * client has counted the false one. |client| might count it when another member answers its read.
 * If |client| < 0, the deposed leader is back: then each client whose lease it has falsely renewed
 * might count that when the leader answers a read. */
static void on_false_renewal(int client) {
  if (client >= 0) {
    falsely *of = &history.falsely[client % PROGRAMS_MAX];
    of->renewed_us = world_now_us();
    if (world_chance(100)) cut_soon(of, FALSE_PROOF_US);
    return;
  }
  for (int i = 0; i < n_programs; i++) {
    falsely *of = &history.falsely[i];
    if (of->renewed_us > world_now_us() - FALSE_PROOF_US && world_chance(700)) {
      cut_soon(of, BACK_US);
    }
  }
}

static void make(trouble what) {
  world_trace("trouble %d", (int)what);
  switch (what) {
    case TROUBLE_ELECTION:
      etcd_elect(history.cluster, world_random(500, 3000) * WORLD_MS);
      return;
    case TROUBLE_CUT_OFF:
      etcd_cut_off(history.cluster, any_member(), soon(8000));
      return;
    case TROUBLE_LAG:
      etcd_lag(history.cluster, any_member(), soon(8000),
               world_random(1, 2000) * WORLD_MS);
      return;
    case TROUBLE_RESTART:
      restart(any_member());
      return;
    case TROUBLE_PAUSE:
      network_pause(history.cluster, any_member(), soon(6000));
      return;
    case TROUBLE_USER_ADDED:
      etcd_add_user(history.cluster);
      return;
    case TROUBLE_COMPACTION:
      etcd_compact(history.cluster);
      return;
    case TROUBLE_NO_SPACE:
      etcd_set_no_space(history.cluster, true);
      fiber_sleep(world_random(1, 1000) * WORLD_MS);
      etcd_set_no_space(history.cluster, false);
      return;
    case TROUBLE_PARTITION:
      partition();
      return;
    case TROUBLE_MUTE:
      network_mute(&any_program()->process);
      return;
    case TROUBLE_STOP:
      stop(any_program());
      return;
    case TROUBLE_CRASH:
      program_crash(any_program());
      return;
    case TROUBLE_CLOSE:
      program_close(any_program());
      return;
    case TROUBLE_DELETE:
    case TROUBLE_DETACH:
    case TROUBLE_OVERWRITE:
    case TROUBLE_REVOKE:
      sabotage(what);
      return;
    case TROUBLE_USER_DATA:
      put_user_data();
      return;
    case TROUBLES:
      return;
  }
}

static trouble draw_trouble(void) {
  int64_t sum = 0, at;
  int i = 0;
  for (int k = 0; k < TROUBLES; k++)
    sum += history.weights[k];
  at = world_random(0, sum - 1);
  while (at >= history.weights[i])
    at -= history.weights[i++];
  return (trouble)i;
}

/* Ends the faults. */
static void end_faults(void) {
  etcd_options calm = {.n_members = history.options.n_members,
                       .cluster_id = history.options.cluster_id,
                       .write_min_us = history.options.write_min_us,
                       .write_max_us = history.options.write_max_us,
                       .read_min_us = history.options.read_min_us,
                       .read_max_us = history.options.read_max_us,
                       .hash_us = history.options.hash_us,
                       .token_us = history.options.token_us,
                       .is_jwt = history.options.is_jwt,
                       .replaced_max = history.options.replaced_max,
                       .checks_lease_calls =
                           history.options.checks_lease_calls};
  history.is_over = true;
  etcd_set_options(history.cluster, &calm);
  for (int i = 0; i <= history.n_members; i++) {
    for (int k = 0; k < n_programs; k++) {
      path *way = &history.addresses[i]->paths[k];
      way->lost = way->slow = 0;
    }
  }
  world_trace("the faults end");
  /* If etcd refuses revokes, the client leaves old leases to expire, so their keys stay. */
  if (history.options.denied == 0) checks_on_peace();
}

/* Removes the keys without a lease, which admins and users have put, and nothing else removes. */
static void remove_detached(void) {
  for (size_t i = 0; i < etcd_n_keys(history.cluster);) {
    etcd_key key = *etcd_key_at(history.cluster, i);
    char text[80];
    if (key.lease != 0 || key.key.len > sizeof text) {
      i++;
      continue;
    }
    memcpy(text, key.key.data, key.key.len);
    etcd_admin_delete(history.cluster, (el_bytes){text, key.key.len});
  }
}

/* The deposed leader may confirm the renewal of leases that have ended. */
static void depose_leader(void) {
  int leader = etcd_leader(history.cluster);
  if (leader < 0) return;
  if (world_chance(300)) {
    make(TROUBLE_ELECTION);
  } else {
    etcd_cut_off(history.cluster, leader,
                 soon(world_chance(500) ? 6000 : 20000));
  }
}

/* What an admin does in a history in which the promises are checked all the same. */
static void make_admin(void) {
  static const trouble faults[] = {TROUBLE_DELETE, TROUBLE_DETACH,
                                   TROUBLE_OVERWRITE, TROUBLE_REVOKE,
                                   TROUBLE_USER_DATA};
  make(faults[world_random(0, 4)]);
}

static void make_next(void) {
  if (history.has_admin && world_chance(500)) {
    make_admin();
    return;
  }
  switch (history.mood) {
    case MOOD_CALM:
      return;
    case MOOD_DEAF:
      make_admin();
      return;
    case MOOD_MILD:
      make_mild();
      return;
    case MOOD_STOPS:
      make(TROUBLE_STOP);
      return;
    default:
      if (history.deposes) {
        depose_leader();
      } else {
        make(draw_trouble());
      }
  }
}

static void run_troubles(void *arg) {
  (void)arg;
  while (world_now_us() < history.until_us) {
    fiber_sleep(world_random(0, 2 * history.pause_us));
    make_next();
  }
  end_faults();
}

/* ---- the draw ---- */

static int some(int most) {
  return world_chance(500) ? 0 : (int)world_random(1, most);
}

/* In a part of the histories etcd has users, and each client a password. */
static void draw_users(etcd_options *to) {
  bool has_users = world_chance(250);
  if (!has_users || history.mood == MOOD_DEAF || history.mood == MOOD_STOPS) {
    return;
  }
  to->hash_us = world_random(50, 1000) * WORLD_MS;
  to->is_jwt = world_chance(300);
  to->checks_lease_calls = world_chance(500);
  to->token_us =
      world_random(2, history.mood == MOOD_WILD ? 30 : 300) * WORLD_S;
  if (history.mood == MOOD_MILD) to->token_us = 300 * WORLD_S;
  to->is_one_hash = history.mood == MOOD_CALM;
}

static void draw_options(etcd_options *to) {
  to->n_members = history.n_members;
  to->cluster_id = 77;
  to->write_min_us = world_random(100, 3000);
  to->write_max_us = to->write_min_us + world_random(0, 20 * WORLD_MS);
  to->read_min_us = world_random(50, 1000);
  to->read_max_us = to->read_min_us + world_random(0, 5 * WORLD_MS);
  draw_users(to);
  if (history.mood == MOOD_DEAF) to->watch_lost = 1000;
  if (history.mood == MOOD_MILD || history.mood == MOOD_CALM) {
    to->stale_read = some(300);
  }
  if (history.mood != MOOD_WILD) return;
  to->slow = some(50);
  to->slow_max_us = world_random(1, 3000) * WORLD_MS;
  to->late_expiry_ms = some(2000); /* 0: as early as etcd may end it */
  to->refused = some(30);
  to->unavailable = some(30);
  to->denied = world_chance(100) ? some(5) : 0;
  to->no_space = world_chance(200) ? some(10) : 0;
  to->omits_leases = world_chance(200) ? some(50) : 0;
  to->omits_more = some(50);
  to->keep_break = some(30);
  to->fast_keep = some(500);
  to->stale_read = some(300);
  to->watch_late = some(100);
  to->watch_lost = world_chance(300) ? some(100) : 0;
  to->watch_replayed = some(200);
  to->watch_break = some(20);
  to->snapshots = some(1000);
}

static void draw_troubles(void) {
  for (int i = 0; i < TROUBLES; i++) {
    history.weights[i] = world_chance(400) ? (int)world_random(1, 100) : 0;
  }
  history.weights[TROUBLE_PARTITION]++;
  history.mild_kind = (int)world_random(0, MILD_KINDS);
  history.pause_us = world_random(200, 8000) * WORLD_MS;
  history.has_admin = history.mood == MOOD_DEAF ||
                      (history.mood != MOOD_WILD && world_chance(300));
}

static void draw_paths(void) {
  int64_t far_us = world_chance(700) ? 2 * WORLD_MS : 60 * WORLD_MS;
  for (int i = 0; i <= history.n_members; i++) {
    for (int k = 0; k < PROCESSES_MAX; k++) {
      path *way = &history.addresses[i]->paths[k];
      way->min_us = world_random(50, far_us);
      way->max_us = way->min_us + world_random(0, far_us);
      if (history.mood != MOOD_WILD) continue;
      way->slow = some(30);
      way->slow_max_us = world_random(1, 2000) * WORLD_MS;
      way->lost = some(20);
    }
  }
}

static void draw_program(int id) {
  program *of = &programs[id];
  memset(of, 0, sizeof *of);
  of->process.clock_ahead_us = world_random(0, 10) * WORLD_S;
  of->process.clock_ppm =
      history.mood < MOOD_MILD ? 0 : world_random(-300, 300);
  of->process.preempted = world_chance(300) ? 200 : 0;
  of->n_users = world_chance(300) ? 1 : (int)world_random(2, USERS_MAX);
  of->ttl_ms =
      world_random(2, history.until_us < programs_behave.end_us ? 60 : 15) *
      1000;
  of->lock_delay_ms = world_chance(400) ? world_random(1, 10) * 1000 : 0;
  of->lingering = world_chance(300) ? (int)world_random(1, 1000) : 0;
  of->handoff = (int)world_random(1, world_chance(500) ? 4 : 32);
  of->linger_max_ms = history.mood == MOOD_DEAF ? 60000 : 3000;
  of->has_user = history.options.hash_us != 0;
  of->n_endpoints = history.n_members;
  for (int i = 0; i < history.n_members; i++)
    of->endpoints[i] = names[i];
  if (world_chance(100) && history.mood == MOOD_WILD) {
    of->n_endpoints = 1;
    of->endpoints[0] = names[ENDPOINTS_MAX];
  }
  if (history.mood == MOOD_STOPS && world_chance(500)) { /* holds are lost */
    of->ttl_ms = world_random(2, 4) * 1000;
    of->lock_delay_ms = world_random(1, 10) * 1000;
    of->lingering = 0;
  }
  if (history.deposes) {
    of->ttl_ms = world_random(2, 6) * 1000;
    if (world_chance(500)) {
      of->n_endpoints = 1;
      of->endpoints[0] = names[any_member()];
    }
  }
}

static void draw_behaviour(behaviour *to) {
  *to = (behaviour){
      .kinds = (kinds)world_random(0, 3),
      .n_names = (int)world_random(1, NAMES_MAX),
      .think_us = world_random(1, 1000) * WORLD_MS,
      .hold_us = world_random(1, world_chance(300) ? 10000 : 500) * WORLD_MS,
      .trying = some(500),
      .timing_out = some(500),
      .max_holding = some(200),
      .writing = some(500),
      .downgrading = some(300),
      .end_us = world_random(3, 30) * WORLD_S};
  if (history.mood == MOOD_DEAF || history.mood == MOOD_MILD) to->end_us *= 2;
  if (history.deposes) to->hold_us = world_random(1000, 8000) * WORLD_MS;
  if (to->kinds == KINDS_MULTI && to->n_names == 1) to->n_names = 2;
  history.until_us = to->end_us;
  if (history.mood != MOOD_CALM)
    history.options.replaced_max = 3 + (int)(to->end_us / REPLACEMENT_US);
  if (history.mood == MOOD_WILD && world_chance(300)) {
    to->end_us += PEACE_US;
  }
}

static void add_balancer(void) {
  address *it = network_add(names[ENDPOINTS_MAX], history.cluster, 0);
  for (int i = 0; i < history.n_members; i++)
    it->members[i] = i;
  it->n_members = history.n_members;
  history.addresses[history.n_members] = it;
}

static void draw(void) {
  memset(&history, 0, sizeof history);
  for (int i = 0; i < PROGRAMS_MAX; i++)
    history.falsely[i].renewed_us = -FALSE_PROOF_US;
  history.mood = world_chance(300)   ? world_chance(250) ? MOOD_DEAF : MOOD_CALM
                 : world_chance(200) ? MOOD_MILD
                 : world_chance(150) ? MOOD_STOPS
                                     : MOOD_WILD;
  history.n_members = world_chance(500) ? 1 : ETCD_MEMBERS_MAX;
  history.deposes =
      history.mood == MOOD_WILD && history.n_members > 1 && world_chance(300);
  draw_options(&history.options);
  draw_behaviour(&programs_behave);
  draw_troubles();
  history.cluster = etcd_new(&history.options, checks_on_change);
  etcd_set_on_false_renewal(history.cluster, on_false_renewal);
  for (int i = 0; i < history.n_members; i++) {
    history.addresses[i] = network_add(names[i], history.cluster, i);
  }
  add_balancer();
  draw_paths();
  n_programs = (int)world_random(1, PROGRAMS_MAX);
  for (int i = 0; i < n_programs; i++)
    draw_program(i);
}

/* Returns about how long etcd's answer to a request takes at most, if there are no faults. */
static int64_t longest_round_us(void) {
  int64_t way_us = 0;
  for (int i = 0; i < history.n_members; i++) {
    for (int k = 0; k < n_programs; k++) {
      int64_t max_us = history.addresses[i]->paths[k].max_us;
      if (max_us > way_us) way_us = max_us;
    }
  }
  return 2 * way_us + history.options.write_max_us +
         history.options.read_max_us;
}

/* ---- the run ---- */

static bool have_ended(void) {
  for (int i = 0; i < n_programs; i++) {
    if (!program_has_ended(&programs[i])) return false;
  }
  return history.is_over;
}

static bool is_empty(void) {
  remove_detached(); /* a late write may have put such a key again */
  return etcd_n_keys(history.cluster) == 0 &&
         etcd_n_leases(history.cluster) == 0;
}

static bool are_gone(void) { return fibers_alive() == 0; }

/* Runs until |is_done|, |until_us|, or a violation. Returns whether |is_done|. */
static bool run_until(bool (*is_done)(void), int64_t until_us) {
  do {
    fibers_run();
    if (world_violation() != NULL) return false;
    if (is_done()) return true;
  } while (world_now_us() < until_us && world_next());
  return false;
}

static void run(void) {
  if (!run_until(have_ended, programs_behave.end_us + FINISH_US)) {
    world_violate("progress", "the programs have not ended");
    return;
  }
  if (!run_until(is_empty, world_now_us() + EXPIRY_US)) checks_nothing_left();
  checks_end();
  if (!run_until(are_gone, world_now_us() + FINISH_US)) {
    world_violate("nothing left", "%d threads", fibers_alive());
  }
}

bool history_run(uint64_t seed, history_counts *counts) {
  world_begin(seed);
  draw();
  checks_begin(&(checks_options){
      .cluster = history.cluster,
      .mood = history.mood,
      .is_true = history.options.fast_keep == 0 &&
                 history.weights[TROUBLE_CUT_OFF] == 0 && !history.deposes,
      .omits_leases = history.options.omits_leases > 0,
      .has_peaceful_admin = history.has_admin,
      .login_us = 4 * n_programs * history.options.hash_us,
      .token_us = history.options.token_us,
      .round_us = longest_round_us()});
  for (int i = 0; i < n_programs; i++)
    program_start(i);
  fiber_detach(fiber_start(&history.process, run_troubles, NULL));
  run();
  if (world_violation() != NULL) return false;
  counts->n_grants += checks_n_grants();
  counts->virtual_us += world_now_us();
  network_reset();
  etcd_free(history.cluster);
  world_end();
  return true;
}
