/* simulation etcd_members: the members of the simulated etcd: which of them are connected, which
 * one leads, and how far each has applied what the cluster has decided. */
#include "etcd_int.h"

enum {
  FIRST_TERM = 2,
  /* A leader keeps this many entries for members that are behind. */
  SNAPSHOT_ENTRIES = 5000,
  SNAPSHOT_BEFORE_REV = 50000, /* checks.c has room for REVS_MAX revisions */
  /* by when a member has applied the first entry of a new term */
  TERM_LATE_US = 300 * WORLD_MS
};

/* etcd's election timeout is 1 s; a member waits for one to two of them. Streams that need a leader
 * end at the third of the checks, one each second, that find none (v3rpc/interceptor.go). */
enum {
  ELECTION_MIN_US = 1000 * WORLD_MS,
  ELECTION_MAX_US = 2000 * WORLD_MS,
  CHECKS_MIN_US = 2000 * WORLD_MS,
  CHECKS_MAX_US = 3000 * WORLD_MS
};

static bool is_cut(const member *it) {
  return world_now_us() < it->cut_until_us;
}

bool member_is_connected(const member *it) {
  return !is_cut(it) && world_now_us() >= it->down_until_us;
}

bool member_is_deposed(const member *it) {
  return is_cut(it) && world_now_us() < it->leads_until_us;
}

bool member_knows_leader(const member *it) {
  if (member_is_deposed(it) || world_now_us() < it->leaderless_us) return true;
  return !is_cut(it) && it->cluster->leader >= 0;
}

void member_fill(const member *it, Etcd__ResponseHeader *header) {
  header->cluster_id = it->cluster->options.cluster_id;
  header->member_id = it->id;
  if (header->revision == 0) header->revision = it->rev;
  header->raft_term = it->term;
}

/* ---- applying ---- */

int64_t member_due(const member *it, int64_t at_us) {
  int64_t now_us = world_now_us(), due_us = at_us;
  if (now_us < it->lag_until_us) {
    due_us = at_us + it->lag_us;
    if (due_us > it->lag_until_us) due_us = it->lag_until_us;
  }
  if (now_us < it->cut_until_us && due_us < it->cut_until_us) {
    due_us = it->cut_until_us;
  }
  if (now_us < it->down_until_us && due_us < it->down_until_us) {
    due_us = it->down_until_us;
  }
  return due_us;
}

static void apply_changes(member *it, size_t n) {
  const change *changes = it->cluster->store.changes;
  while (it->n_applied < n) {
    const change *next = &changes[it->n_applied];
    size_t n_same = 1;
    while (it->n_applied + n_same < n && next[n_same].rev == next->rev) {
      n_same++;
    }
    it->n_applied += n_same;
    it->rev = next->rev;
    watches_notify(it, next, n_same);
  }
}

void member_advance(member *it) {
  while (it->n_entries < it->cluster->n_log) {
    const log_entry *next = &it->cluster->log[it->n_entries];
    int64_t due_us = member_due(it, next->at_us);
    if (due_us > world_now_us()) {
      world_set(&it->catch_up, due_us);
      return;
    }
    it->n_entries++;
    it->term = next->term;
    apply_changes(it, next->n_changes);
    it->rev = next->rev;
  }
}

void members_advance(etcd *cluster) {
  cluster->log = etcd_grow(cluster->log, cluster->n_log, &cluster->room_log,
                           sizeof *cluster->log);
  cluster->log[cluster->n_log++] =
      (log_entry){world_now_us(), cluster->term, cluster->store.rev,
                  cluster->store.n_changes};
  for (int i = 0; i < cluster->options.n_members; i++) {
    member_advance(&cluster->members[i]);
  }
}

/* |it| has missed so much that it gets the state by a snapshot, which does not tell it the term. */
static void get_snapshot(member *it) {
  etcd *cluster = it->cluster;
  if (cluster->leader < 0 || cluster->store.rev > SNAPSHOT_BEFORE_REV) return;
  cluster->store.rev += SNAPSHOT_ENTRIES; /* other programs have written */
  it->n_entries = cluster->n_log + 1;     /* with the entry of these writes */
  members_advance(cluster);
  apply_changes(it, cluster->store.n_changes);
  it->rev = cluster->store.rev;
  world_trace("etcd: member %d gets a snapshot, its term stays %llu", it->index,
              (unsigned long long)it->term);
}

