/* simulation scenes: how a client fares on networks and disks of one kind.
 *
 * One client takes a lock and holds it for ten TTLs. If it loses the lock, it takes it again. In
 * busy scenes it takes and releases the lock again and again. */
#include "scenes.h"

#include <stdio.h>
#include <string.h>

#include "checks.h"
#include "etcd.h"
#include "fiber.h"
#include "lock/client.h"
#include "lock/lock.h"
#include "network.h"
#include "world.h"

enum {
  TTL_MS = 5000,
  TTLS = 10,
  LOOK_US = 10 * WORLD_MS,
  SEEDS = 5,
  MANY_SEEDS = 40,
  STILL_US = 4000 * WORLD_MS,
  LONG_STILL_US = 20000 * WORLD_MS,
  LATE_US = 800 * WORLD_MS,
  HUNG_MAX = 3,
  LEADERS = 3
};

typedef enum incident {
  INCIDENT_NONE,
  INCIDENT_MUTE,   /* after one TTL the connections fall silent */
  INCIDENT_MEMBER, /* after one TTL the member in use hangs for ever */
  INCIDENT_LEADER, /* after one TTL the leader is lost */
  INCIDENT_STILL,  /* after one TTL the leader stands still for STILL_US */
  INCIDENT_SPLIT,  /* within the second TTL a leader is lost, and votes split */
  /* from within the second TTL the leader stands still for LONG_STILL_US; elections: 2 s to 3 s */
  INCIDENT_SLOW_ELECTION,
  INCIDENT_LATE_KEEPALIVES, /* after one TTL each keepalive takes LATE_US */
  /* LEADERS times, two to three TTLs apart, the leader stands still; elections take 2 s to 3 s */
  INCIDENT_LEADERS
} incident;

typedef struct scene {
  int n_members;
  int n_hung;       /* other addresses, named first, which hang */
  bool is_balanced; /* one address stands for all members */
  int rtt_ms, lost; /* |lost|: per mille of packets */
  int disk_ms;      /* how long a save takes */
  bool is_disk_busy;
  incident incident;
  bool is_busy;
  int ttl_ms; /* 0: TTL_MS */
} scene;

typedef struct outcome {
  int64_t first_us, held_us;
  int64_t longest_us; /* of the waits of a busy client */
  int n_lost;
} outcome;

static struct {
  scene scene;
  etcd *cluster;
  etcd *hung; /* the cluster behind the addresses that hang; NULL: none */
  etcd_options options;
  process process;
  outcome *outcome;
  bool is_over;
} stage;

static const char *const names[ETCD_MEMBERS_MAX] = {
    "10.0.0.1:2379", "10.0.0.2:2379", "10.0.0.3:2379"};
static const char *const hung_names[HUNG_MAX] = {
    "10.0.1.1:2379", "10.0.1.2:2379", "10.0.1.3:2379"};

static int ttl_ms(const scene *of) {
  return of->ttl_ms != 0 ? of->ttl_ms : TTL_MS;
}

/* ---- the client ---- */

static el_lock *take(el_client *client) {
  el_error err;
  el_lock_options options = {.name = {"a", 1}, .timeout_ms = -1};
  el_lock *lock = el_lock_new(el_client_shared(client), &options, &err);
  while (!stage.is_over && !el_lock_wait(lock, 1000, &err)) {
  }
  if (!stage.is_over && err.code == EL_OK) return lock;
  world_trace("no lock: %s", err.text);
  el_lock_release(lock);
  el_lock_unref(lock);
  return NULL;
}

static void hold(el_lock *lock, int64_t end_us) {
  int64_t left_us;
  while (world_now_us() < end_us &&
         el_lock_hold(lock, &left_us) == EL_HOLD_HELD) {
    fiber_sleep(LOOK_US);
    stage.outcome->held_us += LOOK_US;
  }
  if (world_now_us() < end_us) {
    el_error why;
    el_lock_read_proof_error(lock, &why);
    world_trace("lost: %d %s", (int)el_lock_loss(lock),
                why.code != EL_OK ? why.text : "");
    stage.outcome->n_lost++;
  }
  el_lock_release(lock);
  el_lock_unref(lock);
}

