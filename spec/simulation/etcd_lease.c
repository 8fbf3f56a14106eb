/* simulation etcd_lease: the leases of the simulated etcd. */
#include "etcd_int.h"

#include <stdlib.h>

/* etcd's limits, in seconds. The first follows from its election timeout of 1 s. */
enum { TTL_MIN_S = 2 };
#define TTL_MAX_S ((int64_t)9000000000)

const failure etcd_lease_not_found = {STATUS_NOT_FOUND,
                                      "etcdserver: requested lease not found"};
static const failure lease_exists = {STATUS_FAILED_PRECONDITION,
                                     "etcdserver: lease already exists"};
static const failure ttl_too_large = {STATUS_OUT_OF_RANGE,
                                      "etcdserver: too large lease TTL"};

static bool is_alive(const grant *it) { return it->ended_us == INT64_MAX; }

static grant *find_last(const etcd *cluster, int64_t id) {
  for (size_t i = cluster->n_leases; i-- > 0;) {
    if (cluster->leases[i]->id == id) return cluster->leases[i];
  }
  return NULL;
}

grant *lease_find(const etcd *cluster, int64_t id) {
  grant *it = find_last(cluster, id);
  return it != NULL && is_alive(it) ? it : NULL;
}

/* Gives the lease its full TTL. The leader will end it some time after it has expired. */
static void refresh(grant *it) {
  int64_t late_us =
      world_random(0, it->cluster->options.late_expiry_ms) * WORLD_MS;
  it->expires_us = world_now_us() + it->ttl_s * WORLD_S;
  world_set(&it->expiry, it->expires_us + late_us);
}

static void end(grant *it, etcd_cause cause, int client) {
  it->ended_us = world_now_us();
  world_stop(&it->expiry);
  store_begin(&it->cluster->store, cause, client);
  store_delete_of_lease(&it->cluster->store, it->id);
  members_advance(it->cluster);
}

/* Without a leader no lease ends. The next leader gives each its full TTL. */
static void on_expired(el_timer *timer) {
  grant *it = EL_CONTAINER_OF(timer, grant, expiry);
  if (it->cluster->leader < 0) return;
  world_trace("etcd: lease %llx expires", (unsigned long long)it->id);
  end(it, ETCD_BY_EXPIRY, ETCD_CLIENT_NONE);
}

/* ---- writes ---- */

const failure *lease_grant(etcd *cluster, int64_t *id, int64_t *ttl_s) {
  bool was_0 = *id == 0;
  grant *it;
  if (*ttl_s > TTL_MAX_S) return &ttl_too_large;
  while (*id == 0 || (was_0 && find_last(cluster, *id) != NULL)) {
    *id = world_random(1, INT64_MAX / 2);
  }
  if (lease_find(cluster, *id) != NULL) return &lease_exists;
  if (*ttl_s < TTL_MIN_S) *ttl_s = TTL_MIN_S;
  it = el_alloc(sizeof *it);
  *it = (grant){.expiry.on_due = on_expired,
                .cluster = cluster,
                .id = *id,
                .ttl_s = *ttl_s,
                .granted_us = world_now_us(),
                .ended_us = INT64_MAX};
  cluster->leases = etcd_grow(cluster->leases, cluster->n_leases,
                              &cluster->room_leases, sizeof *cluster->leases);
  cluster->leases[cluster->n_leases++] = it;
  refresh(it);
  return NULL;
}

const failure *lease_revoke(etcd *cluster, int64_t id, etcd_cause cause,
                            int client) {
  grant *it = lease_find(cluster, id);
  if (it == NULL) return &etcd_lease_not_found;
  end(it, cause, client);
  return NULL;
}

/* ---- the leader ---- */

/* etcd renews no lease that has expired, even if it has not removed it yet (lessor.go, Renew). With
 * |fast_keep| a lease that is gone may be confirmed, as if its end was decided and not applied yet
 * (FastLeaseKeepAlive of etcd 3.7). In etcd this lasts for milliseconds, here for ever. */
int64_t lease_renew(etcd *cluster, int64_t id) {
  grant *it = find_last(cluster, id);
  bool is_fast = world_chance(cluster->options.fast_keep);
  if (it == NULL) return 0;
  if (is_alive(it) && world_now_us() >= it->expires_us) {
    end(it, ETCD_BY_EXPIRY, ETCD_CLIENT_NONE);
  }
  if (!is_alive(it)) return is_fast ? it->ttl_s : 0;
  refresh(it);
  return it->ttl_s;
}

void leases_refresh(etcd *cluster) {
  for (size_t i = 0; i < cluster->n_leases; i++) {
    if (is_alive(cluster->leases[i])) refresh(cluster->leases[i]);
  }
}

/* ---- a deposed leader ---- */

void leases_remember(etcd *cluster) {
  for (size_t i = 0; i < cluster->n_leases; i++) {
    grant *it = cluster->leases[i];
    if (is_alive(it)) it->old_expires_us = it->expires_us;
  }
}

/* Returns the lease that |deposed| knows. */
static grant *find_old(const etcd *cluster, const member *deposed, int64_t id) {
  for (size_t i = cluster->n_leases; i-- > 0;) {
    grant *it = cluster->leases[i];
    if (it->id == id && it->granted_us <= deposed->cut_at_us &&
        it->ended_us > deposed->cut_at_us) {
      return it;
    }
  }
  return NULL;
}

/* A deposed leader cannot end a lease that has expired, so it gives no answer about it. */
int64_t lease_renew_old(etcd *cluster, const member *deposed, int64_t id) {
  grant *it = find_old(cluster, deposed, id);
  if (it == NULL) return 0;
  if (world_now_us() >= it->old_expires_us) return -1;
  it->old_expires_us = world_now_us() + it->ttl_s * WORLD_S;
  return it->ttl_s;
}

/* ---- time to live ---- */

/* etcd lists the keys in no order: here, from a random one on. */
static void list_keys(store *st, int64_t rev, int64_t id, arena *memory,
                      Etcd__LeaseTimeToLiveResponse *to) {
  view all = store_view(st, rev);
  size_t first = all.n > 0 ? (size_t)world_random(0, (int64_t)all.n - 1) : 0;
  to->keys = arena_take(memory, all.n * sizeof *to->keys);
  for (size_t i = 0; i < all.n; i++) {
    const etcd_key *it = all.keys[(first + i) % all.n];
    if (it->lease == id) to->keys[to->n_keys++] = data_of(it->key);
  }
}

void lease_time_to_live(etcd *cluster, const member *deposed, int64_t id,
                        bool with_keys, arena *memory,
                        Etcd__LeaseTimeToLiveResponse *to) {
  const grant *it = deposed != NULL ? find_old(cluster, deposed, id)
                                    : lease_find(cluster, id);
  int64_t expires_us, rev;
  to->id = id;
  to->ttl = -1;
  if (it == NULL) return;
  expires_us = deposed != NULL ? it->old_expires_us : it->expires_us;
  rev = deposed != NULL ? deposed->rev : cluster->store.rev;
  to->ttl = (expires_us - world_now_us()) / WORLD_S;
  to->grantedttl = it->ttl_s;
  if (with_keys) list_keys(&cluster->store, rev, id, memory, to);
}

void leases_free(etcd *cluster) {
  for (size_t i = 0; i < cluster->n_leases; i++) {
    world_stop(&cluster->leases[i]->expiry);
    free(cluster->leases[i]);
  }
  free(cluster->leases);
}