static void on_catch_up(el_timer *timer) {
  member_advance(EL_CONTAINER_OF(timer, member, catch_up));
}

/* ---- leaders ---- */

static int count_connected(const etcd *cluster) {
  int n = 0;
  for (int i = 0; i < cluster->options.n_members; i++) {
    n += member_is_connected(&cluster->members[i]);
  }
  return n;
}

static bool has_quorum(const etcd *cluster) {
  return count_connected(cluster) > cluster->options.n_members / 2;
}

/* Returns a connected member, at random; the last leader only if there is no other. */
static int pick_leader(const etcd *cluster) {
  int n = cluster->options.n_members, n_others = 0, drawn;
  const member *last = &cluster->members[cluster->last_leader];
  n_others = count_connected(cluster) - member_is_connected(last);
  drawn = (int)world_random(0, n_others > 0 ? n_others - 1 : 0);
  for (int i = 0; i < n && n_others > 0; i++) {
    if (i == cluster->last_leader ||
        !member_is_connected(&cluster->members[i])) {
      continue;
    }
    if (drawn-- == 0) return i;
  }
  return cluster->last_leader;
}

/* The members learn of a new term one by one. */
static void delay_term(member *it) {
  int64_t late_us = world_random(0, TERM_LATE_US);
  if (world_now_us() < it->lag_until_us || world_chance(500)) return;
  it->lag_until_us = world_now_us() + late_us;
  it->lag_us = late_us;
}

static void on_election(el_timer *timer) {
  etcd *cluster = EL_CONTAINER_OF(timer, etcd, election);
  if (cluster->leader >= 0 || !has_quorum(cluster)) return;
  cluster->leader = cluster->last_leader = pick_leader(cluster);
  cluster->term++;
  world_trace("etcd: member %d leads, term %llu", cluster->leader,
              (unsigned long long)cluster->term);
  leases_refresh(cluster);
  for (int i = 0; i < cluster->options.n_members; i++)
    delay_term(&cluster->members[i]);
  members_advance(cluster);
  tasks_wake(cluster);
}

/* |it| notices |after_us| from now that it has no leader, and later ends the streams that need
 * one. */
static void lose_contact(member *it, int64_t after_us) {
  it->leaderless_us = world_now_us() + after_us;
  world_set(&it->ends_streams,
            it->leaderless_us + world_random(CHECKS_MIN_US, CHECKS_MAX_US));
}

static void on_ends_streams(el_timer *timer) {
  member *it = EL_CONTAINER_OF(timer, member, ends_streams);
  if (member_knows_leader(it)) return;
  for (etcd_call *call = it->cluster->calls; call != NULL; call = call->next) {
    if (call->at == it && call->needs_leader) {
      end_at(call, world_now_us(), &etcd_no_leader);
    }
  }
}

void members_lose_leader(etcd *cluster, int64_t pause_us) {
  if (cluster->leader < 0) return;
  cluster->leader = -1;
  for (int i = 0; i < cluster->options.n_members; i++) {
    member *it = &cluster->members[i];
    if (member_is_connected(it)) {
      lose_contact(it, world_random(0, ELECTION_MAX_US));
    }
  }
  world_set(&cluster->election, world_now_us() + pause_us);
  tasks_on_lost_leader(cluster);
}

void members_review(etcd *cluster) {
  int64_t pause_us = world_random(ELECTION_MIN_US, ELECTION_MAX_US);
  if (cluster->leader >= 0 &&
      (!member_is_connected(&cluster->members[cluster->leader]) ||
       !has_quorum(cluster))) {
    members_lose_leader(cluster, pause_us);
  } else if (cluster->leader < 0 && cluster->election.slot == 0 &&
             has_quorum(cluster)) {
    world_set(&cluster->election, world_now_us() + pause_us);
  }
}

/* ---- faults ---- */