static void run_client(void *arg) {
  const char *endpoints[HUNG_MAX + ETCD_MEMBERS_MAX];
  el_connect_options options = {.endpoints = endpoints};
  el_error err;
  el_client *client;
  int64_t end_us = 0;
  (void)arg;
  for (int i = 0; i < stage.scene.n_hung; i++)
    endpoints[options.n_endpoints++] = hung_names[i];
  for (int i = 0; i < (stage.scene.is_balanced ? 1 : stage.scene.n_members);
       i++)
    endpoints[options.n_endpoints++] = names[i];
  options.plain.ttl_ms = ttl_ms(&stage.scene);
  options.plain.handoff = (el_handoff_limits){.holds = 32, .ms = 50};
  client = el_client_new(&options, &err);
  while (!stage.is_over && (end_us == 0 || world_now_us() < end_us)) {
    int64_t from_us = world_now_us();
    el_lock *lock = take(client);
    if (lock == NULL) continue;
    if (end_us == 0) {
      stage.outcome->first_us = world_now_us();
      end_us = world_now_us() + (int64_t)TTLS * ttl_ms(&stage.scene) * WORLD_MS;
    } else if (world_now_us() - from_us > stage.outcome->longest_us) {
      stage.outcome->longest_us = world_now_us() - from_us;
    }
    hold(lock, stage.scene.is_busy ? world_now_us() + LOOK_US : end_us);
  }
  el_client_begin_close(client, 500);
  el_client_shut(client);
  el_client_join(client);
  el_client_free(client);
  stage.is_over = true;
}

/* ---- the scene ---- */

static void on_change(const etcd_change *change) { (void)change; }

/* The leader stands still for |still_us|, and the election takes 2 s to 3 s. */
static void stop_leader(int64_t still_us) {
  int leader = etcd_leader(stage.cluster);
  network_pause(stage.cluster, leader, world_now_us() + still_us);
  etcd_elect(stage.cluster, world_random(2000, 3000) * WORLD_MS);
  etcd_cut_off(stage.cluster, leader, world_now_us() + still_us);
}

static void make_incident(void *arg) {
  int leader;
  (void)arg;
  while (stage.outcome->first_us == 0 && !stage.is_over)
    fiber_sleep(LOOK_US);
  fiber_sleep((int64_t)ttl_ms(&stage.scene) * WORLD_MS);
  switch (stage.scene.incident) {
    case INCIDENT_MUTE:
      network_mute(&stage.process);
      return;
    case INCIDENT_MEMBER:
      network_pause(stage.cluster, 0, INT64_MAX / 4);
      return;
    case INCIDENT_LEADER:
      etcd_elect(stage.cluster, 1500 * WORLD_MS);
      return;
    case INCIDENT_SPLIT:
      fiber_sleep(world_random(0, ttl_ms(&stage.scene)) * WORLD_MS);
      etcd_elect(stage.cluster, 3500 * WORLD_MS);
      return;
    case INCIDENT_STILL:
      leader = etcd_leader(stage.cluster);
      network_pause(stage.cluster, leader, world_now_us() + STILL_US);
      etcd_cut_off(stage.cluster, leader, world_now_us() + STILL_US);
      return;
    case INCIDENT_SLOW_ELECTION:
      fiber_sleep(world_random(0, ttl_ms(&stage.scene)) * WORLD_MS);
      stop_leader(LONG_STILL_US);
      return;
    case INCIDENT_LEADERS:
      for (int i = 0; i < LEADERS && !stage.is_over; i++) {
        fiber_sleep(world_random(0, ttl_ms(&stage.scene)) * WORLD_MS);
        stop_leader(STILL_US);
        fiber_sleep(2 * ttl_ms(&stage.scene) * WORLD_MS);
      }
      return;
    case INCIDENT_LATE_KEEPALIVES:
      stage.options.keepalive_us = LATE_US;
      etcd_set_options(stage.cluster, &stage.options);
      return;
    case INCIDENT_NONE:
      return;
  }
}

/* Adds addresses of members that never run. */
static void add_hung(const scene *of) {
  etcd_options options = {.n_members = ETCD_MEMBERS_MAX, .cluster_id = 2};
  if (of->n_hung == 0) return;
  stage.hung = etcd_new(&options, on_change);
  for (int i = 0; i < of->n_hung; i++) {
    network_add(hung_names[i], stage.hung, i);
    network_pause(stage.hung, i, INT64_MAX / 4);
  }
}