static void come_back(el_timer *timer) {
  member *it = EL_CONTAINER_OF(timer, member, back);
  int64_t until_us = it->cut_until_us > it->down_until_us ? it->cut_until_us
                                                          : it->down_until_us;
  if (until_us > world_now_us()) world_set(&it->back, until_us);
  if (!member_is_connected(it)) return;
  world_trace("etcd: member %d is back", it->index);
  if (world_chance(it->cluster->options.snapshots)) get_snapshot(it);
  member_advance(it);
  if (it->has_renewed && it->cluster->on_false_renewal != NULL) {
    it->has_renewed = false;
    it->cluster->on_false_renewal(ETCD_CLIENT_NONE);
  }
  members_review(it->cluster);
  if (it->cluster->leader < 0) {
    lose_contact(it, 0);
  } else {
    tasks_wake(it->cluster);
  }
}

/* A leader that is cut off believes that it leads until it has heard of no follower for an election
 * timeout, or, if its disk hangs, for as long as that lasts. */
static void depose(member *it) {
  it->cut_at_us = world_now_us();
  it->leads_until_us =
      world_chance(500)
          ? INT64_MAX
          : it->cut_at_us + world_random(ELECTION_MIN_US, ELECTION_MAX_US);
  it->is_renewing = world_chance(700);
  leases_remember(it->cluster);
}

void etcd_cut_off(etcd *cluster, int index, int64_t until_us) {
  member *it = &cluster->members[index];
  if (cluster->options.n_members == 1) return; /* there are no others */
  world_trace("etcd: member %d is cut off until %.3f ms", index,
              (double)until_us / WORLD_MS);
  if (!is_cut(it)) {
    it->leads_until_us = 0;
    lose_contact(it, world_random(0, ELECTION_MAX_US));
    if (cluster->leader == index) depose(it);
  }
  if (it->cut_until_us < until_us) it->cut_until_us = until_us;
  world_set(&it->back, it->cut_until_us);
  members_review(cluster);
}

void etcd_lag(etcd *cluster, int index, int64_t until_us, int64_t lag_us) {
  member *it = &cluster->members[index];
  member_advance(it);
  world_trace("etcd: member %d lags by %.3f ms", index,
              (double)lag_us / WORLD_MS);
  it->lag_until_us = until_us;
  it->lag_us = lag_us;
  member_advance(it);
}

void etcd_restart(etcd *cluster, int index, int64_t until_us) {
  member *it = &cluster->members[index];
  etcd_call *call = cluster->calls;
  world_trace("etcd: member %d restarts", index);
  it->down_until_us = until_us;
  it->leads_until_us = it->leaderless_us = 0;
  it->hashes_until_us = 0;
  auth_forget(it);
  world_set(&it->back, until_us);
  members_review(cluster);
  while (call != NULL) {
    if (call->at == it) {
      call_end(call, &etcd_stopped);
      call = cluster->calls; /* the end of one call may cancel others */
    } else {
      call = call->next;
    }
  }
}

bool etcd_is_up(const etcd *cluster, int index) {
  return world_now_us() >= cluster->members[index].down_until_us;
}

int etcd_leader(const etcd *cluster) { return cluster->leader; }

void etcd_elect(etcd *cluster, int64_t pause_us) {
  world_trace("etcd: the leader is lost");
  members_lose_leader(cluster, pause_us);
}

/* ---- life ---- */

void members_init(etcd *cluster) {
  for (int i = 0; i < cluster->options.n_members; i++) {
    cluster->members[i] =
        (member){.cluster = cluster,
                 .index = i,
                 .id = cluster->options.cluster_id ^ (uint64_t)(0x100 + i),
                 .rev = cluster->store.rev,
                 .term = FIRST_TERM,
                 .catch_up.on_due = on_catch_up,
                 .back.on_due = come_back,
                 .ends_streams.on_due = on_ends_streams};
  }
  cluster->election.on_due = on_election;
  cluster->leader = cluster->last_leader =
      (int)world_random(0, cluster->options.n_members - 1);
  cluster->term = FIRST_TERM;
}

void members_stop(etcd *cluster) {
  world_stop(&cluster->election);
  for (int i = 0; i < cluster->options.n_members; i++) {
    world_stop(&cluster->members[i].catch_up);
    world_stop(&cluster->members[i].back);
    world_stop(&cluster->members[i].ends_streams);
  }
}