static void build(const scene *of) {
  etcd_options options = {.n_members = of->n_members,
                          .cluster_id = 1,
                          .save_us = of->disk_ms * WORLD_MS,
                          .is_disk_busy = of->is_disk_busy,
                          .write_min_us = 1000,
                          .read_min_us = 500};
  options.write_max_us = options.write_min_us + options.write_min_us / 4;
  options.read_max_us = options.read_min_us * 2;
  stage.options = options;
  stage.cluster = etcd_new(&options, on_change);
  add_hung(of);
  for (int i = 0; i < (of->is_balanced ? 1 : of->n_members); i++) {
    address *at = network_add(names[i], stage.cluster, i);
    path *way = &at->paths[0];
    if (of->is_balanced) {
      at->n_members = of->n_members;
      for (int k = 0; k < of->n_members; k++)
        at->members[k] = k;
    }
    way->min_us = of->rtt_ms * WORLD_MS / 2 + 50;
    way->max_us = way->min_us + way->min_us / 10;
    way->lost = of->lost;
  }
}

static outcome run(const scene *of, uint64_t seed) {
  outcome result = {0};
  memset(&stage, 0, sizeof stage);
  stage.scene = *of;
  stage.outcome = &result;
  world_begin(seed);
  build(of);
  fiber_detach(fiber_start(&stage.process, run_client, NULL));
  fiber_detach(fiber_start(&stage.process, make_incident, NULL));
  do {
    fibers_run();
    if (world_now_us() > 300 * (int64_t)WORLD_S) stage.is_over = true;
  } while (fibers_alive() > 0 && world_next());
  network_reset();
  etcd_free(stage.cluster);
  if (stage.hung != NULL) etcd_free(stage.hung);
  world_end();
  return result;
}

static const char *const incidents[] = {"",
                                        "connections fall silent",
                                        "a member hangs",
                                        "a leader is lost",
                                        "the leader stands still",
                                        "votes are split",
                                        "a slow election",
                                        "keepalives are late",
                                        "leaders stand still"};

static void print_busy_row(const scene *of) {
  int64_t sum_us = 0, worst_us = 0;
  for (uint64_t seed = 1; seed <= MANY_SEEDS; seed++) {
    int64_t longest_us = run(of, seed).longest_us;
    sum_us += longest_us;
    if (longest_us > worst_us) worst_us = longest_us;
  }
  printf(
      "%d  busy  rtt %4d ms  disk %3d ms  %-24s  longest wait %5.2f s (%.2f)\n",
      of->n_members, of->rtt_ms, of->disk_ms, incidents[of->incident],
      (double)sum_us / MANY_SEEDS / WORLD_S, (double)worst_us / WORLD_S);
}

static const char *describe_ttl(const scene *of) {
  static char text[32];
  snprintf(text, sizeof text, "TTL %d ms  ", of->ttl_ms);
  return of->ttl_ms != 0 ? text : "";
}

static const char *describe_hung(const scene *of) {
  static char text[32];
  snprintf(text, sizeof text, "%d more hang  ", of->n_hung);
  return of->n_hung != 0 ? text : "";
}

static void print_row(const scene *of) {
  bool is_random = of->lost > 0 || of->incident >= INCIDENT_SPLIT;
  uint64_t n_seeds = is_random ? MANY_SEEDS : SEEDS;
  outcome sum = {0};
  int n_granted = 0;
  int64_t worst_us = 0;
  for (uint64_t seed = 1; seed <= n_seeds; seed++) {
    outcome one = run(of, seed);
    n_granted += one.first_us != 0;
    sum.first_us += one.first_us;
    sum.held_us += one.held_us;
    sum.n_lost += one.n_lost;
    if (one.first_us > worst_us) worst_us = one.first_us;
  }
  printf("%d%s  rtt %4d ms  loss %.1f %%  disk %3d ms%s  %s%s%-24s  ",
         of->n_members, of->is_balanced ? " behind one address" : "",
         of->rtt_ms, of->lost / 10.0, of->disk_ms,
         of->is_disk_busy ? ", busy" : "", describe_ttl(of), describe_hung(of),
         incidents[of->incident]);
  if (n_granted == 0) {
    printf("no lock\n");
    return;
  }
  printf("first lock %5.1f s (%.1f)  held %5.1f %%  lost %.2f\n",
         (double)sum.first_us / n_granted / WORLD_S, (double)worst_us / WORLD_S,
         (double)sum.held_us * 100 /
             ((double)n_granted * TTLS * ttl_ms(of) * WORLD_MS),
         (double)sum.n_lost / n_granted);
}

/* Calls |show| for each scene, with |arg|. */
static void for_each_scene(void (*show)(const scene *of, void *arg),
                           void *arg) {
  static const int rtts[] = {0, 100, 300, 500, 700, 1000};
  static const int disks[] = {300, 500, 700};
  for (int n = 1; n <= 3; n += 2) {
    for (size_t i = 0; i < sizeof rtts / sizeof *rtts; i++) {
      for (int lost = 0; lost <= 10; lost += 10) {
        show(&(scene){.n_members = n, .rtt_ms = rtts[i], .lost = lost}, arg);
      }
    }
    for (size_t i = 0; i < sizeof disks / sizeof *disks; i++) {
      for (int busy = 0; busy <= 1; busy++) {
        scene of = {
            .n_members = n, .disk_ms = disks[i], .is_disk_busy = busy != 0};
        show(&of, arg);
        of.rtt_ms = 300;
        show(&of, arg);
      }
    }
    for (int i = 1; i <= INCIDENT_LEADER; i++) {
      show(&(scene){.n_members = n, .incident = (incident)i}, arg);
    }
  }
  for (int i = 1; i <= INCIDENT_LEADER; i++) {
    show(&(scene){.n_members = 3, .is_balanced = true, .incident = (incident)i},
         arg);
  }
  for (int times = 1; times <= 2; times++) {
    show(&(scene){.n_members = 3,
                  .incident = INCIDENT_SPLIT,
                  .ttl_ms = times * TTL_MS},
         arg);
  }
  for (int i = INCIDENT_MEMBER; i <= INCIDENT_STILL; i++) {
    for (int rtt_ms = 0; rtt_ms <= 300; rtt_ms += 100) {
      show(&(scene){.n_members = 3,
                    .rtt_ms = rtt_ms,
                    .incident = (incident)i,
                    .is_busy = true},
           arg);
    }
  }
  for (int rtt_ms = 0; rtt_ms <= 300; rtt_ms += 100) {
    show(&(scene){.n_members = 3,
                  .rtt_ms = rtt_ms,
                  .incident = INCIDENT_SLOW_ELECTION},
         arg);
  }
  for (int rtt_ms = 500; rtt_ms <= 1500; rtt_ms += 500) {
    for (int times = 2; times <= 4; times++) {
      show(&(scene){.n_members = 1, .rtt_ms = rtt_ms, .ttl_ms = times * rtt_ms},
           arg);
    }
  }
  for (int n = 1; n <= 3; n += 2) {
    show(&(scene){.n_members = n, .incident = INCIDENT_LATE_KEEPALIVES}, arg);
  }
  for (int rtt_ms = 0; rtt_ms <= 300; rtt_ms += 100) {
    show(&(scene){.n_members = 3,
                  .rtt_ms = rtt_ms,
                  .incident = INCIDENT_LEADERS},
         arg);
  }
  for (int n = 1; n <= HUNG_MAX; n++) {
    show(&(scene){.n_members = 3, .n_hung = n}, arg);
  }
  for (int times = 5; times <= 8; times++) {
    show(&(scene){.n_members = 3,
                  .rtt_ms = 700,
                  .incident = INCIDENT_MEMBER,
                  .ttl_ms = times * 700},
         arg);
  }
}

static void print_scene(const scene *of, void *arg) {
  int *row = arg;
  printf("%2d: ", ++*row);
  if (of->is_busy) {
    print_busy_row(of);
  } else {
    print_row(of);
  }
}

void scenes_print(void) {
  int row = 0;
  for_each_scene(print_scene, &row);
}

typedef struct wanted {
  int rows_before;
  uint64_t seed;
} wanted;

static void trace_if_wanted(const scene *of, void *arg) {
  wanted *it = arg;
  if (it->rows_before-- == 0) run(of, it->seed);
}

void scenes_trace(int row, uint64_t seed) {
  wanted it = {row - 1, seed};
  world_set_tracing(true);
  for_each_scene(trace_if_wanted, &it);
}
